#!/usr/bin/env python3
"""An honest client beside a hostile one of each kind: how long its requests take alone, and beside it.

    python bench/hostile/run.py BINARY MODEL [--seconds 8] [--json FILE]

Honest requests: a chat of a few words (one token of answer), and the count of an agent's prompt of 300 KB. Both clients
have a key of their own and reach the server over loopback. The table shows the median and the 99th percentile.
"""

import argparse
import http.client
import json
import os
import re
import socket
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HONEST, HOSTILE = "honest-key-0123456789", "hostile-key-0123456789"
WORDS = "The quick brown fox jumps over the lazy dog and says hello. "
MEBI = 1 << 20


def post(port, path, body, key, timeout=120):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def chat(text, **more):
    return json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 1, "temperature": 0, **more}).encode()


class Hang(socketserver.BaseRequestHandler):
    """A web server that never answers."""

    def handle(self):
        try:
            while self.request.recv(65536):
                pass
        except OSError:
            pass


class Hostile:
    """Keeps `count` requests of one kind under way until it is stopped."""

    def __init__(self, port, count, begin):
        self.port, self.begin, self.running = port, begin, True
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, index):
        number = index
        while self.running:
            try:
                self.begin(self.port, number)
            except OSError:
                time.sleep(0.05)
            number += len(self.threads)

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join(30)


def abandon(port, path, body, seconds):
    """Sends a request and leaves."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall((f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        f"Authorization: Bearer {HOSTILE}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        time.sleep(seconds)


def trickle(port, number):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n")
        for _ in range(20):
            client.sendall(b" ")
            time.sleep(0.1)


def slow_grammar(number):
    return (f'root ::= (((([a-z0-9]{{1,300}} "x"){{1,300}}) "y"){{1,300}} "z"){{1,300}} | "q{number}"')


def kinds(hang):
    large = chat(WORDS * (29 * MEBI // len(WORDS)))
    long_word = json.dumps({"content": "a" * (29 * MEBI)}).encode()
    text = json.dumps({"prompt": WORDS * (29 * MEBI // len(WORDS)), "n_predict": 1}).encode()
    session = json.dumps({"items": [{"type": "message", "role": "user", "content": "x" * (MEBI // 2)}] * 20}).encode()
    grammar = 'root ::= "' + "a" * (MEBI - 100) + '"'
    picture = lambda n: json.dumps({"max_tokens": 1, "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{hang}/{n}.png"}}]}]}).encode()
    return {
        "six chats of 29 MiB": (6, lambda port, n: post(port, "/v1/chat/completions", large, HOSTILE)),
        "six texts of 29 MiB for /completion": (6, lambda port, n: post(port, "/completion", text, HOSTILE)),
        "six words of 29 MiB for /tokenize": (6, lambda port, n: post(port, "/tokenize", long_word, HOSTILE)),
        "large requests, abandoned": (6, lambda port, n: abandon(port, "/tokenize", long_word, 0.2)),
        "sixteen slow grammars": (16, lambda port, n: post(port, "/v1/chat/completions",
                                                           chat("hi", grammar=slow_grammar(n)), HOSTILE)),
        "grammars of 1 MiB, abandoned": (4, lambda port, n: abandon(port, "/v1/chat/completions", chat(
            "hi", grammar=grammar + f' | "{n}"'), 0.3)),
        "twelve images that never come": (12, lambda port, n: post(port, "/v1/chat/completions", picture(n), HOSTILE)),
        "conversations of 10 MiB": (3, lambda port, n: post(port, "/v1/conversations", session, HOSTILE)),
        "thirty bodies that trickle": (30, trickle),
    }


def measure(port, seconds):
    """Seconds that honest requests take, by kind of request."""
    agent = json.dumps({"max_tokens": 1, "messages": [{"role": "user", "content": WORDS * (300 * 1024 // len(WORDS))}]}).encode()
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {
        "name": {"type": "string"}, "size": {"type": "integer"}}, "required": ["name", "size"]}}}
    requests = {"chat": ("/v1/chat/completions", lambda n: chat("hi", cache_prompt=False)),
                "300 KB": ("/v1/messages/count_tokens", lambda n: agent),
                "schema": ("/v1/chat/completions", lambda n: chat("hi", response_format=json.loads(
                    json.dumps(schema).replace("size", f"size{n}"))))}
    took = {name: [] for name in requests}
    end = time.time() + seconds
    number = 0
    while time.time() < end:
        for name, (path, body) in requests.items():
            begun = time.time()
            status, answer = post(port, path, body(number + time.time_ns() % 1000000 * 1000), HONEST)
            took[name].append(time.time() - begun)
            # A count that says "too long" has been counted, too.
            if status != 200 and not (name == "300 KB" and status == 400):
                sys.exit(f"an honest request got {status}: {answer[:300]}")
            number += 1
    return took


def figures(took):
    ordered = sorted(took)
    return {"median_s": statistics.median(ordered), "p99_s": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
            "requests": len(ordered)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json")
    parser.add_argument("--only", help="kinds whose name holds this")
    options = parser.parse_args()
    socketserver.ThreadingTCPServer.daemon_threads = True
    web = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hang)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        keys = os.path.join(home, "keys")
        with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"honest {HONEST}\nhostile {HOSTILE}\n")
        server = subprocess.Popen([options.binary, "serve", options.model, "--port", "0", "--api-key-file", keys, "--sessions",
                                   os.path.join(home, "sessions"), "--cache-dir", os.path.join(home, "states"),
                                   "--allow-image-urls", f"127.0.0.1:{web.server_address[1]}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            line = server.stdout.readline()
            while "http://" not in line:
                line = server.stdout.readline()
                if not line:
                    sys.exit("the server did not start")
            port = int(re.search(r"http://[^/\s]*:(\d+)", line).group(1))
            measure(port, 2)
            rows = {"alone": {name: figures(took) for name, took in measure(port, options.seconds).items()}}
            for name, (count, begin) in kinds(web.server_address[1]).items():
                if options.only and options.only not in name:
                    continue
                hostile = Hostile(port, count, begin)
                time.sleep(1)
                rows[name] = {kind: figures(took) for kind, took in measure(port, options.seconds).items()}
                hostile.stop()
        finally:
            server.terminate()
            server.wait(60)
    print(f"{'':38}" + "".join(f"{kind + ' median / p99, ms':>30}" for kind in rows["alone"]))
    for name, kinds_ in rows.items():
        print(f"{name:38}" + "".join(f"{1000 * f['median_s']:>20.0f} / {1000 * f['p99_s']:.0f}".rjust(30) for f in kinds_.values()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
