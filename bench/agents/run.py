#!/usr/bin/env python3
"""Real agents on a real model: what the engine does wrong while they work.

    script/build && python3 bench/agents/run.py --out FOLDER

Starts `anabranch serve`, and gives each agent that is installed (programs.py) small tasks in a scratch repository (tasks.py), one
after the other, through `anabranch launch` where it knows the agent. A recorder between them keeps every request and answer.
Prints a line for each task and a table: how many tasks the model solved, which is the model's affair; and requests that were
refused, markup in answers, lost calls, and turns that found less than 98 % of the turn before in the cache, which are the
engine's (judge.py). FOLDER gets report.json, the recordings, and what each program printed; the agents' own settings are there,
too, so those of their user are neither seen nor changed.

The agents run the commands that the model writes, without asking: run this in a container or a sandbox. Libraries need --python, an
interpreter that has them. The model is qwen2.5-coder-1.5b of tools/fetch_real_models.py."""

import argparse
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from judge import judge
from programs import PROGRAMS, command_of, version_of
from recorder import Recorder
from tasks import TASKS, make_repository

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from fetch_real_models import path_of  # noqa: E402

KINDS = ["refused", "markup", "lost call", "read again"]
LONG = 120  # seconds for a server's start and end


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--programs", default=",".join(program.name for program in PROGRAMS), metavar="NAME,...", help="default: all")
    parser.add_argument("--tasks", default=",".join(task.name for task in TASKS), metavar="NAME,...", help="default: all twelve")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="for a task (default: %(default)s)")
    parser.add_argument("--first-limit", type=float, default=900, metavar="SECONDS",
                        help="for a program's first task, which reads its instructions (default: %(default)s)")
    parser.add_argument("--anabranch", default=str(ROOT / "build" / "anabranch"), metavar="PROGRAM")
    parser.add_argument("--model", default=str(path_of("qwen2.5-coder-1.5b")), metavar="PATH")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="the interpreter that has the libraries")
    parser.add_argument("--flags", default="", help="further flags of the server")
    return parser.parse_args()


class Server:
    def __init__(self, args):
        self.access_log = args.out / "access.jsonl"
        self.log = open(args.out / "server.log", "w")
        command = [args.anabranch, "serve", "--port", "0", "--model", args.model, "--cache-dir", str(args.out / "cache"),
                   "--access-log", str(self.access_log), *args.flags.split()]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        found = re.search(r"http://[\d.]+:\d+", self.process.stdout.readline())
        if not found:
            sys.exit(f"the server did not start; its log is {self.log.name}")
        self.address = found[0]

    def counts(self):
        """The access log: request id -> row."""
        rows = [json.loads(line) for line in self.access_log.read_text().splitlines()]
        return {row["request_id"]: row for row in rows}

    def stop(self):
        self.process.terminate()
        self.process.wait(LONG)
        self.log.close()


def environment_of(program, home):
    """The user's, with a home of its own and nothing that sends a request elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TERM", "LD_LIBRARY_PATH")}
    return kept | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / ".config"), "DO_NOT_TRACK": "1",
                   "NO_COLOR": "1"} | program.variables


def run_program(command, folder, environment, limit, log):
    """-> its exit status, or None if it was ended; and all that it printed."""
    with open(log, "w+") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        for number in (signal.SIGTERM, signal.SIGKILL):  # its children, too
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            time.sleep(1)
        process.wait()
        out.seek(0)
        return status, out.read()


def run_task(program, task, recorder, server, args, limit):
    folder, home = args.out / "repository", args.out / "home"  # the same ones for all: they stand in the agents' instructions
    home.mkdir(exist_ok=True)
    make_repository(folder)
    begun = time.time()
    status, said = run_program(command_of(program, task.prompt, recorder.port, args), folder, environment_of(program, home), limit,
                               args.out / f"{program.name}-{task.name}.txt")
    seconds = time.time() - begun
    time.sleep(2)  # answers that were cut are in the access log then
    exchanges = recorder.take()
    with open(args.out / f"{program.name}-{task.name}.jsonl", "w") as file:
        file.writelines(json.dumps(exchange) + "\n" for exchange in exchanges)
    turns, findings = judge(exchanges, server.counts())
    return {"program": program.name, "task": task.name, "status": status, "late": status is None, "seconds": seconds,
            "done": bool(task.is_done(folder, said)), "turns": turns, "findings": findings}


def row_of(run):
    read = sum((turn["prompt"] or 0) - (turn["cached"] or 0) for turn in run["turns"])
    counted = "  ".join(f"{finding['kind']}: {finding['about'][:150]!r}" for finding in run["findings"])
    return (f"{run['program']:14} {run['task']:10} {'solved' if run['done'] else 'late' if run['late'] else 'not solved':10} {run['seconds']:5.0f} s "
            f"{len(run['turns']):3} turns, {sum(len(turn['calls']) for turn in run['turns']):3} calls, {read:6} tokens read  {counted}")


def summary_of(program, version, runs):
    turns = [turn for run in runs for turn in run["turns"]]
    later = [turn for turn in turns if "before" in turn]
    return {"program": program.name, "version": version, "tasks": len(runs), "solved": sum(run["done"] for run in runs),
            "late": sum(run["late"] for run in runs), "turns": len(turns), "calls": sum(len(turn["calls"]) for turn in turns),
            "continued": len(later), "prompt": sum(turn["prompt"] or 0 for turn in turns), "cached": sum(turn["cached"] or 0 for turn in turns),
            "least_cached": min((turn["cached"] / turn["before"] for turn in later), default=None),
            "changed": sum("changed" in turn for turn in turns), "repeats_tools": sum(turn["repeats_tools"] for turn in turns),
            **{kind: sum(finding["kind"] == kind for run in runs for finding in run["findings"]) for kind in KINDS}}


def table(summaries):
    print("\n| Program | Version | Tasks | Solved | Late | Turns | Calls | Refused | Markup | Lost calls | Read again | Continued turns: least found "
          "| Own prompt changed | Tools repeated | All tokens found |\n" + "|---" * 15 + "|")
    for s in summaries:
        least = "" if s["least_cached"] is None else f"{s['continued']}: {100 * s['least_cached']:.1f} %"
        print(f"| {s['program']} | {s['version']} | {s['tasks']} | {s['solved']} | {s['late']} | {s['turns']} | {s['calls']} | {s['refused']} | {s['markup']} "
              f"| {s['lost call']} | {s['read again']} | {least} | {s['changed']} | {s['repeats_tools']} | {100 * s['cached'] / max(1, s['prompt']):.1f} % |")


def main():
    args = arguments()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    server = Server(args)
    recorder = Recorder(server.address)
    names, tasks, summaries, all_runs = args.programs.split(","), args.tasks.split(","), [], []
    try:
        for program in (program for program in PROGRAMS if program.name in names):
            version, runs = version_of(program, args.python), []
            if not version:
                print(f"{program.name:14} is not installed", flush=True)
                continue
            for task in (task for task in TASKS if task.name in tasks):
                runs.append(run_task(program, task, recorder, server, args, args.limit if runs else args.first_limit))
                print(row_of(runs[-1]), flush=True)
            summaries.append(summary_of(program, version, runs))
            all_runs += runs
            report = {"date": datetime.date.today().isoformat(), "model": os.path.basename(args.model), "summaries": summaries, "runs": all_runs}
            (args.out / "report.json").write_text(json.dumps(report, indent=1))
    finally:
        server.stop()
    table(summaries)
    return 1 if any(summary[kind] for summary in summaries for kind in KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
