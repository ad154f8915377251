"""The simulated fleet: what requests find, what they wait for, and that the same seed gives the same figures."""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "fleet")]
import costs  # noqa: E402
import fleet  # noqa: E402
import simulate  # noqa: E402
import traces  # noqa: E402

COSTS = costs.H200_9B
NETWORK = 3e9
APP = traces.App("app", 2000)


def session(number, begin, *turns, app=APP):
    return traces.Session(number, begin, app, tuple(traces.Turn(*turn) for turn in turns))


def run(policy, workers, sessions, cache=64e9, network=NETWORK):
    return fleet.Fleet(fleet.POLICIES[policy], workers, COSTS, cache, network, 0, 1000).run(sessions)


def near(a, b):
    assert abs(a - b) <= 1e-6 + 1e-6 * abs(b), (a, b)


def test_steps_are_the_measured_ones_and_between_them_interpolated():
    near(COSTS.step(1), 1 / 514)
    near(COSTS.step(64), 64 / 10339)
    near(COSTS.step(6), (4 / 1804 + 8 / 3239) / 2)
    assert abs(COSTS.prefill(0, 4096) - 4096 / 30315) < 0.01 * 4096 / 30315
    assert abs(COSTS.prefill(0, 32768) - 32768 / 27425) < 0.01 * 32768 / 27425


def test_a_request_alone_waits_for_its_prompt_and_the_next_turn_for_what_is_new():
    result = run("neither", 1, [session(0, 1.0, (500, 100, 0.0), (300, 50, 2.0))])
    near(result.ttft[0], COSTS.prefill(0, 2500))
    near(result.ttft[1], COSTS.prefill(2600, 2900) + COSTS.restore(2600))
    assert (result.prompt_tokens, result.found_tokens, result.answers) == (2500 + 2900, 2600, 2)


def test_workers_in_turn_find_nothing_of_the_turn_before():
    result = run("neither", 2, [session(0, 0.0, (500, 100, 0.0), (300, 50, 2.0), (10, 5, 2.0))])
    assert result.found_tokens == 2500 + 100, "the third turn is on the first worker again"


def test_shared_states_cost_their_bytes_over_the_network():
    result = run("shared", 2, [session(0, 0.0, (500, 100, 0.0), (300, 50, 2.0))])
    size = COSTS.bytes(2600)
    near(result.ttft[1], fleet.FETCH_LATENCY + size / NETWORK + COSTS.prefill(2600, 2900) + COSTS.restore(2600))
    assert result.fetched_tokens == result.found_tokens == 2600 and result.fetched_bytes == size


def test_a_fetch_that_takes_too_long_is_given_up():
    result = run("shared", 2, [session(0, 0.0, (500, 100, 0.0), (300, 50, 2.0))], network=1e6)
    near(result.ttft[1], fleet.FETCH_PATIENCE + COSTS.prefill(0, 2900))
    assert result.timeouts == 1 and result.found_tokens == 0


def test_the_router_sends_a_conversation_where_it_was():
    result = run("prefix", 4, [session(0, 0.0, (500, 100, 0.0), (300, 50, 2.0), (200, 50, 2.0))])
    assert result.found_tokens == 2600 + 2950 and result.fetched_tokens == 0


def test_the_router_leaves_a_crowded_worker():
    crowd = [session(i, 0.001 * i, (30000, 10, 0.0)) for i in range(8)]
    one, four = (run("prefix", n, crowd) for n in (1, 4))
    assert max(four.ttft) < 0.5 * max(one.ttft), (max(four.ttft), max(one.ttft))


def test_the_least_recently_used_states_leave_first():
    def talk(number, begin):
        return session(number, begin, (1000, 10, 0.0), (100, 10, 100.0), app=traces.App(f"app {number}", 1000))

    both = run("neither", 1, [talk(0, 0.0), talk(1, 50.0)])
    assert both.found_tokens == 2 * 2010
    room = COSTS.bytes(1000) + COSTS.bytes(1200)  # for one conversation and its app, not for two
    assert run("neither", 1, [talk(0, 0.0), talk(1, 50.0)], cache=room).found_tokens == 0


def test_prompts_wait_while_others_decode():
    other = session(1, 0.5, (3000, 1, 0.0), app=traces.App("other", 100))
    alone = run("neither", 1, [other]).ttft[0]
    beside = run("neither", 1, [session(0, 0.0, (10, 2000, 0.0)), other]).ttft[1]
    share = 1 - COSTS.step(1) / COSTS.step_limit
    assert alone / share < beside < alone / share * 1.05, (alone, beside)


def test_the_same_seed_gives_the_same_figures_and_knowing_prefixes_helps():
    job = (8, 25, 64, 3, 20, 20)
    rows = {policy: simulate.run((policy, *job)) for policy in fleet.POLICIES}
    assert simulate.run(("both", *job)) == rows["both"]
    assert rows["prefix"]["hit_rate"] > rows["neither"]["hit_rate"] + 0.1
    assert rows["prefix"]["ttft_p50_s"] < rows["neither"]["ttft_p50_s"]
    assert rows["shared"]["fetched_share"] > 0 and rows["prefix"]["fetched_share"] == 0
    for row in rows.values():
        assert 0 < row["hit_rate"] < 1 and 0 < row["busy"] <= 1 and row["ttft_p50_s"] <= row["ttft_p99_s"]


def test_the_table_has_a_row_for_each_run():
    report = {"costs": "c", "cache_gb": 64, "seed": 1, "rows": [simulate.run(("both", 2, 25, 64, 3, 5, 20))], "links": []}
    lines = simulate.text(report).splitlines()
    assert len(lines) == 5 and lines[-1].startswith("| 2 | both | 25 |"), lines


def test_the_page_has_the_reports_figures_and_the_report_is_of_this_simulation():
    with open(os.path.join(ROOT, "bench/results/fleet.json")) as file:
        report = json.load(file)
    with open(os.path.join(ROOT, "docs/fleet.md")) as file:
        page = file.read()
    for rows, network in ((report["rows"], False), (report["links"], True)):
        assert "\n".join(simulate.page_rows(rows, network)) in page, "docs/fleet.md has other figures than bench/results/fleet.json"
    for kept in report["rows"][:4]:
        row = simulate.run((kept["policy"], kept["workers"], kept["gbits"], report["cache_gb"], report["seed"], report["warm_s"],
                            report["seconds"]))
        for key in ("ttft_p50_s", "ttft_p99_s", "hit_rate"):
            assert abs(row[key] - kept[key]) <= 0.02 * kept[key], (key, row, kept)
