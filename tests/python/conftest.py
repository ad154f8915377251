"""The package finds the program under test."""

import os

import pytest

from harness import paths


@pytest.fixture(autouse=True, scope="module")
def program():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANABRANCH_BINARY", paths.PROGRAM)
        patch.setenv("PYTHONPATH", os.path.join(paths.ROOT, "python"))
        yield
