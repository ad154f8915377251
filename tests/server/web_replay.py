"""A server for the web page that answers as a recording says, in its order and its chunks (web_recording.py). The page's files
are those of src/server/web; what is asked beside the conversation (/health, the lists of models and tools) is the scripted
server's."""

import contextlib
import json
import threading
import urllib.parse

from web_fake_server import PAGES, Fake, Handler

WAIT = 90  # seconds for the page or the test to do what a stream waits for


class Streaming(Handler):
    """What the recorder and the replay share: chunks as they are, and which requests belong to a conversation."""

    def is_recorded(self, method):
        path = urllib.parse.urlsplit(self.path).path
        return path in ("/v1/responses", "/v1/completions") or path.startswith("/v1/sessions/") or (
            method == "POST" and path == "/v1/sessions")

    def is_file(self, method):
        path = urllib.parse.urlsplit(self.path).path
        return method == "GET" and (path in PAGES or path.startswith("/web/") or path == "/favicon.ico")

    def begin_stream(self, status, content_type):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def pause(self, then):
        """Nothing more comes: until the page has "left", or the test lets the connection be "broken"."""
        self.close_connection = True
        self.fake.paused.set()
        if then == "broken":
            assert self.fake.released.wait(WAIT), "the test forgot this stream"
            return self.connection.shutdown(2)
        self.connection.settimeout(WAIT)
        with contextlib.suppress(ConnectionResetError):
            assert self.connection.recv(1) == b"", "the page sends something before its answer has ended"


class Replaying(Streaming):
    def route(self, method):
        if not self.is_recorded(method):
            return super().route(method)
        body = self.body() if method == "POST" else None
        exchange = self.fake.next_exchange(method, self.path, body)
        if not exchange:
            return self.error(500, f"The recording has no more answers to {method} {self.path}", "not_recorded")
        if not exchange.is_stream:
            return self.answer(exchange.status, exchange.data, exchange.type)
        self.begin_stream(exchange.status, exchange.type)
        try:
            for chunk in self.fake.cut(exchange):
                self.chunk(chunk)
            if exchange.end != "complete":
                return self.pause(exchange.end)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page was left meanwhile


class Replay(Fake):
    """exchanges: of a recording. cut(exchange) -> the chunks in which a stream is sent."""

    def __init__(self, exchanges, mcp=(), cut=lambda exchange: exchange.chunks, **state):
        super().__init__(None, mcp, Replaying)
        self.cut = cut
        self.exchanges = list(exchanges)
        self.left = list(exchanges)
        self.last = {}         # the last answer to each GET, which may be asked for again
        self.differences = []  # requests of the page that are not those of the recording
        self.replaying = threading.Lock()
        self.paused, self.released = threading.Event(), threading.Event()
        for name, value in state.items():
            setattr(self, name, value)

    def next_exchange(self, method, path, body):
        with self.replaying:
            found = next((one for one in self.left if (one.method, one.path) == (method, path)), None)
            if not found:
                found = self.last.get(path) if method == "GET" else None
                if not found:
                    self.differences.append(f"{method} {path}, which the recording has no (further) answer for: {json.dumps(body)}")
                return found
            self.left.remove(found)
            if method == "GET":
                self.last[path] = found
            elif found.body != body:
                self.differences.append(f"{method} {path}\n    recorded: {json.dumps(found.body)}\n    now:      {json.dumps(body)}")
            return found
