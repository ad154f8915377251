"""The include check finds made-up violations, and nothing in innocent files."""

import os
import subprocess
import sys

from harness import paths


def test_made_up_violations_are_found():
    assert subprocess.call([sys.executable, os.path.join(paths.ROOT, "tools/check_includes.py"), "--selftest"]) == 0
