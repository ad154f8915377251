#!/usr/bin/env python3
"""The tasks of tools/eval_tasks are the same for the same seed, right answers pass their checks, and others do not."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "eval_tasks"))
from checks import check  # noqa: E402
from make_tasks import KINDS, make_tasks  # noqa: E402
from run import is_answer, summarise, table  # noqa: E402

SOLUTIONS = {  # a word of the request -> the function
    "larger": "max(a, b)", "their sum": "sum(a) if b is None else a + b", "product": "a * b", "is even": "a % 2 == 0", "is odd": "a % 2 == 1", "largest": "max(a)",
    "smallest": "min(a)", "reversed": "a[::-1]", "length": "len(a)", "square": "a * a", "first item": "a[0]", "doubles": "2 * a", "upper": "a.upper()",
}
passed = failed = 0


def expect(condition, what):
    global passed, failed
    passed, failed = (passed + 1, failed) if condition else (passed, failed + 1)
    if not condition:
        print("FAILED:", what)


def right_answer(task):
    rule = task["check"]
    if rule["type"] == "json":
        return "```json\n" + json.dumps(rule["expected"]) + "\n```"
    if rule["type"] == "number":
        return f"12 and 3, so it is {rule['expected']}."
    if rule["type"] == "contains":
        return f"The answer is {rule['expected'].split('|')[0].upper()}."
    body = next(code for word, code in SOLUTIONS.items() if word in task["messages"][0]["content"])
    return f"Here it is:\n```python\ndef solve(a, b=None):\n    return {body}\n\nprint(solve)\n```\nIt works."


tasks = make_tasks(1)
expect(tasks == make_tasks(1), "the same seed gives the same tasks")
expect(tasks != make_tasks(2), "another seed gives others")
expect([t for t in tasks if int(t["id"].split("-")[1]) < 3] == make_tasks(1, 3), "fewer tasks are the first ones of each kind")
expect(len(tasks) >= 200 and {t["kind"] for t in tasks} == set(KINDS), "enough, of all kinds")
expect(len({t["messages"][0]["content"] for t in tasks}) == len(tasks), "all different")
runs = 0
for task in tasks:
    answer, kind = right_answer(task), task["check"]["type"]
    text = task["messages"][0]["content"]
    if kind == "python":
        runs += 1
        if runs > 12:  # each starts a process
            continue
    expect(check(task, answer)["correct"], f"{task['id']}: {answer}")
    expect(not check(task, "")["correct"], f"{task['id']}: nothing is no answer")
    expect(not check(task, "I do not know.")["correct"], f"{task['id']}: no answer")
    if task["kind"] == "needle":
        expect(text.count(task["check"]["expected"]) == 1, f"{task['id']}: the needle is there once")
        expect(9000 < len(text) < 30000, f"{task['id']}: {len(text)} characters")

sample = next(t for t in tasks if t["kind"] == "json")
expected = sample["check"]["expected"]
expect(check(sample, json.dumps(expected)) == {"valid_json": True, "correct": True}, "JSON without a fence")
expect(check(sample, json.dumps(expected | {"more": 1})) == {"valid_json": True, "correct": False}, "a key too many")
expect(check(sample, json.dumps(expected)[:-1]) == {"valid_json": False, "correct": False}, "JSON cut off")
expect(check(sample, "Here: " + json.dumps(expected)) == {"valid_json": False, "correct": False}, "text before JSON")
program = {"check": {"type": "python", "cases": [[[1], 2]]}}
expect(check(program, "def f(a): return a + 1")["correct"], "code without a fence")
expect(check(program, "def f(a): return a + 1\n```\nThis adds one.")["correct"], "a fence that was never opened")
expect(check(program, "```python\nimport math\ndef f(a): return a + math.floor(1.5)\n```")["correct"], "code that imports")
for bad in ("def f(a): return a", "f = lambda a: 2", "while True: pass", "def f(a:", "import os\nos.fork()\ndef f(a): return 2",
            "open('/dev/null')\ndef f(a): return 2", "x = 'a' * (1 << 31)\ndef f(a): return 2"):
    expect(not check(program, bad)["correct"], bad)

for text, answered in {" ": False, "42": True, "<tool_call>\n{}\n</tool_call>": False, "<tool_call>{": False, "42\n<tool_call>{": True}.items():
    expect(is_answer(text) == answered, repr(text))

common = {"label": "-", "thinking": "on", "max_tokens": 64, "error": None, "finish_reason": "stop", "seconds": 1}
results = [common | {"id": "json-000", "kind": "json", "answered": True, "valid_json": True, "correct": False},
           common | {"id": "json-001", "kind": "json", "answered": False, "valid_json": False, "correct": False},
           common | {"id": "needle-000", "kind": "needle", "answered": True, "valid_json": None, "correct": True}]
row = summarise(results + results[:1])[0]
expect((row["tasks"], row["valid_json"], row["answered"]) == (3, 0.5, 0.6667), f"figures: {row}")
expect(row["by_kind"]["needle"]["correct"] == 1 and row["by_kind"]["code"]["correct"] is None, f"kinds: {row}")
expect(len({len(line) for line in table([row]).splitlines()}) == 1, "a straight table")

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
