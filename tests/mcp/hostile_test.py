"""Servers of tools that misbehave, consent, limits and interruptions in `chat`. Each ends in a clear message, in bounded time and memory."""

import contextlib
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from agent_setup import config, fake, results, run, scripted_model
from harness import needs, paths
from harness.waiting import LONG, wait_for

pytestmark = pytest.mark.any_model

MOST_MIB = 1500 if needs.SANITIZED else 150  # of memory in use
MOST_SECONDS = 60  # a busy machine is slow, but the servers hang for much longer
ECHO = [("f__echo", {"text": "x"})]


def limited(server, mode):
    """With a short limit of time for what ends by it only."""
    return server | {"timeout": 2} if "hang" in mode or mode == "wrong-ids" else server


def alive(pid):
    """Whether the process is there and no zombie that nobody waits for."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def peak_mb(words, text):
    """Runs the program; its standard error, and the most memory that it used."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = process.stdout, process.stderr
    process.stdin.write(text.encode())
    process.stdin.close()
    err = process.stderr.read().decode()
    out[0].read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, err
    return err, usage.ru_maxrss / 1024


def test_stdio_servers():
    """A server that misbehaves, beside one that does not."""
    expected = {
        "hang-call": "did not answer tools/call within 2 s", "exit-call": "ended (exit status 7); its last words on stderr: [31mout of cheese",
        "wrong-ids": "had ids that nobody waits for", "bad-json": "cannot be read", "bad-utf8": "cannot be read", "deep-answer": "nested deeper",
        "long-line": "sent a message longer than 4194304 bytes", "flood": "sent too much at once", "no-result": "no object"}
    for mode, part in expected.items():
        servers = {"f": limited(fake(mode), mode), "good": fake("good")}
        with config(servers) as path, scripted_model(ECHO + [("good__echo", {"text": "fine"})], ECHO[:], "end") as (model, url):
            began = time.monotonic()
            err, most = peak_mb([paths.PROGRAM, "chat", "--mcp-config", path, "--url", url, "--mcp-allow", "f", "--mcp-allow", "good"], "go\n")
            bad, good, again = results(model)
            assert part in bad and part in again and good == "fine", (mode, results(model), err)
            assert time.monotonic() - began < MOST_SECONDS and most < MOST_MIB, (mode, time.monotonic() - began, most)


def test_servers_that_do_not_start():
    servers = {"hang": fake("hang-start"), "exit": fake("exit-start"), "old": fake("version", "1999-01-01"), "none": {"command": "no-such-program"},
               "closed": {"url": "http://127.0.0.1:1/mcp"}, "good": fake("good")}
    with config(servers) as path, scripted_model([("good__echo", {"text": "fine"})]) as (model, url):
        began = time.monotonic()
        out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "good")
        assert time.monotonic() - began < 2 * MOST_SECONDS and results(model) == ["fine"], err
    for part in ("'hang' did not answer initialize within 20 s", "'exit' ended (exit status 3); its last words on stderr: no such database",
                 "'old' speaks the protocol of '1999-01-01'", "'none': there is no program 'no-such-program' in PATH", "'closed' at http"):
        assert err.count(part) == 1, (part, err)


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.give(405, "text/plain", b"")

    do_DELETE = do_GET

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mode, method = self.server.mode, request.get("method")
        if "id" not in request or "method" not in request:
            return self.give(202, "text/plain", b"")
        answer = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}},
                  "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
                  "tools/call": {"content": [{"type": "text", "text": "fine"}]}}[method]
        if method == "initialize" and mode in ("status", "page", "redirect", "auth"):
            if mode == "redirect":
                return self.give(307, "text/plain", b"", Location="http://127.0.0.2:9/mcp")
            return self.give({"status": 500, "page": 200, "auth": 401}[mode], "text/html", b"<html>\x1b[31mNo</html>")
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}).encode()
        if method != "tools/call":
            return self.give(200, "application/json", body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if "event" in mode else "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            if mode == "events-endless":
                while True:
                    self.wfile.write(b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n' * 500)
            if mode in ("event-long", "json-long"):
                for _ in range(1024):
                    self.wfile.write(b"data: " * 200_000)
            if mode in ("events-hang", "json-hang"):
                while self.server.mode == mode:
                    self.wfile.write(b" " if mode == "json-hang" else b": still here\n\n")
                    time.sleep(0.2)
            if mode == "events-end":
                self.wfile.write(b": nothing\n\n")
            if mode == "events-wrong-id":
                self.wfile.write(b"data: " + body.replace(b'"id": ', b'"id": 9') + b"\n\n")
            if mode == "events-bad":
                self.wfile.write(b"data: {\xff}\n\n")
        self.close_connection = True

    def give(self, status, kind, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def test_http_servers():
    expected = {
        "status": "answers with HTTP 500: <html>[31mNo</html>", "page": "cannot be read", "redirect": "it redirects to 'http://127.0.0.2:9/mcp'",
        "auth": "put a key into 'headers'", "events-endless": "too many messages at once", "event-long": "too long", "json-long": "too long",
        "events-hang": "within 2 s", "json-hang": "within 2 s", "events-end": "ended its answer before", "events-wrong-id": "ended its answer before",
        "events-bad": "cannot be read"}
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, daemon=True).start()
    for mode, part in expected.items():
        web.mode = mode
        with config({"f": limited({"url": f"http://127.0.0.1:{web.server_address[1]}/mcp"}, mode)}) as path, scripted_model(ECHO[:]) as (model, url):
            began = time.monotonic()
            err, most = peak_mb([paths.PROGRAM, "chat", "--mcp-config", path, "--url", url, "--mcp-allow", "f"], "go\n")
            what = err + "".join(results(model))
            assert part in what and "\x1b[31m" not in what, (mode, what)
            assert time.monotonic() - began < MOST_SECONDS and most < MOST_MIB, (mode, time.monotonic() - began, most)
    web.mode = ""
    web.shutdown()


def test_what_a_server_says_of_itself():
    """Prompts and escapes in descriptions; schemas that are too large; a tool that changes."""
    with config({"f": fake("injection")}) as path, scripted_model(ECHO[:]) as (model, url):
        out, err = run(paths.PROGRAM, "/tools\ngo\n", path, "--url", url, "--mcp-allow", "f")
        seen = json.dumps(model.requests[0]) + out + err
        assert "\x1b" not in seen and seen.count("\\u001b") == 1 and "\u202e" not in seen and "\\u202e" not in seen and "bad" in err
    for mode, part in (("big-schema", "200071 bytes, more than 65536"), ("deep-schema", "deeper than 32 levels"), ("many-tools", "only the first 256")):
        with config({"f": fake(mode)}) as path, scripted_model() as (model, url):
            out, err = run(paths.PROGRAM, "go\n", path, "--url", url)
            assert part in err and len(model.requests[0]["tools"]) == (256 if mode == "many-tools" else 1), (mode, err)
    with config({"f": fake("changing")}) as path, scripted_model(ECHO * 2, ECHO[:]) as (model, url):
        run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f")
        first, second, third = results(model)
        assert first == "x" and "has changed its tool 'echo'" in second and third == "x", results(model)


def test_consent_without_a_terminal():
    with config({"f": fake("good"), "g": fake("good")}) as path, scripted_model(
            ECHO + [("f__sleep", {"text": "0"}), ("g__echo", {"text": "y"})]) as (model, url):
        out, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f.echo")
        assert results(model) == ["x"] + ["Error: the user is not there to allow this call"] * 2
        assert "--mcp-allow f.sleep would allow it" in err and 'f.echo {"text":"x"}' in err
        _, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "h.echo", code=1)
        assert "there is no such server" in err


class Terminal:
    """`chat` on a terminal of its own."""

    def __init__(self, *words):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(paths.PROGRAM, [paths.PROGRAM, "chat", *words])
        self.text = ""

    def expect(self, part, seconds=LONG):
        until = time.monotonic() + seconds
        while part not in self.text:
            assert time.monotonic() < until, (part, self.text)
            if select.select([self.file], [], [], 0.1)[0]:
                self.text += os.read(self.file, 65536).decode(errors="replace")
        before, self.text = self.text.split(part, 1)
        return before

    def say(self, line):
        os.write(self.file, line.encode())

    def close(self):
        self.say("/exit\n")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        assert status == 0, status


def test_consent_on_a_terminal():
    with config({"f": fake("good")}) as path, scripted_model(ECHO[:], "1", ECHO[:], "2", ECHO[:], "3", [("f__fail", {})], "4", [("f__fail", {})],
                                                             "5") as (model, url):
        chat = Terminal("--mcp-config", path, "--url", url)
        chat.expect("4 tools of 1 MCP server")
        for number, (answer, asks) in enumerate((("n", 1), ("y", 1), ("what\na", 2), ("v", 1)), 1):
            chat.expect("> ")
            chat.say("go\n")
            if number == 4:
                break
            for one in answer.split("\n"):
                assert 'f.echo {"text":"x"}' in chat.expect("ne[v]er this tool: ") or asks == 2
                chat.say(one + "\n")
            chat.expect(f"{number}\r\n")
        chat.expect("f.fail {}")
        chat.expect("ne[v]er this tool: ")
        chat.say("v\n")
        chat.expect("not run")
        chat.expect("4\r\n")
        chat.say("again\n")
        chat.expect("not run")
        chat.expect("5\r\n")
        chat.say("/tools\n")
        listed = chat.expect("sleep ")
        assert "(allowed) Says it again" in listed and "(refused) Fails" in listed, listed
        chat.close()
        refused = "Error: the user did not allow this call"
        assert results(model) == [refused, "x", "x", refused, refused], results(model)


def test_what_is_shown_is_what_runs():
    """Arguments are shown whole, a page at a time, with what a terminal hides written out; those that are too long do not run."""
    hidden = "ls \u202egpj.exe\U000e0041\u200b\ufe0f\x1b[2K"
    long = "a" + " " * 5000 + "; rm -rf /"
    with config({"f": fake("good")}) as path, scripted_model([("f__echo", {"text": hidden})], "1", [("f__echo", {"text": long})], "2",
                                                             [("f__echo", {"text": long})], "3", [("f__echo", {"text": "x" * 70000})], "4") as (model, url):
        chat = Terminal("--mcp-config", path, "--url", url)
        chat.expect("> ")
        chat.say("go\n")
        seen = chat.expect("ne[v]er this tool: ")
        assert r"ls \u202egpj.exe\U000e0041\u200b\ufe0f\u001b[2K" in seen, seen
        chat.say("y\n")
        chat.expect("1\r\n")
        chat.say("go\n")
        for _ in range(3):
            seen = chat.expect("does not run it: ")
            assert "rm -rf" not in seen, seen
            chat.say("\n")
        assert "; rm -rf /" in chat.expect("ne[v]er this tool: ")
        chat.say("y\n")
        chat.expect("2\r\n")
        chat.say("go\n")
        chat.expect("does not run it: ")
        chat.say("n\n")
        chat.expect("not run")
        chat.expect("3\r\n")
        chat.say("go\n")
        chat.expect("more than can be shown: not run")
        chat.expect("4\r\n")
        chat.close()
        told = results(model)
        assert told[0] == hidden and told[1] == long, told[:2]
        assert told[2] == "Error: the user did not allow this call" and "too long to be shown" in told[3], told[2:]


def test_a_terminal_is_not_obeyed():
    """Escape sequences of a tool, and those that the model repeats, do not reach the terminal."""
    with config({"f": fake("good")}) as path, scripted_model([("f__echo", {"text": "\x1b[35mtool\x07"})], "\x1b[36mmodel\u009b1m end") as (model, url):
        chat = Terminal("--mcp-config", path, "--url", url, "--mcp-allow", "f")
        chat.expect("> ")
        chat.say("go\n")
        seen = chat.expect(" end")
        assert "[35mtool" in seen and "[36mmodel1m" in seen and "\x1b[35" not in seen and "\x1b[36" not in seen and "\x07" not in seen, seen
        chat.close()
        assert results(model) == ["\x1b[35mtool\x07"]


def test_interrupt_stops_a_call():
    with config({"f": fake("good")}) as path, scripted_model([("f__sleep", {"text": "30"})], "not reached") as (model, url):
        chat = Terminal("--mcp-config", path, "--url", url, "--mcp-allow", "f")
        chat.expect("> ")
        chat.say("go\n")
        chat.expect("f.sleep")
        time.sleep(0.5)  # the call is under way
        began = time.monotonic()
        os.kill(chat.pid, signal.SIGINT)
        chat.expect("was cancelled")
        chat.expect("> ")
        assert time.monotonic() - began < 20  # of the 30 s that the call takes
        chat.say("and now\n")
        chat.expect("not reached")
        chat.close()
        assert "was cancelled" in results(model)[0]


def test_limits():
    endless = [ECHO[:] for _ in range(50)]
    with config({"f": fake("good")}) as path:
        for flag, value, part, most in (("--mcp-max-steps", "3", "it took 3 steps", 3), ("--mcp-max-tokens", "25", "it wrote 30 tokens", 3)):
            with scripted_model(*endless) as (model, url):
                _, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f", flag, value)
                assert "stopped: " + part in err and len(model.requests) == most, (err, len(model.requests))
        with scripted_model(*[[("f__sleep", {"text": "0.4"})] for _ in range(50)]) as (model, url):
            began = time.monotonic()
            _, err = run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f", "--mcp-max-seconds", "1")
            assert "stopped: it took longer than 1 s" in err and time.monotonic() - began < 15, err  # of 20 s for all calls
    with config({"f": fake("long-output")}) as path, scripted_model(ECHO[:]) as (model, url):
        run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f", "--mcp-max-output", "1KB")
        assert len(results(model)[0].encode()) < 1200 and "[cut here: the output has more than 1024 bytes]" in results(model)[0]


def test_log():
    with tempfile.TemporaryDirectory() as folder, config({"f": fake("good")}) as path, scripted_model(
            ECHO + [("f__fail", {}), ("f__sleep", {"text": "0.3"})]) as (model, url):
        log = folder + "/calls.jsonl"
        run(paths.PROGRAM, "go\n", path, "--url", url, "--mcp-allow", "f", "--mcp-log", log)
        assert os.stat(log).st_mode & 0o777 == 0o600
        first, second, third = [json.loads(line) for line in open(log)]
        assert (first["server"], first["tool"], first["arguments"], first["output_bytes"], first["error"]) == ("f", "echo", {"text": "x"}, 1, None)
        assert second["error"] == "it did not work" and re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", second["at"])
        assert 0.3 <= third["seconds"] < 60, third


def test_no_process_outlives_us():
    for end in (signal.SIGKILL, signal.SIGTERM):
        with config({"f": fake("hang-close")}) as path, scripted_model([("f__env", {})], "told") as (model, url):
            chat = subprocess.Popen([paths.PROGRAM, "chat", "--mcp-config", path, "--url", url, "--mcp-allow", "f"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            chat.stdin.write("go\n")
            chat.stdin.flush()
            assert chat.stdout.readline() == "told\n"
            pid = json.loads(results(model)[0])["pid"]
            assert alive(pid)
            chat.send_signal(end)
            chat.wait()
            wait_for(lambda: not alive(pid), f"the server ends after {end}")


def test_configurations():
    for text, part in (("{", "JSON"), ("{}", '"mcpServers"'), ('{"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}', "old transport"),
                       ('{"mcpServers": {"a": {"command": "${NOT_SET_ANYWHERE}"}}}', "NOT_SET_ANYWHERE")):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            _, err = run(paths.PROGRAM, "", file.name, "--url", "http://127.0.0.1:1", code=1)
            assert part in err and file.name in err, err
    _, err = run(paths.PROGRAM, "", "/no/such/file", "--url", "http://127.0.0.1:1", code=1)
    assert "--mcp-config '/no/such/file'" in err
