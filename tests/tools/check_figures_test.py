"""The figures of README.md are those of the reports, and a changed one is found."""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tools")]
import check_figures  # noqa: E402

REPORT = {"date": "2026-11-24 00:09", "list": [1, 2, 3], "share": 0.0423, "items": [{"n": 2}, {"n": 4}], "rows": [
    {"model": "m", "work": "decode", "summary": {"us": 296.667, "them.too": 146.52, "ratio to them": 2.0248, "slow": None}},
    {"model": "m", "work": "prefill", "summary": {"us": 2553.87, "them.too": 340.01, "ratio to them": 7.511, "slow": 0.179}}]}
PAGE = """Text of 2026-11-24<!-- bench/results/r.json: date -->.

<!-- figures: bench/results/r.json
rows: rows[model=m,work=decode]; rows[model=m,work=prefill]
columns: summary/us; summary/them.too; summary/slow; summary/ratio to them
-->
| model | work | us | them | slow | ratio |
|---|---|---|---|---|---|
| M of 4 bits | decode | 297 | 146.5 | - | **2.0** |
| | prefill | 2,554 | 340 | 0.18 | **7.5** |

It needs 4.2 %<!-- bench/results/r.json: share * 100 --> of the time, and is **7.5 times**<!--
bench/results/r.json: rows[work=prefill]/summary/us / rows[work=prefill]/summary/them.too --> as fast in
3<!-- bench/results/r.json: count list --> works, 2 ms<!-- bench/results/r.json: median list --> each, 6<!-- bench/results/r.json: sum
items[*]/n --> in all.
"""


def wrong(text):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/bench/results")
        with open(root + "/bench/results/r.json", "w") as file:
            json.dump(REPORT, file)
        return check_figures.Page(text, root).check().wrong


def found(old, new, part):
    assert PAGE.count(old) == 1, old
    problems = wrong(PAGE.replace(old, new))
    assert len(problems) == 1 and part in problems[0], (old, new, problems)


def test_readme_has_the_figures_of_the_reports():
    assert subprocess.call([sys.executable, os.path.join(ROOT, "tools/check_figures.py")]) == 0


def test_a_right_page_is_right():
    assert wrong(PAGE) == []


def test_a_changed_figure_of_a_table_is_found():
    found("| 297 |", "| 298 |", "says 298")
    found("| 146.5 |", "| 146.6 |", "says 146.6")
    found("2,554", "2,600", "says 2,600")
    found("**7.5** |", "**7.4** |", "says 7.4")
    found("| - |", "| 1 |", "says 1")
    found("| 0.18 |", "| |", "says nothing")


def test_a_changed_figure_of_the_text_is_found():
    found("4.2 %", "4.3 %", "says 4.3")
    found("**7.5 times**", "**7.6 times**", "says 7.6")
    found("2026-11-24<", "2026-11-25<", "says 2026-11-25")
    found("in\n3<", "in\n4<", "says 4")
    found("6<", "7<", "says 7")


def test_rows_and_reports_that_are_not_there_are_found():
    assert len(wrong(PAGE.replace("work=decode]", "work=other]"))) == 4  # a row of four figures
    found("share * 100", "shares * 100", "there is no 'shares'")
    found("bench/results/r.json: share", "bench/results/s.json: share", "cannot be read")
    found("rows[model=m,work=decode]; ", "", "2 rows, its comment 1")
    assert len(wrong(PAGE.replace("rows[model=m,work=decode]", "rows[model=m]"))) == 4  # two rows are that


def test_figures_without_a_source_are_found():
    for text in ("It is 3.5 times as fast.", "In 20 ms.", "At 12 tok/s.", "It saves **40 %**.", "Three times as fast.", "Twice that.", "By 2x."):
        assert len(wrong(text)) == 1, text
    assert wrong("| a | b |\n|---|---|\n| x | 12.5 |\n| y | 3 ms |\n") == [
        "a cell without a source: 12.5", "a cell without a source: 3 ms", "a figure without a source: 3 ms"]
    assert wrong("Before<!-- bench/results/r.json: share -->") != []


def test_what_is_no_figure_needs_no_source():
    assert wrong("Qwen3.5-0.8B in 4 bits, `--temp 0.5 s`, [12 ms](x-3-ms.md), 5.3 GB, 2 cores.\n```\n12 ms\n```\n| a |\n|---|\n| Q4_K |\n") == [
        "a figure without a source: 12 ms"]  # the text of a link counts
