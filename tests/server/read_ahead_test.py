"""The next turn's prompt is read while nobody waits: the next request finds all but its message in the cache, its answer is the
same as without, and what is read gives way to every request."""

import json
import threading
import time

import pytest

from harness.waiting import wait_for

FLAGS = ("--context", "4096", "--threads", "2", "--cache-ram", "256MB", "--cache-disk", "0")
ASK = {"temperature": 0, "max_tokens": 300, "thinking_budget": 60, "reasoning_effort": "high"}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds numbers.", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}]
QUESTIONS = ["What is the capital of France? Think it over.", "And of Italy?", "Write two sentences about the sea.", "Why is it blue?"]
LONG = "The committee met again and wrote down what had been said. " * 150


@pytest.fixture
def server(serve):
    return serve(*FLAGS)


@pytest.fixture
def without(serve):
    return serve(*FLAGS, "--read-ahead", "off")


def ahead(server, what="read_ahead"):
    return server.metrics()[f"anabranch_{what}_tokens_total"]


def wait_until_read(server, before=0):
    wait_for(lambda: ahead(server) > before, "the next prompt's beginning")
    return ahead(server)


def chat(server, messages, **options):
    answer = server.ask("/v1/chat/completions", {"messages": messages} | ASK | options)
    message, usage = answer["choices"][0]["message"], answer["usage"]
    return message, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def conversation(server, wait, **options):
    """Each turn's message, tokens of its prompt, and how many of them were cached."""
    turns, messages, before = [], [], 0
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        turns.append(chat(server, messages, **options))
        messages.append({key: value for key, value in turns[-1][0].items() if key in ("role", "content")})
        if wait:
            before = wait_until_read(server, before)
    return turns


def test_the_next_turn_finds_all_but_its_message(server, without):
    turns, plain = conversation(server, True), conversation(without, False)
    assert [message for message, _, _ in turns] == [message for message, _, _ in plain]
    assert turns[0][0]["reasoning_content"]  # which the next prompt drops
    for (message, prompt, cached), (_, _, fewer), question in zip(turns[1:], plain[1:], QUESTIONS[1:]):
        assert prompt - cached < 25 + len(question), (question, prompt, cached)
        assert cached > fewer + 5, (question, cached, fewer)
    assert ahead(without) == ahead(without, "read_ahead_used") == 0
    assert ahead(server, "read_ahead_used") > 0
    assert ahead(server) >= ahead(server, "read_ahead_used")


@pytest.mark.parametrize("stream", [False, True])
def test_results_of_calls_are_all_that_is_read(server, without, stream):
    told = []
    for one in (server, without):
        messages = [{"role": "user", "content": "What is 17 plus 4?"}]
        body = {"messages": messages, "tools": TOOLS, "tool_choice": "required"} | ASK
        answer = one.ask("/v1/chat/completions", body)["choices"][0]["message"]
        if one is server:
            wait_until_read(server)
        messages += [{"role": "assistant", "content": answer["content"], "tool_calls": answer["tool_calls"]},
                     {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "21"}]
        body |= {"messages": messages, "tool_choice": "auto"}
        if stream:
            events = one.events("/v1/chat/completions", body | {"stream": True, "stream_options": {"include_usage": True}})
            text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
            usage = events[-1]["usage"]
        else:
            second = one.ask("/v1/chat/completions", body)
            text, usage = second["choices"][0]["message"]["content"], second["usage"]
        told.append((text, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]))
    (text, prompt, cached), (same, tokens, fewer) = told
    assert (text, prompt) == (same, tokens)
    assert prompt - cached < 25 and cached >= fewer, told


def test_other_apis(server):
    before = 0
    first = server.ask("/v1/messages", {"model": "m", "max_tokens": 60, "temperature": 0, "messages": [{"role": "user", "content": QUESTIONS[0]}]})
    before = wait_until_read(server, before)
    second = server.ask("/v1/messages", {"model": "m", "max_tokens": 60, "temperature": 0, "messages": [
        {"role": "user", "content": QUESTIONS[0]}, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": "And of Italy?"}]})
    assert second["usage"]["input_tokens"] < 30, second["usage"]
    before = wait_until_read(server, before)
    first = server.ask("/v1/responses", {"input": QUESTIONS[2], "temperature": 0, "max_output_tokens": 400, "store": True, "reasoning": {"effort": "high"}})
    before = wait_until_read(server, before)
    second = server.ask("/v1/responses", {"input": QUESTIONS[3], "temperature": 0, "max_output_tokens": 400, "previous_response_id": first["id"]})
    used = second["usage"]
    assert used["input_tokens"] - used["input_tokens_details"]["cached_tokens"] < 30, used
    wait_until_read(server, before)
    ask = {"model": "m", "stream": False, "think": True, "options": {"temperature": 0, "num_predict": 400}}
    first = server.ask("/api/chat", ask | {"messages": [{"role": "user", "content": "Name a river."}]})
    assert first["message"]["content"]


def test_what_is_read_gives_way(server):
    """A long prompt is read ahead. Another request is answered meanwhile, and the rest is read afterwards."""
    messages = [{"role": "user", "content": LONG + QUESTIONS[0]}]
    first, prompt, _ = chat(server, messages, cache_salt="a")
    other, _, _ = chat(server, [{"role": "user", "content": "Say yes."}], cache_salt="b",
                       max_tokens=3, reasoning_effort="none")  # is cut, so nothing is read ahead of it
    assert other["content"]
    wait_until_read(server)
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": "And of Italy?"}]
    _, prompt, cached = chat(server, messages, cache_salt="a")
    assert prompt - cached < 40, (prompt, cached)
    assert server.health()["status"] == "ok"


@pytest.mark.parametrize("change", [{"n": 2}, {"stop": ["e"]}, {"max_tokens": 1, "reasoning_effort": "none"}, {"logit_bias": {"5": -100}}])
def test_turns_without_a_known_end(server, change):
    """Nothing follows answers that were cut; with several nobody knows which one goes on."""
    chat(server, [{"role": "user", "content": QUESTIONS[0]}], **change)
    message, _, _ = chat(server, [{"role": "user", "content": QUESTIONS[2]}])
    assert message["content"]


def test_a_client_that_left(server):
    connection = server.raw(b"")
    body = json.dumps({"messages": [{"role": "user", "content": LONG}], "stream": True} | ASK | {"max_tokens": 2000, "ignore_eos": True}).encode()
    connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
    connection.recv(1000)
    connection.close()
    server.wait_for_requests(0)
    assert ahead(server) == 0


def test_many_clients_at_once(server, without):
    """Turns of eight conversations that cross: every answer is as without."""
    def hold(one, told):
        def talk(number):
            messages = []
            for question in QUESTIONS[:3]:
                messages.append({"role": "user", "content": f"{number}. {question}"})
                message, _, _ = chat(one, messages)
                told[number].append(message)
                messages.append({"role": "assistant", "content": message["content"]})
        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told, plain = {number: [] for number in range(8)}, {number: [] for number in range(8)}
    hold(server, told)
    hold(without, plain)
    assert told == plain
    assert all(len(turns) == 3 for turns in told.values())


def test_a_reading_takes_no_place(serve):
    server = serve(*FLAGS, "--parallel", "1", "--queue", "0")
    messages = [{"role": "user", "content": LONG + QUESTIONS[0]}]
    first, _, _ = chat(server, messages)
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": QUESTIONS[1]}]
    for pause in (0.06, 0.1, 0.15):
        time.sleep(pause)  # at some time within the reading
        message, _, _ = chat(server, messages)
        assert message["content"]


def test_what_the_cache_cannot_hold_is_not_read(serve):
    server = serve("--context", "4096", "--threads", "2", "--cache-ram", "1MB", "--cache-disk", "0")
    for _ in range(2):
        chat(server, [{"role": "user", "content": LONG + QUESTIONS[0]}])
    message, _, _ = chat(server, [{"role": "user", "content": QUESTIONS[2]}])
    assert message["content"]
    server.wait_for_requests(0)
    assert ahead(server) < 500, "of prompts with some 1,800 tokens"


def test_requests_are_counted_without_what_is_read(server):
    before = server.metrics()
    chat(server, [{"role": "user", "content": QUESTIONS[0]}])
    wait_until_read(server)
    after = server.metrics()
    tokens = next(name for name in after if name.startswith("anabranch_prompt_tokens_total"))
    assert after[tokens] - before.get(tokens, 0) < 40, "the prompt's tokens, once"


def test_a_model_that_is_unloaded_meanwhile(serve):
    server = serve(*FLAGS)
    chat(server, [{"role": "user", "content": LONG + QUESTIONS[0]}])
    name = server.ask("/v1/models")["data"][0]["id"]
    server.ask("/api/generate", {"model": name, "keep_alive": 0})
    message, _, _ = chat(server, [{"role": "user", "content": QUESTIONS[1]}])
    assert message["content"]
