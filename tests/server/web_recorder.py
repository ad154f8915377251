"""Records conversations of the web page with the real server: stands between the two, and writes down what passes
(web_recording.py). The page's files are those of src/server/web, so they may be newer than the program's."""

import dataclasses
import http.client
import json
import threading

from web_fake_server import Fake
from web_recording import Exchange, answers
from web_replay import Streaming

TIMEOUT = 120


@dataclasses.dataclass
class Pause:
    """What happens to a stream after so many events: nothing more comes until the page has "left"; the connection is
    "broken"; or the server is "stopped", and says so itself."""
    events: int
    then: str


def chunks_of(response):
    """The chunks of a response, as the server wrote them."""
    while size := int(response.fp.readline().split(b";")[0], 16):
        data = response.fp.read(size)
        assert response.fp.readline() == b"\r\n"
        yield data


class Recording(Streaming):
    def route(self, method):
        if self.is_file(method):
            return super().route(method)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        server = http.client.HTTPConnection("127.0.0.1", self.fake.server_port, timeout=TIMEOUT)
        server.request(method, self.path, data, {"Content-Type": "application/json"})
        response = server.getresponse()
        exchange = Exchange(method, self.path, json.loads(data) if data else None, response.status,
                            response.getheader("Content-Type") or "")
        pause = self.fake.note(exchange) if self.is_recorded(method) else None

        def hang_up():
            response.close()
            server.close()
        try:
            if exchange.is_stream:
                self.stream(exchange, response, pause, hang_up)
            else:
                exchange.chunks.append(response.read())
                self.answer(exchange.status, exchange.data, exchange.type)
        finally:
            hang_up()

    def stream(self, exchange, response, pause, hang_up):
        self.begin_stream(exchange.status, exchange.type)
        for chunk in chunks_of(response):
            exchange.chunks.append(chunk)
            self.chunk(chunk)
            if not pause or len(exchange.events()) < pause.events:
                continue
            if pause.then == "stopped":
                self.fake.stop_server()
                pause = None
                continue
            exchange.end = pause.then
            hang_up()  # the server goes no further
            return self.pause(pause.then)
        self.wfile.write(b"0\r\n\r\n")


class Recorder(Fake):
    """server: a running harness.server.Server. pauses: {number of the stream: Pause}."""

    def __init__(self, server, pauses):
        super().__init__(None, (), Recording)
        self.server_port, self.stop_server = server.port, server.send_signal
        self.pauses, self.exchanges = pauses, []
        self.noting = threading.Lock()
        self.paused, self.released = threading.Event(), threading.Event()
        self.differences, self.left = [], []

    def note(self, exchange):
        with self.noting:
            self.exchanges.append(exchange)
            return self.pauses.get(len(answers(self.exchanges)) - 1) if answers([exchange]) else None
