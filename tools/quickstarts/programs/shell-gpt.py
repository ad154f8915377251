import os
import subprocess
import sys

from asked import CAPITAL, KEY, MODEL, V1


def sgpt(*arguments):
    environment = os.environ | {"API_BASE_URL": V1, "OPENAI_API_KEY": KEY, "DEFAULT_MODEL": MODEL, "OPENAI_USE_FUNCTIONS": "false"}
    return subprocess.run([os.path.join(os.path.dirname(sys.executable), "sgpt"), *arguments], check=True, capture_output=True, text=True,
                          env=environment).stdout


def chat():
    return sgpt("--no-cache", CAPITAL)
