#!/usr/bin/env python3
"""What the prefix cache saves, and whether it ever changes an answer: over HTTP, beside llama-server.

    script/build && python3 bench/cache/run.py

Prints tables; every figure goes into a JSON report. The models and llama.cpp are those of bench/peers, made in the
same work directory on the first run (see there); caches and logs go to the folder cache-bench in it.

works (--works NAME,...):
  tools         a tool schema of 12,000 tokens (6,000 for hybrid-146m, whose context is 8,192): time to the first text
                of the answer when cold, repeated, with another question, and after kill -9 and a restart
  conversation  5 turns with thinking, which the template drops from earlier turns
  agent         30 calls of an agent: system and 20 tools, tool calls and results, two branches
models (--models NAME,...): hybrid-146m, all works, every request compared with a cold run's answer;
  qwen35-0.8b   random weights of the true shape: tools (compared as well) and agent (beside llama-server only)

Exit status: 0, 1 when an answer differs or something failed, 2 for a bad command line. A missed target is shown and
changes nothing."""

import argparse
import json
import os
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "peers"))
import flags  # noqa: E402
import measure  # noqa: E402
import tally  # noqa: E402
from prepare import ROOT, Workshop, say  # noqa: E402
from programs import Failure  # noqa: E402

WORKS = ("tools", "conversation", "agent")
PEERS = ("llama-server",)
MODELS = ("hybrid-146m", "qwen35-0.8b")
HYBRID = os.path.join(ROOT, "models", "hybrid-146m")
TOKEN_PACKAGES = ["tokenizers==0.23.3", "jinja2==3.1.6"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    count, cores = flags.count(1024), flags.CORES

    parser.add_argument("--works", type=flags.names(WORKS), default=",".join(WORKS), metavar="NAME,...")
    parser.add_argument("--models", type=flags.names(MODELS), metavar="NAME,...", help=f"default: {','.join(MODELS)}")
    parser.add_argument("--peers", type=flags.names(PEERS), metavar="NAME,...",
                        help=f"default: {','.join(PEERS)}; '' for none")
    parser.add_argument("--reps", type=count, help="of what is warm (default: 5)")
    parser.add_argument("--cold-reps", type=count, help="of what is cold, 2 at least (default: 3)")
    parser.add_argument("--threads", type=count, default=cores, help=f"for us and llama-server (default here: {cores})")
    parser.add_argument("--quick", action="store_true",
                        help="a schema of a quarter of that size, --reps 2 --cold-reps 2, and, unless named, --models"
                        " hybrid-146m and no other engines")
    parser.add_argument("--work", default=os.path.join(ROOT, ".deps", "peers"), metavar="DIR",
                        help="the work directory (default: .deps/peers)")
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM",
                        help="default: build/anabranch")
    parser.add_argument("--llama-bin", metavar="DIR", help="use this folder's llama-server and llama-quantize")
    parser.add_argument("--json", metavar="FILE", help="the report (default: cache-bench/report.json in the work"
                        " directory)")
    args = parser.parse_args()
    if args.models is None:
        args.models = MODELS[:1] if args.quick else MODELS
    if args.peers is None:
        args.peers = () if args.quick else PEERS
    args.reps = args.reps or (2 if args.quick else 5)
    args.cold_reps = max(2, args.cold_reps or (2 if args.quick else 3))
    return args


def qwen_with_tools(shop):
    """The 0.8B shape with a chat template that knows tools."""
    source = os.path.realpath(shop.qwen_mlx())

    def make(part):
        os.makedirs(part)
        for name in os.listdir(source):
            if name not in ("chat_template.jinja", "tokenizer_config.json"):
                os.symlink(os.path.join(source, name), os.path.join(part, name))
        shutil.copy(os.path.join(HYBRID, "chat_template.jinja"), part)
        with open(os.path.join(source, "tokenizer_config.json")) as file:
            config = json.load(file)
        config.pop("chat_template", None)
        with open(os.path.join(part, "tokenizer_config.json"), "w") as file:
            json.dump(config, file, indent=1)

    return shop.made("cache-bench/qwen35-0.8b", "links to its files, and a template with tools", make)


def save(args, shop, results):
    path = args.json or shop.path("cache-bench", "report.json")
    report = {"date": time.strftime("%Y-%m-%d %H:%M"), "threads": args.threads, "reps": args.reps,
              "cold_reps": args.cold_reps, **results.report()}
    with open(path + ".part", "w") as file:
        json.dump(report, file, indent=1)
    os.replace(path + ".part", path)
    return path


def measure_all(args, shop, results):
    python = shop.venv("tokens-venv", TOKEN_PACKAGES)
    for model in args.models:
        folder = HYBRID if model == "hybrid-146m" else qwen_with_tools(shop)
        bench = measure.Bench(args, shop, model, folder, results)
        with measure.TokenCounter(python, folder) as bench.tokens:
            for work in args.works:
                if work == "tools":
                    bench.tools()
                elif work == "conversation" and model == "hybrid-146m":
                    bench.conversation()
                elif work == "agent":
                    bench.agent()
                save(args, shop, results)


def main():
    args = arguments()
    results, shop = measure.Results(), None
    try:
        if not os.access(args.anabranch, os.X_OK):
            raise Failure(f"{args.anabranch} is not there: build it with script/build, or name one with --anabranch")
        shop = Workshop(args.work, args.anabranch, args.llama_bin, args.threads)
        os.makedirs(shop.path("cache-bench"), exist_ok=True)
        measure_all(args, shop, results)
    except Failure as failure:
        results.errors.append(str(failure))
    except OSError as error:
        results.errors.append(f"{error.filename or 'system'}: {error.strerror}")
    except KeyboardInterrupt:
        results.errors.append("interrupted: what was not finished is not in the tables")
    print(results.text())
    if shop:
        print(f"Every figure: {save(args, shop, results)}")
    for error in results.errors:
        say(f"error: {error}")
    return 1 if results.errors or results.differing() else 0


if __name__ == "__main__":
    sys.exit(main())
