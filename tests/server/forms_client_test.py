"""What other servers' clients ask for, from real models over HTTP: forms of answers under vLLM's, SGLang's and llama-server's
names, mlx_lm.server's defaults, and tools with a model whose chat template does not know them."""

import json
import re

import pytest

from harness.needs import real_model

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Current weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}}}


def user(text):
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def plain(serve_for_all):
    return Plain(serve_for_all())


@pytest.fixture(scope="module")
def toolless(serve_for_all):
    return Toolless(serve_for_all(model=real_model("smollm2")))


class Plain:
    """The default model."""

    def __init__(self, server):
        self.server = server

    def ask(self, text, **more):
        options = {"max_tokens": 60, "temperature": 0.8, "seed": 3, "enable_thinking": False} | more
        answer = self.server.ask("/v1/chat/completions", {"messages": user(text)} | options)
        return answer["choices"][0]["message"]["content"]


def test_an_answer_is_one_of_the_choices(plain):
    colours = ["blue", "sea green", "none of these"]
    for more in ({"guided_choice": colours}, {"structured_outputs": {"choice": colours}}):
        assert plain.ask("What colour is the sky?", **more) in colours
        assert plain.ask("What colour is the sky?", enable_thinking=True, max_thinking_tokens=16, **more) in colours


def test_an_answer_matches_its_pattern(plain):
    for more in ({"guided_regex": r"[A-Z]{2}-\d{4}"}, {"regex": r"^[A-Z]{2}-\d{4}$"}, {"structured_outputs": {"regex": r"[A-Z]{2}-\d{4}"}}):
        text = plain.ask("Give me a number plate.", **more)
        assert re.fullmatch(r"[A-Z]{2}-[0-9]{4}", text), text


def test_an_answer_follows_its_grammar(plain):
    grammar = 'root ::= "it is " ("warm" | "cold") "."'
    for more in ({"guided_grammar": grammar}, {"ebnf": grammar}, {"grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
        assert plain.ask("The weather?", **more) in ("it is warm.", "it is cold."), more


def test_an_answer_satisfies_its_schema(plain):
    for more in ({"response_format": {"type": "json_object", "schema": PERSON}}, {"guided_json": json.dumps(PERSON)},
                 {"structured_outputs": {"json": PERSON}}, {"format": PERSON}):
        person = json.loads(plain.ask("Ann is 31.", **more))
        assert set(person) == {"name", "age"} and 0 <= person["age"] <= 120, person


def test_anthropics_output_format_holds(plain):
    status, answer = plain.server.status("/v1/messages", {
        "max_tokens": 60, "messages": user("Ann is 31."), "output_config": {"format": {"type": "json_schema", "schema": PERSON}}})
    assert status == 200 and set(json.loads(answer["content"][0]["text"])) == {"name", "age"}, answer


def test_defaults_of_mlx_lm_are_taken(plain):
    body = {"model": "default_model", "adapters": None, "draft_model": "default_model", "num_draft_tokens": 3, "max_tokens": 4,
            "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 0.0, "repetition_context_size": 20,
            "presence_penalty": 0.0, "presence_context_size": 20, "frequency_penalty": 0.0, "frequency_context_size": 20,
            "xtc_probability": 0.0, "xtc_threshold": 0.0, "logit_bias": None, "logprobs": False, "top_logprobs": -1,
            "seed": None, "stop": "", "role_mapping": None}
    status, answer = plain.server.status("/chat/completions", {"messages": user("hi")} | body)
    assert status == 200 and answer["usage"]["completion_tokens"] == 4, answer
    status, answer = plain.server.status("/v1/completions", {"prompt": "Once"} | body | {"logprobs": True})
    assert status == 200 and len(answer["choices"][0]["logprobs"]["tokens"]) == 4, answer


def test_no_token_is_made_where_none_is_asked_for(plain):
    for path, prompt in (("/v1/chat/completions", {"messages": user("hi")}), ("/v1/completions", {"prompt": "Once"})):
        status, answer = plain.server.status(path, {"max_tokens": 0} | prompt)
        assert status == 200 and answer["choices"][0]["finish_reason"] == "length", answer
        assert answer["usage"]["completion_tokens"] == 0 and answer["usage"]["prompt_tokens"] > 0, answer


def test_xtc_is_a_function_of_the_seed(plain):
    more = {"xtc_probability": 0.5, "xtc_threshold": 0.1, "temperature": 1.0, "max_tokens": 24}
    texts = {plain.ask("Tell me of a river.", speculation=kind, **more) for kind in ("off", "ngram", "mtp")}
    assert len(texts) == 1 and texts != {plain.ask("Tell me of a river.", **(more | {"xtc_probability": 0}))}, texts


class Toolless:
    """A model whose template has no tools."""

    def __init__(self, server):
        self.server = server

    def ask(self, messages, **more):
        options = {"max_tokens": 60, "temperature": 0, "tools": [WEATHER]} | more
        answer = self.server.ask("/v1/chat/completions", {"messages": messages} | options)
        return answer["choices"][0], answer["usage"]


@pytest.mark.real
def test_tools_are_in_the_prompt(toolless):
    with_tools, without = (toolless.ask(user("hi"), max_tokens=1, tools=tools)[1]["prompt_tokens"] for tools in ([WEATHER], None))
    assert with_tools > without + 80, (with_tools, without)


@pytest.mark.real
def test_forced_calls_are_made(toolless):
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        answer, _ = toolless.ask(user("What is the weather in Oslo?"), tool_choice=choice, parallel_tool_calls=False)
        assert answer["finish_reason"] == "tool_calls", answer
        for call in answer["message"]["tool_calls"]:
            assert call["function"]["name"] == "get_weather", answer
            assert set(json.loads(call["function"]["arguments"])) == {"city"}, answer


@pytest.mark.real
def test_strict_calls_hold_and_results_are_read(toolless):
    strict = json.loads(json.dumps(WEATHER))
    strict["function"]["strict"] = True
    answer, _ = toolless.ask(user("What is the weather in Oslo?"), tools=[strict])
    for call in answer["message"].get("tool_calls", []):
        assert set(json.loads(call["function"]["arguments"])) == {"city"}, answer
    forced, _ = toolless.ask(user("What is the weather in Oslo?"), tool_choice="required", parallel_tool_calls=False)
    call = forced["message"]["tool_calls"][0]
    answer, usage = toolless.ask(user("What is the weather in Oslo?") + [forced["message"], {
        "role": "tool", "tool_call_id": call["id"], "content": "4 degrees and rain"}])
    assert answer["message"]["content"] or answer["message"].get("tool_calls"), answer
    assert usage["prompt_tokens_details"]["cached_tokens"] > 80, usage  # the tools, and the call as it was sampled
