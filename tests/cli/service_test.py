"""`anabranch serve` as a service: its log, and how it runs in the background."""

import datetime
import http.client
import json
import os
import signal
import socket
import stat
import subprocess

import pytest

from harness import clients, paths
from harness.waiting import wait_for

# Nearly uniform sampling keeps a small model from ending early.
LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "seed": 3,
        "stream": True, "break_loops": False}
SERVE = ("--no-cache", "--context", "4096", "-t", "2")


def ask(port, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                       {"Content-Type": "application/json"} | headers)
    return connection.getresponse()


def text_of(path):
    with open(path) as file:
        return file.read()


def log_lines(path):
    return [json.loads(line) for line in text_of(path).splitlines()]


def test_the_json_log_has_every_request_and_no_text(tmp_path):
    folder = str(tmp_path)
    port, log = clients.free_port(), folder + "/log"
    process = subprocess.Popen([paths.PROGRAM, "-v", "serve", "-m", paths.MODEL, "-p", str(port), *SERVE, "--log-format", "json", "--log-file", log,
                                "--api-key", "a-secret-key"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        listening = wait_for(lambda: os.path.exists(log) and text_of(log), "no log")
        listening = wait_for(lambda: [line for line in log_lines(log) if line["message"] == "listening"], "not listening")[0]
        assert listening["address"] == f"http://127.0.0.1:{port}" and listening["model"] == os.path.basename(paths.MODEL), listening
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
        wait_for(lambda: os.path.exists(log) and text_of(log), "SIGHUP does not open the log again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        out, err = process.communicate()
    assert out == b"" and err == b"", (out, err)  # everything is in the log
    assert stat.S_IMODE(os.stat(log).st_mode) == 0o600
    lines, later = log_lines(log + ".1"), log_lines(log)
    assert any("API keys are in force" in line["message"] for line in later) and "stopping" in later[-1]["message"], later
    for line in lines + later:
        assert datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).utcoffset() == datetime.timedelta(0)
        assert line["level"] in ("debug", "info", "warning", "error") and line["message"]
    requests = {line["request_id"]: line for line in lines + later if line["message"] == "request"}
    first = requests.pop("mine-1")
    assert first["method"] == "POST" and first["path"] == "/v1/completions" and first["status"] == 200, first
    assert first["answer_id"] == answer["id"] and first["model"] == os.path.basename(paths.MODEL), first
    assert first["completion_tokens"] == answer["usage"]["completion_tokens"] > 0, first
    assert first["prompt_tokens"] == answer["usage"]["prompt_tokens"] and first["cut_off"] is False and first["seconds"] > 0
    assert requests.pop(refused.getheader("X-Request-Id"))["status"] == 401
    assert requests.pop(wrong.getheader("X-Request-Id"))["status"] == 400
    assert requests.pop("mine-3")["level"] == "debug" and not requests, requests  # what only reads: with --verbose
    everything = text_of(log + ".1") + text_of(log)
    for secret in ("xylophone", "secret", answer["choices"][0]["text"].strip()):
        assert secret and secret not in everything, secret


def test_errors_at_start_are_json_too(tmp_path):
    folder = str(tmp_path)
    done = subprocess.run([paths.PROGRAM, "serve", "-m", "/no/such/model", "--log-format", "json"], capture_output=True, timeout=300)
    assert done.returncode == 1 and done.stdout == b"", done
    line = json.loads(done.stderr)
    assert line["level"] == "error" and "/no/such/model" in line["message"], line
    done = subprocess.run([paths.PROGRAM, "serve", "-m", paths.MODEL, "--log-file", folder + "/none/log"], capture_output=True, timeout=300)
    assert done.returncode == 1 and folder + "/none/log" in done.stderr.decode(), done


class Background:
    """A state directory of its own, and what runs with it."""

    def __init__(self, folder, **environment):
        self.folder = folder + "/state"
        self.environment = os.environ | {"XDG_STATE_HOME": self.folder, "XDG_CONFIG_HOME": folder} | environment

    def __enter__(self):
        return self

    def __exit__(self, *_):  # what a failed check left behind
        for name in os.listdir(self.folder + "/anabranch") if os.path.exists(self.folder + "/anabranch") else ():
            if name.endswith(".pid"):
                status = self.run("status", "--json", "--pid-file", f"{self.folder}/anabranch/{name}")[1]
                if status["running"]:
                    os.kill(status["pid"], signal.SIGKILL)

    def run(self, *arguments):
        done = subprocess.run([paths.PROGRAM, *arguments], env=self.environment, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)
        return done.returncode, json.loads(done.stdout) if "--json" in arguments else done.stdout, done.stderr

    def start(self, port, *flags, model=None):
        return self.run("serve", "--detach", "-m", model or paths.MODEL, "-p", str(port), *SERVE, *flags)

    def status(self, port, *flags):
        return self.run("status", "--json", "-p", str(port), *flags)[:2]

    def stop(self, port):
        return self.run("stop", "-p", str(port))


def test_detach_status_and_stop(tmp_path):
    folder = str(tmp_path)
    port = clients.free_port()
    with Background(folder) as background:
        assert background.status(port) == (3, {"running": False, "pid_file": f"{folder}/state/anabranch/serve-{port}.pid"})
        assert background.stop(port)[0] == 0
        code, out, err = background.start(port, "--drain-seconds", "600")
        assert code == 0 and err == "", err
        code, status = background.status(port)
        assert code == 0 and status["running"] and status["status"] == "ok" and status["uptime_s"] >= 0, status
        assert status["address"] == f"http://127.0.0.1:{port}" and status["model"] == os.path.basename(paths.MODEL), status
        assert status["requests"] == {"running": 0, "queued": 0} and status["version"] == status["health"]["version"], status
        log = status["log"]
        assert str(status["pid"]) in out and log in out and status["address"] in out, out
        assert stat.S_IMODE(os.stat(log).st_mode) == 0o600
        assert os.getsid(status["pid"]) == status["pid"], "it is not in a session of its own"
        for name in ("stdin", "stdout", "stderr"):
            assert os.readlink(f"/proc/{status['pid']}/fd/{('stdin', 'stdout', 'stderr').index(name)}") == (
                log if name == "stderr" else "/dev/null"), name
        os.rename(log, log + ".1")
        os.kill(status["pid"], signal.SIGHUP)  # and not a stop, as without a terminal
        wait_for(lambda: os.path.exists(log), "SIGHUP does not open the log again")
        # A stop during a stream lets it finish.
        stream = ask(port, "/v1/completions", LONG | {"max_tokens": 400})
        assert stream.status == 200 and stream.readline().startswith(b"data: ")
        text = background.run("status", "-p", str(port))[1]
        assert "1 running" in text and log in text, text
        stop = subprocess.Popen([paths.PROGRAM, "stop", "-p", str(port)], env=background.environment, stdout=subprocess.PIPE, text=True)
        assert stream.read().endswith(b"data: [DONE]\n\n"), "the stream was cut off"
        assert "let finish" in stop.communicate(timeout=300)[0] and stop.returncode == 0
        assert background.status(port)[0] == 3
        assert sorted(os.listdir(background.folder + "/anabranch")) == [f"serve-{port}.log", f"serve-{port}.log.1"]
        assert "stopping" in text_of(log)


def test_two_servers_and_ports_in_use(tmp_path):
    folder = str(tmp_path)
    first, second = clients.free_port(), clients.free_port()
    with Background(folder) as background:
        assert background.start(first)[0] == 0 and background.start(second)[0] == 0
        pids = {background.status(port)[1]["pid"] for port in (first, second)}
        assert len(pids) == 2
        code, out, err = background.start(first)
        assert code == 1 and out == "" and "serves already" in err, err
        files = ("--pid-file", folder + "/other.pid", "--log-file", folder + "/other.log")
        code, out, err = background.start(first, *files)
        assert code == 1 and f"port {first}" in err and "already in use" in err, err
        assert "already in use" in text_of(folder + "/other.log") and not os.path.exists(folder + "/other.pid")
        os.mkdir(folder + "/empty")  # no model: the port is looked at first
        code, out, err = background.start(first, *files, model=folder + "/empty")
        assert code == 1 and "already in use" in err, err
        assert background.stop(first)[0] == 0
        assert background.status(first)[0] == 3 and background.status(second)[1]["status"] == "ok"
        code, out, err = background.start(0)
        assert code == 1 and "--port 0" in err, err
        code, out, err = background.start(0, *files)
        assert code == 0, err
        status = background.run("status", "--json", "--pid-file", folder + "/other.pid")[1]
        assert status["status"] == "ok" and not status["address"].endswith(":0"), status
        assert background.run("stop", "--pid-file", folder + "/other.pid")[0] == 0
        assert background.stop(second)[0] == 0


def test_failures_at_start_reach_the_terminal(tmp_path):
    folder = str(tmp_path)
    port = clients.free_port()
    with Background(folder) as background:
        code, out, err = background.start(port, model="/no/such/model")
        assert code == 1 and out == "" and "/no/such/model" in err and not os.path.exists(background.folder), err
        code, out, err = background.start(port, "--api-key", "two words")
        assert code == 1 and out == "" and err.startswith("error: ") and "API key" in err and err.count("\n") == 1, err
        code, out, err = background.start(port, "--log-file", folder + "/none/log")
        assert code == 1 and err.count("\n") == 1 and folder + "/none/log" in err, err
        code, out, err = background.start(port, "--pid-file", folder + "/none/pid")
        assert code == 1 and err.count("\n") == 1 and folder + "/none/pid" in err, err
        assert background.status(port)[0] == 3


def test_a_start_that_is_cut_short(tmp_path):
    folder = str(tmp_path)
    def interrupt(how):
        """Starts a server until it could be interrupted while it loads; what the terminal saw."""
        for _ in range(10):
            port = clients.free_port()
            path = f"{background.folder}/anabranch/serve-{port}.pid"
            start = subprocess.Popen([paths.PROGRAM, "serve", "--detach", "-m", paths.MODEL, "-p", str(port), *SERVE], text=True,
                                     env=background.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     start_new_session=True)
            pid = wait_for(lambda: os.path.exists(path) and text_of(path).split("\n")[0], "no pid file")
            how(start, int(pid))
            out, err = start.communicate(timeout=300)
            if out == "":
                wait_for(lambda: background.status(port)[0] == 3, "the server did not end")
                return start.returncode, err
            background.stop(port)
        raise AssertionError("it was always ready before")

    with Background(folder) as background:
        code, err = interrupt(lambda start, pid: os.kill(pid, signal.SIGKILL))
        assert code == 1 and "ended by signal 9 before it listened" in err and ".log" in err, err
        # Ctrl-C reaches both processes.
        code, err = interrupt(lambda start, pid: os.killpg(start.pid, signal.SIGINT))
        assert code in (-signal.SIGINT, 1) and "Traceback" not in err, (code, err)


def test_a_stale_pid_file_is_known_as_such(tmp_path):
    folder = str(tmp_path)
    port = clients.free_port()
    with Background(folder) as background:
        assert background.start(port)[0] == 0
        pid = background.status(port)[1]["pid"]
        os.kill(pid, signal.SIGKILL)
        path = f"{background.folder}/anabranch/serve-{port}.pid"
        wait_for(lambda: background.status(port)[0] == 3, "a killed server counts as running")
        assert int(text_of(path).splitlines()[0]) == pid
        # Its number belongs to another program now.
        bystander = subprocess.Popen(["sleep", "600"])
        with open(path, "w") as file:
            file.write(f"{bystander.pid}\n")
        assert background.status(port)[0] == 3
        code, out, _ = background.stop(port)
        assert code == 0 and "no server runs" in out and bystander.poll() is None, out
        assert background.start(port)[0] == 0  # in place of the old one
        assert background.status(port)[1]["pid"] != bystander.pid and background.stop(port)[0] == 0
        bystander.kill()
        bystander.wait()


def test_status_of_a_server_with_keys_and_tls(tmp_path):
    folder = str(tmp_path)
    port = clients.free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=elsewhere", "-keyout", folder + "/key.pem", "-out", folder + "/certificate.pem"],
                   check=True, stderr=subprocess.DEVNULL)
    with open(folder + "/keys", "w") as file:
        file.write("the-key\n")
    with open(folder + "/anabranch.toml", "w") as file:
        file.write(f"[server]\nport = {port}\n")
    # A proxy would not reach it.
    with Background(folder, https_proxy="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9") as background:
        keys = ("--api-key-file", folder + "/keys")
        code, _, err = background.run("--config", folder + "/anabranch.toml", "serve", "--detach", "-m", paths.MODEL, *SERVE, *keys,
                                      "--tls-cert", folder + "/certificate.pem", "--tls-key", folder + "/key.pem")
        assert code == 0, err
        code, status = background.status(port)
        assert code == 0 and status["status"] == "ok" and "requests" not in status, status
        assert status["address"].startswith("https://"), status
        assert background.status(port, *keys)[1]["requests"]["running"] == 0
        background.environment["ANABRANCH_API_KEY"] = "the-key"
        # `stop` and `status` take the port from [server], too.
        code, status, _ = background.run("--config", folder + "/anabranch.toml", "status", "--json")
        assert code == 0 and "requests" in status, status
        assert background.run("--config", folder + "/anabranch.toml", "stop")[0] == 0
        assert background.status(port)[0] == 3


def test_the_supervisor_is_told(tmp_path):
    folder = str(tmp_path)
    for name in (folder + "/notify", f"\0anabranch-test-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.bind(name)
            supervisor.settimeout(300)
            process = subprocess.Popen([paths.PROGRAM, "serve", "-m", paths.MODEL, "-p", "0", *SERVE], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, env=os.environ | {"NOTIFY_SOCKET": name.replace("\0", "@")})
            try:
                assert supervisor.recv(100) == b"READY=1"
                assert b" on http" in process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                assert supervisor.recv(100) == b"STOPPING=1"
                assert process.wait(120) == 0
            finally:
                process.kill()
                process.communicate()


def test_the_server_ends_when_its_gpu_is_lost(tmp_path):
    folder = str(tmp_path)
    fake = os.path.join(os.path.dirname(paths.PROGRAM), "tests/cuda")  # a driver that computes nothing
    if not os.path.isdir(fake):
        pytest.skip(f"{fake} is not built")
    environment = os.environ | {"LD_LIBRARY_PATH": fake, "FAKE_CUDA_FAILURE": folder + "/broken", "XDG_CACHE_HOME": folder}
    environment.pop("ANABRANCH_NVRTC", None)  # the fake driver takes the code of the fake compiler only
    process = subprocess.Popen([paths.PROGRAM, "serve", "-m", paths.MODEL, "-p", "0", "--device", "cuda", *SERVE], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment)
    try:
        port = int(process.stdout.readline().split(":")[-1].split("/")[0])
        card = json.load(ask(port, "/health"))["memory"]["device"]
        assert 0 < card["free_bytes"] <= card["total_bytes"] and card["name"], card
        # Penalties: the host chooses the tokens, which the card would not.
        body = {"prompt": "Hello", "max_tokens": 30000, "ignore_eos": True, "break_loops": False, "presence_penalty": 0.1}
        stream = ask(port, "/v1/completions", body | {"stream": True})
        assert stream.status == 200, (stream.read(), process.kill(), process.communicate()[1])
        assert stream.readline().startswith(b"data: ")
        open(folder + "/broken", "w").close()
        assert json.loads(stream.read().split(b"data: ")[-1])["error"]["code"] == "engine_error"
        assert process.wait(120) == 75
    finally:
        process.kill()
        log = process.communicate()[1]
    assert "stopping, because the device failed" in log, log
