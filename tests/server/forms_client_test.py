#!/usr/bin/env python3
"""What other servers' clients ask for, from real models over HTTP: forms of answers under vLLM's, SGLang's and llama-server's
names, mlx_lm.server's defaults, and tools with a model whose chat template does not know them.

usage: forms_client_test.py build/anabranch MODEL_DIR

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../tools")]
import fetch_real_models  # noqa: E402
from openai_client_test import start_server  # noqa: E402

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Current weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}}}


def post(base, path, **body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def user(text):
    return [{"role": "user", "content": text}]


class Checks:
    """Of the default model."""

    def __init__(self, base):
        self.base = base.removesuffix("/v1")

    def ask(self, text, **more):
        options = {"max_tokens": 60, "temperature": 0.8, "seed": 3, "enable_thinking": False} | more
        status, answer = post(self.base, "/v1/chat/completions", messages=user(text), **options)
        assert status == 200, answer
        return answer["choices"][0]["message"]["content"]

    def check_choices(self):
        colours = ["blue", "sea green", "none of these"]
        for more in ({"guided_choice": colours}, {"structured_outputs": {"choice": colours}}):
            assert self.ask("What colour is the sky?", **more) in colours
            assert self.ask("What colour is the sky?", enable_thinking=True, max_thinking_tokens=16, **more) in colours

    def check_patterns(self):
        for more in ({"guided_regex": r"[A-Z]{2}-\d{4}"}, {"regex": r"^[A-Z]{2}-\d{4}$"}, {"structured_outputs": {"regex": r"[A-Z]{2}-\d{4}"}}):
            text = self.ask("Give me a number plate.", **more)
            assert re.fullmatch(r"[A-Z]{2}-[0-9]{4}", text), text

    def check_grammars(self):
        grammar = 'root ::= "it is " ("warm" | "cold") "."'
        for more in ({"guided_grammar": grammar}, {"ebnf": grammar}, {"grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
            assert self.ask("The weather?", **more) in ("it is warm.", "it is cold."), more

    def check_schemas(self):
        for more in ({"response_format": {"type": "json_object", "schema": PERSON}}, {"guided_json": json.dumps(PERSON)},
                     {"structured_outputs": {"json": PERSON}}, {"format": PERSON}):
            person = json.loads(self.ask("Ann is 31.", **more))
            assert set(person) == {"name", "age"} and 0 <= person["age"] <= 120, person

    def check_anthropic_format(self):
        status, answer = post(self.base, "/v1/messages", max_tokens=60, messages=user("Ann is 31."),
                              output_config={"format": {"type": "json_schema", "schema": PERSON}})
        assert status == 200 and set(json.loads(answer["content"][0]["text"])) == {"name", "age"}, answer

    def check_mlx_lm_defaults(self):
        body = {"model": "default_model", "adapters": None, "draft_model": "default_model", "num_draft_tokens": 3, "max_tokens": 4,
                "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 0.0, "repetition_context_size": 20,
                "presence_penalty": 0.0, "presence_context_size": 20, "frequency_penalty": 0.0, "frequency_context_size": 20,
                "xtc_probability": 0.0, "xtc_threshold": 0.0, "logit_bias": None, "logprobs": False, "top_logprobs": -1,
                "seed": None, "stop": "", "role_mapping": None}
        status, answer = post(self.base, "/chat/completions", messages=user("hi"), **body)
        assert status == 200 and answer["usage"]["completion_tokens"] == 4, answer
        status, answer = post(self.base, "/v1/completions", prompt="Once", **(body | {"logprobs": True}))
        assert status == 200 and len(answer["choices"][0]["logprobs"]["tokens"]) == 4, answer

    def check_nothing_to_generate(self):
        for path, prompt in (("/v1/chat/completions", {"messages": user("hi")}), ("/v1/completions", {"prompt": "Once"})):
            status, answer = post(self.base, path, max_tokens=0, **prompt)
            assert status == 200 and answer["choices"][0]["finish_reason"] == "length", answer
            assert answer["usage"]["completion_tokens"] == 0 and answer["usage"]["prompt_tokens"] > 0, answer

    def check_xtc_is_a_function_of_the_seed(self):
        more = {"xtc_probability": 0.5, "xtc_threshold": 0.1, "temperature": 1.0, "max_tokens": 24}
        texts = {self.ask("Tell me of a river.", speculation=kind, **more) for kind in ("off", "ngram", "mtp")}
        assert len(texts) == 1 and texts != {self.ask("Tell me of a river.", **(more | {"xtc_probability": 0}))}, texts


class ToolChecks:
    """Of a model whose template has no tools."""

    def __init__(self, base):
        self.base = base.removesuffix("/v1")

    def ask(self, messages, **more):
        options = {"max_tokens": 60, "temperature": 0, "tools": [WEATHER]} | more
        status, answer = post(self.base, "/v1/chat/completions", messages=messages, **options)
        assert status == 200, answer
        return answer["choices"][0], answer["usage"]

    def check_tools_are_in_the_prompt(self):
        with_tools, without = (self.ask(user("hi"), max_tokens=1, tools=tools)[1]["prompt_tokens"] for tools in ([WEATHER], None))
        assert with_tools > without + 80, (with_tools, without)

    def check_forced_calls(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            answer, _ = self.ask(user("What is the weather in Oslo?"), tool_choice=choice, parallel_tool_calls=False)
            assert answer["finish_reason"] == "tool_calls", answer
            for call in answer["message"]["tool_calls"]:
                assert call["function"]["name"] == "get_weather", answer
                assert set(json.loads(call["function"]["arguments"])) == {"city"}, answer

    def check_strict_calls_and_results(self):
        strict = json.loads(json.dumps(WEATHER))
        strict["function"]["strict"] = True
        answer, _ = self.ask(user("What is the weather in Oslo?"), tools=[strict])
        for call in answer["message"].get("tool_calls", []):
            assert set(json.loads(call["function"]["arguments"])) == {"city"}, answer
        forced, _ = self.ask(user("What is the weather in Oslo?"), tool_choice="required", parallel_tool_calls=False)
        call = forced["message"]["tool_calls"][0]
        answer, usage = self.ask(user("What is the weather in Oslo?") + [forced["message"], {
            "role": "tool", "tool_call_id": call["id"], "content": "4 degrees and rain"}])
        assert answer["message"]["content"] or answer["message"].get("tool_calls"), answer
        assert usage["prompt_tokens_details"]["cached_tokens"] > 80, usage  # the tools, and the call as it was sampled


def run(checks):
    passed = failed = 0
    for name in [n for n in vars(type(checks)) if n.startswith("check_")]:
        try:
            getattr(checks, name)()
            passed += 1
            print(f"ok     {name}", flush=True)
        except Exception as error:  # a failed check must not hide the others
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
    return passed, failed


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    binary, model = sys.argv[1:]
    passed = failed = 0
    for path, checks in ((model, Checks), (str(fetch_real_models.path_of("smollm2")), ToolChecks)):
        process, base = start_server(binary, path)
        try:
            good, bad = run(checks(base))
        finally:
            process.terminate()
            process.wait()
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
