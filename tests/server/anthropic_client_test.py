#!/usr/bin/env python3
"""The official Anthropic client against a real server.

usage: anthropic_client_test.py http://127.0.0.1:11436      a server that already runs
       anthropic_client_test.py build/anabranch MODEL_DIR   starts (and stops) one on a free port

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import os
import sys

import anthropic

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from openai_client_test import ASK, LONG, health, run_checks

TOOLS = [{"name": "get_weather", "description": "Current weather of a city",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
OFF = {"type": "disabled"}
ON = {"type": "enabled", "budget_tokens": 1024}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def said(message):
    """Every block without what differs from call to call."""
    return [block.model_dump(exclude={"id"}) for block in message.content]


class Checks:
    def __init__(self, base):
        self.base = base
        self.client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0, timeout=120)
        self.model = health(base)["model"]["id"]

    def options(self, messages=ASK, **options):
        # This client has no parameter for the temperature any more; it may be sent all the same.
        return {"max_tokens": 24, "model": self.model, "messages": messages, "extra_body": {"temperature": 0}} | options

    def ask(self, messages=ASK, **options):
        return self.client.messages.create(**self.options(messages, **options))

    def stream(self, messages=ASK, **options):
        with self.client.messages.stream(**self.options(messages, **options)) as stream:
            events = [event.type for event in stream]
            return events, stream.get_final_message()

    # --- each method named check_* is one check ---

    def check_plain(self):
        message = self.ask(thinking=OFF)
        assert message.id.startswith("msg_") and message.type == "message" and message.role == "assistant", message
        assert message.model == self.model and text_of(message), message
        assert [block.type for block in message.content] == ["text"], message
        assert message.stop_reason in ("end_turn", "max_tokens") and message.stop_sequence is None, message
        usage = message.usage
        assert usage.input_tokens + usage.cache_read_input_tokens > 0, usage
        assert usage.cache_creation_input_tokens == 0 and 0 < usage.output_tokens <= 24, usage

    def check_stream_equals_plain(self):
        for thinking in (OFF, ON):
            plain = self.ask(thinking=thinking)
            events, final = self.stream(thinking=thinking)
            assert events[0] == "message_start" and events[-1] == "message_stop", events
            assert said(final) == said(plain), (final, plain)
            assert final.stop_reason == plain.stop_reason, (final, plain)
            assert final.usage.output_tokens == plain.usage.output_tokens, (final, plain)
            total = [u.input_tokens + u.cache_read_input_tokens for u in (final.usage, plain.usage)]
            assert total[0] == total[1], total

    def check_thinking(self):
        message = self.ask(thinking=ON)
        kinds = [block.type for block in message.content]
        assert kinds == ["thinking", "text"], message
        assert message.content[0].thinking and message.content[0].signature == "", message
        assert "<think>" not in text_of(message) and "</think>" not in text_of(message), message
        events, _ = self.stream(thinking=ON)
        assert "thinking" in events and "text" in events, events
        # The client's turn: it hands the blocks back.
        messages = ASK + [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And of Italy?"}]
        assert text_of(self.ask(messages, thinking=OFF)), "no second answer"

    def check_system_and_blocks(self):
        message = self.ask([{"role": "user", "content": [{"type": "text", "text": "What is the capital"},
                                                         {"type": "text", "text": "of France?"}]}],
                           system=[{"type": "text", "text": "Answer in one word.", "cache_control": {"type": "ephemeral"}}],
                           thinking=OFF, metadata={"user_id": "u"})
        assert text_of(message), message

    def check_max_tokens(self):
        message = self.ask(LONG, max_tokens=5, thinking=OFF)
        assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 5, message

    def check_stop_sequences(self):
        text = text_of(self.ask(LONG, max_tokens=40, thinking=OFF))
        stop = " " + text.split()[3]
        options = {"max_tokens": 40, "stop_sequences": ["\u0000never", stop], "thinking": OFF}
        for message in (self.ask(LONG, **options), self.stream(LONG, **options)[1]):
            assert message.stop_reason == "stop_sequence" and message.stop_sequence == stop, message
            assert text_of(message).rstrip() == text[: text.index(stop)].rstrip(), (message, text)

    def check_tool_use(self):
        """Whether the model calls is its affair; what comes must be whole, and the stream must equal the answer."""
        ask = [{"role": "user", "content": "What is the weather in Paris? Use the tool."}]
        options = {"tools": TOOLS, "max_tokens": 400, "thinking": OFF}
        plain = self.ask(ask, **options)
        calls = [block for block in plain.content if block.type == "tool_use"]
        assert (plain.stop_reason == "tool_use") == bool(calls) or plain.stop_reason == "max_tokens", plain
        _, final = self.stream(ask, **options)
        assert said(final) == said(plain), (final, plain)
        for call in calls:
            assert call.id.startswith("toolu_") and len(call.id) == 30 and isinstance(call.input, dict), call
        if not calls:
            return "the model made no call"
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": [{"type": "text", "text": "18 degrees, sunny"}]}
                   for c in calls]
        answer = self.ask(ask + [{"role": "assistant", "content": plain.content}, {"role": "user", "content": results}], **options)
        assert answer.stop_reason and answer.usage.cache_read_input_tokens >= 0, answer
        one = self.ask(ask, **(options | {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}))
        assert [b.type for b in one.content].count("tool_use") == 1 and one.stop_reason == "tool_use", one
        none = self.ask(ask, **(options | {"tool_choice": {"type": "none"}}))
        assert all(block.type != "tool_use" for block in none.content), none
        return f"{len(calls)} call(s): {calls[0].name} {calls[0].input}"

    def check_count_tokens(self):
        count = self.client.messages.count_tokens(model=self.model, messages=LONG, tools=TOOLS, thinking=OFF).input_tokens
        usage = self.ask(LONG, tools=TOOLS, max_tokens=1, thinking=OFF).usage
        assert count == usage.input_tokens + usage.cache_read_input_tokens, (count, usage)

    def check_cached_tokens(self):
        messages = LONG + [{"role": "assistant", "content": "Once there was a river. " * 40}, {"role": "user", "content": "More."}]
        self.ask(messages, max_tokens=1, thinking=OFF)
        usage = self.ask(messages, max_tokens=1, thinking=OFF).usage
        assert usage.cache_read_input_tokens > usage.input_tokens, usage

    def check_a_changing_billing_header_keeps_the_cache(self):
        rules = "".join(f"Rule {i}: answer in plain words and never mention rule {i}.\n" for i in range(60))
        usages = []
        for i in range(2):
            header = f"x-anthropic-billing-header: cc_version=2.1.{i}; cc_entrypoint=cli; cch={i:05x};"
            usages.append(self.ask([{"role": "user", "content": f"Question {i}?"}], max_tokens=1, thinking=OFF, tools=TOOLS,
                                   system=[{"type": "text", "text": header}, {"type": "text", "text": rules}]).usage)
        # All but the question itself and the opening of the answer.
        assert usages[1].cache_read_input_tokens > 600 and usages[1].input_tokens < 40, usages

    def check_models(self):
        assert self.client.models.list().data[0].id == self.model
        assert self.client.models.retrieve(self.model).id == self.model

    def expect_error(self, kind, error_type, words, **options):
        try:
            self.ask(**options)
        except kind as error:
            assert error.body["type"] == "error" and error.body["error"]["type"] == error_type, error.body
            assert words in error.body["error"]["message"], error.body
            return
        raise AssertionError(f"no {kind.__name__}")

    def check_errors(self):
        assert self.ask(model="claude-9", max_tokens=1).model == self.model  # any name means the loaded model
        self.expect_error(anthropic.BadRequestError, "invalid_request_error", "max_tokens", max_tokens=0)
        self.expect_error(anthropic.BadRequestError, "invalid_request_error", "tool_choice",
                          tools=TOOLS, tool_choice={"type": "tool", "name": "no_such_tool"})
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
        self.expect_error(anthropic.BadRequestError, "invalid_request_error", "image",
                          messages=[{"role": "user", "content": [image]}])
        context = health(self.base)["model"]["context_length"]
        if context <= 300_000:
            self.expect_error(anthropic.BadRequestError, "invalid_request_error", "prompt is too long",
                              messages=[{"role": "user", "content": "river 7 " * context}])


if __name__ == "__main__":
    sys.exit(run_checks(lambda base: Checks(base.removesuffix("/v1")), __doc__))
