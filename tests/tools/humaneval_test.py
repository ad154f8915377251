"""bench/quality: what the sandbox stops, and how answers are judged."""

import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/quality")]
import humaneval  # noqa: E402
import sandbox  # noqa: E402

TASK = {"task_id": "HumanEval/0", "prompt": "def twice(x):\n    \"\"\"Twice x.\"\"\"\n", "entry_point": "twice",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate('a') == 'aa'\n"}


def answer(text="", passed=True, prompt_tokens=9, drafted=3):
    return {"text": text, "passed": passed, "prompt_tokens": prompt_tokens, "tokens": 5, "drafted": drafted}


def test_right_and_wrong_answers():
    assert sandbox.run(humaneval.program_of(TASK, "    return x * 2")) == (True, "")
    for text, why in (("    return x + 2", "TypeError"), ("    return 5", "AssertionError"), ("    return (", "SyntaxError"),
                      ("", "AssertionError"), ("    import os\n    os._exit(0)", "before the tests"),
                      ("    raise SystemExit(0)", "before the tests")):
        passed, said = sandbox.run(humaneval.program_of(TASK, text))
        assert not passed and why in said, (text, said)


def test_limits():
    begun = time.monotonic()
    for code in ("while True: pass", "x = bytearray(2 << 30)", "open('big', 'wb').write(bytes(4 << 20))",
                 "while True: print('x' * 1000)", "x = [open('/dev/null') for _ in range(100)]"):
        assert not sandbox.run(code, cpu_s=1)[0], code
    passed, why = sandbox.run("import time\ntime.sleep(60)", wall_s=1)
    assert not passed and "no end within 1 s" in why
    assert time.monotonic() - begun < 300  # without limits it would never end
    assert sandbox.run("x = bytearray(1 << 20)\nopen('small', 'wb').write(x[:1000])")[0]  # the twin


def test_nothing_is_left_behind():
    with tempfile.TemporaryDirectory() as folder:
        marker = os.path.join(folder, "late")
        child = f"import os, time\nif os.fork() == 0:\n    time.sleep(1.5)\n    open({marker!r}, 'w').close()\n    os._exit(0)\n"
        assert sandbox.run(child)[0]
        time.sleep(2.5)  # longer than the child takes
        assert not os.path.exists(marker)
    assert sandbox.run("import os\nassert not {k for k in os.environ if k not in ('LC_CTYPE', 'PWD')}, os.environ")[0]


def test_without_network():
    if sandbox.without_network():
        assert not sandbox.run("import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\n"
                               "socket.create_connection(s.getsockname())")[0]


def test_verdicts():
    tasks = [{"task_id": str(i)} for i in range(10)]

    def verdict(ours, theirs, text="", **theirs_more):
        return humaneval.judge({"precise": {str(i): answer(passed=i < ours) for i in range(10)},
                                "speculation": {str(i): answer(text if i == 3 else "") for i in range(10)},
                                "llama.cpp": {str(i): answer(passed=i < theirs, **theirs_more) for i in range(10)}}, tasks)
    lines, wrong = verdict(7, 5)
    assert not wrong and any("5 tasks were solved by both, 2 by Anabranch alone, 0 by" in line for line in lines), (lines, wrong)
    assert any(line.startswith("| precise | 7 of 10 | 70.0% |") for line in lines), lines
    assert "more than 2 apart" in verdict(8, 5)[1][0] and "more than 2 apart" in verdict(5, 8)[1][0]
    assert verdict(7, 7, text="other")[1] == ["1 texts differ with speculation"]
    assert "another number of tokens" in verdict(7, 7, prompt_tokens=10)[1][0]
    undrafted = {way: {str(i): answer(drafted=0) for i in range(10)} for way in ("precise", "speculation")}
    assert humaneval.judge(undrafted, tasks)[1] == ["speculation drafted nothing"]


def test_a_report_goes_on_only_with_its_own_settings():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        report = humaneval.Report(path, {"tasks": "3"})
        report.add("m", "precise", "HumanEval/0", answer("x"))
        assert json.loads(pathlib.Path(path).read_text())["answers"]["m"]["precise"]["HumanEval/0"]["text"] == "x"
        assert list(humaneval.Report(path, {"tasks": "3"}).answers("m", "precise")) == ["HumanEval/0"]
        try:
            humaneval.Report(path, {"tasks": "4"})
        except humaneval.Failure as failure:
            assert "other settings" in str(failure)
        else:
            raise AssertionError("another run's answers were taken")
