#!/usr/bin/env python3
"""Answers under JSON schemas, from a real model over HTTP: whole ones must satisfy their schema (Python's jsonschema
is the judge, formats included), others must say that they were cut.

usage: json_schema_test.py build/anabranch MODEL_DIR [--schemas N] [--seed S] [--max-tokens T] [--figures]

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed. --figures: how many were
cut, and what grammars cost by answer.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from openai_client_test import start_server  # noqa: E402
from random_schemas import schemas  # noqa: E402

PROMPTS = ["Ann is 31, lives in Paris and likes blue. Answer as JSON.", "Write down any example that fits.",
           "Give me a record of a train from Oslo to Bergen.", "こんにちは。例を一つください。"]


def post(base, body):
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def quantile(values, q):
    return sorted(values)[min(int(len(values) * q), len(values) - 1)] if values else 0


class Check:
    def __init__(self, base, max_tokens):
        self.base, self.max_tokens = base, max_tokens
        self.passed = self.failed = self.whole = self.cut = 0
        self.token_us = []

    def expect(self, name, good, why=""):
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {name} {why}".rstrip())

    def schema(self, number, schema):
        name = f"schema {number}"
        # Some greedy, some sampled; some with a thought before; some with what else may stand beside a schema.
        body = {"messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}], "max_tokens": self.max_tokens,
                "temperature": [0, 0.7, 1.2][number % 3], "seed": number, "enable_thinking": number % 4 == 1,
                "max_thinking_tokens": 24, "speculation": ["auto", "off", "ngram", "mtp"][number % 4],
                "response_format": {"type": "json_schema", "json_schema": {"name": "test", "schema": schema, "strict": True}}}
        status, answer = post(self.base, body)
        if status != 200:
            return self.expect(name, False, f"{status}: {answer['error']['message']} {json.dumps(schema)}")
        choice, usage = answer["choices"][0], answer["usage"]
        text = choice["message"]["content"] or ""
        grammar = usage.get("grammar", {})
        if grammar.get("tokens"):
            self.token_us.append(grammar["us_per_token"])
        if choice["finish_reason"] == "length":
            self.cut += 1
            return self.expect(name, True, "(cut)")
        try:
            jsonschema.Draft202012Validator(
                schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(json.loads(text))
            self.whole += 1
            self.expect(name, choice["finish_reason"] == "stop")
        except (ValueError, jsonschema.ValidationError) as error:
            self.expect(name, False, f"{str(error)[:300]!r} in {text!r} for {json.dumps(schema)}")

    def others(self):
        ask = {"messages": [{"role": "user", "content": "Is the sky blue?"}], "max_tokens": 60, "temperature": 0,
               "enable_thinking": False}
        status, answer = post(self.base, ask | {"grammar": 'root ::= "yes" | "no" | "maybe so"'})
        self.expect("grammar", status == 200 and answer["choices"][0]["message"]["content"] in ("yes", "no", "maybe so"))
        status, answer = post(self.base, ask | {"response_format": {"type": "json_object"}, "max_tokens": 400})
        whole = answer["choices"][0]["finish_reason"] == "stop"
        self.expect("json_object", status == 200 and
                    (not whole or isinstance(json.loads(answer["choices"][0]["message"]["content"]), dict)))
        city = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                                 "days": {"type": "integer", "minimum": 1, "maximum": 5}},
                "required": ["city", "days"]}
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": city}},
                 {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}}]
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            status, answer = post(self.base, ask | {"tools": tools, "tool_choice": choice, "parallel_tool_calls": False})
            calls = answer["choices"][0]["message"].get("tool_calls") or [] if status == 200 else []
            good = len(calls) == 1 and calls[0]["function"]["name"] in ("get_weather", "stop")
            if good and calls[0]["function"]["name"] == "get_weather":
                good = jsonschema.Draft202012Validator(city).is_valid(json.loads(calls[0]["function"]["arguments"]))
            self.expect(f"tool_choice {choice if isinstance(choice, str) else 'named'}", good, "" if good else str(answer))
        refused = {"not": {"not": {}}, "uniqueItems": {"type": "array", "uniqueItems": True}, "nothing": False,
                   "$ref": {"$ref": "https://example.com/schema"}, "endless": {"$ref": "#"}}
        for name, schema in refused.items():
            status, answer = post(self.base, ask | {"response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": {"type": "object", "properties": {"a": schema}, "required": ["a"]}}}})
            self.expect(f"refused: {name}", status == 400 and answer["error"]["param"] == "response_format", "")
        status, answer = post(self.base, ask | {"grammar": "root ::= missing"})
        self.expect("refused: grammar", status == 400 and "missing" in answer["error"]["message"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--schemas", type=int, default=12)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--figures", action="store_true")
    args = parser.parse_args()
    process, base = start_server(args.binary, args.model)
    check = Check(base, args.max_tokens)
    try:
        for number, schema in enumerate(schemas(args.schemas, args.seed)):
            check.schema(number, schema)
        check.others()
    finally:
        process.terminate()
        process.wait(30)
    if args.figures:
        print(f"{check.whole} whole and valid, {check.cut} cut at {args.max_tokens} tokens; grammar us/token p50 "
              f"{quantile(check.token_us, 0.5):.0f} p99 {quantile(check.token_us, 0.99):.0f}")
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
