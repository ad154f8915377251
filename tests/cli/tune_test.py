"""What `doctor --tune` finds and keeps, and how it counts."""

import contextlib
import json
import os
import subprocess
import tempfile

from harness import paths
from harness.clients import next_event
from harness.server import Server
from harness.waiting import wait_for

LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_k": 0, "stream": True, "break_loops": False,
        "ignore_eos": True}


@contextlib.contextmanager
def home():
    with tempfile.TemporaryDirectory() as folder:
        yield os.environ | {"HOME": folder, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder}


def run(environment, *words):
    done = subprocess.run([paths.PROGRAM, *words], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tune(environment):
    report = json.loads(run(environment, "doctor", "-m", paths.DRAFT, "--tune", "--tune-seconds", "1", "--json"))
    return report["tuned"]


def running(environment, *flags):
    """How many of three long streams run at a time."""
    with Server("--no-cache", *flags[1:], model=paths.DRAFT, environment=environment, before=flags[:1]) as server:
        first = server.open("/v1/completions", LONG)
        assert next_event(first)
        others = [server.connect() for _ in range(2)]
        for one in others:
            one.request("POST", "/v1/completions", json.dumps(LONG), {"Content-Type": "application/json"})
        wait_for(lambda: server.engine()["running"] + server.engine()["queued"] == 3, server.engine)
        for _ in range(5):  # requests are admitted by the next step at the latest
            assert next_event(first)
        return server.engine()["running"]


def test_finds_and_keeps_values():
    with home() as environment:
        tuned = tune(environment)
        assert set(tuned) == {"--threads", "--prefill-chunk", "--parallel", "kept_in"}, tuned
        assert "tok/s" in tuned["--threads"], tuned
        with open(tuned["kept_in"]) as file:
            assert "prefill-chunk = " in file.read()
        shown = json.loads(run(environment, "config", "show", "--model", paths.DRAFT, "--json"))
        for flag in ("threads", "prefill-chunk", "parallel"):
            assert shown[flag]["origin"].startswith("tuned 2"), shown[flag]
            assert tuned["--" + flag].split()[0] == shown[flag]["value"], (tuned, shown[flag])
        assert shown["cache-ram"]["origin"].startswith("this machine: "), shown["cache-ram"]
        others = json.loads(run(environment, "config", "show", "--json"))  # of no model
        assert others["threads"]["origin"].startswith("this machine: "), others["threads"]


def test_kept_values_count_until_something_else_is_said():
    with home() as environment:
        file = tune(environment)["kept_in"]
        with open(file, "w") as out:
            out.write('measured = "2026-01-02"\nparallel = 1\n')
        assert running(environment, "-q") == 1
        assert running(environment, "-q", "--parallel", "2") == 2
        assert running(environment, "--no-auto-tune") == 3
        assert running(environment | {"ANABRANCH_PARALLEL": "2"}, "-q") == 2


def test_a_damaged_file_is_left_out():
    with home() as environment:
        file = tune(environment)["kept_in"]
        for text in ("parallel = [", "", "parallel = -1\nthreads = 'x'\nprefill-chunk = 99999999999", "\0" * 100, "a" * 100000):
            with open(file, "w") as out:
                out.write(text)
            shown = json.loads(run(environment, "config", "show", "--model", paths.DRAFT, "--json"))
            assert not any(value["origin"].startswith("tuned") for value in shown.values()), shown
        os.remove(file)
        os.mkdir(file)
        run(environment, "generate", "-m", paths.DRAFT, "-n", "2", "hi")


def test_lean_runs_two_at_a_time():
    with home() as environment:
        assert running(environment, "-q", "--lean") == 2
        assert running(environment, "-q", "--lean", "--parallel", "3") == 3
