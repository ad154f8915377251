#!/usr/bin/env python3
"""/v1/generate of a real model: its tokens are those of /v1/completions, streamed or not, cold or cached; a request is
cancelled while it runs and while it waits.

usage: generate_test.py PROGRAM MODEL_DIR

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time

from conclude import conclude
from soak_test import free_port

LONG = {"max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "break_loops": False, "ignore_eos": True}
PROMPT = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library. " * 20
PLAIN = {"temperature": 0, "repetition_penalty": 1}
ASKED = {"greedy": PLAIN | {"max_tokens": 40, "ignore_eos": True},
         "seeded": {"max_tokens": 40, "temperature": 0.9, "top_p": 0.95, "top_k": 50, "min_p": 0.01, "seed": 7, "ignore_eos": True},
         "penalties": PLAIN | {"max_tokens": 40, "repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
         "to its end": {"temperature": 1.2, "seed": 11, "max_tokens": 300}}


class Server:
    def __init__(self, program, model, cache):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, "--port", str(self.port), "--context", "4096", "--parallel", "2",
             "--cache-disk", "0", "--cache-dir", cache], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        assert " on http" in self.process.stdout.readline(), "the server did not start"

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse()

    def ask(self, path, body):
        return json.load(self.post(path, body))

    def streamed(self, body):
        """What a stream says, as a whole answer, and the number of its chunks."""
        ids, logprobs, chunks, end = [], [], 0, None
        for line in self.post("/v1/generate", body | {"stream": True}):
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                return end | {"token_ids": ids, "logprobs": logprobs}, chunks
            assert end is None, "a chunk came after the end"
            chunk = json.loads(line[6:])
            ids += chunk["token_ids"]
            logprobs += chunk["logprobs"] or []
            chunks += 1
            end = chunk if chunk["finish_reason"] else None
        raise AssertionError("the stream has no end")

    def running(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/health")
        engine = json.load(connection.getresponse())["engine"]
        return engine["running"], engine["queued"]

    def wait_for(self, running, queued):
        deadline = time.monotonic() + 20
        while self.running() != (running, queued):
            assert time.monotonic() < deadline, f"{self.running()} instead of {running}, {queued}"
            time.sleep(0.01)


def same(ours, theirs, server):
    """Whether ids and log probabilities of /v1/generate are those of a text completion."""
    choice = theirs["choices"][0]
    text = server.ask("/detokenize", {"tokens": ours["token_ids"]})["content"]
    return (text.startswith(choice["text"]) and ours["finish_reason"] == choice["finish_reason"]
            and [entry["logprob"] for entry in ours["logprobs"]] == choice["logprobs"]["token_logprobs"]
            and len(ours["token_ids"]) == ours["usage"]["completion_tokens"] == theirs["usage"]["completion_tokens"])


def check_tokens(server, checks):
    ids = server.ask("/tokenize", {"content": PROMPT})["tokens"]
    for name, fields in ASKED.items():
        body = fields | {"prompt_token_ids": ids, "logprobs": True, "top_logprobs": 2, "speculation": "off", "cache": False}
        cold = server.ask("/v1/generate", body)
        theirs = server.ask("/v1/completions", fields | {"prompt": ids, "logprobs": 2, "speculation": "off", "cache": False})
        checks[f"{name}: as /v1/completions"] = same(cold, theirs, server), f"{cold} {theirs}"
        llama = server.ask("/completion", {"n_predict": fields["max_tokens"], "prompt": ids, "return_tokens": True,
                                           "cache_prompt": False} | {k: v for k, v in fields.items() if k != "max_tokens"} |
                           {"repeat_penalty": fields.get("repetition_penalty")})
        checks[f"{name}: as /completion"] = llama["tokens"] == cold["token_ids"], f"{llama['tokens']} {cold['token_ids']}"
        warm = body | {"cache": True, "speculation": "auto", "cache_salt": name}
        server.ask("/v1/generate", warm)
        streamed, chunks = server.streamed(warm)
        whole = server.ask("/v1/generate", warm)
        for way, answer in {"streamed": streamed, "cached": whole}.items():
            alike = all(answer[key] == cold[key] for key in ("token_ids", "logprobs", "finish_reason", "stop_reason"))
            checks[f"{name}: {way}"] = alike, f"{answer} {cold}"
        cached = whole["usage"]["prompt_tokens_details"]["cached_tokens"]
        checks[f"{name}: from the cache"] = cached == len(ids) - 1, cached
        checks[f"{name}: in chunks"] = chunks > 2, chunks
    stop = cold["token_ids"][10]
    body = {"prompt_token_ids": ids, "stop_token_ids": [stop], **ASKED["to its end"]}
    cut = server.ask("/v1/generate", body | {"ignore_eos": True})
    expected = cold["token_ids"][:cold["token_ids"].index(stop) + 1]
    checks["a stop token"] = ((cut["token_ids"], cut["stop_reason"], cut["finish_reason"]) == (expected, stop, "stop"), cut)


def check_cancel(server, checks):
    def start(name, stream=False, **fields):
        body = LONG | {"prompt_token_ids": [1, 2, 3], "request_id": name} | fields
        thread = threading.Thread(target=lambda: ends.update(
            {name: server.streamed(body)[0] if stream else server.ask("/v1/generate", body)}))
        thread.start()
        return thread

    def cancel(name):
        response = server.post(f"/v1/generate/{name}/cancel", {})
        return response.status, json.load(response)

    ends = {}
    threads = [start("one"), start("two", stream=True)]
    server.wait_for(2, 0)
    threads.append(start("three"))
    server.wait_for(2, 1)
    time.sleep(0.2)
    for name in ("three", "two", "one"):
        checks[f"cancel {name}"] = cancel(name) == (200, {"id": name, "cancelled": True}), "it was not taken"
    for thread in threads:
        thread.join(20)
    for name in ("one", "two", "three"):
        end = ends.get(name, {})
        checks[f"{name} ended"] = end.get("finish_reason") == "cancelled", end
    checks["tokens so far"] = len(ends["one"]["token_ids"]) == ends["one"]["usage"]["completion_tokens"] > 0, ends["one"]["usage"]
    checks["none of the queue"] = ends["three"]["token_ids"] == [], ends["three"]
    status, answer = cancel("one")
    checks["an ended one"] = (status, answer["error"]["code"]) == (404, "request_not_found"), answer
    server.wait_for(0, 0)


def main():
    program, model = sys.argv[1:3]
    checks = {}
    with tempfile.TemporaryDirectory() as cache:
        server = Server(program, model, cache)
        try:
            check_tokens(server, checks)
            check_cancel(server, checks)
        finally:
            server.process.kill()
            server.process.communicate()
    return conclude(checks, f"{len(ASKED)} ways to sample")


if __name__ == "__main__":
    sys.exit(main())
