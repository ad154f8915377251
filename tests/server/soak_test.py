"""A server under random load for some time: streams and whole answers, clients that leave at any moment or read slowly,
malformed and refused requests, all at once. --effort 10 soaks for four minutes.

Checked: every request that its client stayed for gets exactly one end (a finish_reason for each choice, then [DONE]; or
one error of the kind that its fault deserves), no 5xx, memory no larger in the last third than in the one before (beyond
a tenth; in a run of less than five minutes: three), and when all have left: nothing running or queued, and /metrics tells
exactly one end for every sequence that the engine took.
"""

import http.client
import json
import random
import socket
import statistics
import struct
import threading
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.any_model]

WORDS = "river arm water bridge boat winter market letter stone garden night music teacher map harbour".split()
# Small enough to be full long before the first third is over.
SERVER_OPTIONS = ["--strict-model-names", "--cache-ram", "64MB", "--cache-disk", "0", "--context", "2048"]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}}}}]


class Soak:
    def __init__(self, server, clients, seed):
        self.server, self.port, self.clients, self.seed = server, server.port, clients, seed
        self.lock, self.counts, self.faults, self.memory = threading.Lock(), {}, [], []

    def note(self, kind):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    # ---- requests

    def body(self, rng):
        text = " ".join(rng.choices(WORDS, k=rng.choice([1, 5, 40, 300])))
        body = {"messages": [{"role": "user", "content": f"{rng.randrange(50)} {text}"}],
                "max_tokens": rng.choice([1, 4, 16, 48]), "temperature": rng.choice([0, 0.7, 1.5]), "seed": rng.randrange(99)}
        options = [{"enable_thinking": False}, {"thinking_budget": 8}, {"stop": ["the", "a"]}, {"tools": TOOLS},
                   {"logprobs": True, "top_logprobs": 3}, {"speculation": "off"}, {"cache": False},
                   {"cache_salt": str(rng.randrange(3))}, {"presence_penalty": 0.5}, {"min_p": 0.1},
                   {"logit_bias": {"5": -5}}, {"n": 2}, {"n": 3}, {"response_format": {"type": "json_object"}},
                   {"response_format": self.form(rng)}]
        for option in rng.sample(options, rng.randrange(4)):
            body |= option
        return body

    # Many different ones, so that compiled grammars come and go.
    def form(self, rng):
        names = rng.sample(WORDS, 3)
        schema = {"type": "object", "properties": {name: {"type": rng.choice(["string", "integer", "boolean"]),
                                                          "description": str(rng.randrange(9))} for name in names},
                  "required": names, "additionalProperties": False}
        return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def post(self, connection, body, path="/v1/chat/completions"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        return connection.getresponse()

    def whole(self, rng):
        connection, body = self.connect(), self.body(rng)
        response = self.post(connection, body)
        answer = json.loads(response.read())
        connection.close()
        if response.status == 429:
            return self.note("refused: too many")
        reasons = [choice["finish_reason"] for choice in answer.get("choices", [])]
        if response.status != 200 or len(reasons) != body.get("n", 1) or not all(reasons):
            self.fault(f"whole answer: {response.status} {str(answer)[:300]}")
        self.note("whole")

    def streamed(self, rng, leave=False, slow=False):
        connection, body = self.connect(), self.body(rng)
        response = self.post(connection, body | {"stream": True})
        if response.status == 429:
            response.read()
            return self.note("refused: too many")
        if response.status != 200:
            return self.fault(f"stream: {response.status} {response.read(300)}")
        ends, done, events = [], 0, 0
        most = rng.randrange(12) if leave else None
        for line in response:
            if not line.startswith(b"data: "):
                continue
            events += 1
            if leave and events > most:
                self.hang_up(connection, rng)
                return self.note("client left")
            if slow and events % 4 == 0:
                time.sleep(0.05)  # reads slowly
            if line.startswith(b"data: [DONE]"):
                done += 1
                continue
            chunk = json.loads(line[6:])
            if done or "error" in chunk:
                self.fault(f"stream: {line[:300]}")
            ends += [choice["index"] for choice in chunk.get("choices", []) if choice.get("finish_reason")]
        connection.close()
        if (sorted(ends), done) != (list(range(body.get("n", 1))), 1):
            self.fault(f"a stream with ends of the choices {ends} and {done} [DONE]")
        self.note("slow client" if slow else "streamed")

    def hang_up(self, connection, rng):
        if rng.random() < 0.5 and connection.sock:  # as a killed process does: RST
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def leaves_before_the_answer(self, rng):
        connection = self.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body(rng)).encode(),
                           {"Content-Type": "application/json"})
        time.sleep(rng.random() * 0.2)  # at any moment
        self.hang_up(connection, rng)
        self.note("client left before the answer")

    def bad(self, rng):
        good = self.body(rng)
        body, expected = rng.choice([
            (b"{", 400), (b"[]", 400), (b"\xff\xfe", 400), (good | {"temperature": "warm"}, 400),
            (good | {"max_tokens": -7}, 400), (good | {"messages": []}, 400), (good | {"model": "none"}, 404),
            (good | {"messages": [{"role": "user", "content": "river " * 5000}]}, 400)])
        connection = self.connect()
        response = self.post(connection, body)
        answer = response.read()
        connection.close()
        if response.status != expected or b'"error"' not in answer:
            self.fault(f"expected {expected}: {response.status} {answer[:300]}")
        self.note("bad request")

    def half_a_request(self, rng):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{\"mess")
            time.sleep(rng.random() * 0.1)  # at any moment
        self.note("half a request")

    # ---- all at once

    def client(self, number, until):
        rng = random.Random(f"{self.seed} {number}")
        kinds = [(self.whole, 3), (self.streamed, 4), (lambda r: self.streamed(r, leave=True), 3),
                 (lambda r: self.streamed(r, slow=True), 1), (self.leaves_before_the_answer, 1), (self.bad, 3),
                 (self.half_a_request, 1)]
        while time.monotonic() < until:
            kind = rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])[0]
            try:
                kind(rng)
            except Exception as error:  # a client that fails must not hide the others
                self.fault(f"{type(error).__name__}: {error}")
            time.sleep(rng.expovariate(8))  # clients come at random

    def run(self, seconds):
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.client, args=(n, until)) for n in range(self.clients)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and self.server.process.poll() is None:
            self.memory.append(self.server.memory_mib())
            time.sleep(min(0.5, seconds / 60))  # samples over time
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")
def soaked(serve_for_all, effort, seed):
    soak = Soak(serve_for_all(*SERVER_OPTIONS), 12, seed)
    soak.seconds = effort(24.0)
    soak.run(soak.seconds)
    return soak


def test_every_request_had_its_one_end(soaked):
    assert not soaked.faults, f"{len(soaked.faults)}: {soaked.faults[:5]}"
    assert sum(soaked.counts.values()) > len(soaked.counts) > 5, soaked.counts


def test_in_the_end_every_request_and_sequence_was_counted_once(soaked):
    soaked.server.wait_for_requests(0)
    engine = soaked.server.engine()
    assert engine["finished"] + engine["cancelled"] + engine["failed"] == engine["requests"] and engine["failed"] == 0, engine
    ends = {name: n for name, n in soaked.server.metrics().items() if name.startswith("anabranch_answers_total")}
    assert sum(ends.values()) == engine["requests"], (ends, engine)


def test_in_the_end_all_places_and_states_are_free(soaked):
    soaked.server.wait_for_requests(0)
    metrics = soaked.server.metrics()
    for name in ("requests_running", "requests_queued", "state_bytes"):
        assert sum(n for full, n in metrics.items() if full.startswith(f"anabranch_{name}{{")) == 0, name


def test_no_answer_was_a_server_error(soaked):
    assert not [name for name in soaked.server.metrics() if 'status="5' in name]


def test_memory_is_flat(soaked):
    third = len(soaked.memory) // 3
    before, after = statistics.median(soaked.memory[third:2 * third]), statistics.median(soaked.memory[2 * third:])
    growth = 1.1 if soaked.seconds >= 300 else 1.3  # in a short run not everything has been used once
    assert after < growth * before


def test_the_server_stops_when_told_to(soaked):
    assert soaked.server.stop() == 0
