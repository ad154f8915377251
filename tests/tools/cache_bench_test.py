"""The arithmetic of bench/cache on made-up figures, and that its requests are what they are said to be."""

import json
import os
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [os.path.join(BENCH, "cache"), os.path.join(BENCH, "peers")]
import measure  # noqa: E402
import servers  # noqa: E402
import tally  # noqa: E402
import works  # noqa: E402


measure.say = lambda text: None


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_what_could_be_reused():
    assert tally.common([1, 2, 3], [1, 2, 4, 5]) == 2 and tally.common([], [1]) == 0
    assert tally.common([1, 2], [1, 2, 3]) == 2 and tally.common([300, 7], [300, 7]) == 2
    earlier = [tally.computed([1, 2, 3], [4, 5, 6]), [1, 9]]
    assert earlier[0] == [1, 2, 3, 4, 5]  # the last token sampled was never put in
    assert tally.reusable([1, 2, 3, 4, 5, 6, 7], earlier) == 5
    assert tally.reusable([1, 2, 3], earlier) == 2  # all but the last token
    assert tally.reusable([8, 2, 3], earlier) == 0 and tally.reusable([1, 2], []) == 0


def test_distinct_tokens_are_the_nodes_of_the_tree():
    assert tally.distinct_tokens([[1, 2, 3], [1, 2, 4], [1, 2], [5]]) == 5
    assert tally.distinct_tokens([[1, 2], [1, 2]]) == 2 and tally.distinct_tokens([]) == 0


def call(prompt, cached, reusable, ttft_s=0.5):
    return {"prompt": prompt, "cached": cached, "reusable": reusable, "ttft_s": ttft_s, "why": ""}


def test_hit_rate():
    assert tally.hit_rate([call(100, 0, 0), call(200, 90, 100), call(300, 200, 200)]) == 290 / 300
    assert tally.hit_rate([call(100, 0, 0)]) is None


def test_the_summary_of_a_trace():
    calls = [call(4, 0, 0, 9), call(6, 2, 4, 1), call(6, 4, 4, 3)]
    summary = tally.trace_summary(calls, written=4000, on_disk=800, sequences=[[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]],
                                  per_token=100, fixed=400)
    assert summary["distinct tokens"] == 6 and summary["hit rate"] == 6 / 8
    assert summary["prefilled"] == {"median": 3, "min": 2, "max": 4}  # the first call is cold, and left out
    assert summary["ttft_s"] == {"median": 2, "min": 1, "max": 3}
    assert summary["write amplification"] == 4 and summary["bytes per 1k tokens"] == 800 * 1000 / 6
    line = cells(tally.trace_table([("m", "p", summary)]).splitlines()[2])
    assert line[5:7] == ["75.0 %", "3.00 (2.00 - 4.00)"] and line[-1] == "4.00x", line
    nothing = tally.trace_table([("m", "p", {**summary, "written": 0})]).splitlines()[2]
    assert cells(nothing)[-2:] == ["-", "-"]


def test_the_table_says_which_targets_were_missed():
    row = {"model": "m", "program": "p", "tokens": 12000, "cold": [9, 10, 11],
           "others": {"from memory": ([0.2, 0.3, 0.4], 0.03), "from disk": ([0.7], 0.06), "peer": ([5], None),
                      "not measured": ([], 0.03)}}
    lines = [cells(line) for line in tally.first_text_table([row]).splitlines()]
    assert lines[2][2:6] == ["12,000", "cold", "10.0 s (9.00 s - 11.0 s)", "1"]
    assert lines[3][3:] == ["from memory", "300 ms (200 ms - 400 ms)", "3.0 %", "<= 3 %: met"]
    assert lines[4][5:] == ["7.0 %", "<= 6 %: MISSED"] and lines[5][5:] == ["50.0 %", ""] and len(lines) == 6


def test_answers_that_differ_are_counted():
    same, other = servers.Reply(content="a", logprobs=[-0.5]), servers.Reply(content="b", logprobs=[-0.5])
    nudged = servers.Reply(content="a", logprobs=[-0.5000001])
    results = measure.Results()
    for reply in (same, other, nudged):
        results.compare("w", "v", same, reply, "request 1")
    assert results.answers == {("w", "v"): {"answers": 3, "tokens": 1, "log probabilities": 1}}
    assert results.differing() == 2 and [d["differs"] for d in results.differences] == ["tokens", "log probabilities"]
    assert cells(tally.answers_table(results.answers).splitlines()[2]) == ["w", "v", "3", "1", "1"]
    json.dumps(results.report())


def test_what_servers_stream_is_read():
    reply = servers.Reply()
    assert not servers.take(reply, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    assert servers.take(reply, {"choices": [{"delta": {"reasoning_content": "x", "reasoning": "x"}, "logprobs": {
        "content": [{"token": "x", "logprob": -1.5, "bytes": [120]}]}}]})
    assert servers.take(reply, {"choices": [{"delta": {"content": "y"}}]})
    servers.take(reply, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
    servers.take(reply, {"choices": [], "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}})
    assert reply.said() == ("y", "x", [], [b"x"], "stop") and reply.logprobs == [-1.5]
    assert (reply.prompt_tokens, reply.cached_tokens) == (9, 7)
    for function in ({"name": "f", "arguments": ""}, {"arguments": '{"a":'}, {"arguments": "1}"}):
        assert servers.take(reply, {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}}]})
    assert reply.calls == [["f", '{"a":1}']]
    servers.take(reply, {"choices": [], "timings": {"cache_n": 5}})
    assert reply.cached_tokens == 5


def agent(seed):
    return list(works.agent_calls(seed, works.agent_tools(seed), 8, lambda number: f"answer {number}"))


def test_the_agent_makes_thirty_calls_with_two_branches():
    calls = agent(7)
    assert len(calls) == 30 and calls == agent(7) and calls != agent(8)
    assert all(call["tools"] == calls[0]["tools"] and len(call["tools"]) == 20 for call in calls)
    extends = [one["messages"] == other["messages"][:len(one["messages"])] for one, other in zip(calls, calls[1:])]
    assert extends.count(False) == 2  # where a branch starts, and shares more than the system's message
    for at in (at + 1 for at, goes_on in enumerate(extends) if not goes_on):
        texts = [[json.dumps(message) for message in calls[n]["messages"]] for n in (at - 1, at)]
        assert tally.common(*texts) > 8
    assert any("answer " in str(message["content"]) for message in calls[-1]["messages"])
    for call in calls:
        for message in call["messages"]:
            for made in message.get("tool_calls", []):
                assert made["function"]["name"] in json.dumps(call["tools"])
                assert json.loads(made["function"]["arguments"])


def test_a_schema_as_long_as_asked():
    schema = works.fitting_tools(3, 4000, lambda request: len(json.dumps(request["tools"])))
    assert len(json.dumps(schema)) <= 4000 < len(json.dumps(works.tools(3, len(schema) + 1)))
    names = [tool["function"]["name"] for tool in works.tools(3, 120)]
    assert len(set(names)) == 120
    asked = [works.question(schema, number, 8)["messages"][-1]["content"] for number in range(20)]
    assert len(set(asked)) == 20
