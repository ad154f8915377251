#!/usr/bin/env python3
"""What `doctor --tune` finds and keeps, and how it counts: tune_test.py BINARY MODEL_DIR.
The last line is "N passed, N failed"."""
import contextlib, http.client, json, os, socket, subprocess, sys, tempfile, time

from run_tests import run_tests

BINARY, MODEL = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), "hybrid-draft-19m")
LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_k": 0, "stream": True, "break_loops": False,
        "ignore_eos": True}


@contextlib.contextmanager
def home():
    with tempfile.TemporaryDirectory() as folder:
        yield os.environ | {"HOME": folder, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder}


def run(environment, *words):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tune(environment):
    report = json.loads(run(environment, "doctor", "-m", MODEL, "--tune", "--tune-seconds", "1", "--json"))
    return report["tuned"]


def running(environment, *flags):
    """How many of three long streams run at a time."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([BINARY, *flags[:1], "serve", "-m", MODEL, "--port", str(port), "--no-cache", *flags[1:]],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert " on http" in process.stdout.readline()
        streams = []
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(LONG), {"Content-Type": "application/json"})
            streams.append(connection)
        deadline = time.time() + 20
        while time.time() < deadline:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health")
            engine = json.loads(connection.getresponse().read())["engine"]
            if engine["running"] + engine["queued"] == 3:
                # Requests are admitted by the next step at the latest.
                if engine["queued"] == 0 or engine["completion_tokens"] > 0 or time.time() > deadline - 19:
                    return engine["running"]
            time.sleep(0.02)
        raise AssertionError(engine)
    finally:
        process.kill()
        process.communicate()


def test_finds_and_keeps_values():
    with home() as environment:
        tuned = tune(environment)
        assert set(tuned) == {"--threads", "--prefill-chunk", "--parallel", "kept_in"}, tuned
        assert "tok/s" in tuned["--threads"], tuned
        with open(tuned["kept_in"]) as file:
            assert "prefill-chunk = " in file.read()
        shown = json.loads(run(environment, "config", "show", "--model", MODEL, "--json"))
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
            shown = json.loads(run(environment, "config", "show", "--model", MODEL, "--json"))
            assert not any(value["origin"].startswith("tuned") for value in shown.values()), shown
        os.remove(file)
        os.mkdir(file)
        run(environment, "generate", "-m", MODEL, "-n", "2", "hi")


def test_lean():
    with home() as environment:
        assert running(environment, "-q", "--lean") == 2
        assert running(environment, "-q", "--lean", "--parallel", "3") == 3


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
