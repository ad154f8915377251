#!/usr/bin/env python3
"""Separate prefill and decode workers against one worker, on the same two cores.

usage: disaggregated.py PROGRAM MODEL_DIR [--mode together|apart ...] [--streams 4] [--prompts 6] [--every 4] [--json FILE]

together: one worker with two threads. apart: a worker with one thread on core 0 reads the long prompts, another on core 1
fetches their states (--state-peer) and writes all answers, as vllm-router has it with --vllm-pd-disaggregation. In both,
some streams decode all the time, and prompts of 2,000 to 4,000 tokens arrive beside them, each for 32 tokens. Prints a
table: time to the first token of the long prompts, and the gaps between the tokens of the streams while these arrive.
--json adds the figures to a file with those of earlier runs.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORDS = ("river", "stone", "letter", "garden", "window", "morning", "council", "library", "bridge", "winter", "paper", "market")
TO_DECODE = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
             "remote_host": None, "remote_port": None}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Worker:
    def __init__(self, program, model, cores, threads, *flags):
        self.port = free_port()
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            ["taskset", "-c", cores, program, "serve", "-m", model, "--port", str(self.port), "-t", str(threads),
             "--cache-disk", "0", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"XDG_CACHE_HOME": self.directory.name})
        for _ in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.05)
        raise SystemExit("a worker did not start")

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(response.read().decode())
        return response

    def stream(self, body):
        """The time of each event that has text."""
        response = self.post(body | {"stream": True})
        for line in response:
            if line.startswith(b"data: {") and b'"text"' in line:
                yield time.monotonic()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def text(seed, tokens):
    choose = random.Random(seed)
    return f"{seed}. " + " ".join(choose.choice(WORDS) for _ in range(tokens))


def measure(decode, prefill, streams, prompts, every):
    """decode and prefill: workers; prefill may be None."""
    ended, times, first = threading.Event(), [[] for _ in range(streams)], []

    def run_stream(i):
        turn = 0
        while not ended.is_set():
            turn += 1
            body = {"prompt": text(1000 * turn + i, 60), "max_tokens": 4000, "ignore_eos": True, "temperature": 1.0, "seed": i}
            for at in decode.stream(body):
                times[i].append(at)
                if ended.is_set():
                    return

    def run_prompt(i, tokens):
        body = {"prompt": text(50 + i, tokens), "max_tokens": 32, "ignore_eos": True, "temperature": 0}
        begun = time.monotonic()
        if prefill:
            answer = json.load(prefill.post(body | {"max_tokens": 1, "kv_transfer_params": TO_DECODE}))
            body |= {"kv_transfer_params": answer["kv_transfer_params"]}
        stream = decode.stream(body)
        first.append((tokens, next(stream) - begun))
        for _ in stream:
            pass

    threads = [threading.Thread(target=run_stream, args=(i,), daemon=True) for i in range(streams)]
    for thread in threads:
        thread.start()
    time.sleep(4)
    begun = time.monotonic()
    waiting = []
    for i in range(prompts):
        tokens = 2000 + 2000 * i // max(1, prompts - 1)
        waiting.append(threading.Thread(target=run_prompt, args=(i, tokens)))
        waiting[-1].start()
        time.sleep(max(0.0, begun + (i + 1) * every - time.monotonic()))
    for thread in waiting:
        thread.join()
    end = time.monotonic()
    ended.set()
    gaps = sorted(b - a for each in times for a, b in zip(each, each[1:]) if a >= begun and b <= end)
    tokens = sum(begun <= at <= end for each in times for at in each)
    ttft = sorted(seconds for _, seconds in first)
    return {"streams": streams, "prompts": prompts, "every_s": every, "seconds": end - begun,
            "ttft_median_s": statistics.median(ttft), "ttft_most_s": ttft[-1],
            "gap_median_ms": 1e3 * statistics.median(gaps), "gap_p99_ms": 1e3 * gaps[int(0.99 * len(gaps))],
            "gap_most_ms": 1e3 * gaps[-1], "stream_events_per_s": tokens / (end - begun)}


def run(mode, args):
    if mode == "together":
        workers = [Worker(args.program, args.model, "0,1", 2)]
        decode, prefill = workers[0], None
    else:
        prefill = Worker(args.program, args.model, "0", 1, "--share-states")
        decode = Worker(args.program, args.model, "1", 1, "--state-peer", f"http://127.0.0.1:{prefill.port}")
        workers = [prefill, decode]
    try:
        return {"mode": mode, **measure(decode, prefill, args.streams, args.prompts, args.every)}
    finally:
        for worker in workers:
            worker.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--mode", nargs="+", choices=("together", "apart"), default=["together", "apart"])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--every", type=float, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    rows += [run(mode, args) for mode in args.mode]
    print("| workers | streams | TTFT median, most | gaps median, p99, most | streams' events/s |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['mode']} | {r['streams']} | {r['ttft_median_s']:.2f}, {r['ttft_most_s']:.2f} s "
              f"| {r['gap_median_ms']:.0f}, {r['gap_p99_ms']:.0f}, {r['gap_most_ms']:.0f} ms | {r['stream_events_per_s']:.0f} |")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
