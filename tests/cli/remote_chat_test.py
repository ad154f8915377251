"""`chat --url` against our server and against servers that do what servers do."""

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading

from harness import paths
from harness.server import Server

GREEDY = ("-n", "16", "--temp", "0")


def environment(**more):
    return {k: v for k, v in os.environ.items() if k != "ANABRANCH_API_KEY"} | more


def chat(text, *words, code=0, **more):
    done = subprocess.run([paths.PROGRAM, "chat", *words], input=text, capture_output=True, text=True, timeout=300, env=environment(**more))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


@contextlib.contextmanager
def serving(*words):
    with Server("--no-cache", "--context", "2048", *words, model=paths.DRAFT) as server:
        yield server.root


class Other(http.server.BaseHTTPRequestHandler):
    """Another server: answers with what the test has put into `script`, byte by byte if it says so."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.give(200, json.dumps(self.server.script.get("models", {"data": [{"id": "theirs"}]})))

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self.server.requests.append((self.path, self.headers, json.loads(self.rfile.read(length))))
        script = self.server.script
        if "status" in script:
            return self.give(script["status"], script["body"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            for piece in script["pieces"]:
                self.wfile.write(piece)
                self.wfile.flush()
            if script.get("hang"):
                while self.connection.recv(1):  # until the client leaves
                    pass
                self.server.left.set()

    def give(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@contextlib.contextmanager
def other_server(**script):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    server.script, server.requests, server.left = script, [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def event(delta, **more):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, **more}]}).encode() + b"\n\n"


def test_the_same_answers_as_without_a_server():
    script = "Tell me a story.\nAnd then?\n/system You are brief.\nHello\n/clear\nHello again\n"
    here, _ = chat(script, "-m", paths.DRAFT, *GREEDY)
    with serving() as url:
        for address in (url, url + "/v1/", url.replace("http://", "")):
            there, _ = chat(script, "--url", address, *GREEDY)
            assert here == there and len(here) > 60, (here, there)
        there, _ = chat("Hello\n/stats\n", "--url", url, *GREEDY)
        assert "answer 16 tokens" in there, there


def test_keys():
    with tempfile.TemporaryDirectory() as folder, serving("--api-key", "right") as url:
        out, err = chat("", "--url", url, code=1)
        assert "401" in err and "--api-key-file" in err, err
        with open(folder + "/key", "w") as file:
            file.write("right\n")
        assert chat("Hi\n", "--url", url, "--api-key-file", folder + "/key", *GREEDY)[0].strip()
        assert chat("Hi\n", "--url", url, *GREEDY, ANABRANCH_API_KEY="right")[0].strip()


def test_what_is_sent():
    with other_server(pieces=[event({"content": "fine"}, finish_reason="stop"), b"data: [DONE]\n\n"]) as (server, url):
        out, _ = chat("one\n/model second\ntwo\n", "--url", url, "--temp", "0.5", "--stop", "x", "--thinking", "off", "-s", "Be kind.")
        assert out == "fine\nsecond at http://" + url + "/v1\nfine\n", out
        chat("three\n", "--url", url, "-m", "named")
        (path, _, first), (_, _, second), (_, headers, third) = server.requests
        assert path == "/v1/chat/completions" and first == {
            "model": "theirs", "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "one"}],
            "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5, "stop": ["x"],
            "chat_template_kwargs": {"enable_thinking": False}}, first
        assert second["model"] == "second" and [m["content"] for m in second["messages"]] == ["Be kind.", "one", "fine", "two"]
        assert third["model"] == "named" and set(third) == {"model", "messages", "stream", "stream_options"}
        assert headers["Content-Type"] == "application/json" and "Authorization" not in headers


def test_bounds_are_sent():
    with other_server(pieces=[event({"content": "fine"}, finish_reason="stop"), b"data: [DONE]\n\n"]) as (server, url):
        chat("one\n/set max_tokens default\n/set min_tokens 0\ntwo\n", "--url", url + "/", "--min-tokens", "3", "-n", "7")
        first, second = (body for _, _, body in server.requests)
        assert (first["min_tokens"], first["max_tokens"]) == (3, 7), first
        assert not {"min_tokens", "max_tokens"} & set(second), second


def test_texts_of_several_lines_are_sent():
    with other_server(pieces=[event({"content": "fine"}, finish_reason="stop"), b"data: [DONE]\n\n"]) as (server, url):
        chat('"""/one\r\ntwo\r\n"""\r\nthree\\\r\nfour\\\\\r\n"""five"""\r\n', "--url", url)
        said = [m["content"] for m in server.requests[-1][2]["messages"] if m["role"] == "user"]
        assert said == [" /one\ntwo", "three\nfour\\\\", "five"], said


def test_images_are_sent():
    with tempfile.TemporaryDirectory() as folder, \
            other_server(pieces=[event({"content": "fine"}, finish_reason="stop"), b"data: [DONE]\n\n"]) as (server, url):
        names = []
        for name, start in (("a.png", b"\x89PNG\r\n\x1a\n"), ("b.jpg", b"\xff\xd8\xff"), ("c.webp", b"RIFF\0\0\0\0WEBP")):
            names.append(os.path.join(folder, name))
            with open(names[-1], "wb") as file:
                file.write(start)
        out, _ = chat(f"/image {names[2]}\none\ntwo\n", "--url", url, "--image", names[0], "--image", names[1],
                      "--sessions", folder + "/kept")
        assert out == "3 images go before your next message\nfine\nfine\n", out
        chat("three\n", "--url", url, "--sessions", folder + "/kept", "--resume")
        parts = [{"type": "image_url", "image_url": {"url": address}} for address in
                 ("data:image/png;base64,iVBORw0KGgo=", "data:image/jpeg;base64,/9j/", "data:image/webp;base64,UklGRgAAAABXRUJQ")]
        said = {"role": "user", "content": [*parts, {"type": "text", "text": "one"}]}
        assert [body["messages"][0] for _, _, body in server.requests] == [said] * 3, "also from the kept conversation"
        assert server.requests[1][2]["messages"][-1] == {"role": "user", "content": "two"}


def test_streams_in_every_format():
    text = ("ä€😀 " * 20).strip()
    whole = b": hello\r\n\r\nevent: x\r\nid: 5\r\n" + event({"role": "assistant", "content": None}) + event({"reasoning_content": "hm"}) + \
        b"".join(event({"content": c}) for c in text) + event({}, finish_reason="stop") + b'data: {"choices": [],\ndata: "usage": ' \
        b'{"prompt_tokens": 7, "completion_tokens": 9}}\r\rdata:[DONE]\n\n'
    for step in (1, 2, 3, 7, len(whole)):
        with other_server(pieces=[whole[i:i + step] for i in range(0, len(whole), step)]) as (_, url):
            out, _ = chat("hi\n/stats\n", "--url", url)
            assert out.startswith(text + "\nprompt 7 tokens") and "answer 9 tokens" in out, (step, out)


def test_failures_leave_the_conversation_as_it_was():
    good = [event({"content": "good"}, finish_reason="stop")]
    cases = [({"pieces": [event({"content": "half"})]}, "ended in the middle"),
             ({"pieces": [event({"content": "half"}), b'data: {"error": {"message": "no memory"}}\n\n']}, "no memory"),
             ({"pieces": [b"data: not json\n\n"]}, "no JSON"),
             ({"pieces": [b"data: " + b"x" * (17 << 20)]}, "not taken"),
             ({"status": 404, "body": json.dumps({"error": {"message": "no such model"}})}, "HTTP 404: no such model"),
             ({"status": 500, "body": json.dumps({"error": "broken"})}, "HTTP 500: broken"),
             ({"status": 503, "body": "<html>"}, "HTTP 503: no message"),
             ({"status": 307, "body": ""}, "HTTP 307")]
    for script, message in cases:
        with other_server(**script) as (server, url):
            process = subprocess.Popen([paths.PROGRAM, "chat", "--url", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=environment())
            process.stdin.write("first\n")
            process.stdin.flush()
            error = process.stderr.readline()
            assert message in error, (message, error)
            server.script = {"pieces": good}
            out, _ = process.communicate("second\n", timeout=300)
            assert process.returncode == 0 and out.endswith("good\n"), out
            assert [m["content"] for m in server.requests[-1][2]["messages"]] == ["second"]


def test_interrupt_ends_an_answer_and_keeps_what_came():
    with other_server(pieces=[event({"content": "so far"})], hang=True) as (server, url):
        process = subprocess.Popen([paths.PROGRAM, "chat", "--url", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=environment())
        process.stdin.write("first\n")
        process.stdin.flush()
        assert process.stdout.read(6) == "so far"
        process.send_signal(signal.SIGINT)
        assert server.left.wait(120)
        server.script = {"pieces": [event({"content": "more"}, finish_reason="stop")]}
        out, _ = process.communicate("second\n", timeout=300)
        assert process.returncode == 0 and out == "\nmore\n", out
        assert [m["content"] for m in server.requests[-1][2]["messages"]] == ["first", "so far", "second"]


def test_addresses_and_flags_that_cannot_be():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        out, err = chat("", "--url", f"127.0.0.1:{s.getsockname()[1]}", code=1)
        assert "no server answers" in err, err
    for url in ("ftp://x", "http://", "http://a b", "http://127.0.0.1:1/v1?x=y"):
        out, err = chat("", "--url", url, code=1)
        assert "is no address" in err, (url, err)
    with other_server(models={"data": []}) as (_, url):
        assert "no model yet" in chat("", "--url", url, code=1)[1]
    with other_server(models=["what"]) as (_, url):
        assert "something else" in chat("", "--url", url, code=1)[1]
    for words in (("--url", "x:1", "--threads", "2"), ("--url", "x:1", "--no-cache"), ("--api-key-file", "f", "-m", paths.DRAFT), ()):
        done = subprocess.run([paths.PROGRAM, "chat", *words], capture_output=True, text=True, env=environment())
        assert done.returncode not in (0, 1) and "--" in done.stderr, (words, done.stderr)


def test_settings_do_not_get_in_the_way():
    with tempfile.TemporaryDirectory() as folder, other_server(pieces=[event({"content": "fine"}, finish_reason="stop")]) as (server, url):
        with open(folder + "/c.toml", "w") as file:
            file.write('[chat]\nthreads = 1\ntemp = 0.25\n[model.small]\npath = "/nowhere"\ndraft = "/nowhere"\n')
        chat("hi\n", "--config", folder + "/c.toml", "--url", url, "-m", "small")
        assert server.requests[0][2]["temperature"] == 0.25 and server.requests[0][2]["model"] == "small"
