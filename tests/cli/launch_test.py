"""`anabranch launch` with programs that only tell what they were given: scripts of the real ones' names on PATH."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from harness import clients, paths
from harness.waiting import wait_for

VERSIONS = {"claude": "2.1.330 (Claude Code)", "codex": "codex-cli 0.163.0", "opencode": "1.18.5", "qwen": "0.21.13", "aider": "aider 0.86.1"}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
# Tells its arguments and its variables, does its work, and ends with $FAKE_STATUS.
FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; echo "built with 0.0.1" >&2; exit {version_status}; fi
for word; do printf '%s\\n' "$word" >>"$FAKE_OUT/words"; done
env -0 >"$FAKE_OUT/variables"
{work}
exit ${{FAKE_STATUS:-0}}
"""


class Place:
    """A PATH and a state directory of a test's own."""

    def __init__(self, folder):
        self.folder, self.out, self.state = str(folder), str(folder / "out"), str(folder / "state")
        for path in (self.folder + "/bin", self.out):
            os.mkdir(path)
        self.environment = os.environ | {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "XDG_STATE_HOME": self.state,
                                         "XDG_CONFIG_HOME": self.folder, "FAKE_OUT": self.out, "HF_HUB_CACHE": self.folder + "/none",
                                         "HOME": self.folder}

    def install(self, name, version=None, version_status=0, work=":"):
        path = f"{self.folder}/bin/{name}"
        with open(path, "w") as file:
            file.write(FAKE.format(version=version or VERSIONS[name], version_status=version_status, work=work))
        os.chmod(path, 0o755)

    def start(self, *words, ignored=(), **variables):
        def set_signals():  # whatever the tests have
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        return subprocess.Popen([paths.PROGRAM, *map(str, words)], env=self.environment | variables, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=set_signals)

    def run(self, *words, **variables):
        process = self.start("launch", *words, **variables)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def read(self, name):
        with open(f"{self.out}/{name}") as file:
            return file.read()

    @property
    def words(self):
        return self.read("words").splitlines()

    @property
    def variables(self):
        return dict(line.split("=", 1) for line in self.read("variables").split("\0") if line)

    def left_over(self):
        """What is in the state directory."""
        folder = self.state + "/anabranch"
        return os.listdir(folder) if os.path.isdir(folder) else []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--no-cache", "--context", "2048", model=paths.DRAFT)


MODEL = "hybrid-draft-19m"


def test_claude_gets_variables_of_a_running_server(place, server):
    place.install("claude")
    code, out, err = place.run("claude", "-p", server.port, "--", "-p", "two words", "--", "[a,b]", ANTHROPIC_API_KEY="the-users-own")
    assert (code, out, err) == (0, "", "")
    assert place.words == ["-p", "two words", "--", "[a,b]"]
    variables = place.variables
    assert variables["ANTHROPIC_BASE_URL"] == server.root and variables["ANTHROPIC_AUTH_TOKEN"] == "none"
    assert variables["ANTHROPIC_API_KEY"] == ""
    assert variables["ANTHROPIC_MODEL"] == variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == MODEL
    assert place.left_over() == []


def test_codex_gets_everything_on_its_command_line(place, server):
    place.install("codex")
    assert place.run("codex", "-p", server.port, "--model", 'od"d', "--", "exec", "hi")[0] == 0
    words = place.words
    assert words[-2:] == ["exec", "hi"] and words[0::2][:-1] == ["-c"] * 7, words
    assert 'model="od\\"d"' in words and f'model_providers.anabranch.base_url="{server.v1}"' in words
    assert place.variables["ANABRANCH_LAUNCH_KEY"] == "none"


def test_codex_learns_the_models_context(place, server):
    place.install("codex")
    assert place.run("codex", "-p", server.port)[0] == 0
    context = server.ask("/v1/models")["data"][0]["context_length"]
    assert f"model_context_window={context}" in place.words


def test_opencode_gets_a_configuration(place, server):
    place.install("opencode")
    assert place.run("opencode", "-p", server.port)[0] == 0
    config = json.loads(place.variables["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == f"anabranch/{MODEL}" and MODEL in config["provider"]["anabranch"]["models"]
    assert config["provider"]["anabranch"]["options"] == {"baseURL": server.v1, "apiKey": "none"}
    assert place.left_over() == []


def test_qwen_and_aider(place, server):
    for name, address in (("qwen", "OPENAI_BASE_URL"), ("aider", "OPENAI_API_BASE")):
        place.install(name)
        assert place.run(name, "-p", server.port)[0] == 0
        assert place.variables[address] == server.v1 and place.variables["OPENAI_API_KEY"] == "none"
    assert place.variables.get("OPENAI_MODEL") is None  # of qwen alone
    assert f"openai/{MODEL}" in place.words and MODEL in place.words


def test_the_status_is_the_programs(place, server):
    place.install("claude")
    assert place.run("claude", "-p", server.port, FAKE_STATUS="3")[0] == 3
    place.install("claude", work="kill -TERM $$")
    assert place.run("claude", "-p", server.port)[0] == 128 + signal.SIGTERM


def test_programs_that_are_missing_or_too_old(place):
    code, out, err = place.run("claude")
    assert code == 1 and out == "" and "Claude Code is not installed" in err and "npm install -g" in err and "://" not in err, err
    place.install("claude", version="1.0.128 (Claude Code)")
    code, out, err = place.run("claude")
    assert code == 1 and "Claude Code 1.0.128 is too old" in err and "2.0.0 or later" in err, err
    place.install("codex", version="codex-cli")
    code, out, err = place.run("codex")
    assert code == 1 and "prints no version" in err, err
    place.install("qwen", version_status=4)
    code, out, err = place.run("qwen")
    assert code == 1 and "`qwen --version` failed" in err, err
    assert os.listdir(place.out) == [] and place.left_over() == []  # none of them ran, and no server started


def test_a_key_is_passed_on_and_not_shown(place, serve):
    key = "a-secret-key-of-the-test"
    with open(place.folder + "/keys", "w") as file:
        file.write(key + "\n")
    os.chmod(place.folder + "/keys", 0o600)
    server = serve("--no-cache", "--context", "2048", "--api-key", key, model=paths.DRAFT)
    for name in VERSIONS:
        place.install(name)
    code, out, err = place.run("claude", "-p", server.port)
    assert code == 1 and "needs a key" in err and "--api-key-file" in err, err
    for name in VERSIONS:
        code, out, err = place.run(name, "-p", server.port, "--api-key-file", place.folder + "/keys", "--print")
        assert code == 0 and key not in out + err and "(not shown)" in out and MODEL in out, (out, err)
    assert os.listdir(place.out) == [] and place.left_over() == []  # --print runs nothing
    assert place.run("codex", "-p", server.port, "--api-key-file", place.folder + "/keys")[0] == 0
    assert place.variables["ANABRANCH_LAUNCH_KEY"] == key and not any(key in word for word in place.words)
    assert place.run("claude", "-p", server.port, ANABRANCH_API_KEY=key)[0] == 0
    assert place.variables["ANTHROPIC_AUTH_TOKEN"] == key


def test_print_is_a_script_that_does_the_same(place, server):
    place.install("opencode")
    code, out, err = place.run("opencode", "-p", server.port, "--print", "--", "run", "it's")
    assert code == 0 and err == "" and os.listdir(place.out) == [], err
    subprocess.run(["sh", "-e"], input=out, text=True, env=place.environment, check=True)
    assert place.words == ["run", "it's"] and json.loads(place.variables["OPENCODE_CONFIG_CONTENT"])["model"] == f"anabranch/{MODEL}"


def test_print_without_a_server_starts_none(place):
    port = clients.free_port()
    code, out, err = place.run("claude", "-p", port, "--print")  # the program need not be there
    assert code == 0 and err == "" and out.startswith(f"# No server runs on port {port}") and out.endswith("\nclaude\n"), out
    assert place.left_over() == []


class Stranger(http.server.BaseHTTPRequestHandler):
    """Another program's server, which answers everything as if it were well."""

    def do_GET(self):
        self.server.asked.append((self.path, str(self.headers)))
        body = b'{"status": "ok", "data": [{"id": "m"}]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def test_another_program_gets_no_key(place):
    key = "a-secret-key-of-the-test"
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        stranger.asked = []
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        code, out, err = place.run("claude", "-p", stranger.server_port, "--print", ANABRANCH_API_KEY=key)
        stranger.shutdown()
    assert code == 0 and out.startswith(f"# No server runs on port {stranger.server_port}"), (out, err)
    assert [path for path, _ in stranger.asked] == ["/health"] and key not in str(stranger.asked)


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_server_loads_leaves_nothing(place, ends):
    place.install("claude")
    for _ in range(10):  # on a busy machine the server may be ready before the signal comes
        process = place.start("launch", "claude", "-p", clients.free_port(), "--model", paths.DRAFT)
        try:
            wait_for(lambda: process.poll() is not None or any(name.endswith(".log") for name in place.left_over()), "no server starts")
            process.send_signal(ends)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
        ran = os.listdir(place.out)
        if not ran:
            break
        for name in ran:
            os.remove(f"{place.out}/{name}")
    assert process.returncode == 128 + ends and place.left_over() == [] and not ran, (process.returncode, err)


def is_before_exec(process):
    """Whether a child of the process runs the same program still, and not for a moment only."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = file.read().split()

    def runs_ours(child):
        try:
            return os.path.samefile(f"/proc/{child}/exe", paths.PROGRAM)
        except OSError:
            return False

    before = [child for child in children if runs_ours(child)]
    time.sleep(0.002)
    return any(runs_ours(child) for child in before)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_program_starts_ends_both(place, server, ends):
    place.install("claude", work='for i in $(seq 100); do sleep 0.05; done; touch "$FAKE_OUT/survived"')
    runs = place.out + "/variables"
    for _ in range(20):  # a busy machine may show us nothing of the moment
        # So many folders that the search for the program takes a while, between the spawn and the program's first instruction.
        process = place.start("launch", "claude", "-p", server.port, PATH="a:" * 60_000 + place.environment["PATH"])
        try:
            state = wait_for(lambda: is_before_exec(process) and "before" or os.path.exists(runs) and "after", "the program is not spawned",
                             pause=0.001)
            process.send_signal(ends)
            process.communicate(timeout=300)  # until both have ended, because they share the pipes
        finally:
            process.kill()
        assert "survived" not in os.listdir(place.out)
        if state == "before" and process.returncode != -ends:  # else the child was asked for its version only
            break
        if os.path.exists(runs):
            os.remove(runs)
    assert state == "before"
    assert process.returncode == 128 + ends and answers(server.root)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("ignored", [(), SIGNALS, *((number,) for number in SIGNALS)])
def test_ignored_signals_stay_ignored(place, server, ignored):
    """As under nohup (SIGHUP), and in a background job of a script (SIGINT)."""
    place.install("claude", work='for pid in $PPID $$; do grep SigIgn "/proc/$pid/status"; done >"$FAKE_OUT/masks"')
    process = place.start("launch", "claude", "-p", server.port, ignored=ignored)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    ours, programs = ([number for number in SIGNALS if int(line.split()[1], 16) >> (number - 1) & 1] for line in place.read("masks").splitlines())
    assert programs == list(ignored)
    assert set(ours) == {*ignored, signal.SIGTSTP}  # it stops when the program has stopped


def own_server(place):
    """The address of the server that launch started, as the program was told."""
    return wait_for(lambda: os.path.exists(place.out + "/variables") and place.variables.get("ANTHROPIC_BASE_URL"), "the program does not run")


def answers(root):
    try:
        return clients.ask(root + "/health")["status"] == "ok"
    except OSError:
        return False


def test_a_server_starts_and_ends_with_the_program(place):
    port = clients.free_port()
    place.install("claude", work='while [ ! -e "$FAKE_OUT/go" ]; do sleep 0.05; done')
    process = place.start("launch", "claude", "-p", port, "--model", paths.DRAFT, FAKE_STATUS="5")
    try:
        root = own_server(place)
        assert answers(root) and not root.endswith(f":{port}") and place.variables["ANTHROPIC_MODEL"] == MODEL
        assert len(place.left_over()) == 2, place.left_over()  # the server's log and pid file
        open(place.out + "/go", "w").close()
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 5 and out == "" and f"no server runs on port {port}" in err, err
    assert not answers(root) and place.left_over() == []


def test_a_signal_goes_to_the_program_and_the_server_ends_too(place):
    place.install("claude", work='trap "exit 9" TERM; touch "$FAKE_OUT/ready"; while :; do sleep 0.05; done')
    process = place.start("launch", "claude", "-p", clients.free_port(), "--model", paths.DRAFT)
    try:
        wait_for(lambda: os.path.exists(place.out + "/ready"), "the program does not run")
        root = own_server(place)
        process.send_signal(signal.SIGINT)  # Ctrl-C is the program's, which has got none here
        assert answers(root) and process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 9 and not answers(root)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_launch_leaves_no_server(place):
    place.install("claude", work='while [ ! -e "$FAKE_OUT/go" ]; do sleep 0.05; done')
    process = place.start("launch", "claude", "-p", clients.free_port(), "--model", paths.DRAFT)
    try:
        root = own_server(place)
    finally:
        process.kill()
        open(place.out + "/go", "w").close()
        process.communicate(timeout=300)
    wait_for(lambda: not answers(root), "the server goes on")


def test_a_server_that_cannot_start_says_why(place):
    place.install("claude")
    code, out, err = place.run("claude", "-p", clients.free_port(), "--model", "/no/such/model")
    assert code == 1 and "/no/such/model" in err and "before it listened" in err, err
    code, out, err = place.run("claude", "-p", clients.free_port())
    assert code == 1 and "name one with --model" in err, err
    assert os.listdir(place.out) == [] and place.left_over() == []


def test_settings_of_serve_hold_but_not_those_that_would_part_it_from_us(place):
    with open(place.folder + "/x.toml", "w") as file:
        file.write(f'[server]\nmodel = "{paths.DRAFT}"\ndetach = true\nhost = "0.0.0.0"\nserved-model-name = "mine"\nport = {clients.free_port()}\n')
    place.install("claude")
    process = place.start("--config", place.folder + "/x.toml", "launch", "claude")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    root = place.variables["ANTHROPIC_BASE_URL"]
    assert place.variables["ANTHROPIC_MODEL"] == "mine" and root.startswith("http://127.0.0.1:") and not answers(root)


def test_the_model_of_serve_is_no_name_on_a_running_server(place, server):
    with open(place.folder + "/x.toml", "w") as file:
        file.write(f'[server]\nmodel = "/elsewhere/{MODEL}"\nport = {server.port}\n')
    place.install("claude")
    process = place.start("--config", place.folder + "/x.toml", "launch", "claude")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and place.variables["ANTHROPIC_BASE_URL"] == server.root and place.variables["ANTHROPIC_MODEL"] == MODEL, err


def test_a_server_in_the_background_is_found_by_its_pid_file(place):
    port = clients.free_port()
    serve = subprocess.run([paths.PROGRAM, "serve", "--detach", "-m", paths.DRAFT, "-p", str(port), "--no-cache"], env=place.environment,
                           capture_output=True, text=True, timeout=300)
    assert serve.returncode == 0, serve.stderr
    try:
        place.install("claude")
        code, out, err = place.run("claude", "-p", port)
        assert (code, err) == (0, "") and place.variables["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{port}"
        assert answers(f"http://127.0.0.1:{port}")  # it was not ours to end
    finally:
        subprocess.run([paths.PROGRAM, "stop", "-p", str(port)], env=place.environment, capture_output=True, timeout=300)


@pytest.mark.parametrize("words, said", [
    (("vim",), "program must be one of claude, codex, opencode, qwen, aider"),
    ((), "program is missing"),
    (("claude", "--resume"), "words for the agent itself follow --"),
    (("codex", "exec"), "words for the agent itself follow --"),
    (("claude", "--modle", "x"), "did you mean --model"),
])
def test_wrong_command_lines(place, words, said):
    code, out, err = place.run(*words)
    assert code == 2 and out == "" and said in err, err
