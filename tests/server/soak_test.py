#!/usr/bin/env python3
"""A server under random load for some time: streams and whole answers, clients that leave at any moment or read slowly,
malformed and refused requests, all at once.

usage: soak_test.py PROGRAM MODEL_DIR [--minutes 0.4] [--clients 12] [--seed 1]

Checked: every request that its client stayed for gets exactly one end (a finish_reason for each choice, then [DONE]; or
one error of the kind that its fault deserves), no 5xx, memory no larger in the last third than in the one before (beyond
a tenth; in a run of less than five minutes: three), and when all have left: nothing running or queued, and /metrics tells
exactly one end for every sequence that the engine took. Prints "N passed, N failed".
"""

import argparse
import http.client
import json
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request

from conclude import conclude

WORDS = "river arm water bridge boat winter market letter stone garden night music teacher map harbour".split()
# Small enough to be full long before the first third is over.
SERVER_OPTIONS = ["--strict-model-names", "--cache-ram", "64MB", "--cache-disk", "0", "--context", "2048"]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}}}}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Soak:
    def __init__(self, program, model, clients, seed):
        self.port, self.clients, self.seed = free_port(), clients, seed
        self.process = subprocess.Popen([program, "serve", "--model", model, "--port", str(self.port), *SERVER_OPTIONS],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.lock, self.counts, self.faults, self.memory = threading.Lock(), {}, [], []
        deadline = time.monotonic() + 120
        while True:
            try:
                self.health()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the server did not start")
                time.sleep(0.1)

    def health(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=30) as answer:
            return json.load(answer)

    def metrics(self):
        """{series: value}"""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def note(self, kind):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

    # ---- requests

    def body(self, rng):
        text = " ".join(rng.choices(WORDS, k=rng.choice([1, 5, 40, 300])))
        body = {"messages": [{"role": "user", "content": f"{rng.randrange(50)} {text}"}],
                "max_tokens": rng.choice([1, 4, 16, 48]), "temperature": rng.choice([0, 0.7, 1.5]), "seed": rng.randrange(99)}
        options = [{"enable_thinking": False}, {"thinking_budget": 8}, {"stop": ["the", "a"]}, {"tools": TOOLS},
                   {"logprobs": True, "top_logprobs": 3}, {"speculation": "off"}, {"cache": False},
                   {"cache_salt": str(rng.randrange(3))}, {"presence_penalty": 0.5}, {"min_p": 0.1},
                   {"logit_bias": {"5": -5}}, {"n": 2}, {"n": 3}, {"response_format": {"type": "json_object"}},
                   {"response_format": self.form(rng)}]
        for option in rng.sample(options, rng.randrange(4)):
            body |= option
        return body

    # Many different ones, so that compiled grammars come and go.
    def form(self, rng):
        names = rng.sample(WORDS, 3)
        schema = {"type": "object", "properties": {name: {"type": rng.choice(["string", "integer", "boolean"]),
                                                          "description": str(rng.randrange(9))} for name in names},
                  "required": names, "additionalProperties": False}
        return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def post(self, connection, body, path="/v1/chat/completions"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        return connection.getresponse()

    def whole(self, rng):
        connection, body = self.connect(), self.body(rng)
        response = self.post(connection, body)
        answer = json.loads(response.read())
        connection.close()
        if response.status == 429:
            return self.note("refused: too many")
        reasons = [choice["finish_reason"] for choice in answer.get("choices", [])]
        if response.status != 200 or len(reasons) != body.get("n", 1) or not all(reasons):
            self.fault(f"whole answer: {response.status} {str(answer)[:300]}")
        self.note("whole")

    def streamed(self, rng, leave=False, slow=False):
        connection, body = self.connect(), self.body(rng)
        response = self.post(connection, body | {"stream": True})
        if response.status == 429:
            response.read()
            return self.note("refused: too many")
        if response.status != 200:
            return self.fault(f"stream: {response.status} {response.read(300)}")
        ends, done, events = [], 0, 0
        most = rng.randrange(12) if leave else None
        for line in response:
            if not line.startswith(b"data: "):
                continue
            events += 1
            if leave and events > most:
                self.hang_up(connection, rng)
                return self.note("client left")
            if slow and events % 4 == 0:
                time.sleep(0.05)
            if line.startswith(b"data: [DONE]"):
                done += 1
                continue
            chunk = json.loads(line[6:])
            if done or "error" in chunk:
                self.fault(f"stream: {line[:300]}")
            ends += [choice["index"] for choice in chunk.get("choices", []) if choice.get("finish_reason")]
        connection.close()
        if (sorted(ends), done) != (list(range(body.get("n", 1))), 1):
            self.fault(f"a stream with ends of the choices {ends} and {done} [DONE]")
        self.note("slow client" if slow else "streamed")

    def hang_up(self, connection, rng):
        if rng.random() < 0.5 and connection.sock:  # as a killed process does: RST
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def leaves_before_the_answer(self, rng):
        connection = self.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body(rng)).encode(),
                           {"Content-Type": "application/json"})
        time.sleep(rng.random() * 0.2)
        self.hang_up(connection, rng)
        self.note("client left before the answer")

    def bad(self, rng):
        good = self.body(rng)
        body, expected = rng.choice([
            (b"{", 400), (b"[]", 400), (b"\xff\xfe", 400), (good | {"temperature": "warm"}, 400),
            (good | {"max_tokens": -7}, 400), (good | {"messages": []}, 400), (good | {"model": "none"}, 404),
            (good | {"messages": [{"role": "user", "content": "river " * 5000}]}, 400)])
        connection = self.connect()
        response = self.post(connection, body)
        answer = response.read()
        connection.close()
        if response.status != expected or b'"error"' not in answer:
            self.fault(f"expected {expected}: {response.status} {answer[:300]}")
        self.note("bad request")

    def half_a_request(self, rng):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{\"mess")
            time.sleep(rng.random() * 0.1)
        self.note("half a request")

    # ---- all at once

    def client(self, number, until):
        rng = random.Random(f"{self.seed} {number}")
        kinds = [(self.whole, 3), (self.streamed, 4), (lambda r: self.streamed(r, leave=True), 3),
                 (lambda r: self.streamed(r, slow=True), 1), (self.leaves_before_the_answer, 1), (self.bad, 3),
                 (self.half_a_request, 1)]
        while time.monotonic() < until:
            kind = rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])[0]
            try:
                kind(rng)
            except Exception as error:  # a client that fails must not hide the others
                self.fault(f"{type(error).__name__}: {error}")
            time.sleep(rng.expovariate(8))

    def run(self, seconds):
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.client, args=(n, until)) for n in range(self.clients)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and self.process.poll() is None:
            self.memory.append(self.resident_mb())
            time.sleep(min(0.5, seconds / 60))
        for thread in threads:
            thread.join(310)

    def idle(self):
        """The engine's counters once nothing is left to do."""
        deadline = time.monotonic() + 60
        while True:
            engine = self.health()["engine"]
            if engine["running"] + engine["queued"] == 0 or time.monotonic() > deadline:
                return engine
            time.sleep(0.1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "none: it did not stop"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    soak = Soak(args.program, args.model, args.clients, args.seed)
    checks = {}
    try:
        soak.run(60 * args.minutes)
        checks["every request had its one end"] = (not soak.faults, f"{len(soak.faults)}: {soak.faults[:5]}")
        if soak.process.poll() is None:
            engine = soak.idle()
            checks["nothing runs or waits in the end"] = (engine["running"] + engine["queued"] == 0, engine)
            ended = engine["finished"] + engine["cancelled"] + engine["failed"]
            checks["every request was counted once"] = (ended == engine["requests"] and engine["failed"] == 0, engine)
            metrics = soak.metrics()
            ends = {name: n for name, n in metrics.items() if name.startswith("anabranch_answers_total")}
            checks["every sequence had one end"] = (sum(ends.values()) == engine["requests"], (ends, engine))
            held = {name: sum(n for full, n in metrics.items() if full.startswith(f"anabranch_{name}{{"))
                    for name in ("requests_running", "requests_queued", "state_bytes")}
            checks["all places and states are free"] = (not any(held.values()), held)
            faults = {name: n for name, n in metrics.items() if 'status="5' in name}
            checks["no answer was a 5xx"] = (not faults, faults)
        third = len(soak.memory) // 3
        before, after = statistics.median(soak.memory[third:2 * third]), statistics.median(soak.memory[2 * third:])
        growth = 1.1 if args.minutes >= 5 else 1.3  # in a short run not everything has been used once
        checks["memory is flat"] = (after < growth * before, f"{before:.0f} MB, then {after:.0f} MB")
    finally:
        status = soak.stop()
    checks["the server stops when told to"] = (status == 0, f"exit status {status}")
    return conclude(checks, f"{sum(soak.counts.values())} requests: {soak.counts}; {before:.0f} MB, then {after:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
