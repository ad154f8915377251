"""How long MCP servers can hold up answers, other keys and the end of the server. The sleeps are those of servers that hang."""

import contextlib
import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

import pytest

from harness import paths
from harness.waiting import stays, wait_for

pytestmark = pytest.mark.any_model

TIMEOUT = 2  # of each server
SCHEMA = {"type": "object", "additionalProperties": False}
heard = []  # (mode, method)


class Hostile(http.server.BaseHTTPRequestHandler):
    """A server of tools whose path says how it misbehaves."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def give(self, status, json_body=None, **headers):
        body = b"" if json_body is None else json.dumps(json_body).encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def events(self, events, pause=0.0):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            self.wfile.write(event)
            self.wfile.flush()
            time.sleep(pause)

    def questions(self, count):
        for i in range(count):
            yield b"data: " + json.dumps({"jsonrpc": "2.0", "id": f"k{i}", "method": "sampling/createMessage", "params": {}}).encode() + b"\n\n"

    def do_DELETE(self):
        if self.path == "/listens":
            time.sleep(30)
        self.give(200, {})

    def do_GET(self):
        heard.append((urllib.parse.unquote(self.path[1:]), "GET"))
        if self.path != "/listens":
            return self.give(405)
        with contextlib.suppress(OSError):
            self.events(self.questions(90))
            time.sleep(60)

    def do_POST(self):
        mode = urllib.parse.unquote(self.path[1:])
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message.get("method", "answer"), message.get("id")
        heard.append((mode, method))
        with contextlib.suppress(OSError):
            self.answer(mode, method, number, message)

    def answer(self, mode, method, number, message):
        result = None
        if method == "initialize":
            if mode == "starts slowly":
                time.sleep(25)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
            return self.give(200, {"jsonrpc": "2.0", "id": number, "result": result}, Mcp_Session_Id="s1")
        if method == "notifications/initialized":
            if mode == "hears slowly":
                time.sleep(20)
            return self.give(202)
        if method in ("answer", "notifications/cancelled"):
            time.sleep(4.5)
            return self.give(202)
        if method == "tools/list":
            result = {"tools": [{"name": "do", "inputSchema": SCHEMA}]}
            if mode == "pages":
                time.sleep(0.5)
                result["nextCursor"] = str(time.monotonic())
            return self.give(200, {"jsonrpc": "2.0", "id": number, "result": result})
        if mode == "asks":
            self.events(self.questions(60))
            time.sleep(60)
        elif mode == "trickles":
            self.events([b":\n"] * 60, 0.5)
        elif mode == "moves":
            time.sleep(1.5)
            return self.give(307, Location=self.path)
        elif mode == "forgets":
            time.sleep(1.5)
            return self.give(404)
        elif mode in ("hangs", "other"):
            time.sleep(60 if mode == "hangs" else 0)
        self.give(200, {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})


MODES = ["good", "other", "starts slowly", "hears slowly", "pages", "asks", "trickles", "moves", "forgets", "hangs", "listens"]


class Client:
    """A server with two keys, and with tools of one hostile server under many names."""

    def __init__(self, serve, folder, **servers):
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        about = {mode: {"type": "http", "url": f"http://127.0.0.1:{web.server_address[1]}/{mode.replace(' ', '%20')}", "timeout": TIMEOUT}
                 for mode in MODES}
        config, keys = folder / "mcp.json", folder / "keys"
        config.write_text(json.dumps({"mcpServers": about | servers}))
        keys.write_text("alice key-a\nbob key-b\n")
        keys.chmod(0o600)
        self.server = serve("--mcp-config", config, "--api-key-file", keys, "--cache-dir", folder / "cache", key="key-a")

    def ask(self, path, body=None):
        return self.server.ask("/v1" + path, body)

    def call(self, mode, key="key-a"):
        """Has the model call the server's tool; the items of the answer, and seconds."""
        began = time.monotonic()
        tool = {"type": "mcp", "server_label": mode, "require_approval": "never"}
        body = {"input": "Hi", "tools": [tool], "tool_choice": "required", "max_output_tokens": 60, "temperature": 0,
                "reasoning": {"effort": "none"}, "store": False}
        status, answer = self.server.status("/v1/responses", body, key)
        # Where the tool that must be called could not be listed, the answer is an error.
        items = answer["output"] if status == 200 else [{"type": "error", "error": answer["error"]["message"]}]
        return items, time.monotonic() - began

    def stop(self):
        """How long its end takes."""
        began = time.monotonic()
        assert self.server.stop() == 0
        return time.monotonic() - began


@pytest.fixture
def serving(serve, tmp_path):
    heard.clear()
    return lambda **servers: Client(serve, tmp_path, **servers)


def slack(usual):
    """What a busy machine may add, by how long a turn with a server that answers at once takes."""
    return 2 + 3 * usual


MOST_STOP = 20  # a stop waits 30 s for answers, and these servers hang for 60 s


def test_one_deadline_for_all_that_a_call_causes(serving):
    client = serving()
    items, usual = client.call("good")
    assert any(item["type"] == "mcp_call" and item["output"] == "fine" for item in items), items
    for mode in ("starts slowly", "hears slowly", "pages", "asks", "trickles", "moves", "forgets", "hangs"):
        items, seconds = client.call(mode)
        failed = [item for item in items if item.get("error")]
        assert failed or mode == "pages", (mode, items)
        # One timeout for the list, one for the call, and the model's turns.
        assert seconds < 2 * TIMEOUT + slack(usual), (mode, seconds, usual)
    # It is told of what was given up, though nobody waits for that.
    wait_for(lambda: ("hangs", "notifications/cancelled") in heard, "the server is told that its call was given up")
    assert client.stop() < MOST_STOP


def test_the_end_waits_for_no_server(serving):
    client = serving()
    client.call("listens")
    wait_for(lambda: ("listens", "GET") in heard, "the server's own stream is open")
    client.call("asks")
    assert client.stop() < MOST_STOP


def test_a_hanging_server_delays_no_other_and_no_other_key(serving):
    client = serving()
    for mode in ("hangs", "good", "other"):  # so that the lists are known
        client.call(mode)
    usual = client.call("good")[1]
    heard.clear()
    waiting = [threading.Thread(target=client.call, args=("hangs",)) for _ in range(40)]
    for one in waiting:
        one.start()
    wait_for(lambda: ("hangs", "tools/call") in heard, "a call hangs")
    for mode, key in (("good", "key-b"), ("other", "key-a")):
        items, seconds = client.call(mode, key)
        assert any(item.get("output") == "fine" for item in items), items
        assert seconds < 20 * usual + slack(usual), (mode, key, seconds, usual)
    for one in waiting:
        one.join()


def test_to_look_at_servers_starts_none(serving, tmp_path):
    mark = tmp_path / "started"
    command = ["-c", f"open({str(mark)!r}, 'w'); import os, sys; os.execv(sys.executable, [sys.executable, '-u', "
                     f"{os.path.join(paths.TESTS, 'mcp', 'fake_server.py')!r}, 'good'])"]
    client = serving(local={"command": sys.executable, "args": command})
    about = {one["id"]: one for one in client.ask("/mcp/servers")["data"]}
    assert about["local"]["state"] == "idle" and not about["local"]["tools"] and set(MODES) < set(about), about
    stays(lambda: not mark.exists(), "no server is started")
    about = {one["id"]: one for one in client.ask("/mcp/servers", {})["data"]}
    assert about["local"]["state"] == "connected" and about["local"]["tools"] and mark.exists(), about["local"]
    assert {one["id"]: one for one in client.ask("/mcp/servers")["data"]}["local"] == about["local"]
