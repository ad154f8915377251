#!/usr/bin/env python3
"""The cases of openresponses.org's compliance test against a running server: openresponses.py BASE_URL [MODEL]

BASE_URL ends with /v1. Responses and every event of a stream are validated by the types that the specification's authors
publish (Python package openresponses-types 2.4.0, which must be installed). Images are left out. Streams are asked for without
thoughts: their events have OpenAI's names here (response.reasoning_text.delta), the specification's are others
(response.reasoning.delta). The last line is "N passed, N failed"."""

import json
import sys
import urllib.request

import openresponses_types as types

EVENTS = {name for name in dir(types) if name.endswith("StreamingEvent")}
BY_TYPE = {kind.value: getattr(types, name) for name in EVENTS for kind in getattr(types, name).model_fields["type"].annotation}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather in a city",
           "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}


def say(role, text):
    return {"type": "message", "role": role, "content": text}


def ask(base, body):
    request = urllib.request.Request(base + "/responses", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return response.read().decode()


def whole(base, model, **body):
    response = types.ResponseResource.model_validate(json.loads(ask(base, {"model": model, "max_output_tokens": 300} | body)))
    assert response.output, "no output"
    return response


def text_of(response):
    return "".join(part.root.text if hasattr(part, "root") else part.text for item in response.output
                   for item in [getattr(item, "root", item)] if item.type == "message" for part in item.content)


def basic(base, model):
    assert text_of(whole(base, model, input=[say("user", "Say hello in exactly 3 words.")]))


def system_prompt(base, model):
    assert text_of(whole(base, model, input=[say("system", "You are a pirate. Always respond in pirate speak."), say("user", "Say hello.")]))


def several_turns(base, model):
    assert text_of(whole(base, model, input=[say("user", "My name is Alice."), say("assistant", "Hello Alice! Nice to meet you."),
                                             say("user", "What is my name?")]))


def tool_call(base, model):
    response = whole(base, model, input=[say("user", "What is the weather in San Francisco?")], tools=[WEATHER])
    assert any(getattr(item, "root", item).type == "function_call" for item in response.output), "no call"


def tool_result(base, model):
    assert text_of(whole(base, model, tools=[WEATHER], input=[
        say("user", "What is the weather in Rome?"),
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"location": "Rome"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "Sunny, 21 degrees"}]))


def stream(base, model, **body):
    lines = ask(base, {"model": model, "stream": True, "max_output_tokens": 300, "reasoning": {"effort": "none"}} | body).split("\n")
    data = [line[6:] for line in lines if line.startswith("data: ")]
    events = [json.loads(line) for line in data if line != "[DONE]"]
    for event in events:
        BY_TYPE[event["type"]].model_validate(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created" and events[-1]["type"] in ("response.completed", "response.incomplete")
    types.ResponseResource.model_validate(events[-1]["response"])
    return {event["type"] for event in events}


def streamed(base, model):
    assert "response.output_text.delta" in stream(base, model, input=[say("user", "Count from 1 to 5.")])


def streamed_call(base, model):
    seen = stream(base, model, input=[say("user", "What is the weather in Oslo?")], tools=[WEATHER], tool_choice="required")
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= seen


def main():
    base, model = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "default"
    passed = failed = 0
    for case in (basic, streamed, system_prompt, tool_call, tool_result, several_turns, streamed_call):
        try:
            case(base, model)
            passed += 1
            print("ok    ", case.__name__)
        except Exception as error:  # whatever a server answers
            failed += 1
            print("FAILED", case.__name__, type(error).__name__, str(error)[:600])
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
