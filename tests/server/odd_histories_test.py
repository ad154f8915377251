"""Chats as sloppy programs send them, over the templates of many families: every one is rendered, with each of its texts once."""

import json
import os
import re

import pytest

from harness import paths

pytestmark = pytest.mark.any_model

NAMES = ("qwen3.5", "qwen3_coder", "qwen2.5", "ministral3_reasoning", "mistral_nemo", "gemma2_like", "gemma3_like", "gemma4", "smollm3",
         "deepseek_r1_distill", "deepseek_v3.1", "llama3.2_like", "gpt_oss", "glm4.6", "granite4", "minimax_m2", "seed_oss", "phi3.5", "apertus",
         "minicpm5", "step3.5_flash", "anabranch_hybrid")
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {
    "key": {"type": "string"}}}}}]
PICTURE = {"type": "image_url", "image_url": {
    "url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="}}
TWO = '{"key": "ARGTWO"}'
LONG = "x" * 4000


@pytest.fixture(scope="module")
def server(serve_for_all, tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    lines = []
    for name in NAMES:
        template = os.path.join(paths.ROOT, "tests/jinja/data/templates", name + ".jinja")
        lines += [f'[model."{name}"]', f'path = "{paths.DRAFT}"', f'chat-template-file = "{template}"']
    (folder / "models.toml").write_text("\n".join(lines) + "\n")
    return serve_for_all("--context", "8192", "--threads", "2", "--thinking", "off", "--cache-ram", "32MB", "--cache-disk", "0",
                         model=None, before=["--config", str(folder / "models.toml")])


def system(text, role="system"):
    return {"role": role, "content": text}


def user(text, **more):
    return {"role": "user", "content": text} | more


def said(text, *calls, **more):
    return {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {}) | more


def call(id, arguments='{"key": "ARGONE"}', name="look"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id, text):
    return {"role": "tool", "tool_call_id": id, "content": text}


def text(*texts):
    return [{"type": "text", "text": one} for one in texts]


def asked(arguments):
    return [user("USERONE"), said(None, call("a", arguments)), result("a", "RESONE"), user("USERTWO")]


def answered(content):
    return [user("USERONE"), said(None, call("a")), result("a", content), user("USERTWO")]


def of_call(one):
    return [user("USERONE"), said(None, one), result("a", "RESONE"), user("USERTWO")]


NOTHING = dict.fromkeys(["content", "tool_calls", "function_call", "refusal", "audio", "name", "reasoning_content"])
THREE = said(None, call("a"), call("b", TWO), call("c", '{"key": "ARGTHREE"}'))
HISTORIES = {
    "a user without parts": [system("SYSONE"), user([]), said("ASSTONE"), user("USERTWO")],
    "an answer without parts": [user("USERONE"), said([]), user("USERTWO")],
    "an answer without content": [user("USERONE"), {"role": "assistant"}, user("USERTWO")],
    "an answer of nulls": [user("USERONE"), NOTHING | {"role": "assistant"}, user("USERTWO")],
    "calls: null": [user("USERONE"), said("ASSTONE", tool_calls=None), user("USERTWO")],
    "calls: none": [user("USERONE"), said("ASSTONE", tool_calls=[]), user("USERTWO")],
    "a system of null": [system(None), user("USERONE")],
    "a system without parts": [system([]), user("USERONE")],
    "a system of parts": [system(text("SYSONE", "SYSTWO")), user("USERONE")],
    "one id for two calls": [user("USERONE"), said(None, call("a"), call("a", TWO)), result("a", "RESONE"), result("a", "RESTWO"), user("USERTWO")],
    "one id in two turns": [user("USERONE"), said(None, call("a")), result("a", "RESONE"), said("ASSTONE", call("a", TWO)), result("a", "RESTWO")],
    "two results of one call": [user("USERONE"), said(None, call("a")), result("a", "RESONE"), result("a", "RESTWO"), user("USERTWO")],
    "results in another order": [user("USERONE"), THREE, result("c", "RESTHREE"), result("a", "RESONE"), result("b", "RESTWO"), user("USERTWO")],
    "one of three results": [user("USERONE"), THREE, result("b", "RESTWO"), user("USERTWO")],
    "no result": [user("USERONE"), said("ASSTONE", call("a")), user("USERTWO")],
    "a system in place of a result": [user("USERONE"), said(None, call("a")), system("SYSLATE")],
    "a result of another id": [user("USERONE"), said(None, call("a")), result("z", "RESONE"), user("USERTWO")],
    "a result without id": [user("USERONE"), said(None, call("a")), {"role": "tool", "content": "RESONE"}, user("USERTWO")],
    "a result with the id null": [user("USERONE"), said(None, call("a")), result(None, "RESONE"), user("USERTWO")],
    "empty ids": [user("USERONE"), said(None, call("")), result("", "RESONE"), user("USERTWO")],
    "ids of null": [user("USERONE"), said(None, call(None)), result(None, "RESONE"), user("USERTWO")],
    "a call without id": of_call({"type": "function", "function": {"name": "look", "arguments": "{}"}}),
    "long ids": [user("USERONE"), said(None, call(LONG + "a"), call(LONG + "b", TWO)), result(LONG + "b", "RESTWO"), result(LONG + "a", "RESONE")],
    "odd ids": [user("USERONE"), said(None, call("functions.look:0"), call('a"b\\n<é>', TWO)), result("functions.look:0", "RESONE"),
                result('a"b\\n<é>', "RESTWO"), user("USERTWO")],
    "a result of parts": answered(text("RESONE", "RESTWO")),
    "a result with a picture": answered([*text("RESONE"), PICTURE]),
    "a result without parts": answered([]),
    "a result that is an object": answered({"ok": "RESONE"}),
    "a result that is a number": answered(42),
    "a picture beside a result": [user("USERONE"), said(None, call("a")), result("a", "RESONE"), user([*text("USERTWO"), PICTURE])],
    "arguments: an object": asked({"key": "ARGONE"}),
    "arguments: empty": asked(""),
    "arguments: missing": of_call({"id": "a", "type": "function", "function": {"name": "look"}}),
    "arguments: a number": asked("5"),
    "arguments: twice encoded": asked(json.dumps('{"key": "ARGONE"}')),
    "arguments: two objects": asked('{"key": "ARGONE"}' + TWO),
    "arguments: NaN": asked('{"key": NaN, "b": "ARGONE"}'),
    "arguments: deep": asked('{"a":' * 150 + '"ARGONE"' + "}" * 150),
    "arguments: not parsed by Claude Code": asked({"__unparsedToolInput": {"raw": '{"key": "ARGONE', "len": 15}}),
    "a name: empty": of_call(call("a", name="")),
    "a name: unknown": of_call(call("a", name="no.such tool!")),
    "a call without type": of_call({"id": "a", "function": {"name": "look", "arguments": '{"key": "ARGONE"}'}}),
    "a call of a custom tool": of_call({"id": "a", "type": "custom", "custom": {"name": "patch", "input": "ARGONE"}}),
    "a call with more": of_call(call("a") | {"index": 0, "extra_content": {"google": {"thought_signature": "x"}}}),
    "a developer between results": [user("USERONE"), said(None, call("a"), call("b", TWO)), result("a", "RESONE"), system("DEVONE", "developer"),
                                    result("b", "RESTWO"), user("USERTWO")],
    "a user between call and result": [user("USERONE"), said(None, call("a")), user("USERTWO"), result("a", "RESONE"), user("USERTHREE")],
    "systems everywhere": [system("SYSONE"), user("USERONE"), system("SYSTWO"), said("ASSTONE"), system("SYSTHREE"), user("USERTWO"), system("SYSFOUR")],
    "sixty systems": [system(f"SYSN{chr(65 + i // 26)}{chr(65 + i % 26)}") for i in range(60)] + [user("USERONE")],
    "only a result": [result("a", "RESONE")],
    "only an answer": [said("ASSTONE")],
    "a call first": [said(None, call("a")), result("a", "RESONE")],
    "a system between results": [user("USERONE"), said(None, call("a"), call("b", TWO)), result("b", "RESTWO"), system("SYSLATE"), result("a", "RESONE")],
    "an empty user": [user(""), said("ASSTONE"), user("USERTWO")],
    "nothing": [user("")],
    "control characters": [user("USERONE \x00 a\x1bb"), said("ASSTONE"), user("USERTWO\u2028\ufeff")],
    "marks as text": [user("USERONE <|im_end|> <tool_call> </think> [INST] <start_of_turn>"), said("ASSTONE <|im_start|>user"), user("USERTWO")],
    "names": [user("USERONE", name="ann"), said("ASSTONE", name="bot"), user("USERTWO", name="bob")],
    "a function without a call": [user("USERONE"), {"role": "function", "name": "look", "content": "RESONE"}, user("USERTWO")],
    "details of a thought": [user("USERONE"), said("ASSTONE", reasoning="hm", reasoning_details=[{"type": "reasoning.text", "text": "x"}]), user("USERTWO")],
    "a part without type": [user([{"text": "USERONE"}])],
    "strings as parts": [user(["USERONE", " USERTWO"])],
    "a part of null": [user([{"type": "text", "text": None}, *text("USERONE")])],
    "parts of the Responses API": [user([{"type": "input_text", "text": "USERONE"}]), said([{"type": "output_text", "text": "ASSTONE"}]),
                                   user([{"type": "input_text", "text": "USERTWO"}])],
    "Anthropic's thoughts": [user("USERONE"), said([{"type": "thinking", "thinking": "x", "signature": "y"}, *text("ASSTONE")]), user("USERTWO")],
    "Anthropic's calls": [user("USERONE"), said([*text("ASSTONE"), {"type": "tool_use", "id": "a", "name": "look", "input": {"key": "ARGONE"}}]),
                          user([{"type": "tool_result", "tool_use_id": "a", "content": text("RESONE")}, *text("USERTWO")])],
}


def words_of(history):
    return re.findall(r"\b(?:SYS|DEV|USER|ASST|ARG|RES)[A-Z]+", json.dumps(history))


@pytest.mark.parametrize("name", NAMES)
def test_each_text_is_there_once(server, name):
    for number, (what, history) in enumerate(HISTORIES.items()):
        body = {"model": name, "messages": history} | ({"tools": TOOLS} if number % 2 else {})
        status, answer = server.status("/apply-template", body)
        assert status == 200, (what, answer)
        for word in words_of(history):
            assert answer["prompt"].count(word) == 1, (what, word, answer["prompt"])


def test_halves_of_surrogates(server):
    """As JSON of JavaScript and Python writes them; a lone half becomes the sign of a wrong character."""
    body = (b'{"model": "qwen2.5", "messages": [{"role": "user", "content": "USERONE \\ud83d\\ude00 \\ud800 end"}, {"role": "assistant", "content": '
            b'"ASSTONE \\udfff"}, {"role": "user", "content": "USERTWO"}]}')
    status, answer = server.status("/apply-template", body)
    assert status == 200 and "USERONE \U0001f600 \ufffd end" in answer["prompt"] and "ASSTONE \ufffd" in answer["prompt"], answer
