"""The same words give the same answer, whether they come over HTTP, by `generate` or by `chat`."""

import json
import subprocess

import pytest

from commands import generate
from harness import paths

TOKENS = 24
SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"], "additionalProperties": False}
ADDS = "Write a Python function that adds two numbers."
PROMPTS = [ADDS, "Hi", "What is the capital of France?", "Is 17 a prime number? Think step by step.", "Übersetze: „Guten Tag“", "🙂 " * 30]


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "2048", "--temp", "0")


def served(server, prompt, system=None, **fields):
    messages = [{"role": "system", "content": system}] if system else []
    answer = server.ask("/v1/chat/completions", {"messages": [*messages, {"role": "user", "content": prompt}], "temperature": 0, "max_tokens": TOKENS, **fields})
    message = answer["choices"][0]["message"]
    return {"text": message["content"] or "", "reasoning": message.get("reasoning_content") or "", "prompt_tokens": answer["usage"]["prompt_tokens"],
            "completion_tokens": answer["usage"]["completion_tokens"], "finish_reason": answer["choices"][0]["finish_reason"]}


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("flags,fields", [
    ((), {}),
    (("--thinking", "off", "--system", "Be brief."), {"enable_thinking": False, "system": "Be brief."}),
    (("--thinking", "on", "--max-thinking-tokens", "8"), {"enable_thinking": True, "thinking_budget": 8}),
    (("--thinking", "on", "--max-thinking-tokens", "8", "--json-schema", json.dumps(SCHEMA)),
     {"enable_thinking": True, "thinking_budget": 8, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}),
], ids=["plain", "system", "thinking", "schema"])
def test_generate_answers_as_the_server(server, prompt, flags, fields):
    here = generate(prompt, *flags, "--context", "2048", tokens=TOKENS)
    there = served(server, prompt, **fields)
    assert {key: here[key] for key in there} == there


def test_a_thought_before_json_ends_as_one_before_json():
    """Not as one before code: the form of the answer counts, not what the prompt speaks of."""
    flags = ("--thinking", "on", "--max-thinking-tokens", "8")
    assert "JSON" in generate(ADDS, *flags, "--json-schema", json.dumps(SCHEMA), tokens=TOKENS)["reasoning"]
    assert "JSON" not in generate(ADDS, *flags, tokens=TOKENS)["reasoning"]


def test_chat_answers_as_the_server(server):
    script = "".join(f"{prompt.strip()}\n/clear\n" for prompt in PROMPTS)
    done = subprocess.run([paths.PROGRAM, "chat", "-m", paths.MODEL, "--context", "2048", "-n", str(TOKENS), "--temp", "0", "--thinking", "off", "--no-cache"],
                          input=script, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    for prompt in PROMPTS:
        text = served(server, prompt.strip(), enable_thinking=False)["text"]
        assert len(text.strip()) > 3, text
        assert text.strip() in rest, (prompt, text, rest)
        rest = rest[rest.index(text.strip()) + len(text.strip()):]
