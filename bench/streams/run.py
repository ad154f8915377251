#!/usr/bin/env python3
"""Many streams at once, over HTTP, beside llama-server: how much comes out, how soon, and how evenly.

    script/build && python3 bench/streams/run.py

Prints tables; every figure goes into a JSON report. The models and llama.cpp are those of bench/peers, made in the same
work directory on the first run (see there); logs go to the folder streams-bench in it.

works (--works NAME,...):
  load    N clients at once (--streams), each asking again as soon as it has its answer, always with a new prompt
          (--prompt-tokens, --tokens): tokens a second of all together in the --seconds after each has had its first
          token; time to the first token and gaps between a stream's events, over all; and the share of our tokens
          that came within 60 ms of the one before, as the server counts them (a token without text is no event)
  stall   N streams decode while a prompt of --prompt tokens comes: their gaps before it and while it is read; on a GPU
          also its time to the first token when it is alone
models (--models NAME,...): hybrid-146m, ours only (llama.cpp does not run it); qwen35-0.8b, qwen35-4b and qwen35-9b, random
  weights of the true shapes in 4 bits; 9b-q4_0, and 8b-a1b and 35b-a3b, hybrids with experts: random Q4_0 files
  (llama-server: these; on the CPU also qwen35-0.8b)

On a GPU, with a machine that has no network, only python3 (qwen35-...: with numpy) and programs that were built elsewhere
(llama-server for the card: bench/gpu/run.py builds it):

    python3 bench/streams/run.py --device cuda --models 9b-q4_0 --works load --streams 1,8,32,64,128 --llama-bin DIR \\
        --anabranch PROGRAM --work /tmp/streams --json FILE

Both servers get the same prompts, as token ids, greedy, with no end but --tokens, no cache and no speculation: what
repeats itself after such prompts would be drafted far too well. Exit status: 0, 1 when something failed, 2 for a bad
command line."""

import argparse
import importlib.util
import json
import os
import sys
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cache"), os.path.join(os.path.dirname(HERE), "peers")]
import clients  # noqa: E402
import figures  # noqa: E402
import flags  # noqa: E402
import servers  # noqa: E402
from prepare import ROOT, Workshop, say  # noqa: E402
from programs import Failure, run  # noqa: E402

WORKS, PEERS = ("load", "stall"), ("llama-server",)
FILES = {"9b-q4_0": "9b", "8b-a1b": "8b-a1b", "35b-a3b": "35b-a3b"}  # the shapes of tools/random_gguf.py
MODELS = ("hybrid-146m", "qwen35-0.8b", "qwen35-4b", "qwen35-9b", *FILES)
CPU_MODELS = "hybrid-146m,qwen35-0.8b"
HYBRID = os.path.join(ROOT, "models", "hybrid-146m")
FIRST_ID, IDS = 1000, 20000  # of prompts: common words in both vocabularies
SHORT_PROMPT = 48
LONG_ANSWER = 3000
SETTLED = 128  # events of each stream before the long prompt comes


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    count, cores = flags.count(65536), flags.CORES

    parser.add_argument("--works", type=flags.names(WORKS), default=",".join(WORKS), metavar="NAME,...")
    parser.add_argument("--models", type=flags.names(MODELS), metavar="NAME,...",
                        help=f"default: {CPU_MODELS}; on a GPU qwen35-9b")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peers", type=flags.names(PEERS), default=",".join(PEERS), metavar="NAME,...", help="'' for none")
    parser.add_argument("--streams", type=lambda text: [count(n) for n in text.split(",")], metavar="N,...",
                        default="1,2,4,8,16,32", help="default: %(default)s; the stall work beside load takes those up to 8")
    parser.add_argument("--prompt-tokens", type=count, default=512, help="of each prompt under load (default: %(default)s)")
    parser.add_argument("--tokens", type=count, default=128, help="of each answer (default: %(default)s)")
    parser.add_argument("--seconds", type=count, default=10, help="measured for each number of streams (default: %(default)s)")
    parser.add_argument("--prompt", type=count, default=4096, help="tokens of the long prompt (default: %(default)s)")
    parser.add_argument("--max-gap", metavar="MS", help="our --max-gap (default: the program's own)")
    parser.add_argument("--spec", default="off", help="our --spec (default: %(default)s); an event may hold several tokens"
                        " of an accepted draft")
    parser.add_argument("--threads", type=count, default=cores, help=f"for both (default here: {cores})")
    parser.add_argument("--work", default=os.path.join(ROOT, ".deps", "peers"), metavar="DIR",
                        help="the work directory (default: .deps/peers)")
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM",
                        help="default: build/anabranch")
    parser.add_argument("--llama-bin", metavar="DIR", help="use this folder's llama-server and llama-quantize")
    parser.add_argument("--json", metavar="FILE", help="the report (default: streams-bench/report.json in the work"
                        " directory)")
    args = parser.parse_args()
    if args.models is None:
        args.models = ["qwen35-9b"] if args.device == "cuda" else CPU_MODELS.split(",")
    return args


def prompt_of(tokens, number):
    """Token ids that differ from the first one on."""
    return [FIRST_ID + (i * 7919 + i * i * 31 + number * 104729) % IDS for i in range(tokens)]


class Stream(threading.Thread):
    """One request; notes when it was sent and when events with text came."""

    def __init__(self, server, prompt, tokens):
        super().__init__(daemon=True)
        self.server, self.events, self.sent, self.failure, self.enough = server, [], 0.0, None, False
        self.body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                     "cache": False, "cache_prompt": False}

    def run(self):
        try:
            self.sent = time.perf_counter()
            connection, response = self.server.post("/v1/completions", self.body)
            if response.status != 200:
                raise Failure(f"{self.server.name}: {response.status}: {response.read(500).decode(errors='replace')}")
            for line in response:
                if line.startswith(b"data: {") and figures.brings_text(json.loads(line[6:])):
                    self.events.append(time.perf_counter())
                if self.enough:
                    break
            connection.close()
        except Exception as error:  # noqa: BLE001: told by whoever waits for the thread
            self.failure = error

    def finish(self):
        self.join()
        if self.failure or not self.events:
            raise Failure(f"{self.server.name}: a stream failed: {self.failure or 'no text came'}; its log:"
                          f" {self.server.log}")
        return {"sent": self.sent, "events": self.events}


def load(server, streams, args, seconds):
    def body(client, turn):
        return {"prompt": prompt_of(args.prompt_tokens, client * 1009 + turn), "max_tokens": args.tokens, "temperature": 0,
                "ignore_eos": True, "stream": True, "cache": False, "cache_prompt": False}

    try:
        before = server_gaps(server)
        answers, begin, end = clients.run(server.port, body, streams, seconds)
        after = server_gaps(server)
    except (Failure, OSError) as error:
        raise Failure(f"{server.name}: {error}; its log: {server.log}")
    share = {"gaps_within_60ms": (after[0] - before[0]) / (after[1] - before[1])} if after and after[1] > before[1] else {}
    return figures.of_load(answers, begin, end, args.tokens) | share


def server_gaps(server):
    """Gaps between a stream's tokens as our server's /metrics counts them, those of tokens without text included: (of at
    most 60 ms, all); None: another server, or one that does not say."""
    if server.name != "Anabranch":
        return None
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
        return figures.gaps_counted(response.read().decode())


def alone_of(server, long_prompt):
    """The long prompt's time to the first token while nothing else runs, the second time."""
    for turn in range(2):
        reader = Stream(server, prompt_of(long_prompt, 500 + turn), 8)
        reader.start()
        read = reader.finish()
    return {"ttft_alone_s": read["events"][0] - read["sent"]}


def stall(server, streams, long_prompt):
    """The streams' answers outlast the long prompt: what is left of them is cut off."""
    running = [Stream(server, prompt_of(SHORT_PROMPT, i), LONG_ANSWER) for i in range(streams)]
    for stream in running:
        stream.start()
    while min(len(stream.events) for stream in running) < SETTLED:
        if any(not stream.is_alive() for stream in running):
            running[0].finish()
            raise Failure(f"{server.name}: a stream ended too soon")
        time.sleep(0.01)
    reader = Stream(server, prompt_of(long_prompt, 999), 8)
    reader.start()
    read = reader.finish()
    if any(not stream.is_alive() for stream in running):
        raise Failure(f"{server.name}: a stream ended before the long prompt was read")
    for stream in running:
        stream.enough = True
    for stream in running:
        stream.finish()
    return figures.of_stall([list(stream.events) for stream in running], read["sent"], read["events"][0])


def our_model(args, shop, model):
    if model == "hybrid-146m":
        return HYBRID
    if model in FILES:
        return os.path.realpath(shop.random_gguf(FILES[model]))
    if model == "qwen35-0.8b" and "llama-server" in args.peers:
        return os.path.realpath(shop.qwen_mlx())  # the weights that llama-server has

    def make(part):
        python = sys.executable if importlib.util.find_spec("numpy") else shop.tools_python()
        run([python, os.path.join(ROOT, "tools", "make_rand_qwen35.py"), "--size", model.removeprefix("qwen35-"), "--mlx4",
             part, "--no-mtp", "--tokenizer", ""], 900, shop.log(f"{model}-random"))

    return os.path.realpath(shop.made(f"{model}/random4", "random weights in 4 bits", make))


def our_server(args, shop, model):
    options = ["--parallel", str(max(args.streams) + 1), "--queue", "256", "--spec", args.spec, "--no-cache", "--device",
               args.device]
    if args.max_gap:
        options += ["--max-gap", args.max_gap]
    return servers.anabranch(args.anabranch, our_model(args, shop, model), args.threads,
                             shop.path("streams-bench", f"anabranch-{model}.log"), *options)


def llama_server(args, shop, model):
    slots = max(args.streams) + 1
    port = servers.free_port()
    file = shop.random_gguf(FILES[model]) if model in FILES else shop.qwen_gguf("Q4_0")
    each = 1024
    on_device = []
    if args.device == "cuda":  # like ours: all on the card, and nothing is kept of what was answered
        each = max(SHORT_PROMPT + LONG_ANSWER, args.prompt_tokens + args.tokens)
        on_device = ["-ngl", "99", "-fa", "on", "--cache-ram", "0", "--ctx-checkpoints", "0"]
    command = [shop.llama("llama-server"), "-m", os.path.realpath(file), "-t", str(args.threads),
               "-tb", str(args.threads), "-np", str(slots), "--kv-unified", "-c", str(args.prompt + each * slots),
               "--host", "127.0.0.1", "--port", str(port), *on_device]
    return servers.Server("llama-server", command, port, shop.path("streams-bench", f"llama-server-{model}.log"))


def measure(args, shop, report, save):
    for model in args.models:
        made = [("anabranch", our_server)]
        if "llama-server" in args.peers and (model in FILES or (model == "qwen35-0.8b" and args.device == "cpu")):
            made.append(("llama-server", llama_server))
        for name, make in made:
            with make(args, shop, model) as server:
                load(server, 1, args, 1)  # pages and costs are known from here on
                if args.device == "cuda":  # and all kernels are compiled
                    load(server, max(args.streams), args, 3)
                alone = alone_of(server, args.prompt) if args.device == "cuda" and "stall" in args.works else {}
                for work in args.works:
                    for streams in args.streams:
                        if work == "stall" and streams > 8 and "load" in args.works:
                            continue
                        say(f"{model}, {name}: {work}, {streams} streams")
                        result = load(server, streams, args, args.seconds) if work == "load" else \
                            stall(server, streams, args.prompt) | alone
                        report[work].append({"model": model, "server": name, "streams": streams, **result})
                        save()


def main():
    args = arguments()
    report = {"date": time.strftime("%Y-%m-%d %H:%M"), "threads": args.threads, "device": args.device,
              "prompt_tokens": args.prompt_tokens, "tokens": args.tokens, "prompt": args.prompt, "spec": args.spec, "load": [], "stall": [], "errors": []}
    shop = path = None

    def save():
        with open(path + ".part", "w") as file:
            json.dump(report, file, indent=1)
        os.replace(path + ".part", path)

    try:
        if not os.access(args.anabranch, os.X_OK):
            raise Failure(f"{args.anabranch} is not there: build it with script/build, or name one with --anabranch")
        shop = Workshop(args.work, args.anabranch, args.llama_bin, args.threads)
        os.makedirs(shop.path("streams-bench"), exist_ok=True)
        path = args.json or shop.path("streams-bench", "report.json")
        measure(args, shop, report, save)
    except Failure as failure:
        report["errors"].append(str(failure))
    except OSError as error:
        report["errors"].append(f"{error.filename or 'system'}: {error.strerror}")
    except KeyboardInterrupt:
        report["errors"].append("interrupted: what was not finished is not in the tables")
    print(figures.text(report))
    if path:
        save()
        print(f"Every figure: {path}")
    for error in report["errors"]:
        say(f"error: {error}")
    return 1 if report["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
