#!/usr/bin/env python3
"""A router in front of three workers on this machine: what finding prefixes is worth to agents.

    python3 bench/fleet/router_run.py PROGRAM MODEL_DIR --router vllm-router

Agents of --programs programs (a system prompt and tools of its own each; the calls of bench/cache's agent) work at the same
time, each asking as soon as it has its answer. For each policy all of it runs with new workers and empty caches: the share of
prompt tokens that a worker found in its prefix cache (as the answers' usage tells), and the time to the first token. The
router is a program of PyPI's vllm-router or sglang-router: `pip install` one, and name it with --router. Exit status: 0, or
1 when a request failed."""

import argparse
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "integrations", "dynamo", "tests"), os.path.join(ROOT, "bench", "cache"),
                os.path.join(ROOT, "bench", "peers")]
import servers  # noqa: E402
import works  # noqa: E402
from processes import Process, Serve, free_port  # noqa: E402

ANSWER_TOKENS = 16


class Agent(threading.Thread):
    def __init__(self, port, program, number, calls, tools):
        super().__init__()
        self.port, self.program, self.number, self.calls = port, program, number, calls
        self.tools = works.tools(100 + program, tools, 1, 2)
        self.replies, self.errors = [], []

    def run(self):
        said = works.agent_calls(self.number, self.tools, ANSWER_TOKENS, lambda number: works.plain(self.replies[number].content))
        for body in itertools.islice(said, self.calls):
            body["messages"][0] = {"role": "system", "content": f"This is program {self.program}. {works.SYSTEM}"}
            try:
                self.replies.append(self.ask(body))
            except (OSError, ValueError, http.client.HTTPException, RuntimeError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                return

    def ask(self, body):
        body = {**body, "model": "default", "stream": True, "stream_options": {"include_usage": True}}
        begin, reply = time.perf_counter(), servers.Reply()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read(300).decode(errors='replace')}")
        for line in response:
            if line.startswith(b"data: {") and servers.take(reply, json.loads(line[6:])) and not reply.ttft_s:
                reply.ttft_s = time.perf_counter() - begin
        connection.close()
        return reply


def run(args, policy):
    with tempfile.TemporaryDirectory() as folder:
        workers = [Serve(os.path.abspath(args.program), args.model, folder, f"worker-{i}", "--parallel", "4",
                         "--cache-ram", args.cache_ram) for i in range(args.workers)]
        try:
            for worker in workers:
                worker.ready()
            port = free_port()
            command = [args.router, *args.router_words, "--host", "127.0.0.1", "--port", str(port), "--policy", policy,
                       "--prometheus-port", str(free_port()), "--worker-urls", *[worker.url for worker in workers]]
            with Process("router", command, folder) as router:
                router.wait_for(f"http://127.0.0.1:{port}/v1/models", lambda text: '"id"' in text)
                agents = [Agent(port, i % args.programs, i, args.calls, args.tools) for i in range(args.agents)]
                begin = time.perf_counter()
                for agent in agents:
                    agent.start()
                for agent in agents:
                    agent.join()
                taken = time.perf_counter() - begin
            requests = [worker.cache()["lookups"] for worker in workers]
        finally:
            for worker in workers:
                worker.stop()
    return summary(policy, agents, taken, requests)


def summary(policy, agents, taken, requests):
    replies = [reply for agent in agents for reply in agent.replies]
    ttft = sorted(reply.ttft_s for reply in replies)
    return {"policy": policy, "requests": len(replies), "errors": [error for agent in agents for error in agent.errors],
            "prompt_tokens": sum(reply.prompt_tokens for reply in replies),
            "hit_rate": sum(reply.cached_tokens for reply in replies) / max(1, sum(reply.prompt_tokens for reply in replies)),
            "ttft_p50_s": statistics.median(ttft) if ttft else None, "ttft_max_s": ttft[-1] if ttft else None, "seconds": taken,
            "requests_of_each_worker": requests}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--router", default="vllm-router", metavar="PROGRAM", help="vllm-router or smg of sglang-router")
    parser.add_argument("--policies", default="round_robin,cache_aware")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--programs", type=int, default=3)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--calls", type=int, default=10, help="of each agent (default: %(default)s)")
    parser.add_argument("--tools", type=int, default=12, help="of each program (default: %(default)s)")
    parser.add_argument("--cache-ram", default="1GB", help="of each worker (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    # sglang-router's program starts a router with `launch`
    args.router_words = ["launch"] if os.path.basename(args.router) in ("smg", "sglang-router") else []
    try:
        version = subprocess.run([args.router, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError as error:
        sys.exit(f"{args.router}: {error.strerror}: `pip install vllm-router` or `sglang-router`, and name its program")
    report = {"router": os.path.basename(args.router), "version": version, "rows": []}
    print("| policy | requests | hit rate | TTFT median | TTFT most | of all, seconds | requests of each worker |")
    print("|---|---|---|---|---|---|---|")
    for policy in args.policies.split(","):
        row = run(args, policy)
        report["rows"].append(row)
        print(f"| {policy} | {row['requests']} | {row['hit_rate']:.1%} | {row['ttft_p50_s'] * 1000:.0f} ms | {row['ttft_max_s']:.2f} s | "
              f"{row['seconds']:.1f} | {', '.join(map(str, row['requests_of_each_worker']))} |", flush=True)
        for error in row["errors"]:
            print(f"error: {error}", file=sys.stderr)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
    return 1 if any(row["errors"] for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
