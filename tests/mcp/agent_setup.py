"""What the tests of `chat` with tools share: a model that says what the test wants, servers of tools, and the program."""
import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

from harness.clients import free_port
from harness.waiting import wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.give("application/json", json.dumps({"data": [{"id": "scripted"}]}))

    def do_POST(self):
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answers = self.server.answers
        answer = answers.pop(0) if answers else "done"
        delta = {"content": answer} if isinstance(answer, str) else {"tool_calls": [
            {"index": i, "id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for i, (name, arguments) in enumerate(answer)]}
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop" if isinstance(answer, str) else "tool_calls"}],
                 "usage": {"prompt_tokens": 10, "completion_tokens": 10}}
        self.give("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")

    def give(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


@contextlib.contextmanager
def scripted_model(*answers):
    """A server with a model that gives these answers, one after the other: a text, or a list of calls (name, arguments)."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.requests = list(answers), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def results(model):
    """The texts of all tools' results that the model has been told, in order."""
    return [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "tool"]


def fake(mode, *more):
    return {"command": PYTHON, "args": ["-u", os.path.join(HERE, "fake_server.py"), mode, *more]}


def sdk(*words):
    return {"command": PYTHON, "args": [os.path.join(HERE, "sdk_server.py"), *words]}


@contextlib.contextmanager
def config(servers):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mcp.json")
        with open(path, "w") as file:
            json.dump({"mcpServers": servers}, file)
        yield path


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True


@contextlib.contextmanager
def http_server(*words, port=None):
    """The SDK's server over HTTP; its address."""
    port = port or free_port()
    process = subprocess.Popen([PYTHON, os.path.join(HERE, "sdk_server.py"), *words, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(port), f"something listens on {port}")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def run(program, text, path, *words, code=0, seconds=600):
    """`chat` with these lines as its input. (stdout, stderr)"""
    done = subprocess.run([program, "chat", "--mcp-config", path, *words], input=text, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr
