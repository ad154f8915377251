#!/usr/bin/env python3
"""A fleet of workers, simulated with measured costs: time to the first token and hit rate by how requests are routed.

    python3 bench/fleet/simulate.py

Agents (many turns, prompts that grow, a long system prompt shared by all conversations of a program) and chats (several
turns, pauses of a person) come from a fixed seed, so the same command prints the same figures. Compared are, on the same
conversations:

  neither   workers in turn (round robin); each finds only what it kept itself
  shared    workers in turn; a worker fetches states that others kept, at the cost of their bytes over the network
  prefix    the router knows which worker keeps which prefix, and chooses the one that is expected to have
            answered first
  both      prefix, and states are fetched where that is faster than the worker that has them

What a worker's work costs: costs.py. What conversations look like: traces.py. Figures are of the requests that arrive after
--warm seconds. The default takes a minute or two on two cores. Exit status: 0, or 2 for a bad command line."""

import argparse
import json
import multiprocessing
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import fleet  # noqa: E402
import traces  # noqa: E402
from costs import H200_9B  # noqa: E402

LINKS = (10, 25, 100)  # Gbit/s, compared at one size


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def run(job):
    policy, workers, gbits, cache_gb, seed, warm, seconds = job
    sessions = traces.sessions(seed, workers, warm + seconds)
    result = fleet.Fleet(fleet.POLICIES[policy], workers, H200_9B, cache_gb * 1e9, gbits / 8 * 1e9, warm,
                         warm + seconds).run(sessions)
    return {"policy": policy, "workers": workers, "gbits": gbits, "requests": len(result.ttft),
            "ttft_p50_s": percentile(result.ttft, 0.5), "ttft_p99_s": percentile(result.ttft, 0.99),
            "hit_rate": result.found_tokens / result.prompt_tokens,
            "fetched_share": result.fetched_tokens / result.prompt_tokens,
            "prompt_tokens_per_request": result.prompt_tokens / len(result.ttft),
            "answers_per_s": result.answers / seconds, "fetched_gbits_per_worker": result.fetched_bytes * 8e-9 / seconds / workers,
            "timeouts": result.timeouts, "busy": result.busy / workers / (warm + seconds)}


def seconds_text(value):
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def row_text(row):
    return (f"| {row['workers']} | {row['policy']} | {row['gbits']} | {seconds_text(row['ttft_p50_s'])} | "
            f"{seconds_text(row['ttft_p99_s'])} | {row['hit_rate']:.1%} | {row['fetched_share']:.1%} | "
            f"{row['answers_per_s']:.0f} | {row['busy']:.0%} |")


def page_row(row, first, network):
    """The row in docs/fleet.md's tables."""
    last = "" if network else f" {row['answers_per_s']:,.0f} |"
    return (f"| {first} | {row['policy']} | {seconds_text(row['ttft_p50_s'])} | {seconds_text(row['ttft_p99_s'])} | "
            f"{100 * row['hit_rate']:.1f} % | {100 * row['fetched_share']:.1f} % |{last}")


def page_rows(rows, network=False):
    first = "gbits" if network else "workers"
    shown = [f"{row[first]:g}" if i == 0 or rows[i - 1][first] != row[first] else "" for i, row in enumerate(rows)]
    return [page_row(row, name, network) for row, name in zip(rows, shown)]


def text(report):
    head = ["| workers | routing | Gbit/s | TTFT median | TTFT p99 | hit rate | of it fetched | answers/s | busy |",
            "|---|---|---|---|---|---|---|---|---|"]
    about = f"{report['costs']}; {report['cache_gb']} GB of prefix cache a worker; seed {report['seed']}"
    tables = [about, "", *head, *map(row_text, report["rows"])]
    if report["links"]:
        tables += ["", "By the network of each worker:", "", *head, *map(row_text, report["links"])]
    return "\n".join(tables)


def numbers(value):
    found = [int(part) for part in value.split(",")]
    if not found or min(found) < 1 or max(found) > 4096:
        raise argparse.ArgumentTypeError("numbers from 1 to 4096, with commas")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=numbers, default="8,16,32,64,128,256,512", metavar="N,...", help="default: %(default)s")
    parser.add_argument("--gbits", type=float, default=25, help="network of each worker, each direction (default: %(default)s)")
    parser.add_argument("--cache-gb", type=float, default=64, help="size of each worker's prefix cache (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=90, metavar="SECONDS", help="not counted (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="counted (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the conversations (default: %(default)s)")
    parser.add_argument("--no-links", action="store_true", help="without the comparison of networks")
    parser.add_argument("--json", metavar="FILE", help="every figure")
    args = parser.parse_args()
    common = (args.cache_gb, args.seed, args.warm, args.seconds)
    jobs = [(policy, workers, args.gbits, *common) for workers in args.workers for policy in fleet.POLICIES]
    middle = args.workers[len(args.workers) // 2]
    links = [] if args.no_links else [(policy, middle, gbits, *common) for gbits in LINKS for policy in ("shared", "both")]
    begin = time.monotonic()
    with multiprocessing.Pool() as pool:  # the longest first, so that all cores end together
        order = sorted(range(len(jobs + links)), key=lambda i: -(jobs + links)[i][1])
        done = dict(zip(order, pool.map(run, [(jobs + links)[i] for i in order], chunksize=1)))
    rows = [done[i] for i in range(len(done))]
    report = {"costs": H200_9B.name, "cache_gb": args.cache_gb, "seed": args.seed, "warm_s": args.warm, "seconds": args.seconds,
              "rows": rows[:len(jobs)], "links": rows[len(jobs):]}
    print(text(report))
    print(f"\n{time.monotonic() - begin:.0f} s", file=sys.stderr)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
