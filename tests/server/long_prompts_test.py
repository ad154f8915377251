#!/usr/bin/env python3
"""Prompts of many megabytes, eight at a time: others are answered beside them, they are refused, and their memory comes back.

usage: long_prompts_test.py PROGRAM MODEL_DIR [--most-seconds 2] [--megabytes 6]

Every kind of request that tokenises text is sent: chats with one message and with many, text completions with one prompt
and with a list, Anthropic's messages and count_tokens, tools and schemas. Prints "N passed, N failed".
"""

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time

from conclude import conclude
from soak_test import free_port

MB = 1_000_000
CHAT = "/v1/chat/completions"


def user(text):
    return {"role": "user", "content": text}


def long_text(megabytes):
    return "The river parts and joins again further down; 12345 boats. " * (megabytes * MB // 59)


def requests_of(text):
    """{name: (path, body, status)}"""
    tool = {"type": "function", "function": {"name": "f", "description": text, "parameters": {"type": "object"}}}
    names = {f"member_{i}": {"type": "string", "description": text[:1000]} for i in range(len(text) // 1100)}
    schema = {"type": "json_schema", "json_schema": {"name": "form", "schema": {"type": "object", "properties": names}}}
    many = [user(text[:1000]) | {"role": "user" if i % 2 == 0 else "assistant"} for i in range(len(text) // 1050 // 2 * 2 + 1)]
    return {
        "chat": (CHAT, {"messages": [user(text)]}, 400),
        "system prompt": (CHAT, {"messages": [{"role": "system", "content": text}, user("hi")]}, 400),
        "many messages": (CHAT, {"messages": many}, 400),
        "one word": (CHAT, {"messages": [user("a" * len(text))]}, 400),
        "tool": (CHAT, {"messages": [user("hi")], "tools": [tool]}, 400),
        "schema": (CHAT, {"messages": [user("hi")], "response_format": schema}, 400),
        "completion": ("/v1/completions", {"prompt": text}, 400),
        "prompts": ("/v1/completions", {"prompt": ["hi", text[:len(text) // 2], text[len(text) // 2:]]}, 400),
        "message": ("/v1/messages", {"messages": [user(text)], "max_tokens": 4}, 400),
        "count_tokens": ("/v1/messages/count_tokens", {"messages": [user(text)]}, 400),
    }


class Server:
    def __init__(self, program, model):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "-q", "serve", "--model", model, "--port", str(self.port), "--no-cache", "--spec", "off"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while True:
            try:
                self.ask("/v1/completions", json.dumps({"prompt": "hi", "max_tokens": 2}))
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server did not start")
                time.sleep(0.1)

    def ask(self, path, data):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        started = time.monotonic()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body, time.monotonic() - started

    def hi(self):
        return self.ask(CHAT, json.dumps({"messages": [user("hi")], "max_tokens": 4, "enable_thinking": False}))

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def at_once(server, path, data, count):
    """Statuses and answers of `count` equal requests, and the slowest "hi" beside them."""
    results, slowest = [], 0
    threads = [threading.Thread(target=lambda: results.append(server.ask(path, data))) for _ in range(count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        status, _, seconds = server.hi()
        slowest = max(slowest, seconds if status == 200 else 1e9)
    return results, slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--most-seconds", type=float, default=2, help='for "hi" beside the long prompts')
    parser.add_argument("--megabytes", type=int, default=6, help="of each; 31 to see the most that is taken")
    args = parser.parse_args()
    checks, notes = {}, []
    server = Server(args.program, args.model)
    try:
        server.hi()
        before = server.resident_mb()
        for name, (path, body, expected) in requests_of(long_text(args.megabytes)).items():
            started = time.monotonic()
            results, slowest = at_once(server, path, json.dumps(body), 8 if name == "chat" else 2)
            took = time.monotonic() - started
            right = all(status == expected and b'"error"' in answer for status, answer, _ in results)
            checks[f"{name}: refused"] = (right, [(status, answer[:200]) for status, answer, _ in results])
            checks[f'{name}: "hi" is answered beside them'] = (slowest < args.most_seconds, f"{slowest:.2f} s")
            notes.append(f"{name}: {took:.1f} s, hi {slowest:.2f} s, {server.resident_mb():.0f} MB")
        deadline = time.monotonic() + 60
        while server.resident_mb() > 1.15 * before and time.monotonic() < deadline:
            time.sleep(1)
        checks["the memory comes back"] = (server.resident_mb() <= 1.15 * before,
                                           f"{before:.0f} MB, then {server.resident_mb():.0f} MB")
    finally:
        server.process.terminate()
        status = server.process.wait(60)
    checks["the server stops when told to"] = (status == 0, f"exit status {status}")
    return conclude(checks, "\n".join(notes) + f"\n{before:.0f} MB before, {server_note(checks)}")


def server_note(checks):
    return checks["the memory comes back"][1] + " afterwards"


if __name__ == "__main__":
    sys.exit(main())
