"""What the Dynamo backend translates, without Dynamo: integrations/dynamo/tests/conformance.py runs it with Dynamo."""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "integrations", "dynamo")]
from anabranch_dynamo import translate  # noqa: E402

METRICS = """# HELP anabranch_state_bytes Memory used by running sequences (KV cache and recurrent states)
# TYPE anabranch_state_bytes gauge
anabranch_state_bytes{model="m"} 1024
# TYPE anabranch_cache_hit_tokens_total counter
anabranch_cache_hit_tokens_total{model="m",tier="ram"} 30
anabranch_cache_hit_tokens_total{model="m",tier="disk"} 10
anabranch_prompt_tokens_total 80
anabranch_state_budget_bytes{model="m"} 8192
"""


def refused(**parts):
    try:
        translate.generate_body({"token_ids": [1], **parts}, "r")
        return ""
    except translate.Refused as error:
        return str(error)


def test_a_request_of_few_words():
    assert translate.generate_body({"token_ids": (1, 2)}, "r") == {"prompt_token_ids": [1, 2], "request_id": "r", "stream": True}
    nothing = {"token_ids": [1], "sampling_options": None, "stop_conditions": {"max_tokens": None}, "output_options": {},
               "routing": None, "eos_token_ids": None}
    assert translate.generate_body(nothing, "r") == {"prompt_token_ids": [1], "request_id": "r", "stream": True}


def test_a_request_with_everything():
    body = translate.generate_body({
        "token_ids": [1], "eos_token_ids": [7], "routing": {"priority": 3, "dp_rank": 0}, "nvext": {"cache_salt": "tenant"},
        "sampling_options": {"temperature": 0.0, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 0, "n": 1, "best_of": None,
                             "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.1},
        "stop_conditions": {"max_tokens": 9, "stop_token_ids": [4], "stop_token_ids_hidden": [7, 3], "min_tokens": 1},
        "output_options": {"logprobs": 50}}, "r")
    assert body == {"prompt_token_ids": [1], "request_id": "r", "stream": True, "temperature": 0.0, "top_p": 0.9, "top_k": 5,
                    "min_p": 0.1, "seed": 0, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.1,
                    "max_tokens": 9, "stop_token_ids": [3, 4, 7], "logprobs": True, "top_logprobs": 20, "cache_salt": "tenant",
                    "priority": -3, "min_tokens": 1}, body


def test_ends_of_turns_do_not_stop_an_answer_that_ignores_them():
    request = {"token_ids": [1], "eos_token_ids": [7], "stop_conditions": {"ignore_eos": True, "stop_token_ids_hidden": [7, 3]}}
    body = translate.generate_body(request, "r")
    assert body["ignore_eos"] is True and body["stop_token_ids"] == [3]


def test_what_a_worker_cannot_do_is_refused_in_words():
    assert "n and best_of" in refused(sampling_options={"n": 2})
    assert "guided" in refused(sampling_options={"guided_decoding": {"regex": "a"}})
    assert "beam" in refused(sampling_options={"use_beam_search": True})
    assert "prompt_logprobs" in refused(output_options={"prompt_logprobs": 0})
    assert "256" in refused(stop_conditions={"stop_token_ids": list(range(257))})


def test_request_ids_are_ones_that_a_worker_accepts():
    assert translate.request_id_of("8800adff-bd0f") == "8800adff-bd0f"
    assert translate.request_id_of("a b/é") == "a-b--" and translate.request_id_of("") == "-"
    assert len(translate.request_id_of("x" * 200)) == 128


def test_events_come_out_of_pieces_of_any_size():
    stream = b": still working\n\ndata: {\"a\": 1}\r\n\r\ndata: {\"b\":\ndata:{}\n\ndata: [DONE]\n\n"
    for size in (1, 3, 1000):
        reader, events = translate.EventReader(), []
        for at in range(0, len(stream), size):
            events += reader.feed(stream[at:at + size])
        assert events == [b'{"a": 1}', b'{"b":', b"{}", b"[DONE]"], (size, events)


def test_an_endless_event_is_not_collected():
    reader = translate.EventReader()
    try:
        for _ in range(10):
            reader.feed(b"x" * (1 << 20))
        raise AssertionError("10 MiB without an end of line")
    except ValueError:
        pass


def test_chunks():
    assert translate.chunk_of({"token_ids": [], "finish_reason": None}) is None
    assert translate.chunk_of({"token_ids": [5, 6], "logprobs": None, "finish_reason": None}) == {"token_ids": [5, 6], "index": 0}
    chunk = translate.chunk_of({"token_ids": [5], "finish_reason": None, "logprobs": [
        {"token_id": 5, "logprob": -0.5, "top_logprobs": [{"token_id": 4, "logprob": -0.4}, {"token_id": 5, "logprob": -0.5}]}]})
    assert chunk["log_probs"] == [-0.5]
    assert [(entry["rank"], entry["token_id"], entry["logprob"]) for entry in chunk["top_logprobs"][0]] == [(1, 4, -0.4), (2, 5, -0.5)]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    end = translate.chunk_of({"token_ids": [], "logprobs": None, "finish_reason": "stop", "stop_reason": 7, "usage": usage})
    assert end == {"token_ids": [], "index": 0, "finish_reason": "stop", "completion_usage": usage}
    assert translate.cancelled_chunk(3, 2)["completion_usage"] == usage


def test_messages_of_errors():
    body = json.dumps({"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}})
    assert translate.error_message(body) == ("too long", "context_length_exceeded")
    assert translate.error_message("<html>" + "x" * 1000) == (("<html>" + "x" * 1000)[:500], None)
    assert translate.error_message("[]") == ("[]", None)


def test_figures_out_of_metrics():
    figures = translate.samples(METRICS)
    assert figures["anabranch_cache_hit_tokens_total"] == 40 and figures["anabranch_state_bytes"] == 1024
    assert translate.hit_rate(figures) == 0.5 and translate.hit_rate({}) is None
    assert translate.blocks(figures, 2, 256) == (2, 16) and translate.blocks({}, 0, 256) == (0, 0)


def test_metrics_of_several_workers_are_one_valid_text():
    text = translate.joined(translate.labelled(METRICS, {"url": f'http://{name}"'}) for name in "ab")
    assert text.count("# TYPE anabranch_state_bytes gauge") == 1 and text.count("# HELP") == 1
    lines = text.splitlines()
    at = lines.index('anabranch_state_bytes{model="m",url="http://a\\""} 1024')
    assert lines[at + 1] == 'anabranch_state_bytes{model="m",url="http://b\\""} 1024', lines
    assert 'anabranch_prompt_tokens_total{url="http://a\\""} 80' in lines
