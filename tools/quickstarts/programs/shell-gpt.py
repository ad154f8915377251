import os
import subprocess
import sys

from asked import CAPITAL, KEY, MODEL, V1

SETTINGS = {"OPENAI_API_KEY": KEY, "API_BASE_URL": V1, "DEFAULT_MODEL": MODEL, "PRETTIFY_MARKDOWN": "false"}


def sgpt(*flags, **more):
    return subprocess.run([sys.executable, "-m", "sgpt", "--no-cache", *flags], env=os.environ | SETTINGS | more, check=True, capture_output=True,
                          text=True).stdout


def chat():
    return sgpt(CAPITAL)


def chat_whole():
    return sgpt(CAPITAL, DISABLE_STREAMING="true")
