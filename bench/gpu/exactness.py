#!/usr/bin/env python3
"""Whether a model's answers depend on how they are made: they must not.

    python3 bench/gpu/exactness.py PROGRAM MODEL [--device cuda] [--requests 64] [--also="OPTIONS" ...]

Starts PROGRAM's server again and again and asks for the same answers (prompts of 5 to 900 words, greedy and sampled with a seed
in several ways): one at a time, 8 and 32 at once, 64 in random order at random times, with steps that overlap and that do not
(ANABRANCH_OVERLAP), with every kind of draft that the model has, without a cache, cold, from the cache in memory and from the
one on disk; and with other options of the server, such as those that switch a way of computing off (--also). Prints a line for
each way; exit status 1 if an answer differs from that without drafts, without a cache and alone."""

import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENGTHS = (5, 30, 120, 350, 900)  # words
START_SECONDS = 300


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--device", default="cuda", help="default: %(default)s")
    parser.add_argument("--requests", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--tokens", type=int, default=60, help="of an answer; default: %(default)s")
    parser.add_argument("--spec", default="mtp,ngram,exit,auto", help="kinds of drafts; default: %(default)s")
    parser.add_argument("--devices", metavar="LIST", help="everything again on these GPUs together, such as 0,1: the same answers")
    parser.add_argument("--also", action="append", default=[], metavar="OPTIONS", help="of the server: once more with these")
    return parser.parse_args()


def requests(args):
    words = []
    for name in ("chat", "code", "tasks"):
        with open(os.path.join(ROOT, "bench", "prompts", name + ".jsonl"), encoding="utf-8") as lines:
            words += [word for line in lines for word in json.loads(line)["prompt"].split()]
    bodies = []
    for i in range(args.requests):
        start = 41 * i % (len(words) - LENGTHS[-1])
        body = {"prompt": " ".join(words[start:start + LENGTHS[i % len(LENGTHS)]]), "max_tokens": args.tokens, "seed": i}
        ways = ({"temperature": 0}, {"temperature": 0.8}, {"temperature": 0.8, "top_k": 20, "top_p": 0.9}, {"temperature": 0},
                {"temperature": 1.2, "min_p": 0.05}, {"temperature": 0.6, "top_p": 0.95}, {"temperature": 0.7, "stop": ["the"]})
        bodies.append(body | ways[i % len(ways)])
    return bodies


class Server:
    """anabranch serve, as a context: it is gone when that ends."""

    def __init__(self, args, *options, overlap=None):
        self.environment = os.environ | ({} if overlap is None else {"ANABRANCH_OVERLAP": overlap})
        self.command = [args.program, "serve", "--model", args.model, "--device", args.device, "--port", "0",
                        "--parallel", "64", *options]

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT, env=self.environment)
        until = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            if found := re.search(r"http://[^\s/]*:(\d+)", self.said()):
                self.port = int(found[1])
                return self
            time.sleep(0.05)
        self.__exit__()
        sys.exit(f"exactness.py: {' '.join(self.command)} did not start:\n{self.said()}")

    def said(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read()

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def answer(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            sys.exit(f"exactness.py: status {response.status}: {text.decode()}")
        choice = json.loads(text)["choices"][0]
        return choice["text"], choice["finish_reason"]

    def answers(self, bodies, together, chance=None):
        """In the order of the bodies; with a chance (random.Random) they are asked in another, after pauses of up to 50 ms."""
        order = list(range(len(bodies)))
        pauses = [0.0] * len(bodies)
        if chance:
            chance.shuffle(order)
            pauses = [chance.uniform(0, 0.05) for _ in bodies]

        def ask(i):
            time.sleep(pauses[i])
            return self.answer(bodies[i])

        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            got = dict(zip(order, pool.map(ask, order)))
        return [got[i] for i in range(len(bodies))]


def main():
    args = arguments()
    bodies, expected, failed = requests(args), [], 0

    def compare(server, what, together, chance=None):
        nonlocal expected, failed
        start = time.perf_counter()
        got = server.answers(bodies, together, chance)
        seconds = time.perf_counter() - start
        expected = expected or got
        different = sum(a != b for a, b in zip(got, expected))
        failed += different
        print(f"{what:<52} {together:>2} at once: {len(got) - different} of {len(got)} equal, {seconds:.2f} s", flush=True)

    def all_ways(name, *base):
        def run(what, concurrencies, *options):
            with Server(args, *options, *base) as server:
                for together in concurrencies:
                    compare(server, name + what, together)

        def random_orders(what, *options, overlap=None):
            with Server(args, *options, *base, overlap=overlap) as server:
                for seed in range(3):
                    compare(server, name + what, 64, random.Random(seed))

        run("no drafts, no cache", (1, 8, 32), "--spec", "off", "--no-cache")
        for overlap, what in (("0", "no overlap, random order"), ("1", "overlap, random order")):
            random_orders(what, "--spec", "off", "--no-cache", overlap=overlap)
        random_orders("drafts: auto, random order", "--spec", "auto")
        for options in args.also:
            run(options, (1, 32), "--spec", "off", "--no-cache", *shlex.split(options))
            random_orders(f"{options}, random order", "--spec", "off", "--no-cache", *shlex.split(options))
        for kind in args.spec.split(","):
            run(f"drafts: {kind}, no cache", (1, 32), "--spec", kind, "--no-cache")
        with tempfile.TemporaryDirectory() as directory:
            run("no drafts, cold, then from memory", (1, 8, 32), "--spec", "off", "--cache-dir", directory)
            run("no drafts, from disk", (32,), "--spec", "off", "--cache-dir", directory)

    all_ways("")
    if args.devices:
        all_ways(f"devices {args.devices}: ", "--devices", args.devices)
    sys.exit(1 if failed else 0)


main()
