"""Answers under JSON schemas, from a real model over HTTP: whole ones must satisfy their schema (Python's jsonschema
is the judge, formats included), others must say that they were cut."""

import json

import jsonschema
import pytest

from random_schemas import schemas

CHAT = "/v1/chat/completions"
PROMPTS = ["Ann is 31, lives in Paris and likes blue. Answer as JSON.", "Write down any example that fits.",
           "Give me a record of a train from Oslo to Bergen.", "こんにちは。例を一つください。"]


REFUSED = {"not": {"not": {}}, "uniqueItems": {"type": "array", "uniqueItems": True}, "nothing": False,
           "$ref": {"$ref": "https://example.com/schema"}, "endless": {"$ref": "#"}}
ASK = {"messages": [{"role": "user", "content": "Is the sky blue?"}], "max_tokens": 60, "temperature": 0, "enable_thinking": False}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["city", "days"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}},
         {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}}]


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        options = metafunc.config.option
        made = list(enumerate(schemas(int(12 * options.effort), options.seed + 1)))
        metafunc.parametrize("number, schema", made, ids=lambda value: str(value) if isinstance(value, int) else "")


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all()


def test_a_whole_answer_satisfies_its_schema(server, number, schema):
    # Some greedy, some sampled; some with a thought before; some with what else may stand beside a schema.
    answer = server.ask(CHAT, {
        "messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}], "max_tokens": 200,
        "temperature": [0, 0.7, 1.2][number % 3], "seed": number, "enable_thinking": number % 4 == 1,
        "max_thinking_tokens": 24, "speculation": ["auto", "off", "ngram", "mtp"][number % 4],
        "response_format": {"type": "json_schema", "json_schema": {"name": "test", "schema": schema, "strict": True}}})
    choice = answer["choices"][0]
    if choice["finish_reason"] == "length":
        return  # cut
    assert choice["finish_reason"] == "stop", choice
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    validator.validate(json.loads(choice["message"]["content"] or ""))


def test_a_grammar_holds(server):
    answer = server.ask(CHAT, ASK | {"grammar": 'root ::= "yes" | "no" | "maybe so"'})
    assert answer["choices"][0]["message"]["content"] in ("yes", "no", "maybe so")


def test_a_json_object_is_one(server):
    choice = server.ask(CHAT, ASK | {"response_format": {"type": "json_object"}, "max_tokens": 400})["choices"][0]
    assert choice["finish_reason"] != "stop" or isinstance(json.loads(choice["message"]["content"]), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}], ids=["required", "named"])
def test_a_forced_call_satisfies_its_schema(server, choice):
    answer = server.ask(CHAT, ASK | {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False})
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert len(calls) == 1 and calls[0]["function"]["name"] in ("get_weather", "stop")
    if calls[0]["function"]["name"] == "get_weather":
        jsonschema.Draft202012Validator(CITY).validate(json.loads(calls[0]["function"]["arguments"]))


@pytest.mark.parametrize("name", REFUSED)
def test_schemas_without_a_grammar_are_refused(server, name):
    status, answer = server.status(CHAT, ASK | {"response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "object", "properties": {"a": REFUSED[name]}, "required": ["a"]}}}})
    assert status == 400 and answer["error"]["param"] == "response_format", answer


def test_a_grammar_with_a_missing_rule_is_refused(server):
    status, answer = server.status(CHAT, ASK | {"grammar": "root ::= missing"})
    assert status == 400 and "missing" in answer["error"]["message"], answer


# Each with what the rest of the schema still demands of the arguments.
KEPT = {"sets": ({"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "minItems": 1, "maxItems": 2}, {"uniqueItems": False}),
        "not": ({"type": "integer", "minimum": 3, "maximum": 9, "not": {"const": 4}}, {"not": {"const": 10}}),
        "a word's edge": ({"type": "string", "pattern": "\\bword", "maxLength": 4}, {"pattern": ""}),
        "no type": ({"type": "any", "enum": ["a", "b"]}, {"type": "string"}),
        "overlapping": ({"oneOf": [{"type": "integer", "minimum": 0, "maximum": 5}, {"type": "integer", "minimum": 3, "maximum": 9}]},
                        {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 9}]})}


def tool(name, value, strict=None):
    function = {"name": name, "parameters": {"type": "object", "properties": {"v": value}, "required": ["v"]}}
    return {"type": "function", "function": function | ({} if strict is None else {"strict": strict})}


@pytest.mark.parametrize("name", KEPT)
def test_a_tool_that_is_not_strict_is_kept_to_its_schema_as_far_as_possible(server, name):
    value, looser = KEPT[name]
    tools = [tool("other", {"type": "boolean"}), tool("odd", value)]
    body = ASK | {"tools": tools, "max_tokens": 200, "parallel_tool_calls": False}
    assert server.ask(CHAT, body | {"tool_choice": "required"})["choices"][0]["message"]["tool_calls"]
    named = body | {"tool_choice": {"type": "function", "function": {"name": "odd"}}}
    choice = server.ask(CHAT, named)["choices"][0]
    if choice["finish_reason"] != "length":
        jsonschema.validate(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["v"], value | looser)
    anthropic = {"max_tokens": 60, "messages": body["messages"], "tool_choice": {"type": "any"}, "thinking": {"type": "disabled"},
                 "tools": [{"name": one["function"]["name"], "input_schema": one["function"]["parameters"]} for one in tools]}
    assert server.ask("/v1/messages", anthropic)["content"][0]["type"] == "tool_use"
    responses = {"input": "Is the sky blue?", "max_output_tokens": 60, "tool_choice": "required", "reasoning": {"effort": "none"},
                 "tools": [{"type": "function"} | one["function"] for one in tools]}
    assert server.ask("/v1/responses", responses)["output"]
    # Strict, the same is refused, and the message names the tool and the place.
    status, answer = server.status(CHAT, body | {"tools": [tool("odd", value, strict=True)], "tool_choice": "required"})
    assert status == 400 and "odd" in answer["error"]["message"] and "#/properties/v" in answer["error"]["message"], answer


def test_a_format_that_is_not_strict_is_kept_as_far_as_possible(server):
    schema = {"type": "object", "properties": {"v": KEPT["not"][0]}, "required": ["v"]}
    form = {"type": "json_schema", "json_schema": {"name": "test", "schema": schema, "strict": False}}
    choice = server.ask(CHAT, ASK | {"response_format": form})["choices"][0]
    assert 3 <= json.loads(choice["message"]["content"])["v"] <= 9
    del form["json_schema"]["strict"]
    status, answer = server.status(CHAT, ASK | {"response_format": form})
    assert status == 400 and "'not' at #/properties/v" in answer["error"]["message"], answer
