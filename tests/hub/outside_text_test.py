"""Text that other people chose, and that commands and logs print. No command lets it act on a terminal, hide, or begin a line of its own; --json stays JSON that says the same."""

import contextlib
import http.server
import json
import os
import pty
import shutil
import struct
import subprocess
import tempfile
import threading

import pytest

from harness import passed_on, paths
from hub_setup import NAME, setup, small_repo
from test_hub import Repo

SMALL = paths.DRAFT
BAD = "evil\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\nFORGED \u202e\u2066\U000e0041\u009b31m\x7f"


def is_hidden(c):
    return (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c in "\u200e\u200f" or "\u202a" <= c <= "\u202e" \
        or "\u2066" <= c <= "\u2069" or "\U000e0000" <= c <= "\U000e007f"


def check(text, quotes=True, ours=("\x1b[K", "\x1b[2m", "\x1b[0m", "\r")):
    """quotes: something of it must be there, or nothing was tested."""
    for known in ours:
        text = text.replace(known, "")
    hidden = [hex(ord(c)) for c in text if is_hidden(c)]
    assert not hidden, (hidden, text)
    assert "\nFORGED" not in text, text
    assert not quotes or "evil" in text, text


def check_json(out):
    """One value with the text as it was, in printable characters."""
    value = json.loads(out)
    assert not [c for c in out if is_hidden(c)], out
    return value


def run(*words, stdin="", ok=None, **env):
    done = subprocess.run([paths.PROGRAM, *words], input=stdin.encode(), capture_output=True, timeout=600, cwd=tempfile.gettempdir(),
                          env=passed_on.variables() | {"PATH": os.environ["PATH"], "HOME": tempfile.gettempdir(), "HF_HUB_OFFLINE": "1"} | env)
    assert ok is None or (done.returncode == 0) == ok, done
    return done.stdout.decode(), done.stderr.decode()


@contextlib.contextmanager
def model(change=None):
    """A copy of a model whose config.json is changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        shutil.copytree(SMALL, path)
        with open(os.path.join(path, "config.json")) as file:
            config = json.load(file)
        (change or (lambda _: None))(config)
        with open(os.path.join(path, "config.json"), "w") as file:
            json.dump(config, file)
        yield path


def safetensors(dtype):
    header = json.dumps({"model.embed_tokens.weight": {"dtype": dtype, "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


def gguf(**texts):
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(texts))
    for key, value in texts.items():
        out += text(key.replace("__", ".")) + struct.pack("<I", 8) + text(value)
    return out + bytes(64)


def look(path, quotes=True):
    for words in (("show", path), ("doctor", "--model", path), ("verify", "--model", path), ("generate", "--model", path, "x"),
                  ("eval", "--model", path, "--text", __file__), ("convert", path, path + "-out"), ("chat", "--model", path)):
        out, err = run(*words)
        check(out + err, quotes and words[0] in ("show", "generate"))
    out, _ = run("show", path, "--json")
    if out:
        check_json(out)


def test_config_of_a_model():
    with model(lambda c: c.update(model_type=BAD)) as path:
        look(path)
    with model(lambda c: c.update(torch_dtype=BAD, hidden_act=BAD, rope_scaling={"type": BAD}, quantization_config={"quant_method": BAD})) as path:
        look(path, quotes=False)


def test_types_and_names_of_tensors():
    with model() as path:
        for name in os.listdir(path):
            if name.endswith(".safetensors") or name.endswith("index.json"):
                os.unlink(os.path.join(path, name))
        with open(os.path.join(path, "model.safetensors"), "wb") as file:
            file.write(safetensors(BAD))
        look(path)


def test_gguf():
    with tempfile.TemporaryDirectory() as folder:
        for texts in ({"general__architecture": BAD}, {"general__architecture": "llama", "general__name": BAD, "tokenizer__ggml__model": BAD},
                      {"general__architecture": "qwen35", "tokenizer__ggml__pre": BAD}):
            path = os.path.join(folder, "x.gguf")
            with open(path, "wb") as file:
                file.write(gguf(**texts))
            look(path, quotes=texts["general__architecture"] == BAD)


def test_names_of_paths():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, BAD)
        shutil.copytree(SMALL, path)
        look(path, quotes=False)


def test_stored_models():
    config = json.dumps({"model_type": BAD}).encode()
    with setup(small_repo()) as (cache, hub, repo):
        repo.files["config.json"] = config
        repo.__init__(repo.files)
        code, _, err = cache.run("pull", "--anyway", NAME)
        assert code == 0, err
        snapshot = os.path.join(cache.store, "models--org--x\x1b[31m", "snapshots", "b" * 40)
        os.makedirs(snapshot)
        with open(os.path.join(snapshot, "config.json"), "wb") as file:
            file.write(config)
        for words in (("ls",), ("ls", "--names"), ("show", NAME), ("rm", NAME)):
            _, out, err = cache.run(*words)
            check(out + err, quotes=False)
        _, out, _ = cache.run("ls", "--json")
        check_json(out)


def test_what_a_hub_tells():
    faults = lambda kind, path, *_: {"status": 403, "headers": {"X-Error-Message": BAD.replace("\n", "").replace("\r", "")}, "body": BAD.encode()} \
        if path.endswith("README.md") else None
    files = {"config.json": json.dumps({"model_type": BAD}).encode(), "tokenizer.json": b"{}", "model.safetensors": b"x" * 2000}
    for more in ({}, {BAD + ".safetensors": b"y" * 2000}, {"sub/" + BAD: b"y"}):
        with setup(Repo(files | more, facts={"config": {"model_type": BAD}}), faults=faults) as (cache, hub, _):
            _, out, err = cache.run("show", NAME)
            check(out + err, quotes=False)
            _, out, err = cache.run("pull", NAME)
            check(err, quotes=False)
            for line in out.splitlines():
                check_json(line)
    body = json.dumps({"error": BAD}).encode()
    for status in (400, 403, 404, 500):
        broken = lambda *_: {"status": status, "body": body, "headers": {"X-Error-Message": "evil\x1b[31m\x9b2J"}}
        with setup(small_repo(), faults=broken) as (cache, hub, _):
            terminal, other = pty.openpty()
            process = subprocess.Popen([paths.PROGRAM, "pull", NAME], stdin=subprocess.DEVNULL, stdout=other, stderr=other, env=cache.environment())
            os.close(other)
            text = b""
            with contextlib.suppress(OSError):
                while part := os.read(terminal, 65536):
                    text += part
            process.wait(60)
            os.close(terminal)
            check(text.decode(), quotes=False)


def test_sessions():
    with tempfile.TemporaryDirectory() as folder:
        lines = json.dumps({"session": {"title": BAD, "model": BAD}}) + "\n" + json.dumps({"role": "user", "content": "needle " + BAD}) + "\n"
        out, err = run("sessions", "import", "-", "--sessions", folder, stdin=lines, ok=True)
        check(out + err)
        for words in (("ls",), ("ls", "needle"), ("rm", "1")):
            out, err = run("sessions", *words, "--sessions", folder)
            check(out + err, quotes=words[0] != "rm")
        out, _ = run("sessions", "ls", "--json", "--sessions", folder, ok=True)
        assert "evil" in check_json(out)[0]["title"]


def test_cache():
    with tempfile.TemporaryDirectory() as folder:
        records = os.path.join(folder, "ab" * 16)
        os.makedirs(records)
        with open(os.path.join(records, "about.txt"), "wb") as file:
            file.write(f"model {BAD}\npath {BAD}\nsetting {BAD}\n".encode())
        for words in (("ls",), ("stats",), ("verify",), ("clear", "--model", BAD)):
            out, err = run("cache", *words, "--cache-dir", folder)
            check(out + err, quotes=False)
        out, _ = run("cache", "ls", "--json", "--cache-dir", folder)
        check_json(out)


class Other(http.server.BaseHTTPRequestHandler):
    """A server that chat --url and status talk to, which calls itself ours."""

    def version_string(self):
        return "anabranch"

    def log_message(self, *_):
        pass

    def give(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if "models" in self.path:
            return self.give(200, {"data": [{"id": BAD, "object": "model"}], "object": "list"})
        self.give(200, {"status": BAD, "version": BAD, "models": [{"id": BAD, "engine": {"running": 1}}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.give(500, {"error": {"message": BAD, "code": BAD, "type": BAD}})


def test_other_servers():
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    port = web.server_address[1]
    out, err = run("chat", "--url", f"http://127.0.0.1:{port}/v1", stdin="Hello\n")
    check(out + err)
    out, err = run("status", "--port", str(port), ok=True)
    check(out + err)
    out, _ = run("status", "--port", str(port), "--json", ok=True)
    assert check_json(out)["health"]["status"] == BAD


@pytest.mark.parametrize("form", ["text", "json"])
def test_logs(form, serve, tmp_path):
    server = serve("--log-format", form, "--share-states", "--cache-dir", tmp_path, "--state-peer", "http://127.0.0.1:9",
                   model=SMALL, before=["-v"], environment={"HOME": str(tmp_path)})
    for path, body in (("/v1/completions", {"prompt": "word " * 600, "max_tokens": 1, "kv_transfer_params": {
            "do_remote_prefill": True, "remote_host": BAD, "remote_port": 1, "remote_block_ids": ["x"]}}),
                       ("/v1/models/load", {"model": BAD}), ("/v1/" + "%0AFORGED%1B%5B2J", {})):
        hostile = {"User-Agent": "evil\x1b[2J", "X-Request-Id": "evil\x9b31m"} if "%0A" in path else {}
        server.status(path, body, headers=hostile)
    assert server.stop() == 0
    check(server.log)
    assert "FORGED" in server.log and "\ufffd" not in server.log
    for line in server.log.splitlines() if form == "json" else []:
        check_json(line)
