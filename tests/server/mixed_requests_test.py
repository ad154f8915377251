"""The same requests to two servers: one with a cache, speculation, many at once, little memory, clients that leave and
kill -9 in between; the other with none of these (--no-cache --spec off --parallel 1). Every answer must be the same:
tokens (as log probabilities, where the API has them), text, calls, usage and reason of the end.

Requests are chats, messages, responses, Ollama's chats, text completions and llama-server's, whole and streamed: tools, forced and
strict calls, structured output, thinking, stops, n, penalties, bias, log probabilities, seeds, continued answers, and second turns
of what was answered. --effort and --seed make more and others.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import threading

from answer_shapes import shape_of

import pytest

from harness.waiting import settled
from random_requests import Cases, plain

pytestmark = pytest.mark.any_model

CONTEXT = 1536
CLIENTS = 6


class Client:
    """Asks a server again when it was killed."""

    def __init__(self, server):
        self.server, self.alive = server, threading.Event()
        self.alive.set()

    def ask(self, path, body):
        while True:
            self.alive.wait()
            try:
                with self.server.open(path, body) as response:
                    status, data = response.status, response.read()
                break
            except (OSError, http.client.HTTPException):
                pass  # it was killed, and comes again
        if status != 200:
            error = json.loads(data)["error"]
            return {"status": status, "error": error["message"] if isinstance(error, dict) else error}
        return shape_of(path, body, data)

    def leave(self, path, body, events):
        """Leaves a stream after so many events."""
        with contextlib.suppress(OSError, http.client.HTTPException, AttributeError):
            connection = self.server.connect()
            response = self.server.open(path, body | {"stream": True}, connection=connection)
            while events > 0 and (line := response.readline()):
                events -= line.startswith((b"data:", b"{"))
            connection.sock.close()

    def kill(self):
        self.alive.clear()
        self.server.restart()
        self.alive.set()


class Comparison:
    def __init__(self, reference, client, sources, kept, seed):
        self.reference, self.client, self.kept = reference, client, kept
        self.cases, self.random = Cases(seed, sources), random.Random(seed)
        self.requests, self.differences, self.seen = 0, [], collections.Counter()

    def chance(self, probability):
        return self.random.random() < probability

    def compare(self, path, body, expected, got):
        self.requests += 1
        self.seen["refused" if "status" in expected else path] += 1
        if json.dumps(expected) != json.dumps(got):
            self.differences.append(f"{path} {json.dumps(body)}\n  expected {json.dumps(expected)}\n  got      {json.dumps(got)}")

    def ask_all(self, pool, requests):
        """The server's answers to all, while clients leave some of them first; a kill -9 in the middle of some."""
        killed, answers = self.chance(0.3), []
        for path, body in requests:
            if self.chance(0.15):
                pool.submit(self.client.leave, path, body, self.random.randint(0, 12))
            answers.append(pool.submit(self.client.ask, path, body))
        if killed:
            concurrent.futures.wait(answers, return_when=concurrent.futures.FIRST_COMPLETED)
            self.client.kill()
        return [one.result() for one in answers]

    def compare_all(self, pool, requests):
        expected = [self.reference.ask(path, plain(body)) for path, body in requests]
        for request, told, got in zip(requests, expected, self.ask_all(pool, requests)):
            self.compare(*request, told, got)
        return expected

    def round(self, pool, size):
        first = [self.cases.make() for _ in range(size)]
        expected = self.compare_all(pool, first)
        settled(self.files)  # turns that were answered are being written
        if self.chance(0.5):
            self.client.kill()
        second = [self.cases.second(*request, told) for request, told in zip(first, expected)]
        self.compare_all(pool, [request for request in second if request])

    def files(self):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.kept) for name in names)


def test_every_answer_is_that_of_a_server_without_cache_and_speculation(serve, request, effort, seed, tmp_path):
    reference = serve("--context", CONTEXT, "--no-cache", "--spec", "off", "--parallel", "1")
    sequence = reference.health()["model"]["sequence_bytes"]
    memory = 3 * (sequence["fixed"] + CONTEXT * sequence["per_token"])  # more at once have to wait, or to give way
    draft = request.config.option.checkpoint_draft
    server = serve("--context", CONTEXT, *(["--draft", draft] if draft else []), "--spec", "auto", "--memory", f"{memory}B", "--cache-ram",
                   "64MB", "--cache-disk", "256MB", "--cache-disk-worth", "0", "--cache-dir", tmp_path, "--queue", "200")
    comparison = Comparison(Client(reference), Client(server), server.health()["model"]["draft_sources"], tmp_path, seed)
    wanted = effort(40)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        while comparison.requests < wanted:
            comparison.round(pool, min(40, 1 + (wanted - comparison.requests) // 2))
    assert not comparison.differences, "\n".join(comparison.differences)
    assert comparison.seen["refused"] < comparison.requests / 10, comparison.seen
