#!/usr/bin/env python3
"""What speculation brings with many clients over HTTP: every kind beside plain decoding, in alternation.

    script/build && python3 bench/streams/speculation.py --clients 1,4,8 --rounds 5

The prompts are those of bench/prompts (chat, code, copy). Each client asks one after the other until all are answered:
greedy, no cache. Each kind of speculation has a server of its own; all run at the same time, and rounds go from one to
the next, so that a slower minute hits all of them. Prints tokens a second, for every round and as medians, and as a share
of plain decoding. Texts must be the same everywhere. Needs nothing but Python's own library. Exit status: 0, 1 when an
answer differs or a request fails."""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM")
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "hybrid-146m"), metavar="DIR")
    parser.add_argument("--draft", metavar="DIR", help="a draft model, for all servers")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kinds", default="off,auto", help="default: %(default)s; the first is what others are held to;"
                        " a kind may name another program: auto=/path/to/anabranch")
    parser.add_argument("--clients", default="1,4,8", metavar="N,...", help="default: %(default)s")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer at most (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--prompts", type=int, default=100, help="at most (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="every figure, as JSON")
    return parser.parse_args()


def read_prompts(most):
    """From the three sets in turn."""
    sets = []
    for name in ("chat", "code", "copy"):
        with open(os.path.join(ROOT, "bench", "prompts", name + ".jsonl")) as file:
            sets.append([json.loads(line) for line in file])
    mixed = [item for i in range(max(map(len, sets))) for one in sets for item in one[i:i + 1]]
    return mixed[:most]


def body_of(item, tokens):
    messages = [{"role": "system", "content": item["system"]}] if item.get("system") else []
    messages.append({"role": "user", "content": item["prompt"]})
    return json.dumps({"model": "default", "messages": messages, "max_tokens": tokens, "temperature": 0, "cache": False,
                       "enable_thinking": False}).encode()


class Server:
    def __init__(self, args, kind, most):
        name, _, program = kind.partition("=")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [program or args.anabranch, "serve", "--model", args.model, "--port", str(self.port), "--device",
                   args.device, "--spec", name, "--no-cache", "--parallel", str(most)]
        if args.draft:
            command += ["--draft", args.draft]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        for _ in range(1200):
            if self.process.poll() is not None:
                sys.exit("a server did not start")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                    s.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    if b" 200 " in s.recv(100):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit("a server did not start")


async def ask(port, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                 b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    answer = await reader.read()
    writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        sys.exit(f"a request failed: {answer[:500]!r}")
    return json.loads(text)


async def one_round(port, bodies, clients):
    """-> tokens a second, the texts"""
    texts, waiting, tokens = [None] * len(bodies), list(range(len(bodies)))[::-1], 0

    async def client():
        nonlocal tokens
        while waiting:
            i = waiting.pop()
            answer = await ask(port, bodies[i])
            texts[i] = answer["choices"][0]["message"]
            tokens += answer["usage"]["completion_tokens"]

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return tokens / (time.perf_counter() - start), texts


def main():
    args = arguments()
    kinds, counts = args.kinds.split(","), [int(n) for n in args.clients.split(",")]
    bodies = [body_of(item, args.tokens) for item in read_prompts(args.prompts)]
    servers = [Server(args, kind, max(counts)) for kind in kinds]
    figures, wanted, different = {}, None, 0
    try:
        for server in servers:
            server.wait()
        for clients in counts:
            rates = [[] for _ in kinds]
            for turn in range(-1, args.rounds):  # the first one is not counted
                for k in range(len(kinds)):
                    k = (k + turn) % len(kinds)
                    rate, texts = asyncio.run(one_round(servers[k].port, bodies, clients))
                    wanted = wanted or texts
                    different += sum(a != b for a, b in zip(texts, wanted))
                    if turn >= 0:
                        rates[k].append(rate)
            figures[clients] = dict(zip(kinds, rates))
            plain = statistics.median(rates[0])
            for kind, of in zip(kinds, rates):
                print(f"{clients:3d} clients  {kind.partition('=')[0]:6s} {statistics.median(of):9,.1f} tok/s  "
                      f"{statistics.median(of) / plain:.3f}   {' '.join(f'{r:,.0f}' for r in of)}", flush=True)
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()
    print(f"{different} texts differ")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"model": os.path.basename(args.model), "device": args.device, "tok_s": figures}, file, indent=1)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
