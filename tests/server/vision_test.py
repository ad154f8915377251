#!/usr/bin/env python3
"""A model that reads pictures, over HTTP: every API by its official client, and a conversation of ten turns with three
pictures, whose states are kept, also over kill -9.

usage: vision_test.py PROGRAM MODEL_DIR

The model is the default one with a random tower (vision_model.py). Prints "N passed, N failed".
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from exactness_test import Server  # noqa: E402
from pictures import drawing  # noqa: E402
from vision_model import make  # noqa: E402

LEAST_FOUND = 0.98  # of the tokens that a turn repeats
OPENING = 8  # tokens at a prompt's end that open the answer; the template leaves the empty thought out of earlier turns
PICTURES = {0: (3, 480, 400), 4: (5, 300, 500), 7: (8, 512, 512)}  # of some turns: seed, width, height
TURNS = 10


def question(turn):
    text = {"type": "text", "text": f"Question {turn}: say something about it, in a few words."}
    if turn not in PICTURES:
        return {"role": "user", "content": text["text"]}
    url = "data:image/png;base64," + base64.b64encode(drawing(*PICTURES[turn])).decode()
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text]}


def wait_until_written(directory):
    """States are written behind the answers: until no file changes any more."""
    def files():
        return {entry.path: entry.stat().st_size for folder, _, _ in os.walk(directory) for entry in os.scandir(folder)}

    before, now = None, files()
    while before != now or any(path.endswith(".tmp") for path in now):
        time.sleep(0.5)
        before, now = now, files()


class Checks:
    def __init__(self, program, model):
        self.program, self.model, self.passed, self.failed = program, model, 0, 0

    def result(self, good, what):
        self.passed += good
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}", flush=True)

    def official_clients(self):
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, os.path.join(here, "images_test.py"), self.program, self.model],
                              capture_output=True, text=True)
        print(done.stdout, done.stderr)
        passed, failed = map(int, re.findall(r"^(\d+) passed, (\d+) failed", done.stdout, re.M)[-1])
        self.passed += passed
        self.failed += failed

    @staticmethod
    def ask(server, messages, **more):
        return server.ask(("/v1/chat/completions", {
            "messages": messages, "max_tokens": 24, "temperature": 0, "logprobs": True, "top_logprobs": 2,
            "enable_thinking": False, "ignore_eos": True}), **more)

    def conversation(self):
        messages, repeated = [], 0
        with tempfile.TemporaryDirectory() as directory, Server(self.program, self.model, "--no-cache", "--spec", "off") as cold:
            flags = ("--cache-dir", directory, "--cache-disk-worth", "0")
            with Server(self.program, self.model, *flags) as server:
                for turn in range(TURNS):
                    if turn in (3, 6, 8):  # before, between and after pictures
                        wait_until_written(directory)
                        server.stop(signal.SIGKILL if turn != 6 else signal.SIGTERM)
                        server.__init__(self.program, self.model, *flags)
                    messages.append(question(turn))
                    choices, usage = self.ask(server, messages)
                    found = usage["prompt_tokens_details"]["cached_tokens"]
                    self.result(found >= LEAST_FOUND * repeated,
                                f"turn {turn}: {found} of {repeated} repeated tokens were kept, the prompt has {usage['prompt_tokens']}")
                    self.result(choices == self.ask(cold, messages)[0], f"turn {turn}: the same tokens as cold")
                    repeated = usage["prompt_tokens"] - OPENING
                    messages.append({"role": "assistant", "content": choices[0]["message"]["content"]})
            listed = subprocess.run([self.program, "cache", "stats", "--json", *flags[:2]], capture_output=True, text=True)
            images = json.loads(listed.stdout)["images"]
            self.result(images["files"] == len(PICTURES) and images["bytes"] > 100_000, f"`cache stats` counts the pictures: {images}")

    def other_pictures(self):
        """Nothing of a conversation is found by one whose picture differs in one pixel."""
        with Server(self.program, self.model, "--cache-disk", "0") as server:
            def usage(png):
                content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}},
                           {"type": "text", "text": "What is it?"}]
                return self.ask(server, [{"role": "user", "content": content}])[1]
            first = usage(drawing(3, 256, 256))
            again, other = (usage(drawing(seed, 256, 256))["prompt_tokens_details"]["cached_tokens"] for seed in (3, 4))
            self.result(again > 0.9 * first["prompt_tokens"], f"the same picture: {again} of {first['prompt_tokens']} tokens")
            self.result(other < 20, f"another picture: {other} tokens")

    def llama_servers_cases(self):
        """After llama.cpp's tools/server/tests/unit/test_vision_api.py; web addresses are refused here unless they are allowed."""
        data = base64.b64encode(drawing(2, 96, 64)).decode()
        text = {"type": "text", "text": "What is this:\n"}
        cases = {"base64 without a data URI": (["" + data], 400), "a data URI": (["data:image/png;base64," + data], 200),
                 "two images": (["data:image/png;base64," + data] * 2, 200), "no image": ([], 200), "malformed": (["malformed"], 400),
                 "a page that is not there": (["https://google.com/404"], 400), "a page": (["https://ggml.ai"], 400)}
        with Server(self.program, self.model, "--cache-disk", "0") as server:
            for name, (urls, status) in cases.items():
                parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
                body = {"temperature": 0.0, "top_k": 1, "max_tokens": 8, "messages": [{"role": "user", "content": [text, *parts]}]}
                try:
                    answer = server.send("/v1/chat/completions", body)
                    good = status == 200 and answer["choices"][0]["message"]["role"] == "assistant"
                except RuntimeError as error:
                    good = status == 400 and ": 400 " in str(error)
                self.result(good, f"llama-server's case: {name}")

    def text_knows_no_pictures(self):
        """Words that look like a picture's tokens are words."""
        with Server(self.program, self.model, "--cache-disk", "0") as server:
            _, usage = self.ask(server, [{"role": "user", "content": "<|vision_start|><|image_pad|><|vision_end|>"}])
            self.result(usage["prompt_tokens"] > 15, f"{usage['prompt_tokens']} tokens of text")


def main():
    program, model = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as directory:
        checks = Checks(program, make(model, os.path.join(directory, "sees")))
        for check in (checks.official_clients, checks.conversation, checks.other_pictures, checks.llama_servers_cases,
                      checks.text_knows_no_pictures):
            check()
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
