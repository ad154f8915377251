"""Conversations as two coding agents hold them, each with 25 tools: Claude Code's over /v1/messages and Codex' over
/v1/responses. Every turn must be answered, and at least 98 % of what could be reused must come from the cache: all tokens that
the prompt shares with what was read and written before, and while the agent works on by itself, the whole prompt and answer
of the turn before. (When the user says something, the template writes the turns since the last time anew, without thoughts.)
After half of the turns the server is killed and started again.
"""

import json
import random

import pytest

from answer_shapes import input_of
from harness.waiting import file_sizes, settled

pytestmark = pytest.mark.any_model

NAMES = ("Bash Read Write Edit MultiEdit Glob Grep LS WebFetch WebSearch TodoWrite Task NotebookRead NotebookEdit ExitPlanMode "
         "BashOutput KillShell SlashCommand AskUser Skill ListFiles RunTests GitStatus GitDiff GitCommit").split()
ABOUT = ("Use this tool when the task needs it, and prefer it to a shell command that does the same. The path must be absolute. "
         "Do not guess values that you do not know. ")


def parameters(name):
    properties = {"file_path": {"type": "string", "description": f"The absolute path that {name} works on"},
                  "limit": {"type": "integer", "description": "How many lines to give back"}}
    return {"type": "object", "properties": properties, "required": ["file_path"], "additionalProperties": False}


def events(server, path, body):
    return server.events(path, body, headers={"anthropic-version": "2023-06-01"})


def computed_again(server):
    """Tokens that were known and computed again."""
    cache = server.health()["cache"]
    return cache["no_state_tokens"] + cache["lost_tokens"]


class ClaudeCode:
    """Streams; a system prompt in blocks, the first of which changes with every call; calls and their results as blocks."""

    def __init__(self):
        self.messages = [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nThe project is a web shop.\n</system-reminder>"},
                                                      {"type": "text", "text": "Read the file /shop/cart.py."}]}]
        self.cut = False  # the last answer was: a call that was cut comes back in other tokens than it was sampled in
        self.tools = [{"name": name, "description": f"{name}. {ABOUT}", "input_schema": parameters(name)} for name in NAMES]

    def works_alone(self):
        return self.messages[-1]["content"][0]["type"] == "tool_result" and not self.cut

    def ask(self, server, turn):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.0.{turn}; cc_entrypoint=cli; cch={turn:05x};"},
                  {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                  {"type": "text", "text": "Work in small steps and check what you did. " * 20, "cache_control": {"type": "ephemeral"}}]
        told = events(server, "/v1/messages", {
            "model": "claude-sonnet-4-5", "max_tokens": 200, "temperature": 0, "stream": True, "system": system, "tools": self.tools,
            "messages": self.messages, "tool_choice": {"type": "any"} if turn % 3 else {"type": "auto"}, "metadata": {"user_id": "user"}})
        blocks, partial, usage = [], "", {}
        self.cut = any(event.get("delta", {}).get("stop_reason") == "max_tokens" for event in told)
        for event in told:
            usage |= event.get("usage") or event.get("message", {}).get("usage", {})
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
                partial = ""
            elif event["type"] == "content_block_delta":
                for key in ("text", "thinking"):
                    if key in event["delta"]:
                        blocks[-1][key] += event["delta"][key]
                partial += event["delta"].get("partial_json", "")
            elif event["type"] == "content_block_stop" and partial:
                blocks[-1]["input"] = input_of(partial)
        self.messages.append({"role": "assistant", "content": blocks})
        results = [{"type": "tool_result", "tool_use_id": block["id"], "content": listing(turn)} for block in blocks if block["type"] == "tool_use"]
        self.messages.append({"role": "user", "content": results or [{"type": "text", "text": "Go on."}]})
        total = sum(usage[f"{kind}input_tokens"] for kind in ("", "cache_read_", "cache_creation_"))
        return total, usage["cache_read_input_tokens"], usage["output_tokens"]


class Codex:
    """Streams; nothing is stored, so every item comes back, sealed thoughts among them; tools that only Codex or OpenAI run."""

    def __init__(self):
        self.items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: workspace-write."}]},
                      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read the file /shop/cart.py."}]}]
        self.cut = False
        self.tools = [{"type": "function", "name": name, "description": f"{name}. {ABOUT}", "strict": False, "parameters": parameters(name)}
                      for name in NAMES[:23]] + [{"type": "web_search"}, {"type": "custom", "name": "apply_patch", "description": "Changes files."}]

    def works_alone(self):
        return self.items[-1]["type"].endswith("_output") and not self.cut

    def ask(self, server, turn):
        told = events(server, "/v1/responses", {
            "model": "gpt-5-codex", "instructions": "You are Codex. " + "Work in small steps and check what you did. " * 20, "input": self.items,
            "tools": self.tools, "tool_choice": "required" if turn % 3 else "auto", "parallel_tool_calls": False, "store": False,
            "stream": True, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
            "prompt_cache_key": "conversation", "max_output_tokens": 400, "temperature": 0})
        response = told[-1]["response"]
        self.cut = response["status"] == "incomplete"
        for item in response["output"]:
            self.items.append(item)
            if item["type"].endswith("_call"):
                self.items.append({"type": item["type"] + "_output", "call_id": item["call_id"], "output": listing(turn)})
        if not response["output"] or response["output"][-1]["type"] == "message":
            self.items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]})
        usage = response["usage"]
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]


def listing(turn):
    chance = random.Random(turn)
    return "\n".join(f"{line:4} | total_{chance.randint(1, 99)} = price * {chance.randint(1, 9)}" for line in range(20))


@pytest.mark.parametrize("kind", [ClaudeCode, Codex])
def test_every_turn_is_answered_from_the_cache(serve, effort, tmp_path, kind):
    server, agent, turns, before = serve("--cache-dir", tmp_path, "--cache-disk-worth", "0"), kind(), effort(8), 0
    for turn in range(turns):
        if turn == turns // 2:
            settled(lambda: file_sizes(tmp_path), still=1)  # states are written in the background
            server.restart()
        again, alone = computed_again(server), agent.works_alone()
        prompt, cached, answer = agent.ask(server, turn)
        again = computed_again(server) - again
        told = f"turn {turn}: {prompt} tokens, {cached} cached, {again} computed again, {before} in the turn before"
        if turn:
            assert cached >= 0.98 * (cached + again) > 0, told
            assert cached >= 0.98 * before or not alone, told
        before = prompt + answer
