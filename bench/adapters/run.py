#!/usr/bin/env python3
"""What LoRA adapters cost: answers of several clients at once, each with an adapter of its own or without.

    script/build && python3 bench/adapters/run.py
    python3 bench/adapters/run.py --shape 9b --flags "--device cuda"

Makes a random model of the shape (tools/random_gguf.py) and random adapters of --rank for all of its layers, in a temporary
directory (--folder keeps them). --clients send prompts of --prompt tokens and ask for --tokens greedy tokens, all at once, in
--turns alternating turns: `base` without adapters, `one` all with the same adapter, `all` with the adapters in turn. Prints the
medians of tokens per second of all clients together, and with --json writes every figure. Also checks that each client's tokens
are the same in every turn."""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM")
    parser.add_argument("--shape", default="0.8b")
    parser.add_argument("--folder", help="for the random files (default: a temporary one)")
    parser.add_argument("--adapters", type=int, default=4)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128, metavar="TOKENS")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--flags", default="", help="further flags of the server, such as '--device cuda'")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def random_file(folder, name, shape, *flags):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "random_gguf.py"), shape, path, *flags], check=True)
    return path


class Server:
    def __init__(self, options, folder):
        model = random_file(folder, "model.gguf", options.shape)
        flags = []
        for i in range(options.adapters):
            flags += ["--lora", f"a{i}=" + random_file(folder, f"a{i}.gguf", options.shape, "--lora", str(options.rank))]
        command = [options.anabranch, "serve", "--model", model, "--port", "0", "--served-model-name", "base", "--parallel",
                   str(options.clients), "--spec", "off", *flags, *options.flags.split()]
        self.log = open(os.path.join(folder, "server.log"), "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.port = self.wait()

    def wait(self):
        while self.process.poll() is None:
            self.log.seek(0)
            if port := re.search(r"http://127\.0\.0\.1:(\d+)/", self.log.read()):
                return int(port[1])
            time.sleep(0.1)
        self.log.seek(0)
        sys.exit(self.log.read())

    def complete(self, model, prompt, tokens):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"model": model, "prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
                "return_tokens": True}
        connection.request("POST", "/completion", json.dumps(body))
        answer = connection.getresponse()
        text = json.loads(answer.read())
        if answer.status != 200:
            sys.exit(f"{model}: {text}")
        return text["tokens"]


def turn(server, options, names, answers):
    """Tokens per second of all clients together."""
    def client(i):
        name = names[i % len(names)]
        tokens = server.complete(name, [(37 * j + 11 * i) % 250 for j in range(options.prompt)], options.tokens)
        if answers.setdefault((name, i), tokens) != tokens:
            sys.exit(f"client {i} with {name} got other tokens than before")
    threads = [threading.Thread(target=client, args=(i,)) for i in range(options.clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return options.clients * options.tokens / (time.monotonic() - begin)


def main():
    options = arguments()
    ways = {"base": ["base"], "one": ["a0"], "all": [f"a{i}" for i in range(options.adapters)]}
    figures, answers = {name: [] for name in ways}, {}
    with tempfile.TemporaryDirectory() as temporary:
        server = Server(options, options.folder or temporary)
        try:
            for number in range(options.turns + 1):
                for name, models in ways.items():
                    rate = turn(server, options, models, answers)
                    if number > 0:  # the first one warms up
                        figures[name].append(rate)
        finally:
            server.process.terminate()
            server.process.wait()
    base = statistics.median(figures["base"])
    print(f"{options.shape}, {options.clients} clients, {options.adapters} adapters of rank {options.rank}")
    for name, rates in figures.items():
        print(f"{name:6} {statistics.median(rates):9.1f} tokens/s  {statistics.median(rates) / base:5.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "tokens_per_s": figures}, file, indent=1)


main()
