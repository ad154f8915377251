#!/usr/bin/env python3
"""The memory of a server over many mixed requests.

usage: run.py PROGRAM MODEL_DIR [--requests 20000] [--clients 8] [--seed 1] [--output memory.csv] [-- SERVER_OPTIONS]

Clients send short chats, conversations of several turns, tool calls, schemas, streams, requests for several answers,
long prompts, bad requests, and leave some answers early. After every hundredth request a line goes to the output:
requests, seconds, resident MB, and the MB that the cache and running requests count as theirs (/metrics).

Afterwards it prints the medians of each tenth of the run, and how much the resident memory grew between the third tenth
and the last. Exit status 1 when that is more than --allow (5 %), or when a request got a status of 5xx.
"""

import argparse
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORDS = ("river arm water bridge boat winter market letter stone garden night music teacher map harbour window lamp "
         "paper mountain field glass kitchen summer road village").split()
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look at a place", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}}}}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Run:
    def __init__(self, args):
        self.args, self.port = args, free_port()
        self.directory = tempfile.TemporaryDirectory()
        options = args.server or ["--cache-ram", "64MB", "--cache-disk", "256MB"]
        self.process = subprocess.Popen(
            [args.program, "-q", "serve", "--model", args.model, "--port", str(self.port), "--cache-dir",
             self.directory.name, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.lock, self.next, self.faults, self.rows = threading.Lock(), 0, 0, []
        self.started = time.monotonic()
        while True:
            try:
                self.metrics()
                break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("the server did not start")
                time.sleep(0.1)

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

    def sample(self, requests, output):
        metrics = self.metrics()

        def total(start, part=""):
            return sum(value for name, value in metrics.items() if name.startswith(start) and part in name) / 2**20

        row = (requests, time.monotonic() - self.started, self.resident_mb(),
               total('anabranch_cache_bytes{', 'tier="ram"'), total("anabranch_state_bytes{"))
        self.rows.append(row)
        output.write(",".join(f"{value:.1f}" for value in row) + "\n")
        output.flush()

    # ---- requests

    def text(self, rng, words):
        return f"{rng.randrange(10**6)} " + " ".join(rng.choices(WORDS, k=words))

    def schema(self, rng):
        names = rng.sample(WORDS, 3)
        return {"type": "json_schema", "json_schema": {"name": "form", "schema": {
            "type": "object", "properties": {name: {"type": rng.choice(["integer", "boolean"])} for name in names},
            "required": names, "additionalProperties": False}}}

    def bodies(self, rng):
        """One request, or the turns of a conversation."""
        system = {"role": "system", "content": "You help. " + " ".join(WORDS[:rng.randrange(20)])}
        body = {"max_tokens": rng.choice([1, 2, 4, 8]), "temperature": rng.choice([0, 0.8]), "seed": rng.randrange(99),
                "enable_thinking": False}
        options = [{"tools": TOOLS}, {"n": 2}, {"stop": ["the"]}, {"logprobs": True, "top_logprobs": 2},
                   {"response_format": self.schema(rng), "max_tokens": 24}, {"cache_salt": str(rng.randrange(20))},
                   {"cache": False}, {"stream": True}, {"stream": True}, {"presence_penalty": 0.3}]
        for option in rng.sample(options, rng.randrange(3)):
            body |= option
        messages = [system, {"role": "user", "content": self.text(rng, rng.choice([1, 3, 10, 40, 40, 300]))}]
        for _ in range(rng.choice([1, 1, 1, 3])):
            yield "/v1/chat/completions", body | {"messages": list(messages)}
            messages += [{"role": "assistant", "content": self.text(rng, 5)},
                         {"role": "user", "content": self.text(rng, 8)}]

    def bad(self, rng):
        return "/v1/chat/completions", rng.choice([{}, {"messages": []}, {"messages": [
            {"role": "user", "content": "river " * 100_000}]}])

    def completion(self, rng):
        return "/v1/completions", {"prompt": [self.text(rng, 5), self.text(rng, 9)], "max_tokens": 3}

    def message(self, rng):
        return "/v1/messages", {"messages": [{"role": "user", "content": self.text(rng, 20)}], "max_tokens": 4}

    def turns(self, rng):
        kind = rng.random()
        if kind < 0.05:
            return [self.bad(rng)]
        if kind < 0.12:
            return [self.completion(rng)]
        if kind < 0.2:
            return [self.message(rng)]
        return self.bodies(rng)

    def post(self, path, body, leave):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if leave:
            response.read(10)
        else:
            response.read()
        connection.close()
        if response.status >= 500:
            with self.lock:
                self.faults += 1

    def client(self, number, output):
        rng = random.Random(f"{self.args.seed} {number}")
        while self.process.poll() is None:
            for path, body in self.turns(rng):
                with self.lock:
                    if self.next >= self.args.requests:
                        return
                    self.next += 1
                    if self.next % 100 == 0:
                        self.sample(self.next, output)
                try:
                    self.post(path, body, rng.random() < 0.05)
                except OSError as error:
                    print(f"a request failed: {error}", file=sys.stderr)
                    with self.lock:
                        self.faults += 1

    def run(self):
        with open(self.args.output, "w") as output:
            output.write("requests,seconds,resident_mb,cache_mb,running_mb\n")
            self.sample(0, output)
            threads = [threading.Thread(target=self.client, args=(n, output)) for n in range(self.args.clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.directory.cleanup()


def medians(rows):
    """Resident MB in each tenth of the run."""
    most = rows[-1][0]
    tenths = [[row[2] for row in rows if part * most / 10 < row[0] <= (part + 1) * most / 10] for part in range(10)]
    return [statistics.median(tenth) for tenth in tenths if tenth]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="memory.csv")
    parser.add_argument("--allow", type=float, default=5, help="growth in percent")
    own, server = sys.argv[1:], []
    if "--" in own:
        own, server = own[:own.index("--")], own[own.index("--") + 1:]
    args = parser.parse_args(own)
    args.server = server
    run = Run(args)
    try:
        run.run()
    finally:
        run.stop()
    tenths = medians(run.rows)
    growth = 100 * (tenths[-1] / tenths[min(2, len(tenths) - 1)] - 1)
    print("resident MB, each tenth: " + " ".join(f"{value:.0f}" for value in tenths))
    print(f"growth from the third tenth to the last: {growth:.1f} %; requests that failed: {run.faults}")
    return 1 if growth > args.allow or run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
