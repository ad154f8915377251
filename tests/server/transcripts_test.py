"""Conversations that real agents held with the server, recorded by bench/agents/run.py and shortened by bench/agents/transcript.py,
sent again: every request is answered, finds the one before in the cache, and has all its texts in the prompt; and the same
conversation in the form of another provider's API has a prompt of as many tokens."""

import copy
import json
import os
import re

import pytest

from harness import paths

pytestmark = pytest.mark.any_model

FOLDER = os.path.join(paths.ROOT, "tests/server/transcripts")
NAMES = sorted(name.removesuffix(".json") for name in os.listdir(FOLDER) if name.endswith(".json"))
MOST = {"/v1/chat/completions": "max_tokens", "/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens"}


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "32768", "--thinking", "off", "--cache-ram", "1GB", "--cache-disk", "0")


def transcript(name):
    """-> path, and the requests one after another."""
    with open(os.path.join(FOLDER, name + ".json")) as file:
        told = json.load(file)
    path = told["path"].partition("?")[0]
    history, requests = [], []
    for turn in told["turns"]:
        history = history[:turn["keep"]] + turn["add"]
        requests.append(told["body"] | {told["list"]: history, "stream": False})
    return path, requests


def history_of(body):
    """The messages of a request without what says where to cache, and a text alone as a text."""
    def same(value):
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
            return value[0]["text"]
        if isinstance(value, list):
            return [same(part) for part in value]
        return {key: same(part) for key, part in value.items() if key != "cache_control"} if isinstance(value, dict) else value
    return [same(message) for message in body.get("messages") or body["input"]]


def usage_of(path, answer):
    """-> tokens of the prompt, and those of them that were cached."""
    usage = answer["usage"]
    if path == "/v1/messages":
        return sum(usage[kind + "input_tokens"] for kind in ("", "cache_read_", "cache_creation_")), usage["cache_read_input_tokens"]
    if path == "/v1/responses":
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_every_turn_is_answered_from_the_cache(server, name):
    path, requests = transcript(name)
    before, earlier = 0, []
    for body in requests:
        status, answer = server.status(path, body | {MOST[path]: 1}, headers={"anthropic-version": "2023-06-01"})
        assert status == 200, answer
        prompt, cached = usage_of(path, answer)
        history = history_of(body)
        if before and history[:len(earlier)] == earlier:
            assert cached >= 0.98 * before, (prompt, cached, before)
        before, earlier = prompt, history


# --- the same conversation as chat completions have it ---

def text_of(content):
    """A content's texts as parts."""
    parts = [{"text": content}] if isinstance(content, str) else content or []
    return [{"type": "text", "text": part["text"]} for part in parts if "text" in part]


def in_lines(parts):
    """Anthropic's blocks of text are lines, and OpenAI's parts follow each other."""
    text = ""
    for part in parts:
        text += ("\n" if text and not text.endswith("\n") else "") + part["text"]
    return text


def call_of(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_of_message(message):
    """A message of Anthropic's."""
    content = [{"type": "text", "text": message["content"]}] if isinstance(message["content"], str) else message["content"]
    told = [{"role": "tool", "tool_call_id": block["tool_use_id"], "content": in_lines(text_of(block["content"]))} for block in content
            if block["type"] == "tool_result"]
    own = {"role": message["role"], "content": in_lines(text_of([block for block in content if block["type"] == "text"]))}
    calls = [call_of(block["id"], block["name"], json.dumps(block["input"])) for block in content if block["type"] == "tool_use"]
    if calls:
        own["tool_calls"] = calls
    return told + ([own] if calls or own["content"] else [])


def chat_of_items(items):
    """Items of the Responses API; calls of one answer belong to one message."""
    told = []
    for item in items:
        if item.get("type", "message") == "message":
            told.append({"role": item["role"], "content": text_of(item["content"])})
        elif item["type"] == "function_call":
            if not told or told[-1]["role"] != "assistant":
                told.append({"role": "assistant", "content": None})
            told[-1].setdefault("tool_calls", []).append(call_of(item["call_id"], item["name"], item["arguments"]))
        elif item["type"] == "function_call_output":
            told.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"] if isinstance(item["output"], str)
                         else text_of(item["output"])})
    return told


def function_of(tool):
    schema = tool.get("input_schema") or tool.get("parameters")
    strict = {"strict": True} if tool.get("strict") else {}
    return {"type": "function", "function": {"name": tool["name"], "description": tool["description"], "parameters": schema} | strict}


def chat_of(path, body):
    if path == "/v1/chat/completions":
        return {"messages": body["messages"], "tools": body.get("tools", [])}
    tools = [function_of(tool) for tool in body["tools"]]
    if path == "/v1/responses":
        first = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        return {"messages": first + chat_of_items(body["input"]), "tools": tools}
    system = [block for block in text_of(body.get("system")) if not block["text"].startswith("x-anthropic-billing-header")]
    first = [{"role": "system", "content": in_lines(system)}] if system else []
    return {"messages": first + [part for message in body["messages"] for part in chat_of_message(message)], "tools": tools}


def plain(body):
    """Without tools that other APIs do not have."""
    body = copy.deepcopy(body)
    if "tools" in body:
        body["tools"] = [tool for tool in body["tools"] if tool.get("type", "function") in ("function", "custom") and "type" in tool or "input_schema" in tool]
    return body


def words_of(text):
    return re.findall(r"[A-Za-z0-9_./-]{4,}", text)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_and_each_api_has_the_same_prompt(server, name):
    path, requests = transcript(name)
    body = plain(requests[-1])
    chat = chat_of(path, body)
    status, answer = server.status("/apply-template", chat)
    assert status == 200, answer
    for message in chat["messages"]:
        texts = [part["text"] for part in text_of(message["content"])] + [call["function"]["name"] for call in message.get("tool_calls", [])]
        for text in texts:
            assert text.strip() in answer["prompt"], text
    for told in (chat, with_one_turn_each(chat)):
        counted = {kind: tokens(server, kind, made) for kind, made in forms_of(told).items() if kind != "/v1/messages" or told is not chat}
        if told is chat or path == "/v1/messages":
            counted["as recorded"] = tokens(server, path, body)
        assert len(set(counted.values())) == 1, counted


def with_one_turn_each(chat):
    """Users' messages in a row as one: in Anthropic's API they are."""
    told = []
    for message in chat["messages"]:
        if told and told[-1]["role"] == message["role"] == "user":
            told[-1] = {"role": "user", "content": in_lines(part for one in (told[-1], message) for part in text_of(one["content"]))}
        else:
            told.append(message)
    return chat | {"messages": told}


def tokens(server, path, body):
    body = {key: body[key] for key in ("messages", "input", "instructions", "system", "tools") if key in body}
    if path == "/v1/messages":
        return server.ask("/v1/messages/count_tokens", body)["input_tokens"]
    if path == "/v1/responses":
        return server.ask("/v1/responses/input_tokens", body)["input_tokens"]
    return server.ask("/v1/chat/completions", body | {"max_tokens": 1})["usage"]["prompt_tokens"]


def forms_of(chat):
    """A chat in the forms of three APIs."""
    messages, tools = chat["messages"], [tool["function"] for tool in chat["tools"]]
    return {"/v1/chat/completions": chat,
            "/v1/messages": {"messages": [blocks(message) for message in messages], "tools": [
                {("input_schema" if key == "parameters" else key): value for key, value in tool.items()} for tool in tools]},
            "/v1/responses": {"input": [item for message in messages for item in items(message)], "tools": [{"type": "function"} | tool for tool in tools]}}


def blocks(message):
    """A message of a chat as Anthropic's clients write it."""
    content = text_of(message["content"])
    if message["role"] == "tool":
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]}
    uses = [{"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": json.loads(call["function"]["arguments"])}
            for call in message.get("tool_calls") or []]
    role = "system" if message["role"] == "developer" else message["role"]
    return {"role": role, "content": content + uses}


def items(message):
    """A message of a chat as items of the Responses API."""
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    content = [{"type": kind, "text": part["text"]} for part in text_of(message["content"])]
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}]
    own = [{"type": "message", "role": message["role"], "content": content}] if content else []
    return own + [{"type": "function_call", "call_id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
                  for call in message.get("tool_calls") or []]
