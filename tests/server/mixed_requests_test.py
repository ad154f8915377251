#!/usr/bin/env python3
"""The same requests to two servers: one with a cache, speculation, many at once, little memory, clients that leave and
kill -9 in between; the other with none of these (--no-cache --spec off --parallel 1). Every answer must be the same:
tokens (as log probabilities, where the API has them), text, calls, usage and reason of the end.

usage: mixed_requests_test.py PROGRAM MODEL_DIR [--draft DRAFT_DIR] [--requests 40] [--clients 6] [--seed 1]

Requests are chats, messages, responses, Ollama's chats, text completions and llama-server's, whole and streamed: tools, forced and strict calls, structured output,
thinking, stops, n, penalties, bias, log probabilities, seeds, continued answers, and second turns of what was answered.
Prints what differs, and "N passed, N failed".
"""

import argparse
import collections
import concurrent.futures
import copy
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from conclude import conclude

CONTEXT = 1536
CHAT, MESSAGES, TEXT = "/v1/chat/completions", "/v1/messages", "/v1/completions"
RESPONSES, OLLAMA, LLAMA = "/v1/responses", "/api/chat", "/completion"
SYSTEM = "You are a careful assistant. " + "Answer in short, complete sentences and name your reasons. " * 20
WORDS = "river arm water bridge boat winter market letter stone garden night music teacher map harbour".split()
FUNCTIONS = {
    "get_weather": ("The weather in a city", {"city": {"type": "string"}, "days": {"type": "integer"}}, ["city"]),
    "add_numbers": ("Adds two numbers", {"a": {"type": "integer"}, "b": {"type": "integer"}}, ["a", "b"]),
    "read_file": ("Reads a file", {"path": {"type": "string"}}, ["path"]),
}
ASKS_FOR_CALLS = ["What is the weather in {city}?", "Add {a} and {b}.", "Read the file {word}.txt.",
                  "What is the weather in {city} and in Oslo?"]
ASKS = ["What is the capital of France?", "Name {n} things that float on a {word}.", "Tell me about a {word} and a {other}.",
        "Write a short story about a {word}.", "What is {a} times {b}?", "Explain what a {word} is for.",
        "Count from {a} to {b}.", "Translate '{word}' into French."]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"},
                                           "kind": {"enum": ["a", "b", None]}}, "required": ["name", "count"]}
GRAMMAR = 'root ::= "[" item ("," item){1,4} "]"\nitem ::= [a-z]{2,6} | [0-9]{1,3}'


class Server:
    def __init__(self, program, model, *flags):
        self.command = [program, "serve", "--model", model, "--context", str(CONTEXT), "--port", "0", *flags]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        assert " on http" in line, f"the server did not start: {line}"
        self.port = int(line.split("http://")[1].split("/")[0].split()[0].rsplit(":", 1)[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def post(self, path, body):
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def ask(self, path, body):
        """What was answered, in a form that does not depend on how it was sent."""
        while True:
            try:
                connection, response = self.post(path, body)
                data = response.read()
                connection.close()
                break
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)  # it was killed, and comes again
        if response.status != 200:
            error = json.loads(data)["error"]
            return {"status": response.status, "error": error["message"] if isinstance(error, dict) else error}
        whole, streamed = FORMS.get(path, (answer, answer_of_chunks))
        return streamed(events_of(data)) if body.get("stream") else whole(json.loads(data))

    def leave(self, path, body, events):
        """Leaves a stream after so many events."""
        try:
            connection, response = self.post(path, {**body, "stream": True})
            while events > 0 and (line := response.readline()):
                events -= line.startswith((b"data:", b"{"))
            connection.sock.close()
        except (OSError, http.client.HTTPException, AttributeError):
            pass

    def health(self):
        connection = self.connect()
        connection.request("GET", "/health")
        return json.loads(connection.getresponse().read())


def events_of(data):
    lines = (line.removeprefix("data: ") for line in data.decode().split("\n"))
    return [json.loads(line) for line in lines if line.startswith("{")]


def calls_of(calls):
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls or []]


def usage_of(usage):
    return usage["prompt_tokens"], usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]


def answer(json_answer):
    choices = []
    for choice in json_answer["choices"]:
        told = choice.get("message") or {"content": choice["text"]}
        choices.append({"content": told.get("content") or "", "reasoning": told.get("reasoning_content") or "",
                        "calls": calls_of(told.get("tool_calls")), "finish": choice["finish_reason"],
                        "logprobs": flat_logprobs(choice["logprobs"])})
    return {"choices": choices, "usage": usage_of(json_answer["usage"])}


def flat_logprobs(logprobs):
    """One entry a token."""
    if not logprobs:
        return []
    if "content" in logprobs:
        return logprobs["content"]
    return [list(entry) for entry in zip(*(logprobs[key] for key in ("tokens", "token_logprobs", "top_logprobs")))]


def answer_of_chunks(events):
    choices, usage = collections.defaultdict(
        lambda: {"content": "", "reasoning": "", "calls": [], "finish": None, "logprobs": []}), None
    for event in events:
        if "error" in event:
            return {"status": "in the stream", "error": event["error"]["message"]}
        usage = event.get("usage") or usage
        for part in event["choices"]:
            choice, delta = choices[part["index"]], part.get("delta") or {"content": part.get("text")}
            choice["content"] += delta.get("content") or ""
            choice["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                function = call["function"]
                if "name" in function:
                    choice["calls"].append((function["name"], ""))
                name, arguments = choice["calls"][call["index"]]
                choice["calls"][call["index"]] = (name, arguments + function["arguments"])
            choice["logprobs"] += flat_logprobs(part.get("logprobs"))
            choice["finish"] = part["finish_reason"] or choice["finish"]
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage_of(usage)}


def message(json_answer):
    usage = json_answer["usage"]
    blocks = [{key: value for key, value in block.items() if key != "id"} for block in json_answer["content"]]
    return {"blocks": blocks, "stop": (json_answer["stop_reason"], json_answer["stop_sequence"]),
            "usage": (usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"],
                      usage["output_tokens_details"]["thinking_tokens"])}


def message_of_events(events):
    whole, partial = {"content": []}, ""
    for event in events:
        kind = event["type"]
        if kind == "error":
            return {"status": "in the stream", "error": event["error"]["message"]}
        if kind == "content_block_start":
            whole["content"].append(event["content_block"])
            partial = ""
        elif kind == "content_block_delta":
            block, delta = whole["content"][-1], event["delta"]
            for key in ("text", "thinking"):
                if key in delta:
                    block[key] += delta[key]
            partial += delta.get("partial_json", "")
        elif kind == "content_block_stop" and partial:
            whole["content"][-1]["input"] = json.loads(partial)
        elif kind == "message_delta":
            whole |= event["delta"]
            whole["usage"] = event["usage"]
    return message(whole)


def response(whole):
    output = [{key: value for key, value in item.items() if key not in ("id", "call_id", "encrypted_content")} for item in whole["output"]]
    usage = whole["usage"]
    return {"output": output, "status_of_it": (whole["status"], whole["incomplete_details"]),
            "usage": (usage["input_tokens"], usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"])}


def response_of_events(events):
    if events[-1]["type"] == "error":
        return {"status": "in the stream", "error": events[-1]["message"]}
    told = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    whole = response(events[-1]["response"])
    texts = [part["text"] for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    assert told == "".join(texts), (told, texts)
    return whole


def ollama_answer(whole):
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in whole["message"].get("tool_calls", [])]
    return {"content": whole["message"]["content"], "thinking": whole["message"].get("thinking", ""), "calls": calls,
            "finish": whole["done_reason"], "usage": (whole["prompt_eval_count"], whole["eval_count"])}


def ollama_of_objects(objects):
    if "error" in objects[-1]:
        return {"status": "in the stream", "error": objects[-1]["error"]}
    message = {"content": "", "thinking": "", "tool_calls": []}
    for part in objects:
        for key in message:
            message[key] += part["message"].get(key) or type(message[key])()
    return ollama_answer(objects[-1] | {"message": message})


def llama_answer(whole):
    return {"content": whole["content"], "stop": (whole["stop_type"], whole["stopping_word"]),
            "usage": (whole["tokens_evaluated"], whole["tokens_predicted"])}


def llama_of_events(events):
    if "error" in events[-1]:
        return {"status": "in the stream", "error": events[-1]["error"]["message"]}
    return llama_answer(events[-1] | {"content": "".join(event["content"] for event in events)})


FORMS = {MESSAGES: (message, message_of_events), RESPONSES: (response, response_of_events),
         OLLAMA: (ollama_answer, ollama_of_objects), LLAMA: (llama_answer, llama_of_events)}


class Cases:
    """Random requests; each asks something that no other asks, so that no conversation is another's."""

    def __init__(self, seed, sources):
        self.random, self.sources, self.count = random.Random(seed), sources, 0

    def chance(self, probability):
        return self.random.random() < probability

    def question(self, calls=False):
        choose = self.random.choice
        self.count += 1
        text = choose(ASKS_FOR_CALLS if calls else ASKS).format(
            city=choose(["Paris", "Rome", "Oslo", "Lima"]), a=self.random.randint(1, 30), b=self.random.randint(31, 60),
            n=self.random.randint(2, 5), word=choose(WORDS), other=choose(WORDS))
        return f"{text} ({self.count})"

    def tools(self, strict=False):
        return [{"type": "function", "function": {
            "name": name, "description": about, "strict": strict,
            "parameters": {"type": "object", "properties": properties, "required": required,
                           "additionalProperties": False}}} for name, (about, properties, required) in FUNCTIONS.items()]

    def common(self):
        """What every route takes."""
        body = {"max_tokens": self.random.choice([3, 8, 14, 20, 32]), "temperature": 0}
        if self.chance(0.5):
            body |= {"temperature": self.random.choice([0.3, 0.8, 1.3]), "seed": self.random.randint(0, 1 << 30),
                     "top_p": self.random.choice([1, 0.9]), "top_k": self.random.choice([0, 20])}
        if self.chance(0.2):
            body |= {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3}
        if self.chance(0.15):
            body["logit_bias"] = {str(self.random.randint(300, 3000)): self.random.choice([-100, 5, 8]) for _ in range(3)}
        if self.chance(0.4):
            body["speculation"] = self.random.choice(["off", *self.sources])
        if self.chance(0.1):
            body["cache"] = False
        if self.chance(0.1):
            body["cache_salt"] = "salt"
        if self.chance(0.2):
            body["priority"] = self.random.randint(-1, 1)
        if self.chance(0.4):
            body["stream"] = True
        return body

    def thinking(self, body):
        body["enable_thinking"] = self.random.choice([True, False, False, "auto"])
        body["max_thinking_tokens"] = self.random.choice([5, 12, 24])

    def openai(self, body):
        if self.chance(0.6):
            body |= {"logprobs": True, "top_logprobs": self.random.randint(0, 3)}
        if self.chance(0.2):
            body["n"] = self.random.randint(2, 3)
        if self.chance(0.25):
            body["stop"] = self.random.choice([[" the"], ["."], [" a", " and"], ["\n", ", "], ["is a", "a "]])
        if body.get("stream"):
            body["stream_options"] = {"include_usage": True}

    def chat(self):
        body = self.common()
        self.thinking(body)
        self.openai(body)
        system = [{"role": "system", "content": SYSTEM}] if self.chance(0.4) else []
        kind = self.random.choice(["plain", "plain", "tools", "tools", "forced", "form", "continued"])
        body["messages"] = system + [{"role": "user", "content": self.question(kind in ("tools", "forced"))}]
        if kind in ("tools", "forced"):
            body["tools"] = self.tools(strict=self.chance(0.4))
            body["parallel_tool_calls"] = self.chance(0.4)
            body["max_tokens"] = self.random.choice([8, 40, 70])
        if kind == "forced":
            named = {"type": "function", "function": {"name": self.random.choice(list(FUNCTIONS))}}
            body["tool_choice"] = self.random.choice(["required", named])
        if kind == "form":
            body |= self.random.choice([
                {"response_format": {"type": "json_object"}}, {"grammar": GRAMMAR},
                {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}])
        if kind == "continued":
            body["messages"].append(self.beginning(body))
        return CHAT, body

    def beginning(self, body):
        """The assistant's message that is continued."""
        choice = self.random.randint(0, 4)
        if choice == 0:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
            return {"role": "assistant", "content": '{"name": "The ' + self.random.choice(WORDS)}
        if choice == 1 and body["enable_thinking"]:
            return {"role": "assistant", "content": None, "reasoning_content": "The user asks about"}
        if choice == 2:
            return {"role": "assistant", "content": "The answer", "reasoning_content": "I should answer.", "prefix": True}
        return {"role": "assistant", "content": self.random.choice(["The ", "It is", "1.", "Well, the answer is\n"])}

    def messages(self):
        body = self.common()
        calls = self.chance(0.5)
        body["messages"] = [{"role": "user", "content": self.question(calls)}]
        if self.chance(0.4):
            body["system"] = SYSTEM
        if self.chance(0.4):
            body["thinking"] = {"type": "enabled", "budget_tokens": self.random.choice([8, 20])}
        if self.chance(0.25):
            body["stop_sequences"] = self.random.choice([["."], [" the", " a"]])
        if calls:
            body["max_tokens"] = self.random.choice([10, 40, 70])
            body["tools"] = [{"name": tool["function"]["name"], "description": tool["function"]["description"],
                              "input_schema": tool["function"]["parameters"]} for tool in self.tools()]
            body["tool_choice"] = {"type": self.random.choice(["auto", "auto", "any"]),
                                   "disable_parallel_tool_use": self.chance(0.5)}
        elif self.chance(0.3):
            body["messages"].append({"role": "assistant", "content": "The answer"})
        return MESSAGES, body

    def completion(self):
        body = self.common()
        self.openai(body)
        if body.pop("logprobs", None):
            body["logprobs"] = body.pop("top_logprobs")
        body["prompt"] = [self.question() + "\nAnswer:" for _ in range(self.random.choice([1, 1, 2]))]
        return TEXT, body

    def response(self):
        body = self.common()
        body["max_output_tokens"] = body.pop("max_tokens")
        body["input"] = [{"role": "user", "content": self.question()}]
        if self.chance(0.4):
            body["instructions"] = SYSTEM
        if self.chance(0.4):
            body["reasoning"] = {"effort": self.random.choice(["none", "low"])}
        if self.chance(0.3):
            body["tools"] = [{"type": "function", **tool["function"]} for tool in self.tools()]
            body["tool_choice"] = self.random.choice(["auto", "required"])
        return RESPONSES, body

    def ollama(self):
        body = {"stream": False} | self.common()
        names = {"max_tokens": "num_predict", "repetition_penalty": "repeat_penalty"}
        body["options"] = {names.get(key, key): body.pop(key) for key in
                           ("max_tokens", "temperature", "seed", "top_p", "top_k", "repetition_penalty", "presence_penalty",
                            "frequency_penalty") if key in body}
        body.pop("logit_bias", None)
        body |= {"model": "default", "think": self.chance(0.3)}
        body["messages"] = [{"role": "user", "content": self.question()}]
        if self.chance(0.3):
            body["tools"] = self.tools()
        elif self.chance(0.3):
            body["format"] = SCHEMA
        return OLLAMA, body

    def llama(self):
        body = self.common()
        body.pop("cache", None)
        body |= {"n_predict": body.pop("max_tokens"), "prompt": self.question() + "\nAnswer:"}
        if self.chance(0.3):
            body["stop"] = [".", " the"]
        return LLAMA, body

    def make(self):
        others = [self.messages, self.completion, self.response, self.ollama, self.llama]
        return self.random.choice([self.chat, self.chat, *others])()

    def second(self, path, body, told):
        """The next turn of a conversation that was answered so; None: there is none."""
        if path in (TEXT, LLAMA) or "status" in told:
            return None
        body = copy.deepcopy(body)
        follows = {CHAT: self.follow_chat, MESSAGES: self.follow_message, RESPONSES: self.follow_response, OLLAMA: self.follow_ollama}
        follow = follows[path](body, told)
        return (path, body) if follow else None

    def follow_chat(self, body, told):
        first, messages = told["choices"][0], body["messages"]
        if messages[-1]["role"] == "assistant":
            begun = messages.pop()
            if begun["content"] is None:
                first = {**first, "reasoning": begun["reasoning_content"] + first["reasoning"]}
            else:
                first = {**first, "content": begun["content"] + first["content"]}
        turn = {"role": "assistant", "content": first["content"]}
        if self.chance(0.5) and first["reasoning"]:
            turn["reasoning_content"] = first["reasoning"]
        if first["calls"]:
            turn["tool_calls"] = [{"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                                  for i, (name, arguments) in enumerate(first["calls"])]
        messages.append(turn)
        if body.get("tool_choice") and self.chance(0.7):
            del body["tool_choice"]
        for call in turn.get("tool_calls", []):
            result = self.random.choice(["42", "Sunny, 21 degrees", [{"type": "text", "text": "see "}, {"type": "image_url"}]])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if first["finish"] == "length" and first["content"] and not first["calls"] and "response_format" not in body:
            return "tool_choice" not in body  # cut: it goes on
        if not first["calls"]:
            messages.append({"role": "user", "content": self.question()})
        return True

    def follow_message(self, body, told):
        messages, blocks = body["messages"], copy.deepcopy(told["blocks"])
        if messages[-1]["role"] == "assistant":
            begun = messages.pop()
            blocks.insert(0, {"type": "text", "text": begun["content"]})
        if not blocks:
            return False
        results = []
        for i, block in enumerate(blocks):
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{i}"
                content = self.random.choice(["42", [{"type": "image"}], [{"type": "document", "source": {
                    "type": "text", "data": "It is sunny."}}]])
                results.append({"type": "tool_result", "tool_use_id": f"toolu_{i}", "content": content})
        messages.append({"role": "assistant", "content": blocks})
        messages.append({"role": "user", "content": results or self.question()})
        return True


    def follow_response(self, body, told):
        for i, item in enumerate(told["output"]):
            if item["type"] == "reasoning":
                continue
            calls = item["type"] == "function_call"
            body["input"].append(item | ({"call_id": f"call_{i}"} if calls else {}))
            if calls:
                body["input"].append({"type": "function_call_output", "call_id": f"call_{i}", "output": "42"})
        body["input"].append({"role": "user", "content": self.question()})
        return True

    def follow_ollama(self, body, told):
        calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in told["calls"]]
        body["messages"] += [{"role": "assistant", "content": told["content"], "tool_calls": calls},
                             *({"role": "tool", "content": "42", "tool_name": name} for name, _ in told["calls"]),
                             {"role": "user", "content": self.question()}]
        return True


def plain(body):
    """The same request without what must change nothing."""
    return {key: value for key, value in body.items() if key not in ("stream_options", "speculation", "priority")} | {"stream": False}


class Comparison:
    def __init__(self, options, folder):
        flags = ["--no-cache", "--spec", "off", "--parallel", "1"]
        self.options, self.reference = options, Server(options.program, options.model, *flags)
        draft = ["--draft", options.draft] if options.draft else []
        sequence = self.reference.health()["model"]["sequence_bytes"]
        memory = 3 * (sequence["fixed"] + CONTEXT * sequence["per_token"])  # more at once have to wait, or to give way
        self.server = Server(options.program, options.model, *draft, "--spec", "auto", "--memory", f"{memory}B", "--cache-ram",
                             "64MB", "--cache-disk", "256MB", "--cache-disk-worth", "0", "--cache-dir", os.path.join(folder, "kept"), "--queue", "200")
        self.cases = Cases(options.seed, self.server.health()["model"]["draft_sources"])
        self.random, self.requests, self.left, self.kills, self.differences = random.Random(options.seed), 0, 0, 0, []
        self.seen = collections.Counter()

    def compare(self, path, body, expected, got):
        self.requests += 1
        self.seen["refused" if "status" in expected else path] += 1
        if json.dumps(expected) == json.dumps(got):
            return
        self.differences.append((path, body))
        print(f"DIFFERS {path} {json.dumps(body)}\n  expected {json.dumps(expected)}\n  got      {json.dumps(got)}", flush=True)

    def ask_all(self, pool, requests):
        """The server's answers to all, while clients leave some of them first; a kill -9 in the middle of some."""
        killed = self.chance(0.3)
        answers = []
        for i, (path, body) in enumerate(requests):
            if self.chance(0.15):
                self.left += 1
                pool.submit(self.server.leave, path, body, self.random.randint(0, 12))
            answers.append(pool.submit(self.server.ask, path, body))
        if killed:
            time.sleep(0.5)
            self.kill()
        return [one.result() for one in answers]

    def chance(self, probability):
        return self.random.random() < probability

    def kill(self):
        self.kills += 1
        self.server.kill()
        self.server.start()

    def round(self, pool, size):
        first = [self.cases.make() for _ in range(size)]
        expected = [self.reference.ask(path, plain(body)) for path, body in first]
        for request, told, got in zip(first, expected, self.ask_all(pool, first)):
            self.compare(*request, told, got)
        time.sleep(1)  # turns that were answered are being written
        if self.chance(0.5):
            self.kill()
        second = [self.cases.second(*request, told) for request, told in zip(first, expected)]
        second = [request for request in second if request]
        expected = [self.reference.ask(path, plain(body)) for path, body in second]
        for request, told, got in zip(second, expected, self.ask_all(pool, second)):
            self.compare(*request, told, got)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.clients) as pool:
            while self.requests < self.options.requests:
                self.round(pool, min(40, 1 + (self.options.requests - self.requests) // 2))
                print(f"{self.requests} requests, {len(self.differences)} differences", file=sys.stderr, flush=True)
        health = self.server.health()["engine"]
        kinds = ", ".join(f"{count} to {path}" if path[0] == "/" else f"{count} {path}" for path, count in self.seen.items())
        return conclude({
            "every answer is that of a server without cache and speculation": (not self.differences, f"{len(self.differences)}"),
            "most requests are answered": (self.seen["refused"] < self.requests / 10, dict(self.seen)),
        }, f"{self.requests} requests ({kinds}), {self.left} left by their clients, {self.kills} times kill -9, "
           f"{health['preempted']} preemptions since the last")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--draft", default="")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, folder)
        try:
            sys.exit(comparison.run())
        finally:
            comparison.server.kill()
            comparison.reference.kill()


if __name__ == "__main__":
    main()
