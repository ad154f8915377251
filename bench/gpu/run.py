#!/usr/bin/env python3
"""The CUDA backend on this machine's card: built, checked and timed, beside llama.cpp and mlx-lm if they are named.

    python3 bench/gpu/run.py [--works NAME,...] [--llama-source ARCHIVE | --llama DIR] [--mlx PYTHON] [--json FILE]

Needs no network. Without --binaries the programs are built here; --llama-source is an archive of llama.cpp's source
(llama-cpp-python 0.3.36 carries it in vendor/), built here with this machine's nvcc, --llama a folder with the programs.
The works are done in this order; each can be left out, since all of them take long:

  tests        the tests of the CUDA ops
  models       gpu_bench: Qwen3.5's true shapes, random 4-bit weights (groups of 64), beside mlx-lm with --mlx: decode, rows of
               one sequence, streams, prefill
  long         the same at depths of 32,768 and 131,072, and prefill of 32,768 tokens
  kernels      each kernel alone
  profile      gpu_bench's stages, one after the other
  timeline     when each kernel of a step runs (timeline.py; needs CUPTI and cc); its report is FILE-timeline.json
  file         a random Q4_0 file of Qwen3.5-9B's shape: llama-bench beside our bench
  file-long    the same at depths of 32,768 and 131,072
  batched      llama-batched-bench on the file, beside gpu_bench's streams
  http         N clients over HTTP, 512 + 128 and 16 + 512 tokens (bench/streams), our server beside llama-server, same file
  stall        a prompt of 32,768 tokens beside 16 streams, the same servers
  exactness    whether answers of a trained hybrid depend on how they are made
  speculation  what drafts bring there: one answer at a time (bench), and 1, 8, 32 clients over HTTP
  sanitize     NVIDIA's compute-sanitizer over the tests; only when named

With --json the figures are kept in FILE, and what another run with the same FILE measured stays there: the tables at the
end show all of it. Exit status: 0, or 1 when something failed; the other works are done all the same."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "bench", "peers")]
import llama  # noqa: E402
import report  # noqa: E402
from flags import count, names  # noqa: E402
from prepare import Workshop  # noqa: E402
from programs import Failure  # noqa: E402

LINE = re.compile(r"  (\S.*?)(?:: [\d.]+x of one)? +([\d.]+) tok/s")
FILE_MODEL = "9b-q4_0"  # as bench/streams names it
LIMIT = 3600  # seconds of one program


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ",".join(name for name in WORKS if name not in ("sanitize", "profile", "timeline"))
    parser.add_argument("--works", type=names(tuple(WORKS)), default=default, metavar="NAME,...",
                        help="default: all but profile, timeline and sanitize; '' prints the tables of --json")
    parser.add_argument("--models", type=names(("9b", "0.8b", "35b")), default="9b,0.8b", metavar="NAME,...",
                        help="of models, long, profile; timeline takes the first (default: %(default)s)")
    parser.add_argument("--llama-source", metavar="ARCHIVE", help="build llama.cpp from this")
    parser.add_argument("--llama", metavar="DIR", help="llama.cpp's programs: " + ", ".join(llama.PROGRAMS))
    parser.add_argument("--mlx", metavar="PYTHON", help="a Python with mlx-lm for CUDA (`pip install mlx-lm[cuda13]==0.32.2`)")
    parser.add_argument("--binaries", metavar="DIR", help="our programs from here; nothing is built")
    parser.add_argument("--trained", metavar="DIR", default=os.path.join(ROOT, "models", "hybrid-146m"),
                        help="a trained hybrid with an MTP head; default: models/hybrid-146m")
    parser.add_argument("--file", metavar="GGUF", help="a file instead of the random one, which takes 5 GB and 15 s")
    parser.add_argument("--work", metavar="DIR", default="/tmp/anabranch-gpu", help="for llama.cpp, the file and logs;"
                        " default: %(default)s")
    parser.add_argument("--reps", type=count(100), default=5, help="of short works (default: %(default)s)")
    parser.add_argument("--clients", type=lambda text: [count(512)(n) for n in text.split(",")], metavar="N,...",
                        default="1,8,32,64,128", help="over HTTP (default: %(default)s)")
    parser.add_argument("--seconds", type=count(600), default=8, help="for each number of clients (default: %(default)s)")
    parser.add_argument("--http-models", type=names((FILE_MODEL, "qwen35-9b")), default=FILE_MODEL, metavar="NAME,...",
                        help=f"{FILE_MODEL}: the file; qwen35-9b: ours alone, groups of 64 (default: %(default)s)")
    parser.add_argument("--also", action="append", default=[], metavar="OPTIONS", help="of the server: exactness once more with"
                        " these, such as those that switch a way of computing off")
    parser.add_argument("--json", metavar="FILE", help="keep the figures here")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help=argparse.SUPPRESS)  # to try this script
    return parser.parse_args()


def run(command, **kept):
    print("+", *command, flush=True)
    try:
        return subprocess.run(command, check=True, cwd=ROOT, timeout=LIMIT, **kept)
    except (subprocess.SubprocessError, OSError) as error:
        raise Failure(str(error))


class Session:
    """The programs of a run, made when first needed, and where its figures go."""

    def __init__(self, args):
        self.args = args
        self.shop = Workshop(args.work, None, None, os.cpu_count())
        self.figures = report.read(args.json)
        self.built = self.llama_folder = None

    def program(self, name):
        if self.args.binaries:
            return os.path.join(os.path.abspath(self.args.binaries), name)
        if not self.built:
            run(["script/build", "--tests"])
            run(["ninja", "-C", "build", "gpu_bench"])
            self.built = True
        return os.path.join(ROOT, "build", *(["tests"] if name.startswith("test_") else []), name)

    def llama(self):
        """The folder of llama.cpp's programs, or None when it was not asked for."""
        if self.args.llama:
            return os.path.abspath(self.args.llama)
        if self.args.llama_source and not self.llama_folder:
            begin = time.monotonic()
            print("building llama.cpp; its log:", self.shop.log("llama-build"), flush=True)
            self.llama_folder = llama.build(self.args.llama_source, self.shop.path("llama.cpp"), self.shop.path("logs", "llama"))
            print(f"llama.cpp built in {time.monotonic() - begin:.0f} s", flush=True)
        return self.llama_folder

    def file(self):
        return os.path.abspath(self.args.file) if self.args.file else os.path.realpath(self.shop.random_gguf("9b"))

    def file_for_streams(self):
        """Where bench/streams looks for it."""
        there = self.shop.path("9b", "Q4_0.gguf")
        if not os.path.exists(there) and self.args.file:
            os.makedirs(os.path.dirname(there), exist_ok=True)
            os.symlink(self.file(), there)
        return self.file()

    def on_device(self):
        return ["--device", self.args.device]

    def put(self, work, program, figures):
        """Keeps figures ({name: number}, or rows) of a program."""
        self.figures.setdefault(work, {}).setdefault(program, {}).update(figures)
        report.write(self.args.json, self.figures)


# ---- works

def tests(session):
    run([session.program("test_ops"), "--gtest_filter=Cuda.*", "--gtest_brief=1"])


def gpu_bench(session, *words):
    """gpu_bench's output is shown; -> name of the work: tokens a second"""
    text = run([session.program("gpu_bench"), *words], stdout=subprocess.PIPE, text=True).stdout
    print(text, flush=True)
    return {m[1]: float(m[2]) for m in map(LINE.match, text.splitlines()) if m}


def models(session):
    for model in session.args.models:
        if session.args.mlx:
            out = run([session.args.mlx, os.path.join(HERE, "mlx_lm_gpu.py"), model], stdout=subprocess.PIPE, text=True)
            session.put("models", f"mlx-lm {model}", json.loads(out.stdout.splitlines()[-1]))
        session.put("models", f"ours {model}", gpu_bench(session, model))


def long(session):
    for model in session.args.models:
        session.put("models", f"ours {model}", gpu_bench(session, model, "long"))


def kernels(session):
    gpu_bench(session, "kernels", *(["experts"] if "35b" in session.args.models else []))


def profile(session):
    for model in session.args.models:
        gpu_bench(session, model, "profile")


def timeline(session):
    name = os.path.splitext(session.args.json)[0] if session.args.json else session.shop.path("gpu")
    run([sys.executable, os.path.join(HERE, "timeline.py"), "trace", name + "-timeline.json", "--gpu-bench",
         session.program("gpu_bench"), "--model", session.args.models[0]])


def our_bench(session, prompts, depths, tokens, reps):
    command = [session.program("anabranch"), "bench", "--model", session.file(), *session.on_device(), "--reps", str(reps), "--json"]
    out = {}
    for more in (["--pp", *map(str, prompts), "--tg", "0"], ["--pp", "0", "--tg", str(tokens), "--depth", *map(str, depths)]):
        told = json.loads(run([*command, *more], stdout=subprocess.PIPE, text=True).stdout)
        for row in told["results"]:
            out[row["work"] if row["work"].startswith("pp") else f"tg @ d{row['depth']}"] = row["tok_s"]
    return out


def file_speed(session, prompts, depths, tokens, reps):
    session.put("file", "ours", our_bench(session, prompts, depths, tokens, reps))
    if session.llama():
        session.put("file", "llama.cpp", llama.bench(session.llama(), session.file(), prompts, depths, tokens, reps))


def file(session):
    file_speed(session, [512, 4096], [0, 512, 4096], 128, session.args.reps)


def file_long(session):
    file_speed(session, [32768], [32768, 131072], 32, 3)


def batched(session):
    if not session.llama():
        raise Failure("needs --llama or --llama-source")
    streams = [n for n in session.args.clients if n > 1]
    session.put("batched", "llama.cpp", llama.batched(session.llama(), session.file(), streams))


def streams_bench(session, work, *options):
    """bench/streams with both servers; puts its rows."""
    kept = session.shop.path(f"streams-{work}.json")
    peers = ["--llama-bin", session.llama()] if session.llama() else ["--peers", ""]
    session.file_for_streams()
    run([sys.executable, os.path.join("bench", "streams", "run.py"), *session.on_device(), "--anabranch",
         session.program("anabranch"), "--work", session.shop.work, "--models", ",".join(session.args.http_models),
         "--json", kept, *peers, *options])
    with open(kept) as told:
        rows = json.load(told)
    for row in rows["load"] + rows["stall"]:
        session.put(work, f"{row['server']} {row['model']}", {str(row["streams"]): row})


def http(session):
    for prompt, tokens, least in ((512, 128, 1), (16, 512, 32)):
        clients = [n for n in session.args.clients if n >= least] or session.args.clients
        streams_bench(session, f"http {prompt}+{tokens}", "--works", "load", "--streams", ",".join(map(str, clients)),
                      "--prompt-tokens", str(prompt), "--tokens", str(tokens), "--seconds", str(session.args.seconds))


def stall(session):
    streams_bench(session, "stall", "--works", "stall", "--streams", "16", "--prompt", "32768")


def exactness(session):
    run([sys.executable, os.path.join("bench", "gpu", "exactness.py"), session.program("anabranch"), session.args.trained,
         *session.on_device(), *(f"--also={options}" for options in session.args.also)])


def speculation(session):
    prompts = ",".join(os.path.join("bench", "prompts", name + ".jsonl") for name in ("chat", "code", "copy"))
    run([session.program("anabranch"), "bench", "--model", session.args.trained, *session.on_device(), "--prompts", prompts, "--spec",
         "off,mtp,ngram,auto", "--temp", "0", "--tg", "128", "--reps", "2"])
    run([sys.executable, os.path.join("bench", "streams", "speculation.py"), "--anabranch", session.program("anabranch"), "--model",
         session.args.trained, *session.on_device(), "--kinds", "off,mtp,ngram,auto", "--clients", "1,8,32", "--rounds",
         str(session.args.reps)])


def sanitize(session):
    for tool in ("memcheck", "synccheck"):
        run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", session.program("test_ops"), "--gtest_filter=Cuda.*",
             "--gtest_brief=1"], env={**os.environ, "ANABRANCH_FEW_CASES": "1"})


WORKS = {"tests": tests, "models": models, "long": long, "kernels": kernels, "profile": profile, "timeline": timeline,
         "file": file, "file-long": file_long, "batched": batched, "http": http, "stall": stall, "exactness": exactness,
         "speculation": speculation, "sanitize": sanitize}


def card():
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        told = []
    return told[0] if told else "no card"


def main():
    args = arguments()
    session = Session(args)
    errors = []
    if args.works:
        here = card()
        if session.figures.get("card", here) != here:
            print(f"error: {args.json} has figures of another card: {session.figures['card']}", file=sys.stderr)
            return 1
        session.figures["card"], session.figures["date"] = here, time.strftime("%Y-%m-%d")
        print(f"{session.figures['card']}, {session.figures['date']}", flush=True)
    for work in [name for name in WORKS if name in args.works]:
        begin = time.monotonic()
        try:
            WORKS[work](session)
        except (Failure, OSError, ValueError, KeyError) as error:
            errors.append(f"{work}: {error}")
            print(f"error: {errors[-1]}", file=sys.stderr, flush=True)
        print(f"== {work}: {time.monotonic() - begin:.0f} s", flush=True)
    print(report.text(session.figures))
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
