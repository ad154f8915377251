"""The official Anthropic client against a real server."""

import signal

import anthropic
import pytest

ASK = [{"role": "user", "content": "What is the capital of France?"}]
LONG = [{"role": "user", "content": "Tell me a long story about a river, its two arms, and the people there."}]
TOOLS = [{"name": "get_weather", "description": "Current weather of a city",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
OFF = {"type": "disabled"}
ON = {"type": "enabled", "budget_tokens": 1024}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def said(message):
    """Every block without what differs from call to call."""
    return [block.model_dump(exclude={"id"}) for block in message.content]


@pytest.fixture(scope="module")
def api(serve_for_all):
    return Api(serve_for_all())


class Api:
    """Anthropic's client of a server."""

    def __init__(self, server):
        self.server = server
        self.client = anthropic.Anthropic(base_url=server.root, api_key="none", max_retries=0, timeout=300)
        self.model = server.health()["model"]["id"]

    def options(self, messages=ASK, **options):
        # This client has no parameter for the temperature any more; it may be sent all the same.
        return {"max_tokens": 24, "model": self.model, "messages": messages, "extra_body": {"temperature": 0}} | options

    def ask(self, messages=ASK, **options):
        return self.client.messages.create(**self.options(messages, **options))

    def stream(self, messages=ASK, **options):
        with self.client.messages.stream(**self.options(messages, **options)) as stream:
            events = [event.type for event in stream]
            return events, stream.get_final_message()

    def expect_error(self, kind, error_type, words, **options):
        try:
            self.ask(**options)
        except kind as error:
            assert error.body["type"] == "error" and error.body["error"]["type"] == error_type, error.body
            assert words in error.body["error"]["message"], error.body
            return
        raise AssertionError(f"no {kind.__name__}")


def test_a_message_has_its_fields_and_its_usage(api):
    message = api.ask(thinking=OFF)
    assert message.id.startswith("msg_") and message.type == "message" and message.role == "assistant", message
    assert message.model == api.model and text_of(message), message
    assert [block.type for block in message.content] == ["text"], message
    assert message.stop_reason in ("end_turn", "max_tokens") and message.stop_sequence is None, message
    usage = message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens > 0, usage
    assert usage.cache_creation_input_tokens == 0 and 0 < usage.output_tokens <= 24, usage


def test_a_stream_is_the_same_message(api):
    for thinking in (OFF, ON):
        plain = api.ask(thinking=thinking)
        events, final = api.stream(thinking=thinking)
        assert events[0] == "message_start" and events[-1] == "message_stop", events
        assert said(final) == said(plain), (final, plain)
        assert final.stop_reason == plain.stop_reason, (final, plain)
        assert final.usage.output_tokens == plain.usage.output_tokens, (final, plain)
        total = [u.input_tokens + u.cache_read_input_tokens for u in (final.usage, plain.usage)]
        assert total[0] == total[1], total


def test_thoughts_are_blocks_of_their_own(api):
    message = api.ask(thinking=ON)
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text"], message
    assert message.content[0].thinking and message.content[0].signature == "", message
    assert "<think>" not in text_of(message) and "</think>" not in text_of(message), message
    events, _ = api.stream(thinking=ON)
    assert "thinking" in events and "text" in events, events
    # The client's turn: it hands the blocks back.
    messages = ASK + [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And of Italy?"}]
    assert text_of(api.ask(messages, thinking=OFF)), "no second answer"


def test_system_prompts_and_blocks_are_taken(api):
    message = api.ask([{"role": "user", "content": [{"type": "text", "text": "What is the capital"},
                                                     {"type": "text", "text": "of France?"}]}],
                       system=[{"type": "text", "text": "Answer in one word.", "cache_control": {"type": "ephemeral"}}],
                       thinking=OFF, metadata={"user_id": "u"})
    assert text_of(message), message


def test_max_tokens_ends_a_message(api):
    message = api.ask(LONG, max_tokens=5, thinking=OFF)
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 5, message


def test_stop_sequences_end_a_message(api):
    text = text_of(api.ask(LONG, max_tokens=40, thinking=OFF))
    stop = " " + text.split()[3]
    options = {"max_tokens": 40, "stop_sequences": ["\u0000never", stop], "thinking": OFF}
    for message in (api.ask(LONG, **options), api.stream(LONG, **options)[1]):
        assert message.stop_reason == "stop_sequence" and message.stop_sequence == stop, message
        assert text_of(message).rstrip() == text[: text.index(stop)].rstrip(), (message, text)


def test_tools_go_round(api):
    """Whether the model calls is its affair; what comes must be whole, and the stream must equal the answer."""
    ask = [{"role": "user", "content": "What is the weather in Paris? Use the tool."}]
    options = {"tools": TOOLS, "max_tokens": 400, "thinking": OFF}
    plain = api.ask(ask, **options)
    calls = [block for block in plain.content if block.type == "tool_use"]
    assert (plain.stop_reason == "tool_use") == bool(calls) or plain.stop_reason == "max_tokens", plain
    _, final = api.stream(ask, **options)
    assert said(final) == said(plain), (final, plain)
    for call in calls:
        assert call.id.startswith("toolu_") and len(call.id) == 30 and isinstance(call.input, dict), call
    if not calls:
        pytest.skip("the model made no call")
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": [{"type": "text", "text": "18 degrees, sunny"}]}
               for c in calls]
    answer = api.ask(ask + [{"role": "assistant", "content": plain.content}, {"role": "user", "content": results}], **options)
    assert answer.stop_reason and answer.usage.cache_read_input_tokens >= 0, answer
    one = api.ask(ask, **(options | {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}))
    assert [b.type for b in one.content].count("tool_use") == 1 and one.stop_reason == "tool_use", one
    none = api.ask(ask, **(options | {"tool_choice": {"type": "none"}}))
    assert all(block.type != "tool_use" for block in none.content), none


def test_counted_tokens_are_those_of_the_message(api):
    count = api.client.messages.count_tokens(model=api.model, messages=LONG, tools=TOOLS, thinking=OFF).input_tokens
    usage = api.ask(LONG, tools=TOOLS, max_tokens=1, thinking=OFF).usage
    assert count == usage.input_tokens + usage.cache_read_input_tokens, (count, usage)


def test_a_longer_conversation_is_read_from_the_cache(api):
    messages = LONG + [{"role": "assistant", "content": "Once there was a river. " * 40}, {"role": "user", "content": "More."}]
    api.ask(messages, max_tokens=1, thinking=OFF)
    usage = api.ask(messages, max_tokens=1, thinking=OFF).usage
    assert usage.cache_read_input_tokens > usage.input_tokens, usage


def test_a_marked_block_is_found_by_another_conversation(api):
    """The two prompts share only the marked block: without the mark, no state stands at its end."""
    mark = {"type": "ephemeral"}
    block = "".join(f"Fact {i}: river {i} is {i * 7} miles long.\n" for i in range(50))

    def ask(question, **more):
        content = [{"type": "text", "text": block, **more}, {"type": "text", "text": question}]
        usage = api.ask([{"role": "user", "content": content}], max_tokens=1, thinking=OFF).usage
        created = usage.cache_creation
        assert created.ephemeral_5m_input_tokens + created.ephemeral_1h_input_tokens == usage.cache_creation_input_tokens, usage
        return usage

    first = ask("How long is river 3?", cache_control=mark)
    assert first.cache_creation_input_tokens > 400 and first.input_tokens < 40, first
    second = ask("Which river is the longest of them all?", cache_control=mark)
    assert second.cache_creation_input_tokens == 0 and second.input_tokens < 40, second
    assert second.cache_read_input_tokens >= first.cache_creation_input_tokens, (first, second)
    assert ask("And which one is the shortest?").cache_creation_input_tokens == 0


def test_a_changing_billing_header_keeps_the_cache(api):
    rules = "".join(f"Rule {i}: answer in plain words and never mention rule {i}.\n" for i in range(60))
    usages = []
    for i in range(2):
        header = f"x-anthropic-billing-header: cc_version=2.1.{i}; cc_entrypoint=cli; cch={i:05x};"
        usages.append(api.ask([{"role": "user", "content": f"Question {i}?"}], max_tokens=1, thinking=OFF, tools=TOOLS,
                               system=[{"type": "text", "text": header}, {"type": "text", "text": rules}]).usage)
    # All but the question itself and the opening of the answer.
    assert usages[1].cache_read_input_tokens > 600 and usages[1].input_tokens < 40, usages


def test_the_model_is_listed_and_found(api):
    assert api.client.models.list().data[0].id == api.model
    assert api.client.models.retrieve(api.model).id == api.model


def test_errors_say_what_is_wrong(api):
    assert api.ask(model="claude-9", max_tokens=1).model == api.model  # any name means the loaded model
    api.expect_error(anthropic.BadRequestError, "invalid_request_error", "max_tokens", max_tokens=-1)
    api.expect_error(anthropic.BadRequestError, "invalid_request_error", "tool_choice",
                      tools=TOOLS, tool_choice={"type": "tool", "name": "no_such_tool"})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    api.expect_error(anthropic.BadRequestError, "invalid_request_error", "image",
                      messages=[{"role": "user", "content": [image]}])
    context = api.server.health()["model"]["context_length"]
    if context <= 300_000:
        api.expect_error(anthropic.BadRequestError, "invalid_request_error", "prompt is too long",
                          messages=[{"role": "user", "content": "river 7 " * context}])


def test_sigint_ends_it_in_order(api):
    assert api.server.stop(signal.SIGINT) == 0
