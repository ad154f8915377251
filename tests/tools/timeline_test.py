"""bench/gpu/timeline.py on made-up times: steps, what counts for which kernel, and the picture."""

import os
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [BENCH, os.path.join(BENCH, "gpu")]
import plot  # noqa: E402
import timeline  # noqa: E402


def near(a, b):
    return abs(a - b) < 1e-9


def test_a_trace_is_read_in_order():
    spans = timeline.read_trace(["2000000000 3000000000 0 b c(int, float)\n", "1000000000 1500000000 8 copy to host\n"])
    assert spans == [(1.0, 1.5, "copy to host"), (2.0, 3.0, "b c(int, float)")], spans


def test_what_overlaps_counts_for_the_first():
    got = timeline.shares([(1.0, 3.0, "a"), (2.0, 4.0, "b"), (2.5, 3.5, "a"), (6.0, 7.0, "a")], 0.0)
    assert got["a"][0] == 3 and near(got["a"][1], 3.0) and near(got["b"][1], 1.0), got
    assert got[timeline.GAP][0] == 2 and near(got[timeline.GAP][1], 3.0), got


def test_steps_end_with_a_copy_to_the_host():
    spans = []
    for i in range(5):
        spans += [(10.0 * i + 1, 10.0 * i + 4, "k"), (10.0 * i + 5, 10.0 * i + 6 + i * 0.1, "copy to host")]
    work = timeline.of_work(spans, 0, 100)
    assert work["kernels"]["k"][0] == 1 and near(work["kernels"]["k"][1], 3e6), work
    assert near(work["step_us"], 10.1e6) and len(work["spans"]) == 2, work
    assert len(timeline.steps_of(spans, 10, 30)) == 2


def test_a_work_of_one_step():
    work = timeline.of_work([(1.0, 2.0, "k"), (2.5, 3.0, "copy to host")], 0, 100)
    assert near(work["step_us"], 2e6) and near(work["kernels"][timeline.GAP][1], 0.5e6), work


def test_the_picture_has_every_report():
    work = timeline.of_work([(0.0, 1e-4, "gemv<a>"), (2e-4, 3e-4, "copy to host")], -1, 1)
    report = {"card": "a card", "date": "2026-01-01", "model": "9B", "works": {"decode": work}}
    svg = timeline.picture([("before", report), ("after", report)], plot.text)
    assert "before: 0.30 ms" in svg and "after: 0.30 ms" in svg and svg.count("33 %") == 2, svg
    import xml.dom.minidom
    xml.dom.minidom.parseString(svg)
