"""What README.md and docs/ show can be run."""

import os
import re
import subprocess
import sys

import pytest

from harness import paths

pytestmark = pytest.mark.slow


def test_what_the_pages_show_can_be_run_and_is_right():
    done = subprocess.run([sys.executable, os.path.join(paths.ROOT, "tools/check_docs.py"), paths.PROGRAM, paths.MODEL],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    passed, failed = map(int, re.search(r"^(\d+) passed, (\d+) failed", done.stdout, re.M).groups())
    assert done.returncode == 0 and failed == 0 and passed > 500
