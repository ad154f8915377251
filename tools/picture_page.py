#!/usr/bin/env python3
"""Takes a picture of the web page with the model's real answers: docs/images/page.png.

    .deps/test-venv/bin/python tools/picture_page.py [PROGRAM [MODEL_DIR [OUT.png]]]

Starts `serve` on a free port, opens its page in headless Chromium (as the tests of the page do), asks QUESTIONS with
temperature 0 and saves the page. The programs leave nothing behind but the picture."""

import base64
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "server"))
from web_browser import Browser
from web_real_server import RealServer

QUESTIONS = ["What is the capital of France?", "Write a Python function that reverses a string."]
WIDTH, HEIGHT, SCALE = 1160, 890, 1.5
SECONDS = 120   # for one answer on a busy machine
MOST = 250_000  # bytes of the file


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/anabranch"))
    model = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "models/hybrid-146m"))
    path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(ROOT, "docs/images/page.png")
    browser = Browser()
    try:
        with RealServer(program, model, "--temp", "0", "--thinking", "off") as server:
            browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                           {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False})
            browser.open(server.url)
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
