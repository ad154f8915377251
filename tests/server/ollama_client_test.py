"""The official Ollama client against a real server."""

import json
import os
import time

import ollama
import pytest

from harness.waiting import wait_for

QUESTION = [{"role": "user", "content": "What is 3+4? Use the tool add."}]
client = NAME = None


@pytest.fixture(scope="module", autouse=True)
def client_of_a_server(serve_for_all, model):
    global client, NAME
    client, NAME = ollama.Client(host=serve_for_all("--offline").root), os.path.basename(model)


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
      a: the first
      b: the second
    """
    return a + b


def chat(messages, think=False, **more):
    options = {"temperature": 0, "num_predict": 40} | more.pop("options", {})
    return client.chat(NAME, messages, think=think, options=options, **more)


def test_streams_are_the_same_answer():
    for more in ({}, {"think": True}, {"format": "json"}, {"tools": [add]}):
        whole = chat(QUESTION, **more)
        parts = list(chat(QUESTION, stream=True, **more))
        assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
        assert "".join(p.message.content for p in parts) == whole.message.content
        assert "".join(p.message.thinking or "" for p in parts) == (whole.message.thinking or "")
        assert [c for p in parts for c in p.message.tool_calls or []] == list(whole.message.tool_calls or [])
        assert parts[-1].eval_count == whole.eval_count > 0 and parts[-1].done_reason == whole.done_reason


def test_tools_go_round():
    first = chat(QUESTION, tools=[add])
    call = first.message.tool_calls[0].function
    assert call.name == "add" and set(call.arguments) == {"a", "b"}, call
    result = {"role": "tool", "tool_name": "add", "content": str(add(**{k: int(v) for k, v in call.arguments.items()}))}
    second = chat(QUESTION + [first.message, result], tools=[add])
    assert second.message.content and second.prompt_eval_count > first.prompt_eval_count


def test_a_schema_holds():
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
    content = chat([{"role": "user", "content": "A city?"}], format=schema).message.content
    assert json.loads(content) in ({"city": "Paris"}, {"city": "Rome"})


def test_generate_continues_raw_texts_and_applies_templates():
    raw = client.generate(NAME, "The capital of France is", raw=True, options={"temperature": 0, "num_predict": 8})
    assert raw.response and raw.eval_count == 8 and raw.done_reason == "length"
    parts = list(client.generate(NAME, "The capital of France is", raw=True, stream=True, options={"temperature": 0, "num_predict": 8}))
    assert "".join(p.response for p in parts) == raw.response
    said = client.generate(NAME, "Hi.", system="Be brief.", think=False, options={"temperature": 0, "num_predict": 8})
    asked = chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}], options={"num_predict": 8})
    assert said.response == asked.message.content


def test_logprobs_come_for_each_token():
    answer = chat([{"role": "user", "content": "Hi."}], logprobs=True, top_logprobs=2, options={"num_predict": 4})
    assert len(answer.logprobs) == 4 and all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in answer.logprobs)


def test_the_model_is_listed_and_described():
    model = client.list().models[0]
    assert model.model == f"{NAME}:latest" and model.details.family == "qwen3_5" and model.size > 1e7
    shown = client.show(NAME)
    assert {"completion", "tools", "thinking"} <= set(shown.capabilities) and "enable_thinking" in shown.template
    assert shown.modelinfo["qwen3_5.context_length"] == client.ps().models[0].context_length


def test_keep_alive_unloads():
    assert client.generate(NAME, "", keep_alive=0).done_reason == "unload"
    wait_for(lambda: not client.ps().models, "the model is unloaded")
    assert client.generate(NAME, "", keep_alive="5m").done_reason == "load"
    expires = client.ps().models[0].expires_at.timestamp()
    assert 0 < expires - time.time() < 301, expires
    assert chat([{"role": "user", "content": "Hi."}]).message.content


def test_errors_say_what_is_wrong():
    for wrong in ({"options": {"temperature": -1.0}}, {"format": {"type": "nothing"}}):
        with pytest.raises(ollama.ResponseError) as refusal:
            chat([{"role": "user", "content": "Hi."}], **wrong)
        assert refusal.value.status_code == 400 and refusal.value.error, refusal.value
    with pytest.raises(ollama.ResponseError, match="nobody/has-this"):
        list(client.pull("nobody/has-this", stream=True))
