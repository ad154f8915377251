#!/usr/bin/env python3
"""Puts the tasks of make_tasks.py to an OpenAI-compatible server and reports which answers arrived and were right.

  anabranch serve -m models/hybrid-146m -p 8080 &
  tools/eval_tasks/run.py --url http://127.0.0.1:8080 --thinking on,off,auto --max-tokens 64,256 --out results.jsonl
  tools/eval_tasks/run.py --out results.jsonl --summary summary.json --report-only

Each answer is appended to --out at once; a run that was stopped goes on where it was. --label and --body tell apart
and ask for settings of the server. Greedy. `auto` sends no choice of thinking, which is the server's own.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from checks import check  # noqa: E402
from make_tasks import KINDS, make_tasks  # noqa: E402

THINKING = {"on": {"enable_thinking": True}, "off": {"enable_thinking": False}, "auto": {}}


def ask(url, body, timeout):
    request = urllib.request.Request(url.rstrip("/") + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def is_answer(content):
    """Whether it says anything; a tool call does not, since no task offers tools."""
    return bool(re.sub(r"<tool_call>.*?(</tool_call>|\Z)", "", content, flags=re.DOTALL).strip())


def run_task(task, label, thinking, max_tokens, args):
    body = {"model": args.model, "messages": task["messages"], "max_tokens": max_tokens, "temperature": 0} | THINKING[thinking] | args.body
    result = {"label": label, "thinking": thinking, "max_tokens": max_tokens, "id": task["id"], "kind": task["kind"]}
    start = time.monotonic()
    try:
        reply = ask(args.url, body, args.timeout)
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        content = choice["message"].get("content") or ""
        details = usage.get("completion_tokens_details") or {}
        result |= {
            "content": content, "reasoning": choice["message"].get("reasoning_content") or choice["message"].get("reasoning") or "",
            "finish_reason": choice.get("finish_reason"), "prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": usage.get("completion_tokens"),
            "reasoning_tokens": details.get("reasoning_tokens"), "error": None,
        }
    except (OSError, ValueError, KeyError, IndexError, TypeError) as problem:
        text = problem.read().decode("utf-8", "replace") if isinstance(problem, urllib.error.HTTPError) else str(problem)
        result |= {"content": "", "reasoning": "", "finish_reason": None, "error": f"{type(problem).__name__}: {text}"[:500]}
    result |= {"seconds": round(time.monotonic() - start, 2), "answered": is_answer(result["content"])}
    return result | check(task, result["content"])


def key_of(result):
    return result["label"], result["thinking"], result["max_tokens"], result["id"]


def read_results(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run(tasks, args, path):
    done = {key_of(r) for r in read_results(path) if not r["error"]}
    todo = [(task, args.label, thinking, limit) for limit in args.max_tokens for thinking in args.thinking for task in tasks]
    todo = [job for job in todo if (job[1], job[2], job[3], job[0]["id"]) not in done]
    with path.open("a", encoding="utf-8") as out, concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        for n, result in enumerate(pool.map(lambda job: run_task(*job, args), todo), 1):
            out.write(json.dumps(result, ensure_ascii=False) + "\n")
            out.flush()
            if sys.stderr.isatty():
                print(f"\r{n}/{len(todo)}", end="", file=sys.stderr)


def rate(results, field):
    return round(sum(bool(r[field]) for r in results) / len(results), 4) if results else None


def mean(results, field):
    values = [r[field] for r in results if r.get(field) is not None]
    return round(sum(values) / len(values), 2) if values else None


def summarise(results):
    """A row for each label, thinking and max_tokens. Of repeated tasks the last result counts."""
    latest = {key_of(r): r for r in results}
    groups = {}
    for result in latest.values():
        groups.setdefault(key_of(result)[:3], []).append(result)
    rows = []
    for (label, thinking, limit), group in groups.items():
        ends = {}
        for r in group:
            end = "error" if r["error"] else r["finish_reason"]
            ends[end] = ends.get(end, 0) + 1
        rows.append({
            "label": label, "thinking": thinking, "max_tokens": limit, "tasks": len(group), "answered": rate(group, "answered"),
            "valid_json": rate([r for r in group if r["valid_json"] is not None], "valid_json"), "correct": rate(group, "correct"),
            "by_kind": {k: {"tasks": sum(r["kind"] == k for r in group), "answered": rate([r for r in group if r["kind"] == k], "answered"),
                            "correct": rate([r for r in group if r["kind"] == k], "correct")} for k in KINDS},
            "finish_reasons": ends, "reasoning_tokens": mean(group, "reasoning_tokens"), "completion_tokens": mean(group, "completion_tokens"),
            "seconds": mean(group, "seconds"),
        })
    return rows


def table(rows):
    def percent(value):
        return "-" if value is None else f"{100 * value:.1f}"
    head = ["label", "thinking", "max", "tasks", "answered %", "JSON %", "correct %"] + list(KINDS) + ["thought", "tokens", "s"]
    lines = [head] + [[r["label"], r["thinking"], str(r["max_tokens"]), str(r["tasks"]), percent(r["answered"]), percent(r["valid_json"]), percent(r["correct"])]
                      + [percent(r["by_kind"][k]["correct"]) for k in KINDS] + [str(r[f]) for f in ("reasoning_tokens", "completion_tokens", "seconds")] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * w for w in widths])
    return "\n".join("| " + " | ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths))) + " |" for line in lines)


def choices(allowed):
    def parse(text):
        values = text.split(",")
        if bad := [v for v in values if v not in allowed]:
            raise argparse.ArgumentTypeError(f"{bad[0]!r} is none of {', '.join(allowed)}")
        return values
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--model", default="default", help="the name that the server expects")
    parser.add_argument("--tasks", help="a file of make_tasks.py; without it those of seed 1")
    parser.add_argument("--kinds", type=choices(list(KINDS)), default=list(KINDS))
    parser.add_argument("--limit", type=int, help="at most so many tasks of each kind")
    parser.add_argument("--thinking", type=choices(list(THINKING)), default=["auto"])
    parser.add_argument("--max-tokens", type=lambda text: [int(n) for n in text.split(",")], default=[256])
    parser.add_argument("--label", default="-")
    parser.add_argument("--body", type=json.loads, default={}, help="more fields of the request, as JSON")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer")
    parser.add_argument("--out", default="results.jsonl")
    parser.add_argument("--summary", help="also write the figures to this file, as JSON")
    parser.add_argument("--report-only", action="store_true")
    args = parser.parse_args()
    path = pathlib.Path(args.out)
    if not args.report_only:
        tasks = [json.loads(line) for line in pathlib.Path(args.tasks).read_text(encoding="utf-8").splitlines()] if args.tasks else make_tasks(1)
        chosen = [[t for t in tasks if t["kind"] == kind][:args.limit] for kind in args.kinds]
        run([t for group in chosen for t in group], args, path)
    results = read_results(path)
    rows = summarise(results)
    print(table(rows))
    for result in [r for r in results if r["error"]][:3]:
        print(f"{result['id']}: {result['error']}", file=sys.stderr)
    if args.summary:
        pathlib.Path(args.summary).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
