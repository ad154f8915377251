#!/usr/bin/env python3
"""Takes a picture of the web page with the model's real answers: docs/images/page.png.

    .deps/test-venv/bin/python tools/picture_page.py [PROGRAM [MODEL_DIR [OUT.png]]]

Starts `serve` on a free port, opens its page in headless Chromium (as the tests of the page do), asks QUESTIONS with
temperature 0 and saves the page. The programs leave nothing behind but the picture."""

import base64
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "server")]
from harness import paths
from harness.server import Server
from web_browser import Browser

QUESTIONS = ["What is the capital of France?", "Write a Python function that reverses a string."]
WIDTH, HEIGHT, SCALE = 1160, 890, 1.5
HOMES = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
SECONDS = 120   # for one answer on a busy machine
MOST = 250_000  # bytes of the file


def main():
    paths.choose(sys.argv[1] if len(sys.argv) > 1 else paths.PROGRAM, sys.argv[2] if len(sys.argv) > 2 else paths.MODEL)
    path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(ROOT, "docs/images/page.png")
    browser = Browser()
    try:
        with (tempfile.TemporaryDirectory() as folder,
              Server("--context", "2048", "--threads", "2", "--temp", "0", "--thinking", "off", environment=dict.fromkeys(HOMES, folder)) as server):
            browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                           {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False})
            browser.open(server.root + "/")
            for question in QUESTIONS:
                browser.ask(question, SECONDS)
            print(browser.text("#turns"))
            found = [one for one in browser.problems() if "/v1/mcp" not in one]  # the server has no tools
            assert not found, found
            data = base64.b64decode(browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
    finally:
        browser.close()
    assert len(data) <= MOST, f"the picture has {len(data)} bytes, more than {MOST}"
    with open(path, "wb") as file:
        file.write(data)
    print(f"{path}: {len(data)} bytes")


if __name__ == "__main__":
    main()
