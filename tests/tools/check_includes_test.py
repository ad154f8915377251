#!/usr/bin/env python3
"""The include check finds made-up violations, and nothing in innocent files."""

import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
tool = os.path.join(here, "..", "..", "tools", "check_includes.py")
sys.exit(subprocess.call([sys.executable, tool, "--selftest"]))
