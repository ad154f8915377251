"""Prompts of many megabytes, eight at a time: others are answered beside them, they are refused, and their memory comes back.

Every kind of request that tokenises text is sent: chats with one message and with many, text completions with one prompt
and with a list, Anthropic's messages and count_tokens, tools and schemas. --effort 5 sends the most that is taken.
"""

import json
import threading
import time

import pytest

from harness.waiting import wait_for

pytestmark = pytest.mark.slow

MB = 1_000_000
CHAT = "/v1/chat/completions"


def user(text):
    return {"role": "user", "content": text}


def long_text(megabytes):
    return "The river parts and joins again further down; 12345 boats. " * (megabytes * MB // 59)


def requests_of(text):
    """{name: (path, body, status)}"""
    tool = {"type": "function", "function": {"name": "f", "description": text, "parameters": {"type": "object"}}}
    names = {f"member_{i}": {"type": "string", "description": text[:1000]} for i in range(len(text) // 1100)}
    schema = {"type": "json_schema", "json_schema": {"name": "form", "schema": {"type": "object", "properties": names}}}
    many = [user(text[:1000]) | {"role": "user" if i % 2 == 0 else "assistant"} for i in range(len(text) // 1050 // 2 * 2 + 1)]
    return {
        "chat": (CHAT, {"messages": [user(text)]}, 400),
        "system prompt": (CHAT, {"messages": [{"role": "system", "content": text}, user("hi")]}, 400),
        "many messages": (CHAT, {"messages": many}, 400),
        "one word": (CHAT, {"messages": [user("a" * len(text))]}, 400),
        "tool": (CHAT, {"messages": [user("hi")], "tools": [tool]}, 400),
        "schema": (CHAT, {"messages": [user("hi")], "response_format": schema}, 400),
        "completion": ("/v1/completions", {"prompt": text}, 400),
        "prompts": ("/v1/completions", {"prompt": ["hi", text[:len(text) // 2], text[len(text) // 2:]]}, 400),
        "message": ("/v1/messages", {"messages": [user(text)], "max_tokens": 4}, 400),
        "count_tokens": ("/v1/messages/count_tokens", {"messages": [user(text)]}, 400),
    }


NAMES = list(requests_of("x" * 5000))
MOST_SECONDS = 2  # for "hi" beside long prompts, where it takes no time by itself


@pytest.fixture(scope="module")
def server(serve_for_all):
    server = serve_for_all("--no-cache", "--spec", "off")
    hi(server)
    return server


@pytest.fixture(scope="module")
def usual_memory(server):
    return server.memory_mib()


def hi(server):
    """How long a short question takes."""
    began = time.monotonic()
    server.ask(CHAT, {"messages": [user("hi")], "max_tokens": 4, "enable_thinking": False})
    return time.monotonic() - began


def at_once(server, path, data, count):
    """The answers to `count` equal requests, and the slowest "hi" beside them."""
    results, slowest = [], 0
    threads = [threading.Thread(target=lambda: results.append(server.status(path, data))) for _ in range(count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        slowest = max(slowest, hi(server))
    return results, slowest


@pytest.mark.parametrize("name", NAMES)
def test_it_is_refused_and_others_are_answered_beside_it(server, usual_memory, effort, name):
    path, body, expected = requests_of(long_text(effort(6)))[name]
    count = 8 if name == "chat" else 2
    # The machine may be busy with other things: what counts is how much longer it takes than alone.
    alone = max(hi(server) for _ in range(10))
    results, slowest = at_once(server, path, json.dumps(body).encode(), count)
    assert len(results) == count
    for status, answer in results:
        assert status == expected and "error" in answer, answer
    assert slowest < MOST_SECONDS + 10 * alone


def test_the_memory_comes_back(server, usual_memory):
    wait_for(lambda: server.memory_mib() <= 1.15 * usual_memory, lambda: f"{usual_memory} MiB before, {server.memory_mib()} MiB now")


def test_the_server_stops_when_told_to(server):
    assert server.stop() == 0
