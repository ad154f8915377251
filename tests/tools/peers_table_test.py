"""The arithmetic of bench/peers on made-up figures: which variant counts, ratios, shares, and what programs print."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
import programs  # noqa: E402
import table  # noqa: E402

DECODE, DEEP, PREFILL = table.Work("decode", 0), table.Work("decode", 4096), table.Work("prefill", 512)


def turn(tok_s, rate, limit, unit="GB/s"):
    return {"tok_s": tok_s, "rate": rate, "unit": unit, "limit": limit}


def row(**changes):
    return {"model": "m", "work": "decode-0", "anabranch": [turn(40, 4, 8), turn(60, 6, 10), turn(50, 5, 9)],
            "llama.cpp": {"A": [20, 25, 30], "B": [90, 1]}, "mlx-lm": 0.5, "errors": [], **changes}


def test_works_are_read_and_named():
    assert table.parse_work("decode-4096") == DEEP and table.parse_work("prefill-512").name == "prefill-512"
    for bad in ("", "decode", "decode-", "decode--1", "prefill-0", "prefill-512x", "pp512", "decode-12345678"):
        try:
            table.parse_work(bad)
        except ValueError:
            continue
        raise AssertionError(bad)


def test_the_best_variant_is_that_with_the_best_median_of_the_longest_lists():
    assert table.best_variant({"A": [1, 9, 2], "B": [3, 3, 3]}) == "B"
    assert table.best_variant({"A": [1, 2], "B": [90]}) == "A"
    assert table.best_variant({"A": []}) is None and table.best_variant({}) is None


def test_a_variant_leaves_the_race_only_when_clearly_behind_after_two_turns():
    assert table.still_in_race({"A": [100], "B": [10]}, 1) == ["A", "B"]
    assert table.still_in_race({"A": [100, 100], "B": [10, 74], "C": [10, 76]}, 2) == ["A", "C"]
    assert table.still_in_race({"A": [100, 100], "failed": [100]}, 2) == ["A"]
    assert table.still_in_race({"A": []}, 1) == []


def test_ratios_and_shares():
    rows = [row(), row(anabranch=[turn(1, 1, 20)])]
    limits = table.machine_limits(rows)
    assert limits == {"GB/s": 20}
    summary = table.summarise(rows[0], limits)
    assert summary["anabranch"] == {"median": 50, "min": 40, "max": 60}
    assert summary["llama.cpp variant"] == "A" and summary["llama.cpp"] == {"median": 25, "min": 20, "max": 30}
    assert summary["ratio to llama.cpp"] == 2 and summary["ratio to mlx-lm"] == 100
    assert summary["share of limit"] == 0.25


def test_what_is_missing_stays_out_of_the_table():
    missing = row(**{"anabranch": [], "llama.cpp": {"A": []}, "mlx-lm": None})
    assert not any(table.summarise(missing, {}).values())
    assert "x" not in table.format_table([missing]).splitlines()[2]
    assert table.summarise(row(**{"llama.cpp": {}}), {"GB/s": 10})["ratio to llama.cpp"] is None


def test_the_table():
    lines = table.format_table([row()]).splitlines()
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == ["m", "decode 128 at depth 0", "50.0 (40.0 - 60.0)", "25.0 (20.0 - 30.0)", "A", "2.00x", "0.50",
                     "100x", "50 % of memory"], cells
    assert len({len(line) for line in lines}) == 1
    notes = table.format_notes([row()], 3)
    assert "Turns: 3" in notes and "memory 10.0 GB/s" in notes and "mlx-lm" in notes


def test_mlx_lm_stands_only_beside_short_works():
    assert table.mlx_key(DECODE) == "decode_tok_s" and table.mlx_key(PREFILL) == "prefill_tok_s"
    assert table.mlx_key(DEEP) is None


def test_our_output_is_read():
    text = json.dumps({"kernels": "avx2", "read_mb_per_token": 7, "limits": {"memory_gb_s": 9, "int8_gop_s": 300},
                       "results": [{"work": "pp1", "tok_s": 1, "GOP/s": 2}, {"work": "tg128", "tok_s": 3, "GB/s": 4}]})
    assert programs.read_anabranch(text, DECODE) == {**turn(3, 4, 9), "kernels": "avx2", "read_mb_per_token": 7}
    assert programs.read_anabranch(text, PREFILL) == {**turn(1, 2, 300, "GOP/s"), "kernels": "avx2",
                                                      "read_mb_per_token": 7}


def test_llama_benchs_output_is_read():
    text = 'noise\n{"n_prompt": 512, "n_gen": 0, "avg_ts": 5.5}\n{"n_prompt": 0, "n_gen": 128, "avg_ts": 2.5}\n'
    assert programs.read_llama_bench(text, DEEP) == 2.5 and programs.read_llama_bench(text, PREFILL) == 5.5


def test_other_output_is_a_failure_not_a_crash():
    for text in ("", "{}", "[1]", "[", "{1", "out of memory"):
        for read in (programs.read_anabranch, programs.read_llama_bench):
            try:
                programs.figures("it", text, read, DECODE)
            except programs.Failure:
                continue
            raise AssertionError(text)


def test_programs_that_fail_or_hang_or_are_not_there():
    python = sys.executable
    assert programs.run([python, "-c", "print(1)"], 60) == "1\n"
    for command, timeout, said in (([python, "-c", "import sys; sys.exit('reason')"], 60, "reason"),
                                   ([python, "-c", "import time; time.sleep(60)"], 0.2, "stopped after"),
                                   (["/nonexistent/llama-bench"], 60, "not found")):
        try:
            programs.run(command, timeout)
        except programs.Failure as failure:
            assert said in str(failure), failure
            continue
        raise AssertionError(command)
