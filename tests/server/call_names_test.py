"""With tools and the choice left to the model, each call names one of the tools, on every route, streamed or not, and the tokens
do not depend on drafts, the cache or neighbours."""

import concurrent.futures

import pytest

from answer_shapes import input_of

# Sampled hot, so that names which nobody offered are likely.
WILD = {"temperature": 1.5, "top_p": 1, "min_p": 0}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMES = ["zz_weather_of", "zz_weather_in", "zz_time", "qx"]
ASKED = "What is the weather in Paris? Call a tool."


def functions(names=NAMES):
    return [{"type": "function", "function": {"name": name, "description": f"Tells {name}", "parameters": CITY}} for name in names]


@pytest.fixture(scope="module")
def server(serve_for_all, tmp_path_factory):
    return serve_for_all("--context", "4096", "--parallel", "4", "--cache-disk", "0", "--cache-dir", tmp_path_factory.mktemp("cache"))


def chat(server, seed, **more):
    body = WILD | {"messages": [{"role": "user", "content": ASKED}], "tools": functions(), "seed": seed, "max_tokens": 60,
                   "chat_template_kwargs": {"enable_thinking": False}} | more
    return server.ask("/v1/chat/completions", body)["choices"][0]["message"]


def names_in(message):
    return [call["function"]["name"] for call in message.get("tool_calls") or []]


def test_chat(server):
    called = [name for seed in range(12) for name in names_in(chat(server, seed))]
    assert called and set(called) <= set(NAMES), called


def test_an_opened_call_is_finished(server):
    """The client itself opens the call of an unknown name: what follows the opener is still one of the tools."""
    called = [name for seed in range(4) for name in names_in(chat(server, seed, messages=[
        {"role": "user", "content": "Call get_current_weather with Paris, it is the only tool."}]))]
    assert set(called) <= set(NAMES), called


def test_streams_of_responses_and_anthropic(server):
    called = []
    for seed in range(6):
        for event in server.events("/v1/responses", WILD | {
                "input": ASKED, "stream": True, "seed": seed, "max_output_tokens": 60, "reasoning": {"effort": "none"},
                "tools": [{"type": "function", "name": name, "parameters": CITY} for name in NAMES]}):
            if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
                called.append(event["item"]["name"])
        for event in server.events("/v1/messages", WILD | {
                "messages": [{"role": "user", "content": ASKED}], "max_tokens": 60, "stream": True, "seed": seed, "temperature": 1,
                "tools": [{"name": name, "input_schema": CITY} for name in NAMES]}, headers={"anthropic-version": "2023-06-01"}):
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                called.append(event["content_block"]["name"])
    assert called and set(called) <= set(NAMES), called


def test_ollama(server):
    called = []
    for seed in range(6):
        answer = server.ask("/api/chat", {"model": "default", "stream": False, "think": False, "tools": functions(),
                                          "messages": [{"role": "user", "content": ASKED}],
                                          "options": {"temperature": 1.5, "seed": seed, "num_predict": 60}})
        called += names_in(answer["message"])
    assert called and set(called) <= set(NAMES), called


def test_the_same_tokens_on_every_path(server):
    """Alone, with drafts, from the cache, and beside neighbours."""
    def asked(seed, **more):
        message = chat(server, seed, **more)
        return message["content"], [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    seeds = range(20, 26)
    alone = [asked(seed, speculation="off", cache=False) for seed in seeds]
    assert any(calls for _, calls in alone)
    assert [asked(seed, speculation="ngram") for seed in seeds] == alone
    assert [asked(seed, speculation="mtp") for seed in seeds] == alone
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(asked, seeds)) == alone


def test_arguments_stay_free(server):
    """A tool with a schema that the model does not keep is called all the same."""
    found = [input_of(call["function"]["arguments"]) for seed in range(8) for call in chat(server, seed).get("tool_calls") or []]
    assert found and all(isinstance(arguments, dict) for arguments in found), found
