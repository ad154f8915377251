"""The official OpenAI client against a real server."""

import json
import os
import signal
import subprocess
import sys
import time

import openai
import pytest

from harness.waiting import wait_for

pytestmark = pytest.mark.any_model

ASK = [{"role": "user", "content": "What is the capital of France?"}]
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "client_to_be_killed.py")
LONG = [{"role": "user", "content": "Tell me a long story about a river, its two arms, and the people there."}]


@pytest.fixture(scope="module")
def api(serve_for_all):
    return Api(serve_for_all("--read-ahead", "off"))  # tests count what runs


def text_of(message):
    """All text, whichever side of the think tags it is on."""
    return (getattr(message, "reasoning_content", None) or "") + (message.content or "")


def collect(stream):
    chunks = list(stream)
    text = "".join(text_of(c.choices[0].delta) for c in chunks if c.choices)
    finish = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    usage = [c.usage for c in chunks if c.usage]
    return chunks, text, finish, usage


def answer_tokens(usage):
    return usage.completion_tokens - usage.completion_tokens_details.reasoning_tokens


class Api:
    """OpenAI's client of a server."""

    def __init__(self, server):
        self.server = server
        self.client = openai.OpenAI(base_url=server.v1, api_key="none", max_retries=0, timeout=300)
        self.model = self.client.models.list().data[0].id

    def chat(self, messages=ASK, **options):
        options = {"max_tokens": 24, "temperature": 0, "model": self.model} | options
        return self.client.chat.completions.create(messages=messages, **options)

    def expect_error(self, kind, code=None, param=None, **options):
        try:
            self.chat(**options)
        except kind as error:
            body = error.body or {}
            assert code is None or body.get("code") == code, body
            assert param is None or body.get("param") == param, body
            assert body.get("message") and body.get("type"), body
            return
        raise AssertionError(f"no {kind.__name__}")


def test_an_answer_has_its_fields_and_its_usage(api):
    answer = api.chat()
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-"), answer
    assert answer.model == api.model and abs(answer.created - time.time()) < 120, answer
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and text_of(choice.message), answer
    assert choice.finish_reason in ("stop", "length"), answer
    usage = answer.usage
    thought = usage.completion_tokens_details.reasoning_tokens
    assert usage.prompt_tokens > 0 and 0 < usage.completion_tokens - thought <= 24, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage
    assert usage.prompt_tokens_details.cached_tokens >= 0, usage
    assert usage.completion_tokens_details.reasoning_tokens >= 0, usage


def test_a_stream_is_the_same_answer(api):
    plain = api.chat()
    chunks, text, finish, usage = collect(api.chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    assert all(c.object == "chat.completion.chunk" and c.id == chunks[0].id for c in chunks)
    assert text == text_of(plain.choices[0].message), (text, plain)
    assert finish == [plain.choices[0].finish_reason], finish
    assert len(usage) == 1 and chunks[-1].usage and not chunks[-1].choices, chunks[-1]
    assert usage[0].completion_tokens == plain.usage.completion_tokens, usage


def test_a_stream_has_usage_only_if_asked(api):
    _, _, finish, usage = collect(api.chat(stream=True))
    assert len(finish) == 1 and not usage, (finish, usage)


def test_max_tokens_ends_an_answer(api):
    answer = api.chat(LONG, max_tokens=5)
    assert answer.choices[0].finish_reason == "length", answer
    assert answer_tokens(answer.usage) == 5, answer.usage
    answer = api.chat(LONG, max_tokens=None, max_completion_tokens=1)
    assert answer_tokens(answer.usage) == 1 and answer.choices[0].message.content, answer


def test_thinking_is_on_off_or_bounded_as_asked(api):
    def ask(**options):
        answer = api.chat(**options)
        thought = answer.usage.completion_tokens_details.reasoning_tokens
        return answer.choices[0].message, thought, answer.model_extra["anabranch"]

    message, thought, note = ask()  # a short question for a fact
    assert thought == 0 and not note["thinking"]["enabled"] and message.content, (message, note)
    message, thought, note = ask(extra_body={"enable_thinking": True})
    assert thought > 0 and note["thinking"]["enabled"] and message.content, (message, note)
    assert message.reasoning_content and not hasattr(message, "reasoning"), message
    assert ask(reasoning_effort="none")[1] == 0
    for budget in ({"thinking": {"type": "enabled", "budget_tokens": 4}}, {"think": True, "thinking_budget": 4}):
        message, thought, note = ask(extra_body=budget)
        assert 4 <= thought < 40 and note["cut"] == "thinking_budget" and message.content, (message, thought, note)
    chunks, _, finish, _ = collect(api.chat(stream=True, extra_body=budget))
    notes = [c.model_extra["anabranch"] for c in chunks if "anabranch" in (c.model_extra or {})]
    assert notes == [note] and len(finish) == 1, (notes, note)
    api.expect_error(openai.BadRequestError, "invalid_value", "reasoning_effort", reasoning_effort="huge")


def test_a_stop_string_ends_the_answer_before_it(api):
    answers = {"max_tokens": 40, "extra_body": {"enable_thinking": False}}  # stop strings count there only
    text = text_of(api.chat(LONG, **answers).choices[0].message)
    words = text.split()
    assert len(words) > 4, text
    stop = " " + words[3]
    expected = text[: text.index(stop)]
    answer = api.chat(LONG, **answers, stop=[stop, "\u0000never"])
    got = text_of(answer.choices[0].message)
    assert stop not in got and got == expected, (got, expected)
    assert answer.choices[0].finish_reason == "stop", answer
    _, streamed, finish, _ = collect(api.chat(LONG, **answers, stop=stop, stream=True))
    assert streamed == expected and finish == ["stop"], (streamed, finish)


def test_a_seed_decides_the_text(api):
    options = {"messages": LONG, "temperature": 1.0, "max_tokens": 24}
    texts = [text_of(api.chat(seed=seed, **options).choices[0].message) for seed in (7, 7, 8, 9, 10)]
    assert texts[0] == texts[1], "the same seed gave two texts"
    assert len(set(texts)) > 1, "four seeds gave one text"
    _, streamed, _, _ = collect(api.chat(seed=7, stream=True, **options))
    assert streamed == texts[0], "the stream differs from the plain answer"


def test_several_choices_are_streamed_as_whole(api):
    options = {"messages": LONG, "temperature": 1.0, "max_tokens": 12, "seed": 7}
    one = api.chat(**options)
    three = api.chat(n=3, logprobs=True, **options)
    texts = [text_of(c.message) for c in three.choices]
    assert [c.index for c in three.choices] == [0, 1, 2] and len(set(texts)) > 1, texts
    assert texts[0] == text_of(one.choices[0].message), (texts, one)
    assert three.usage.prompt_tokens == one.usage.prompt_tokens, three.usage
    assert three.usage.completion_tokens == sum(len(c.logprobs.content) for c in three.choices), three.usage
    two = api.chat(n=2, **options)
    assert [text_of(c.message) for c in two.choices] == texts[:2], "the second depends on n"
    streamed, ends, last = ["", "", ""], [], None
    for chunk in api.chat(n=3, stream=True, stream_options={"include_usage": True}, **options):
        for choice in chunk.choices:
            streamed[choice.index] += text_of(choice.delta)
            ends += [choice.index] if choice.finish_reason else []
        last = chunk
    assert streamed == texts and sorted(ends) == [0, 1, 2], (streamed, texts, ends)
    assert last.usage.completion_tokens == three.usage.completion_tokens and not last.choices, last
    greedy = api.chat(LONG, n=2, max_tokens=6)  # no dice, no difference
    assert text_of(greedy.choices[0].message) == text_of(greedy.choices[1].message), greedy


def test_several_prompts_are_answered_as_each_alone(api):
    def complete(prompt, **more):
        options = {"model": api.model, "max_tokens": 6, "temperature": 1.0, "seed": 3} | more
        return api.client.completions.create(prompt=prompt, **options)

    prompts = ["One, two,", "The capital of France is"]
    alone = [complete(p, n=2) for p in prompts]
    both = complete(prompts, n=2)
    assert [c.text for c in both.choices] == [c.text for a in alone for c in a.choices], (both, alone)
    assert [c.index for c in both.choices] == [0, 1, 2, 3], both
    for field in ("prompt_tokens", "completion_tokens"):
        assert getattr(both.usage, field) == sum(getattr(a.usage, field) for a in alone), (both.usage, alone)
    ids = [[5, 6, 7], [8, 9]]
    assert [c.text for c in complete(ids).choices] == [complete(i).choices[0].text for i in ids]
    streamed = [""] * 4
    for chunk in complete(prompts, n=2, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [c.text for c in both.choices], (streamed, both)


def test_filters_that_leave_one_token_are_greedy(api):
    """top_k 1, and filters that leave one token, are greedy at any temperature."""
    greedy = text_of(api.chat(LONG).choices[0].message)
    for one in ({"extra_body": {"top_k": 1}}, {"extra_body": {"min_p": 1, "top_k": 0}}, {"top_p": 1e-9}):
        assert text_of(api.chat(LONG, temperature=2.0, **one).choices[0].message) == greedy, one


def test_what_is_taken_and_changes_nothing(api):
    plain = text_of(api.chat().choices[0].message)
    same = api.chat(user="somebody", store=True, metadata={"a": "b"}, service_tier="auto", parallel_tool_calls=True,
                     response_format={"type": "text"}, n=1, extra_body={"chat_template_kwargs": {"unused": 1}, "new": 1})
    assert text_of(same.choices[0].message) == plain, same
    on = api.chat(extra_body={"chat_template_kwargs": {"enable_thinking": True}})
    assert on.usage.completion_tokens_details.reasoning_tokens > 0, on


def test_too_many_at_once(api):
    """The queue is full: 429, and when to come back. Then all leave, and their places are free again."""
    many = {"model": api.model, "prompt": ["Once upon a time"] * 4, "n": 16, "max_tokens": -1, "temperature": 5.0,
            "stream": True, "extra_body": {"top_k": 0}}
    streams = []
    try:
        for _ in range(4):
            streams.append(api.client.completions.create(**many))
        raise AssertionError("256 long answers were taken")
    except openai.RateLimitError as error:
        assert error.code == "queue_full" and int(error.response.headers["retry-after"]) >= 1, error
    finally:
        for stream in streams:
            stream.close()
    assert streams, "not even one was taken"

    def all_left():
        engine = api.server.engine()
        return engine["requests"] == sum(engine[k] for k in ("finished", "cancelled", "failed"))
    wait_for(all_left, api.server.engine)


def test_metrics_count_what_was_answered(api):
    label = f'{{model="{api.model}"}}'
    before, answer = api.server.metrics(), api.chat(LONG, n=2, max_tokens=20)
    after = api.server.metrics()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown["anabranch_completion_tokens_total" + label] == answer.usage.completion_tokens, grown
    assert grown['anabranch_time_to_first_token_seconds_count{kind="chat"}'] == 2, grown
    assert grown["anabranch_queue_wait_seconds_count"] == 2, grown
    assert grown['anabranch_http_responses_total{route="/v1/chat/completions",status="200"}'] == 1, grown
    drafted, accepted = (sum(v for k, v in grown.items() if k.startswith(f"anabranch_{kind}_tokens_total"))
                         for kind in ("drafted", "accepted"))
    told = answer.usage.model_extra["speculation"]
    assert (drafted, accepted) == (told["drafted"], told["accepted"]), (drafted, accepted, told)
    assert after["process_resident_memory_bytes"] > after["anabranch_weight_bytes" + label] > 0, after


def test_a_text_completion_is_streamed_as_whole(api):
    options = {"model": api.model, "max_tokens": 8, "temperature": 0}
    answer = api.client.completions.create(prompt="The capital of France is", **options)
    assert answer.object == "text_completion" and answer.choices[0].text, answer
    stream = api.client.completions.create(prompt="The capital of France is", stream=True, **options)
    assert "".join(c.choices[0].text for c in stream) == answer.choices[0].text


def test_logprobs_are_those_of_the_tokens_and_depend_on_nothing(api):
    plain = api.chat(LONG, logprobs=True, top_logprobs=3)
    content = plain.choices[0].logprobs.content
    assert len(content) == plain.usage.completion_tokens, (content, plain.usage)
    for entry in content:  # greedy: the likeliest token was taken
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3, entry
        assert entry.top_logprobs[0].token == entry.token and entry.top_logprobs[0].logprob == entry.logprob, entry
    chunks, _, _, _ = collect(api.chat(LONG, logprobs=True, top_logprobs=3, stream=True))
    streamed = [e for c in chunks if c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert streamed == content, (streamed, content)
    off = api.chat(LONG, logprobs=True, top_logprobs=3, extra_body={"speculation": "off"})
    assert off.choices[0].logprobs.content == content, "speculation changed log probabilities"
    old = api.client.completions.create(model=api.model, prompt="One, two,", max_tokens=6, temperature=0, logprobs=2)
    logprobs = old.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 6, logprobs
    assert "".join(logprobs.tokens) == old.choices[0].text, old
    assert all(t in top for t, top in zip(logprobs.tokens, logprobs.top_logprobs)), logprobs


def test_penalties_and_bias_change_the_text_and_drafts_do_not(api):
    options = {"messages": LONG, "max_tokens": 40}
    plain = text_of(api.chat(**options).choices[0].message)
    for penalty in ({"presence_penalty": 2}, {"frequency_penalty": 1}, {"extra_body": {"repetition_penalty": 1.5}}):
        texts = [text_of(api.chat(**options, **penalty).choices[0].message)]
        more = penalty.get("extra_body", {}) | {"speculation": "off"}
        texts.append(text_of(api.chat(**options, **(penalty | {"extra_body": more})).choices[0].message))
        assert texts[0] != plain, f"{penalty} changed nothing"
        assert texts[0] == texts[1], f"{penalty}: speculation changed the text"
    forced = api.client.completions.create(model=api.model, prompt=[5, 6, 7], max_tokens=4, logit_bias={"77": 100},
                                            logprobs=0)
    assert len(set(forced.choices[0].logprobs.tokens)) == 1, forced


def test_tool_calls_are_whole_and_streamed_as_whole(api):
    """Whether the model calls is its affair; what comes must be whole, and the stream must equal the answer."""
    tools = [{"type": "function", "function": {
        "name": "get_weather", "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
    ask = [{"role": "user", "content": "What is the weather in Paris? Use the tool."}]
    options = {"messages": ask, "tools": tools, "max_tokens": 400, "extra_body": {"enable_thinking": False}}
    plain = api.chat(**options).choices[0]
    calls = plain.message.tool_calls or []
    assert (plain.finish_reason == "tool_calls") == bool(calls) or plain.finish_reason == "length", plain
    assert "<tool_call>" not in (plain.message.content or "") or not calls, plain
    streamed = {}
    for chunk in api.chat(stream=True, **options):
        for piece in chunk.choices[0].delta.tool_calls or []:
            if piece.id:
                streamed[piece.index] = [piece.function.name, ""]
            streamed[piece.index][1] += piece.function.arguments or ""
    assert [streamed[i] for i in sorted(streamed)] == [[c.function.name, c.function.arguments] for c in calls], streamed
    for call in calls:
        assert call.type == "function" and call.id.startswith("call_") and len(call.id) == 29, call
        assert plain.finish_reason == "length" or isinstance(json.loads(call.function.arguments), dict), call
    if not calls:
        pytest.skip("the model made no call")
    # The client's turn: it hands back what it got, and the result.
    messages = ask + [plain.message.model_dump(exclude_none=True)]
    messages += [{"role": "tool", "tool_call_id": c.id, "content": "18 degrees, sunny"} for c in calls]
    answer = api.chat(messages, tools=tools, extra_body={"enable_thinking": False})
    assert answer.choices[0].finish_reason, answer
    one = api.chat(**(options | {"parallel_tool_calls": False})).choices[0]
    assert len(one.message.tool_calls) == 1 and one.finish_reason == "tool_calls", one
    none = api.chat(**(options | {"tool_choice": "none"})).choices[0]
    assert not none.message.tool_calls, none
    forced = api.chat(**(options | {"tool_choice": "required"})).choices[0]
    assert forced.finish_reason in ("tool_calls", "length"), forced
    api.expect_error(openai.BadRequestError, "invalid_value", "tool_choice", tool_choice="required")


def test_the_model_is_listed_and_found(api):
    models = api.client.models.list().data
    assert len(models) == 1 and models[0].object == "model", models
    assert api.client.models.retrieve(models[0].id).id == models[0].id


def test_content_parts_and_roles(api):
    answer = api.chat([
        {"role": "developer", "content": "Answer in one word."},
        {"role": "user", "content": [{"type": "text", "text": "What is the capital "},
                                     {"type": "text", "text": "of France?"}]},
    ])
    assert text_of(answer.choices[0].message), answer


def test_errors_name_the_field(api):
    api.chat(ASK, model="gpt-4", max_tokens=1)  # any name means the loaded model
    api.expect_error(openai.BadRequestError, "invalid_value", "messages[0].role",
                      messages=[{"role": "king", "content": "hi"}])
    api.expect_error(openai.BadRequestError, "invalid_value", "temperature", temperature=-1)
    api.expect_error(openai.BadRequestError, "invalid_value", "n", n=17)
    api.expect_error(openai.BadRequestError, "invalid_value", "stream_options",
                      stream_options={"include_usage": True})
    api.expect_error(openai.BadRequestError, "invalid_type", "service_tier", service_tier=3)
    api.expect_error(openai.BadRequestError, "invalid_type", "metadata", metadata="x")
    api.expect_error(openai.BadRequestError, "invalid_value", "top_logprobs", top_logprobs=3)
    api.expect_error(openai.BadRequestError, "invalid_value", "logit_bias", logit_bias={"1000000000": 1})
    api.expect_error(openai.BadRequestError, "unsupported_value", "response_format.type",
                      response_format={"type": "xml"})
    refused = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}
    api.expect_error(openai.BadRequestError, "unsupported_value", "response_format", response_format=refused)
    assert api.client.models.retrieve("gpt-4").id == api.model


def test_prompt_beyond_the_context(api):
    context = api.server.health()["model"]["context_length"]
    if context > 300_000:
        pytest.skip("the context is too long to fill")
    api.expect_error(openai.BadRequestError, "context_length_exceeded", "messages",
                      messages=[{"role": "user", "content": "river 7 " * context}])


@pytest.mark.parametrize("stream", [True, False])
def test_killed_client_is_cancelled(api, stream):
    """kill -9 of a client: the generation, which nothing else would end, ends."""
    before = api.server.engine()
    assert before["running"] + before["queued"] == 0, before
    client = subprocess.Popen([sys.executable, CLIENT, api.server.v1, api.model, str(int(stream))], stdout=subprocess.PIPE)
    assert client.stdout.readline()  # streaming: the first text has come; otherwise: about to ask

    def running():
        engine = api.server.engine()
        ended = [engine[how] - before[how] for how in ("finished", "failed", "cancelled")]
        assert not any(ended), "it ended before the kill"
        return engine["running"]
    wait_for(running, "the client's request runs")
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    api.server.wait_for_requests(0)
    assert api.server.engine()["cancelled"] == before["cancelled"] + 1


def test_after_all_that_it_still_serves_and_ends_in_order(api):
    assert api.server.health()["status"] == "ok"
    test_an_answer_has_its_fields_and_its_usage(api)
    assert api.server.stop(signal.SIGINT) == 0
