"""Calls with long arguments of a real model: on every API their pieces make up what the whole answer has, also of calls that are
cut off; and they come while the model writes."""

import pytest

from answer_shapes import CHAT, MESSAGES, OLLAMA, RESPONSES, SHAPES, answer, answer_of_chunks

NOTE = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 20}, "text": {"type": "string", "minLength": 400, "maxLength": 600}},
        "required": ["title", "text"], "additionalProperties": False}
ASKED = [{"role": "user", "content": "Write a note about the sea."}]
SAMPLED = {"temperature": 0.9, "seed": 5}
FUNCTION = {"name": "write_note", "description": "Keeps a note"}


def chat(tokens):
    return {"messages": ASKED, "tools": [{"type": "function", "function": FUNCTION | {"parameters": NOTE}}], "tool_choice": "required",
            "parallel_tool_calls": False, "enable_thinking": False, "max_tokens": tokens, "stream_options": {"include_usage": True}} | SAMPLED


def message(tokens):
    return {"messages": ASKED, "tools": [FUNCTION | {"input_schema": NOTE}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "thinking": {"type": "disabled"}, "max_tokens": tokens} | SAMPLED


def response(tokens):
    return {"input": ASKED, "tools": [{"type": "function", "parameters": NOTE} | FUNCTION], "tool_choice": "required",
            "parallel_tool_calls": False, "reasoning": {"effort": "none"}, "max_output_tokens": tokens} | SAMPLED


def ollama(tokens):
    return {"model": "default", "messages": ASKED, "tools": [{"type": "function", "function": FUNCTION | {"parameters": NOTE}}],
            "tool_choice": "required", "think": False, "options": SAMPLED | {"num_predict": tokens}}


def deltas(path, events):
    """The pieces of arguments that a stream carries."""
    if path == CHAT:
        pieces = [call["function"] for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", [])]
        return [piece["arguments"] for piece in pieces if "name" not in piece]
    if path == MESSAGES:
        return [event["delta"]["partial_json"] for event in events if "partial_json" in event.get("delta", {})]
    return [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "2048", "--spec", "off")  # a draft is one piece


@pytest.mark.parametrize("tokens", [800, 90])
@pytest.mark.parametrize("path, body", [(CHAT, chat), (MESSAGES, message), (RESPONSES, response)], ids=["chat", "messages", "responses"])
def test_pieces_make_up_the_call(server, path, body, tokens):
    whole_of, streamed_of = SHAPES.get(path, (answer, answer_of_chunks))
    asked = body(tokens)
    whole = server.ask(path, {key: value for key, value in asked.items() if key != "stream_options"})
    events = server.events(path, asked)
    assert streamed_of(events) == whole_of(whole)
    pieces = deltas(path, events)
    assert len(pieces) > 5, pieces
    if path == RESPONSES:
        call = whole["output"][-1]
        assert call["type"] == "function_call" and call["status"] == ("completed" if tokens == 800 else "incomplete")
        assert call["arguments"] == "".join(pieces)


def test_ollamas_calls_come_whole_or_not_at_all(server):
    for tokens in (800, 90):
        answer = server.ask(OLLAMA, ollama(tokens) | {"stream": False})
        calls = answer["message"].get("tool_calls", [])
        assert len(calls) == (tokens == 800), answer
        assert all(len(call["function"]["arguments"]["text"]) >= 400 for call in calls), answer
