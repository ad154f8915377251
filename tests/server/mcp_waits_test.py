#!/usr/bin/env python3
"""How long MCP servers can hold up answers, other keys and the end of the server: mcp_waits_test.py PROGRAM MODEL_DIR
Prints "N passed, N failed"."""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

PROGRAM, MODEL = sys.argv[1:3]
TIMEOUT = 2  # of each server
HERE = os.path.dirname(os.path.abspath(__file__))
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
                result["nextCursor"] = str(time.time())
            return self.give(200, {"jsonrpc": "2.0", "id": number, "result": result})
        if mode == "asks":
            self.events(self.questions(60))
            time.sleep(60)
        elif mode == "trickles":
            self.events([b":\n"] * 60, 0.5)
        elif mode == "moves":
            time.sleep(0.9)
            return self.give(307, Location=self.path)
        elif mode == "forgets":
            time.sleep(1.5)
            return self.give(404)
        elif mode in ("hangs", "other"):
            time.sleep(60 if mode == "hangs" else 0)
        self.give(200, {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})


MODES = ["good", "other", "starts slowly", "hears slowly", "pages", "asks", "trickles", "moves", "forgets", "hangs", "listens"]


class Server:
    def __init__(self, folder, **servers):
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        about = {mode: {"type": "http", "url": f"http://127.0.0.1:{web.server_address[1]}/{mode.replace(' ', '%20')}", "timeout": TIMEOUT}
                 for mode in MODES}
        config, keys = os.path.join(folder, "mcp.json"), os.path.join(folder, "keys")
        with open(config, "w") as file:
            json.dump({"mcpServers": about | servers}, file)
        with open(keys, "w") as file:
            file.write("alice key-a\nbob key-b\n")
        os.chmod(keys, 0o600)
        self.process = subprocess.Popen([PROGRAM, "serve", "--model", MODEL, "--port", "0", "--mcp-config", config, "--api-key-file", keys,
                                         "--cache-dir", os.path.join(folder, "cache")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = self.process.stdout.readline().split(" on ")[-1].strip()

    def ask(self, path, body=None, key="key-a"):
        request = urllib.request.Request(self.base + path, None if body is None else json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)

    def call(self, mode, key="key-a"):
        """Has the model call the server's tool; the items of the answer, and seconds."""
        began = time.time()
        tool = {"type": "mcp", "server_label": mode, "require_approval": "never"}
        body = {"input": "Hi", "tools": [tool], "tool_choice": "required", "max_output_tokens": 60, "temperature": 0,
                "reasoning": {"effort": "none"}, "store": False}
        try:
            items = self.ask("/responses", body, key)["output"]
        except urllib.error.HTTPError as refused:  # the tool that must be called could not be listed
            items = [{"type": "error", "error": json.load(refused)["error"]["message"]}]
        return items, time.time() - began

    def stop(self):
        began = time.time()
        self.process.terminate()
        self.process.wait(120)
        return time.time() - began


@contextlib.contextmanager
def serving(**servers):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, **servers)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def test_one_deadline_for_all_that_a_call_causes():
    with serving() as server:
        items, usual = server.call("good")
        assert any(item["type"] == "mcp_call" and item["output"] == "fine" for item in items), items
        for mode in ("starts slowly", "hears slowly", "pages", "asks", "trickles", "moves", "forgets", "hangs"):
            items, seconds = server.call(mode)
            failed = [item for item in items if item.get("error")]
            assert failed or mode == "pages", (mode, items)
            # One timeout for the list, one for the call, and the model's turns.
            assert seconds < 2 * TIMEOUT + usual + 2, (mode, seconds)
            print(f"       {mode}: {seconds:.1f} s, {str(failed)[:150]}")
        # It is told of what was given up, though nobody waits for that.
        assert ("hangs", "notifications/cancelled") in heard
        assert server.stop() < 5


def test_the_end_waits_for_no_server():
    with serving() as server:
        server.call("listens")
        time.sleep(1)
        server.call("asks")
        seconds = server.stop()
        assert seconds < 5, seconds


def test_a_hanging_server_delays_no_other_and_no_other_key():
    with serving() as server:
        for mode in ("hangs", "good", "other"):  # so that the lists are known
            server.call(mode)
        usual = server.call("good")[1]
        waiting = [threading.Thread(target=server.call, args=("hangs",)) for _ in range(40)]
        for one in waiting:
            one.start()
        time.sleep(1)
        for mode, key in (("good", "key-b"), ("other", "key-a")):
            items, seconds = server.call(mode, key)
            assert any(item.get("output") == "fine" for item in items), items
            print(f"       {mode}: {seconds:.2f} s, alone {usual:.2f} s")
            assert seconds < 20 * usual + 2, (mode, key, seconds, usual)
        for one in waiting:
            one.join()


def test_to_look_at_servers_starts_none():
    with tempfile.TemporaryDirectory() as folder:
        mark = os.path.join(folder, "started")
        command = ["-c", f"open({mark!r}, 'w'); import os, sys; os.execv(sys.executable, [sys.executable, '-u', "
                         f"{os.path.join(HERE, '..', 'mcp', 'fake_server.py')!r}, 'good'])"]
        with serving(local={"command": sys.executable, "args": command}) as server:
            about = {one["id"]: one for one in server.ask("/mcp/servers")["data"]}
            assert about["local"]["state"] == "idle" and not about["local"]["tools"] and set(MODES) < set(about), about
            time.sleep(0.5)
            assert not os.path.exists(mark)
            about = {one["id"]: one for one in server.ask("/mcp/servers", {})["data"]}
            assert about["local"]["state"] == "connected" and about["local"]["tools"] and os.path.exists(mark), about["local"]
            assert {one["id"]: one for one in server.ask("/mcp/servers")["data"]}["local"] == about["local"]


def main():
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (len(sys.argv) > 3 and name not in sys.argv[3:]):
            continue
        began = time.time()
        try:
            test()
            passed += 1
            print(f"ok     {name} ({time.time() - began:.1f} s)")
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
