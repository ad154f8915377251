"""Histories that agents send back, with templates of other models on a small model: every one is answered with all its texts
in the prompt, and the same history gives the same prompt in each API."""

import copy
import json
import os
import re

import pytest

from harness import paths

NAMES = ("qwen3.5", "ministral3_reasoning", "mistral_nemo", "mistral_small_3.2", "mistral_v0.3_like", "gemma2_like", "gemma3_like", "gemma4",
         "smollm3", "deepseek_r1_distill", "llama3.2_like", "qwen2.5", "qwen3_coder", "anabranch_hybrid")
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks",
                                           "parameters": {"type": "object", "properties": {"key": {"type": "string", "maxLength": 5}}}}}]


@pytest.fixture(scope="module")
def server(serve_for_all, tmp_path_factory):
    folder = tmp_path_factory.mktemp("histories")
    lines = []
    for name in NAMES:
        template = os.path.join(paths.ROOT, "tests/jinja/data/templates", name + ".jinja")
        lines += [f'[model."{name}"]', f'path = "{paths.DRAFT}"', f'chat-template-file = "{template}"']
    (folder / "models.toml").write_text("\n".join(lines) + "\n")
    return serve_for_all("--context", "4096", "--threads", "2", "--thinking", "off", "--cache-ram", "32MB", "--cache-disk", "0",
                         model=None, before=["--config", str(folder / "models.toml")])


def call(number, arguments, id=None):
    return {"id": id or f"call_{number}Qk3v0aXw9TnB27LmYzRc", "type": "function", "function": {"name": "look", "arguments": arguments}}


def result(number, text):
    return {"role": "tool", "tool_call_id": f"call_{number}Qk3v0aXw9TnB27LmYzRc", "content": text}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def said(text, *calls):
    return {"role": "assistant", "content": text} | ({"tool_calls": list(calls)} if calls else {})


OBJECT = '{"key": "ARGONE"}'
HISTORIES = {
    "late system": [system("SYSONE"), user("USERONE"), said("ASSTONE"), system("SYSLATE"), user("USERTWO")],
    "system at the end": [user("USERONE"), said("ASSTONE"), system("SYSLATE")],
    "system behind a result": [system("SYSONE"), user("USERONE"), said("", call(1, OBJECT)), result(1, "RESONE"), system("SYSLATE")],
    "two first": [system("SYSONE"), {"role": "developer", "content": "DEVONE"}, user("USERONE")],
    "no user": [system("SYSONE"), said("", call(1, OBJECT)), result(1, "RESONE")],
    "only a system message": [system("SYSONE")],
    "a summary": [system("SYSONE"), said("SUMMARY")],
    "cut arguments": [user("USERONE"), said("", call(1, '{"key": "ARGONE')), result(1, "RESONE"), user("USERTWO")],
    "a list as arguments": [user("USERONE"), said("", call(1, '["ARGONE"]')), result(1, "RESONE")],
    "null as arguments": [user("USERONE"), said("", call(1, None)), result(1, "RESONE")],
    "a line break in arguments": [user("USERONE"), said("", call(1, '{"key": "ARGONE\nb"}')), result(1, "RESONE")],
    "user behind a result": [user("USERONE"), said("", call(1, OBJECT)), result(1, "RESONE"), user("USERTWO")],
    "two of each": [user("USERONE"), user("USERTWO"), said("ASSTONE"), said("ASSTTWO"), user("USERTHREE")],
    "two calls": [user("USERONE"), said("", call(1, OBJECT), call(2, '{"key": "ARGTWO"}')), result(1, "RESONE"), result(2, "RESTWO")],
    "a lone result": [user("USERONE"), result(1, "RESONE"), said("ASSTONE"), user("USERTWO")],
    "an empty answer": [user("USERONE"), said(None), user("USERTWO")],
    "an empty result": [user("USERONE"), said("", call(1, OBJECT)), {"role": "tool", "tool_call_id": "call_1Qk3v0aXw9TnB27LmYzRc"}, user("USERTWO")],
    "an old function": [user("USERONE"), said(None) | {"function_call": {"name": "look", "arguments": OBJECT}},
                        {"role": "function", "name": "look", "content": "RESONE"}, user("USERTWO")],
}


def words_of(history):
    return re.findall(r"\b(?:SYS|DEV|USER|ASST|ARG|RES)[A-Z]+|SUMMARY", json.dumps(history))


@pytest.mark.parametrize("name", NAMES)
def test_every_history_is_answered(server, name):
    for what, history in HISTORIES.items():
        for tools in ({}, {"tools": TOOLS}):
            body = {"model": name, "messages": history} | tools
            status, answer = server.status("/apply-template", body)
            assert status == 200, (what, answer)
            prompt = answer["prompt"]
            for word in words_of(history):
                assert prompt.count(word) == 1, (what, word, prompt)
        status, answer = server.status("/v1/chat/completions", {"model": name, "messages": history, "max_tokens": 1})
        assert status == 200, (what, answer)


def test_our_own_ids_come_back(server):
    """A call of the server's own, sent back with its result."""
    for name in ("mistral_nemo", "mistral_small_3.2"):
        messages = [user("Look at x.")]
        body = {"model": name, "tools": TOOLS, "max_tokens": 100}
        first = server.ask("/v1/chat/completions", body | {"messages": messages, "tool_choice": "required", "parallel_tool_calls": False})
        answer = first["choices"][0]["message"]
        messages += [answer, {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "RESONE"}]
        status, second = server.status("/v1/chat/completions", body | {"messages": messages, "max_tokens": 1})
        assert status == 200, second
        prompt = server.ask("/apply-template", body | {"messages": messages})["prompt"]
        assert answer["tool_calls"][0]["id"] not in prompt and "RESONE" in prompt


def blocks(message):
    """A message as Anthropic's clients write it."""
    role, content = message["role"], message["content"]
    if role == "tool":
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}]}
    uses = [{"type": "tool_use", "id": one["id"], "name": one["function"]["name"], "input": json.loads(one["function"]["arguments"])}
            for one in message.get("tool_calls", [])]
    return {"role": role, "content": ([{"type": "text", "text": content}] if content else []) + uses}


def items(message):
    """A message as items of the Responses API."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    own = [{"type": "message", "role": message["role"], "content": message["content"]}] if message["content"] else []
    return own + [{"type": "function_call", "call_id": one["id"], "name": one["function"]["name"], "arguments": one["function"]["arguments"]}
                  for one in message.get("tool_calls", [])]


def ollamas(message):
    """A message as Ollama's clients write it: arguments as an object, and no ids."""
    message = copy.deepcopy(message)
    message.pop("tool_call_id", None)
    for one in message.get("tool_calls", []):
        del one["id"]
        one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return message


@pytest.mark.parametrize("name", NAMES)
def test_the_apis_give_the_same_prompt(server, name):
    late = [system("SYSONE"), user("USERONE"), said("ASSTONE", call(1, OBJECT), call(2, '{"key": "ARGTWO"}')), result(1, "RESONE"),
            result(2, "RESTWO"), system("SYSLATE"), user("USERTWO"), said("ASSTTWO"), user("USERTHREE")]
    for history in (late, [system("SYSONE"), *late], late[2:], HISTORIES["user behind a result"]):
        openai = server.ask("/v1/chat/completions", {"model": name, "max_tokens": 1, "messages": history})["usage"]["prompt_tokens"]
        counted = {
            "messages": server.ask("/v1/messages/count_tokens", {"model": name, "messages": [blocks(one) for one in history]})["input_tokens"],
            "responses": server.ask("/v1/responses/input_tokens", {"model": name, "input": [item for one in history for item in items(one)]})[
                "input_tokens"],
            "ollama": server.ask("/api/chat", {"model": name, "stream": False, "messages": [ollamas(one) for one in history],
                                               "options": {"num_predict": 0}})["prompt_eval_count"]}
        assert counted == dict.fromkeys(counted, openai), history


def test_late_instructions_keep_the_cached_beginning(server):
    """A system message that comes late changes nothing before it."""
    long = "The garden has a wall, a pond and three old trees. " * 40
    history = [system("Be brief."), user(long), said("A garden."), user("And the trees?")]
    for name in ("qwen3.5", "smollm3", "anabranch_hybrid"):
        body = {"model": name, "max_tokens": 8, "temperature": 0}
        first = server.ask("/v1/chat/completions", body | {"messages": history})
        later = history + [first["choices"][0]["message"], system("Answer in French."), user("Which tree is the oldest?")]
        usage = server.ask("/v1/chat/completions", body | {"messages": later})["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > 400, (name, usage)
