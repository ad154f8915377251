#!/usr/bin/env python3
"""What README.md and docs/ show can be run: docs_test.py BINARY MODEL_DIR."""

import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.exit(subprocess.call([sys.executable, os.path.join(here, "..", "..", "tools", "check_docs.py"), *sys.argv[1:3]]))
