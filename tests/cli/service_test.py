#!/usr/bin/env python3
"""`anabranch serve` as a service: its log, and how it runs in the background.

usage: service_test.py PROGRAM MODEL_DIR

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import datetime
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback

# Nearly uniform sampling keeps a small model from ending early.
LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "seed": 3,
        "stream": True, "break_loops": False}
SERVE = ("--no-cache", "--context", "4096", "-t", "2")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                       {"Content-Type": "application/json"} | headers)
    return connection.getresponse()


def eventually(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return value


def text_of(path):
    with open(path) as file:
        return file.read()


def log_lines(path):
    return [json.loads(line) for line in text_of(path).splitlines()]


def check_the_json_log_has_every_request_and_no_text(folder):
    port, log = free_port(), folder + "/log"
    process = subprocess.Popen([PROGRAM, "serve", "-m", MODEL, "-p", str(port), *SERVE, "--log-format", "json", "--log-file", log,
                                "--api-key", "a-secret-key"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        listening = eventually(lambda: os.path.exists(log) and text_of(log), "no log", 30)
        listening = eventually(lambda: [line for line in log_lines(log) if line["message"] == "listening"], "not listening", 30)[0]
        assert listening["address"] == f"http://127.0.0.1:{port}" and listening["model"] == os.path.basename(MODEL), listening
        key = {"Authorization": "Bearer a-secret-key"}
        body = {"prompt": "The xylophone", "max_tokens": 5, "temperature": 0}
        answer = ask(port, "/v1/completions?note=secret-query", body, **{"X-Request-Id": "mine-1"} | key)
        assert answer.status == 200 and answer.getheader("X-Request-Id") == "mine-1"
        answer = json.load(answer)
        refused = ask(port, "/v1/completions", body, Authorization="Bearer wrong-secret-key")
        assert refused.status == 401
        assert ask(port, "/v1/models", **{"X-Request-Id": "mine-3"} | key).status == 200
        wrong = ask(port, "/v1/completions", {"prompt": "The xylophone", "stop": 5}, **{"X-Request-Id": "a bad id"} | key)
        assert wrong.status == 400
        os.rename(log, log + ".1")  # as logrotate does
        process.send_signal(signal.SIGHUP)
        eventually(lambda: os.path.exists(log) and text_of(log), "SIGHUP does not open the log again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        out, err = process.communicate()
    assert out == b"" and err == b"", (out, err)  # everything is in the log
    assert stat.S_IMODE(os.stat(log).st_mode) == 0o600
    lines, later = log_lines(log + ".1"), log_lines(log)
    assert "API keys are in force" in later[0]["message"] and "stopping" in later[-1]["message"], later
    for line in lines + later:
        assert datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).utcoffset() == datetime.timedelta(0)
        assert line["level"] in ("debug", "info", "warning", "error") and line["message"]
    requests = {line["request_id"]: line for line in lines if line["message"] == "request"}
    first = requests.pop("mine-1")
    assert first["method"] == "POST" and first["path"] == "/v1/completions" and first["status"] == 200, first
    assert first["answer_id"] == answer["id"] and first["model"] == os.path.basename(MODEL), first
    assert first["completion_tokens"] == answer["usage"]["completion_tokens"] > 0, first
    assert first["prompt_tokens"] == answer["usage"]["prompt_tokens"] and first["cut_off"] is False and first["seconds"] > 0
    assert requests.pop(refused.getheader("X-Request-Id"))["status"] == 401
    assert requests.pop(wrong.getheader("X-Request-Id"))["status"] == 400
    assert not requests, requests  # what only reads is logged with --verbose
    everything = text_of(log + ".1") + text_of(log)
    for secret in ("xylophone", "secret", answer["choices"][0]["text"].strip()):
        assert secret and secret not in everything, secret


def check_errors_at_start_are_json_too(folder):
    done = subprocess.run([PROGRAM, "serve", "-m", "/no/such/model", "--log-format", "json"], capture_output=True, timeout=60)
    assert done.returncode == 1 and done.stdout == b"", done
    line = json.loads(done.stderr)
    assert line["level"] == "error" and "/no/such/model" in line["message"], line
    done = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--log-file", folder + "/none/log"], capture_output=True, timeout=60)
    assert done.returncode == 1 and folder + "/none/log" in done.stderr.decode(), done


def main():
    passed = failed = 0
    for name, check in list(globals().items()):
        if not name.startswith("check_"):
            continue
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as folder:
                check(folder)
            passed += 1
            print(f"ok     {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:  # a failed check must not hide the others
            failed += 1
            print(f"FAILED {name}:\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    PROGRAM, MODEL = sys.argv[1], os.path.abspath(sys.argv[2])
    sys.exit(main())
