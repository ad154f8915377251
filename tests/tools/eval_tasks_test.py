"""The tasks of tools/eval_tasks are the same for the same seed, right answers pass their checks, and others do not."""

import json
import os
import sys

import pytest

from harness import paths

sys.path.insert(0, os.path.join(paths.ROOT, "tools", "eval_tasks"))
from checks import check  # noqa: E402
from make_tasks import KINDS, make_tasks  # noqa: E402
from run import is_answer, summarise, table  # noqa: E402

SOLUTIONS = {  # a word of the request -> the function
    "larger": "max(a, b)", "their sum": "sum(a) if b is None else a + b", "product": "a * b", "is even": "a % 2 == 0", "is odd": "a % 2 == 1", "largest": "max(a)",
    "smallest": "min(a)", "reversed": "a[::-1]", "length": "len(a)", "square": "a * a", "first item": "a[0]", "doubles": "2 * a", "upper": "a.upper()",
}
TASKS = make_tasks(1)
PROGRAMS = 12  # that are tried, as each starts a process


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


def test_the_same_seed_gives_the_same_tasks():
    assert TASKS == make_tasks(1) and TASKS != make_tasks(2)
    assert [t for t in TASKS if int(t["id"].split("-")[1]) < 3] == make_tasks(1, 3), "fewer tasks are the first ones of each kind"


def test_there_are_enough_tasks_of_all_kinds_and_no_two_are_the_same():
    assert len(TASKS) >= 200 and {t["kind"] for t in TASKS} == set(KINDS)
    assert len({t["messages"][0]["content"] for t in TASKS}) == len(TASKS)


def tried():
    programs = [task for task in TASKS if task["check"]["type"] == "python"]
    return [task for task in TASKS if task not in programs[PROGRAMS:]]


@pytest.mark.parametrize("task", tried(), ids=lambda task: task["id"])
def test_a_right_answer_passes_and_no_answer_does_not(task):
    assert check(task, right_answer(task))["correct"]
    assert not check(task, "")["correct"] and not check(task, "I do not know.")["correct"]


@pytest.mark.parametrize("task", [task for task in TASKS if task["kind"] == "needle"], ids=lambda task: task["id"])
def test_a_needle_is_there_once_in_a_long_text(task):
    text = task["messages"][0]["content"]
    assert text.count(task["check"]["expected"]) == 1 and 9000 < len(text) < 30000


def test_json_must_be_whole_and_have_no_more_and_no_text_before_it():
    sample = next(t for t in TASKS if t["kind"] == "json")
    expected = sample["check"]["expected"]
    for answer, valid, correct in ((json.dumps(expected), True, True), (json.dumps(expected | {"more": 1}), True, False),
                                   (json.dumps(expected)[:-1], False, False), ("Here: " + json.dumps(expected), False, False)):
        assert check(sample, answer) == {"valid_json": valid, "correct": correct}, answer


PROGRAM = {"check": {"type": "python", "cases": [[[1], 2]]}}


@pytest.mark.parametrize("code", ["def f(a): return a + 1", "def f(a): return a + 1\n```\nThis adds one.",
                                  "```python\nimport math\ndef f(a): return a + math.floor(1.5)\n```"])
def test_right_code_passes_with_and_without_a_fence(code):
    assert check(PROGRAM, code)["correct"]


@pytest.mark.parametrize("code", [
    "def f(a): return a", "f = lambda a: 2", "while True: pass", "def f(a:", "import os\nos.fork()\ndef f(a): return 2",
    "open('/dev/null')\ndef f(a): return 2", "x = 'a' * (1 << 31)\ndef f(a): return 2"])
def test_wrong_and_forbidden_code_does_not_pass(code):
    assert not check(PROGRAM, code)["correct"]


def test_calls_of_tools_are_no_answers():
    for text, answered in {" ": False, "42": True, "<tool_call>\n{}\n</tool_call>": False, "<tool_call>{": False,
                           "42\n<tool_call>{": True}.items():
        assert is_answer(text) == answered, text


def test_figures_and_their_table():
    common = {"label": "-", "thinking": "on", "max_tokens": 64, "error": None, "finish_reason": "stop", "seconds": 1}
    results = [common | {"id": "json-000", "kind": "json", "answered": True, "valid_json": True, "correct": False},
               common | {"id": "json-001", "kind": "json", "answered": False, "valid_json": False, "correct": False},
               common | {"id": "needle-000", "kind": "needle", "answered": True, "valid_json": None, "correct": True}]
    row = summarise(results + results[:1])[0]
    assert (row["tasks"], row["valid_json"], row["answered"]) == (3, 0.5, 0.6667), row
    assert row["by_kind"]["needle"]["correct"] == 1 and row["by_kind"]["code"]["correct"] is None, row
    assert len({len(line) for line in table([row]).splitlines()}) == 1, "a straight table"
