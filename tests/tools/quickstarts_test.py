"""The runner of quickstarts: what counts as right, which faults count, and that table, scripts and page name the same programs."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tomllib

import pytest

from harness import paths

FOLDER = os.path.join(paths.ROOT, "tools", "quickstarts")


def load(name):
    loader = importlib.machinery.SourceFileLoader(f"quickstarts_{name}", os.path.join(FOLDER, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runner():
    return load("run")


@pytest.fixture(scope="module")
def programs():
    with open(os.path.join(FOLDER, "programs.toml"), "rb") as file:
        return tomllib.load(file)


def test_the_table_the_scripts_and_the_page_name_the_same(programs):
    assert set(programs) == {os.path.splitext(name)[0] for name in os.listdir(os.path.join(FOLDER, "programs")) if not name.startswith("__")}
    with open(os.path.join(paths.ROOT, "docs", "clients.md")) as file:
        page = file.read()
    for name, program in programs.items():
        for package in program["packages"]:
            plain, version = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", package).groups()
            assert f"{plain} {version}" in page, f"docs/clients.md does not name {plain} {version}"
        assert re.search(rf"^\| {re.escape(name)} \|", page, re.M), name


def test_versions_can_be_left_out(runner):
    assert [runner.unpinned(one) for one in ("a==1.2", "a[b,c]==1.2", "a-b[c]", "a")] == ["a", "a[b,c]", "a-b[c]", "a"]


def test_only_faults_of_the_program_are_excused(runner):
    def judged(theirs, **faults):
        result = runner.judged({"steps": [{"step": step, "fault": fault} for step, fault in faults.items()]}, theirs)
        return result["passed"], [step["verdict"] for step in result["steps"]]
    assert judged({}, chat=None, stream=None) == (True, ["passed", "passed"])
    assert judged({}, chat=None, stream="x") == (False, ["passed", "FAILED"])
    assert judged({"stream": "why"}, chat=None, stream="x") == (True, ["passed", "theirs"])
    assert judged({"stream": "why"}, chat="x", stream="x") == (False, ["FAILED", "theirs"])
    assert judged({"stream": "why"}, chat=None, stream=None) == (False, ["passed", "PASSES"])


STEPS = """
import sys
from asked import MODEL, called_for, get_weather

def helper():
    sys.exit("not a step")

def chat():
    return "It is Paris." + MODEL

def chat_wrong():
    get_weather("Paris")
    return "It is Rome."

async def stream():
    return ["Pa", "ris"]

def stream_in_one_part():
    return ["Paris"]

def tools():
    get_weather("Paris")
    return called_for

def tools_arguments():
    return '{"city": "Paris"}'

def tools_object():
    return {"city": "Paris"}

def tools_failed():
    raise ValueError("no call")

def tools_of_another_city():
    return ["Rome"]

def tools_not_called():
    return called_for

def tools_answer_without_a_call():
    return "It is sunny in Paris."

def structured():
    return ""
"""


def test_steps_are_judged_by_their_answers(tmp_path):
    (tmp_path / "x.py").write_text(STEPS)
    done = subprocess.run([sys.executable, os.path.join(FOLDER, "steps.py"), str(tmp_path / "x.py")], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"ANABRANCH_URL": "http://127.0.0.1:1", "ANABRANCH_MODEL": "m"})
    assert done.returncode == 0, done.stderr
    told = {found[0]: found[1] for found in re.findall(r'"step": "(\w+)", "fault": (null|".*?"), "seconds"', done.stdout)}
    assert {step for step, fault in told.items() if fault == "null"} == {"import", "chat", "stream", "tools", "tools_arguments", "tools_object"}, told
    assert len(told) == 13, told
    assert "Rome" in told["chat_wrong"] and "ValueError: no call" in told["tools_failed"]


def test_unknown_names_are_refused():
    done = subprocess.run([sys.executable, os.path.join(FOLDER, "run"), "no-such-program"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "no-such-program" in done.stderr
