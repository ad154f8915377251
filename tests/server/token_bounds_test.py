"""Bounds on thoughts and answer together: max_completion_tokens, max_output_tokens and num_predict. The thought ends in time."""

import json

import pytest

CHAT, RESPONSES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/api/chat"
QUESTION = [{"role": "user", "content": "Write about the sea and its colours, after thinking it over."}]
LEAST_CLOSED = 40  # such a bound has room for a thought and the sentence that ends it


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "2048")


def share(bound):
    return (bound + 3) // 4


def chat(server, bound, stream, **more):
    """Thought, answer, tokens, tokens of the thought and the reason of the end."""
    body = {"messages": QUESTION, "max_completion_tokens": bound, "temperature": 0, "reasoning_effort": "high", "min_tokens": bound} | more
    if not stream:
        answer = server.ask(CHAT, body)
        message, usage, finish = answer["choices"][0]["message"], answer["usage"], answer["choices"][0]["finish_reason"]
        thought, text = message.get("reasoning_content"), message["content"]
    else:
        chunks = server.events(CHAT, body | {"stream_options": {"include_usage": True}})
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        thought, text = ("".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning_content", "content"))
        finish, usage = chunks[-2]["choices"][0]["finish_reason"], chunks[-1]["usage"]
    return thought or "", text or "", usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"], finish


def respond(server, bound, stream, **more):
    body = {"input": QUESTION, "max_output_tokens": bound, "temperature": 0, "reasoning": {"effort": "high"}, "min_tokens": bound} | more
    response = server.events(RESPONSES, body)[-1]["response"] if stream else server.ask(RESPONSES, body)
    texts = {kind: "".join(part["text"] for item in response["output"] if item["type"] == kind for part in item["content"])
             for kind in ("reasoning", "message")}
    assert response["status"] == "incomplete", response
    finish = {"max_output_tokens": "length"}.get(response["incomplete_details"]["reason"])
    usage = response["usage"]
    return texts["reasoning"], texts["message"], usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"], finish


def ollama(server, bound, stream, **more):
    body = {"model": "default", "messages": QUESTION, "think": "high", "stream": stream,
            "options": {"temperature": 0, "num_predict": bound, "min_tokens": bound}} | more
    with server.open(OLLAMA, body) as response:
        parts = [json.loads(line) for line in response.read().splitlines() if line.strip()]
    thought, text = ("".join(part["message"].get(name) or "" for part in parts) for name in ("thinking", "content"))
    return thought, text, parts[-1]["eval_count"], None, parts[-1]["done_reason"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ask", [chat, respond, ollama])
def test_the_bound_holds_and_leaves_the_answer_its_share(server, ask, stream):
    for bound in (1, 2, 3, 8, 16, LEAST_CLOSED, 41, 100):
        thought, text, tokens, thinking, finish = ask(server, bound, stream)
        assert (tokens, finish) == (bound, "length"), (bound, tokens, finish)
        assert text, (bound, thought)
        assert bool(thought) == (bound >= LEAST_CLOSED), (bound, thought)
        if thinking is not None:
            assert bound - thinking >= share(bound), (bound, thinking)
            assert bool(thinking) == bool(thought), (bound, thinking)


def test_all_apis_give_the_same_answer(server):
    for bound in (3, 60):
        first, *others = (ask(server, bound, stream)[:3] for ask in (chat, respond, ollama) for stream in (False, True))
        assert others == [first] * 5


def test_what_the_thought_leaves_is_the_answer_s(server):
    _, text, tokens, thinking, _ = chat(server, 100, False, thinking_budget=5)
    assert tokens == 100 and text
    assert 0 < thinking < 40, "the budget of thoughts holds beside the bound"


def test_without_a_thought_it_is_max_tokens(server):
    off = {"messages": QUESTION, "temperature": 0, "enable_thinking": False, "min_tokens": 12}
    one = server.ask(CHAT, off | {"max_tokens": 12})
    other = server.ask(CHAT, off | {"max_completion_tokens": 12})
    assert one["choices"] == other["choices"]
    assert one["usage"]["completion_tokens"] == other["usage"]["completion_tokens"] == 12


def test_max_tokens_is_of_the_answer_only(server):
    _, text, tokens, thinking, finish = chat(server, None, False, max_tokens=8, min_tokens=8, thinking_budget=20)
    assert tokens - thinking == 8 and thinking > 0 and text and finish == "length"


def test_the_newer_field_holds(server):
    assert chat(server, 8, False, max_tokens=100)[2] == 8
    assert chat(server, 60, False, max_tokens=5)[2] == 60


def test_each_choice_has_the_bound(server):
    body = {"messages": QUESTION, "max_completion_tokens": 40, "reasoning_effort": "high", "min_tokens": 40, "n": 3, "seed": 1, "temperature": 1}
    answer = server.ask(CHAT, body)
    assert answer["usage"]["completion_tokens"] == 120
    assert all(choice["message"]["content"] and choice["finish_reason"] == "length" for choice in answer["choices"]), answer


@pytest.mark.parametrize("final", [{"content": "The sea is"}, {"content": "", "reasoning_content": "The user asks about the sea."}])
def test_what_is_continued_has_the_bound(server, final):
    for bound in (3, 8, 40):
        _, text, tokens, thinking, finish = chat(server, bound, False, messages=[*QUESTION, {"role": "assistant"} | final],
                                                 continue_final_message=True, add_generation_prompt=False)
        assert (tokens, finish) == (bound, "length")
        assert text and bound - thinking >= share(bound), (bound, text, thinking)


def test_the_context_is_a_bound_as_well(server):
    def words(number):
        return [{"role": "user", "content": "word " * number}]

    def prompt(number):  # 0 tokens: only the prompt is read
        return server.ask(CHAT, {"messages": words(number), "max_completion_tokens": 0, "reasoning_effort": "high"})["usage"]["prompt_tokens"]

    number = 1900 + 2048 - 30 - prompt(1900)
    room = 2048 - prompt(number)
    _, text, tokens, thinking, finish = chat(server, 1000, False, messages=words(number))
    assert (tokens, finish) == (room, "length") and text and tokens - thinking >= share(room)


def test_drafts_do_not_run_over_the_bound(server):
    listing = [{"role": "user", "content": "Repeat this three times: " + "red green blue. " * 12}]
    for bound in (7, 50):
        plain, drafted = (chat(server, bound, False, messages=listing, speculation=way) for way in ("off", "auto"))
        assert plain == drafted and plain[2] == bound
