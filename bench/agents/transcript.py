#!/usr/bin/env python3
"""Makes a short and anonymous transcript of what run.py recorded: a test of the server (tests/server/transcripts_test.py).

    python3 bench/agents/transcript.py FOLDER/claude-fix.jsonl "Claude Code 2.1.332" > tests/server/transcripts/claude.json

The transcript has the longest conversation of the recording: the first request's fields, and for each request how much of the
earlier list of messages it keeps and what it adds. Long texts are cut, paths and what names a machine or a day are replaced."""

import json
import re
import sys

from judge import is_turn

MOST_TEXT, MOST_TOOLS, MOST_TURNS = 160, 8, 6
PLACES = [(re.compile(r"/[\w/.-]+/repository\b"), "/home/user/shop"), (re.compile(r"/[\w/.-]+/home\b"), "/home/user"),
          (re.compile(r"/tmp/[\w/.-]+"), "/home/user/other"), (re.compile(r"Linux \d[\w.-]+"), "Linux 6.1"), (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "2026-01-31"),
          (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "00000000-0000-4000-8000-000000000000"),
          (re.compile(r"\b[0-9a-f]{32,}\b"), "0" * 32)]
LISTS = {"/v1/chat/completions": "messages", "/v1/messages": "messages", "/v1/responses": "input"}


def short(value, most=MOST_TEXT):
    if isinstance(value, dict):
        return {key: short(part, most) for key, part in value.items()}
    if isinstance(value, list):
        return [short(part, most) for part in value]
    if not isinstance(value, str):
        return value
    for found, instead in PLACES:
        value = found.sub(instead, value)
    return value if len(value) <= most or looks_like_json(value) else value[:most].rsplit(None, 1)[0] + " [...]"


def looks_like_json(text):
    return text.startswith(("{", "["))


def common(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def conversations(exchanges):
    """Lists of requests, each of which goes on with the one before."""
    told = []
    for exchange in exchanges:
        if not is_turn(exchange) or exchange["status"] != 200:
            continue
        name = LISTS[exchange["path"].partition("?")[0]]
        last = told[-1][-1]["request"] if told else {}
        if last and last.get("tools") == exchange["request"].get("tools") and len(exchange["request"][name]) > len(last.get(name, [])):
            told[-1].append(exchange)
        else:
            told.append([exchange])
    return told


def transcript(exchanges, program):
    turns = max(conversations(exchanges), key=len)[:MOST_TURNS]
    path = turns[0]["path"]
    name = LISTS[path.partition("?")[0]]
    body = {key: value for key, value in turns[0]["request"].items() if key != name}
    if body.get("tools"):
        body["tools"] = body["tools"][:MOST_TOOLS]
    steps, before = [], []
    for turn in turns:
        messages = turn["request"][name]
        keep = common(before, messages)
        steps.append({"keep": keep, "add": short(messages[keep:])})
        before = messages
    return {"program": program, "path": path, "body": short(body), "list": name, "turns": steps}


def main():
    with open(sys.argv[1]) as file:
        exchanges = [json.loads(line) for line in file]
    json.dump(transcript(exchanges, sys.argv[2]), sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
