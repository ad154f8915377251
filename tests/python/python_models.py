"""What the tests of the Python package share."""

import os

import anabranch
from harness import paths

# The options of a request that takes seconds.
LONG = {"raw": True, "ignore_eos": True, "max_tokens": 7000, "temperature": 0, "speculation": "off"}


def start(**flags):
    return anabranch.Model(paths.DRAFT, no_cache=True, context=8192, **flags)


def engine(model):
    return model.request("/health")["engine"]


def is_gone(group):
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
