"""What a test needs that may not be there; it is skipped then, with the reason."""

import os
import shutil
import sys

import pytest

from harness import paths

sys.path.append(os.path.join(paths.ROOT, "tools"))
import fetch_real_models  # noqa: E402


# "asan" or "tsan" if the program was built with a sanitizer, which takes memory of its own; script/test says so.
SANITIZED = os.environ.get("ANABRANCH_TEST_SANITIZED", "")


def plain_build():
    """The program as users have it: hardened, and with no more memory than it needs."""
    if SANITIZED:
        pytest.skip("the program was built with a sanitizer")


def has_real_model(name):
    return fetch_real_models.is_there(name)


def real_model(name):
    """The path of a model of tools/fetch_real_models.py."""
    if not has_real_model(name):
        pytest.skip(f"{fetch_real_models.path_of(name)} is not there: tools/fetch_real_models.py {name} fetches it")
    return str(fetch_real_models.path_of(name))


def program_named(*names):
    """The first of these programs that is installed, also where only root looks."""
    for name in names:
        for folders in (None, "/usr/sbin:/sbin"):
            if found := shutil.which(name, path=folders):
                return found
    pytest.skip(f"{names[0]} is not installed")
