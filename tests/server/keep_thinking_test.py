"""`--keep-thinking`: earlier turns keep their thoughts, also where the client does not send them back, so that the next prompt
begins with exactly what was sampled and nothing of it is read again."""

import os
import signal

import pytest

from harness import paths

ASK = {"temperature": 0, "max_tokens": 60, "thinking_budget": 40, "reasoning_effort": "high"}
QUESTIONS = ["What is the capital of France? Think it over.", "And of Italy?", "Why is the sea blue?"]
OLD, NEW = "loop.index0 > ns.last_query_index", "(preserve_thinking is defined and preserve_thinking) or loop.index0 > ns.last_query_index"


@pytest.fixture
def template(tmp_path):
    """The model's template, as Qwen3.6's are written."""
    with open(os.path.join(paths.MODEL, "chat_template.jinja")) as file:
        text = file.read()
    assert text.count(OLD) == 1
    (tmp_path / "preserving.jinja").write_text(text.replace(OLD, NEW))
    return tmp_path / "preserving.jinja"


def flags(tmp_path):
    return ("--context", "4096", "--threads", "2", "--cache-dir", tmp_path / "cache", "--cache-disk-worth", "0", "--read-ahead", "off")


def chat(server, messages, **options):
    answer = server.ask("/v1/chat/completions", {"messages": messages} | ASK | options)
    message, usage = answer["choices"][0]["message"], answer["usage"]
    return message, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


def converse(server, keys=("role", "content"), restart=False, **options):
    """For each turn after the first: tokens of the last prompt and answer, and how many of the next prompt were cached."""
    messages, last, told = [], None, []
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        message, prompt, cached, sampled = chat(server, messages, **options)
        assert message["reasoning_content"]
        if last:
            told.append((last, cached))
        last = prompt + sampled
        messages.append({key: value for key, value in message.items() if key in keys})
        if restart:
            server.restart(signal.SIGTERM)
    return told


@pytest.mark.parametrize("keys", [("role", "content"), ("role", "content", "reasoning_content")])
def test_the_whole_last_turn_is_found(serve, template, tmp_path, keys):
    server = serve(*flags(tmp_path), "--keep-thinking", "--chat-template-file", template)
    for last, cached in converse(server, keys):
        assert last - 2 <= cached <= last, (last, cached)


def test_also_after_a_restart(serve, template, tmp_path):
    server = serve(*flags(tmp_path), "--keep-thinking", "--chat-template-file", template)
    for last, cached in converse(server, restart=True):
        assert last - 2 <= cached <= last, (last, cached)


def test_a_request_may_ask_for_the_usual_prompt(serve, template, tmp_path):
    server = serve(*flags(tmp_path), "--keep-thinking", "--chat-template-file", template)
    usual = serve(*flags(tmp_path / "other"), "--chat-template-file", template)
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    first, _, _, _ = chat(server, messages)
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": QUESTIONS[1]}]
    off = chat(server, messages, chat_template_kwargs={"preserve_thinking": False})
    same = chat(usual, messages)
    kept = chat(server, messages)
    assert (off[0], off[1]) == (same[0], same[1])
    assert kept[1] > off[1]


def test_another_thought_stays_as_the_client_sent_it(serve, template, tmp_path):
    server = serve(*flags(tmp_path), "--keep-thinking", "--chat-template-file", template)
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    first, prompt, _, _ = chat(server, messages)
    messages += [{"role": "assistant", "content": first["content"], "reasoning_content": "Something else."}, {"role": "user", "content": QUESTIONS[1]}]
    _, _, cached, _ = chat(server, messages)
    assert cached <= prompt + 2, (cached, prompt)


def test_templates_that_do_not_know_it_are_asked_as_ever(serve, tmp_path):
    told = []
    for number, more in enumerate(((), ("--keep-thinking",))):
        server = serve(*flags(tmp_path / str(number)), *more)
        messages = [{"role": "user", "content": QUESTIONS[0]}]
        first, *_ = chat(server, messages)
        messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": QUESTIONS[1]}]
        told.append((first, chat(server, messages)[:2]))
    assert told[0] == told[1]
