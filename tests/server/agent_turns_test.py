#!/usr/bin/env python3
"""Conversations as two coding agents hold them, each with 25 tools: Claude Code's over /v1/messages and Codex' over
/v1/responses. Every turn must be answered, and at least 98 % of what could be reused must come from the cache: all tokens that
the prompt shares with what was read and written before, and while the agent works on by itself, the whole prompt and answer
of the turn before. (When the user says something, the template writes the turns since the last time anew, without thoughts.)
After half of the turns the server is killed and started again.

usage: agent_turns_test.py PROGRAM MODEL_DIR [--turns 8]
Prints a line for each turn, and "N passed, N failed"."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from conclude import conclude

NAMES = ("Bash Read Write Edit MultiEdit Glob Grep LS WebFetch WebSearch TodoWrite Task NotebookRead NotebookEdit ExitPlanMode "
         "BashOutput KillShell SlashCommand AskUser Skill ListFiles RunTests GitStatus GitDiff GitCommit").split()
ABOUT = ("Use this tool when the task needs it, and prefer it to a shell command that does the same. The path must be absolute. "
         "Do not guess values that you do not know. ")


def parameters(name):
    properties = {"file_path": {"type": "string", "description": f"The absolute path that {name} works on"},
                  "limit": {"type": "integer", "description": "How many lines to give back"}}
    return {"type": "object", "properties": properties, "required": ["file_path"], "additionalProperties": False}


class Server:
    def __init__(self, program, model, folder):
        self.command = [program, "serve", "--model", model, "--port", "0", "--cache-dir", os.path.join(folder, "kept"), "--cache-disk-worth", "0"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = self.process.stdout.readline().split(" on ")[1].strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def computed_again(self):
        """Tokens that were known and computed again."""
        with urllib.request.urlopen(self.base.removesuffix("/v1") + "/health") as response:
            cache = json.load(response)["cache"]
        return cache["no_state_tokens"] + cache["lost_tokens"]

    def events(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "anthropic-version": "2023-06-01"})
        try:
            response = urllib.request.urlopen(request, timeout=300)
        except urllib.error.HTTPError as error:
            sys.exit(f"{error}: {error.read().decode()}")
        with response:
            return [json.loads(line[6:]) for line in response.read().decode().split("\n") if line.startswith("data: {")]


class ClaudeCode:
    """Streams; a system prompt in blocks, the first of which changes with every call; calls and their results as blocks."""

    def __init__(self):
        self.messages = [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nThe project is a web shop.\n</system-reminder>"},
                                                      {"type": "text", "text": "Find the bug in the cart and mend it."}]}]
        self.tools = [{"name": name, "description": f"{name}. {ABOUT}", "input_schema": parameters(name)} for name in NAMES]

    def works_alone(self):
        return self.messages[-1]["content"][0]["type"] == "tool_result"

    def ask(self, server, turn):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.0.{turn}; cc_entrypoint=cli; cch={turn:05x};"},
                  {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                  {"type": "text", "text": "Work in small steps and check what you did. " * 20, "cache_control": {"type": "ephemeral"}}]
        events = server.events("/messages", {
            "model": "claude-sonnet-4-5", "max_tokens": 200, "temperature": 0, "stream": True, "system": system, "tools": self.tools,
            "messages": self.messages, "tool_choice": {"type": "any"} if turn % 3 else {"type": "auto"}, "metadata": {"user_id": "user"}})
        blocks, partial, usage = [], "", {}
        for event in events:
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
                blocks[-1]["input"] = json.loads(partial)
        self.messages.append({"role": "assistant", "content": blocks})
        results = [{"type": "tool_result", "tool_use_id": block["id"], "content": listing(turn)} for block in blocks if block["type"] == "tool_use"]
        self.messages.append({"role": "user", "content": results or [{"type": "text", "text": "Go on."}]})
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]


class Codex:
    """Streams; nothing is stored, so every item comes back, sealed thoughts among them; tools that only Codex or OpenAI run."""

    def __init__(self):
        self.items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: workspace-write."}]},
                      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Find the bug in the cart and mend it."}]}]
        self.tools = [{"type": "function", "name": name, "description": f"{name}. {ABOUT}", "strict": False, "parameters": parameters(name)}
                      for name in NAMES[:23]] + [{"type": "web_search"}, {"type": "custom", "name": "apply_patch", "description": "Changes files."}]

    def works_alone(self):
        return self.items[-1]["type"].endswith("_output")

    def ask(self, server, turn):
        events = server.events("/responses", {
            "model": "gpt-5-codex", "instructions": "You are Codex. " + "Work in small steps and check what you did. " * 20, "input": self.items,
            "tools": self.tools, "tool_choice": "required" if turn % 3 else "auto", "parallel_tool_calls": False, "store": False,
            "stream": True, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
            "prompt_cache_key": "conversation", "max_output_tokens": 200, "temperature": 0})
        response = events[-1]["response"]
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


def hold(agent, server, turns, lines):
    """Of every turn after the first, whether it reused enough."""
    before, good = 0, []
    for turn in range(turns):
        if turn == turns // 2:
            server.kill()
            server.start()
        again, alone = server.computed_again(), agent.works_alone()
        prompt, cached, answer = agent.ask(server, turn)
        again = server.computed_again() - again
        known, turn_before = cached / (cached + again) if cached else 0, cached / before if before else 0
        lines.append(f"{type(agent).__name__:10} turn {turn}: {prompt} tokens, {cached} cached: {100 * known:.2f} % of what was known, "
                     f"{100 * turn_before:.2f} % of the turn before{'' if alone else ' (the user spoke)'}; answer {answer}")
        if turn:
            good.append(known >= 0.98 and (turn_before >= 0.98 or not alone))
        before = prompt + answer
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--turns", type=int, default=8)
    args = parser.parse_args()
    checks, lines = {}, []
    for agent in (ClaudeCode(), Codex()):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(args.program, args.model, folder)
            try:
                good = hold(agent, server, args.turns, lines)
            finally:
                server.kill()
        checks[f"{type(agent).__name__}: every turn is answered from the cache"] = (len(good) == args.turns - 1 and all(good), good)
    return conclude(checks, "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
