"""The servers that are measured, as processes of their own, and the one client that times them all."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

from programs import Failure

START_TIMEOUT, ANSWER_TIMEOUT = 300, 3600  # seconds
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Reply:
    ttft_s: float = 0  # until the first text of the answer arrived
    content: str = ""
    reasoning: str = ""
    calls: list = field(default_factory=list)  # of tools: [name, arguments]
    tokens: list = field(default_factory=list)  # their bytes, where the server tells
    logprobs: list = field(default_factory=list)
    finish: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0

    def said(self):
        return (self.content, self.reasoning, self.calls, self.tokens, self.finish)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`with Server(...)`: it runs, and its log is in a file; it is gone at the end."""

    def __init__(self, name, command, port, log, ready="/health"):
        self.name, self.port, self.log = name, port, log
        with open(log, "a") as out:
            out.write(f"\n$ {' '.join(command)}\n")
            out.flush()
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            except OSError as error:
                raise Failure(f"{command[0]} cannot be run: {error.strerror}")
        deadline = time.monotonic() + START_TIMEOUT
        while not self.answers(ready):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Failure(f"{name} did not start; its log: {log}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        """kill -9."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def answers(self, path):
        try:
            self.get(path)
            return True
        except (OSError, http.client.HTTPException, Failure):
            return False

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Failure(f"{self.name}: GET {path}: {response.status}")
        return json.loads(body)

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_TIMEOUT)
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def refuse(self, path, body):
        """Seconds until the server refused the request."""
        start = time.perf_counter()
        connection, response = self.post(path, body)
        response.read()
        taken = time.perf_counter() - start
        connection.close()
        if response.status != 400:
            raise Failure(f"{self.name}: expected a refusal, got {response.status}")
        return taken

    def ask(self, body, path="/v1/chat/completions"):
        """Streams an answer."""
        try:
            return self.stream(path, {**body, "stream": True, "stream_options": {"include_usage": True}})
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"{self.name}: {type(error).__name__}: {error}; its log: {self.log}")

    def stream(self, path, body):
        start = time.perf_counter()
        connection, response = self.post(path, body)
        if response.status != 200:
            raise Failure(f"{self.name}: {response.status}: {response.read(500).decode(errors='replace')}")
        reply = Reply()
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise Failure(f"{self.name}: {chunk['error']}")
            if take(reply, chunk) and not reply.ttft_s:
                reply.ttft_s = time.perf_counter() - start
        connection.close()
        reply.ttft_s = reply.ttft_s or time.perf_counter() - start
        return reply


def take(reply, chunk):
    """Adds a chunk to the reply; says whether it held something of the answer, be it a token without text yet."""
    some = False
    for choice in chunk.get("choices") or []:
        delta = choice.get("delta") or {}
        content = delta.get("content") or choice.get("text") or ""
        reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
        reply.content += content
        reply.reasoning += reasoning
        reply.finish = choice.get("finish_reason") or reply.finish
        for call in delta.get("tool_calls") or []:
            function = call.get("function") or {}
            if function.get("name"):
                reply.calls.append([function["name"], ""])
            if reply.calls:
                reply.calls[-1][1] += function.get("arguments") or ""
        tokens = (choice.get("logprobs") or {}).get("content") or []
        some = bool(some or content or reasoning or tokens or delta.get("tool_calls") or choice.get("finish_reason"))
        for token in tokens:
            reply.tokens.append(bytes(token["bytes"]))
            reply.logprobs.append(token["logprob"])
    usage = chunk.get("usage") or {}
    reply.prompt_tokens = usage.get("prompt_tokens", reply.prompt_tokens)
    reply.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", reply.cached_tokens)
    reply.cached_tokens = chunk.get("timings", {}).get("cache_n", reply.cached_tokens)  # llama-server
    return some


def anabranch(program, model, threads, log, *options):
    port = free_port()
    return Server("Anabranch", [program, "-v", "serve", "--model", model, "--threads", str(threads), "--port",
                                str(port), *options], port, log)


def llama_server(program, model, template, threads, context, log):
    port = free_port()
    return Server("llama-server", [program, "-m", model, "--chat-template-file", template, "--jinja", "-t",
                                   str(threads), "-tb", str(threads), "-c", str(context), "--host", "127.0.0.1",
                                   "--port", str(port)], port, log)


class TokenCounter:
    """Token ids by token_worker.py."""

    def __init__(self, python, model):
        self.process = subprocess.Popen([python, os.path.join(HERE, "token_worker.py"), model], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=sys.stderr, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def answer(self, asked):
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())["ids"]
        except (OSError, ValueError):
            raise Failure("token_worker.py failed")

    def prompt(self, body):
        return self.answer({"messages": body["messages"], "tools": body.get("tools", []),
                            "variables": body.get("chat_template_kwargs", {})})

    def tokens(self, reply):
        return self.answer({"answer": [list(token) for token in reply.tokens]})
