"""The pictures of the pages are those of the reports."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench")]
import plot  # noqa: E402


def test_pictures_are_up_to_date():
    assert subprocess.call([sys.executable, os.path.join(ROOT, "bench/plot.py"), "--check"]) == 0, "run bench/plot.py"


def test_bars_are_as_long_as_the_figures():
    spread = {"median": 50.0, "min": 40.0, "max": 100.0}
    half = {"median": 25.0, "min": 20.0, "max": 30.0}
    report = {"cpu": "A & B", "threads": 2, "date": "2026-11-24 00:00", "reps": 5,
              "rows": [{"model": "m", "work": "decode-0", "summary": {"anabranch": spread, "llama.cpp": half}},
                       {"model": "m", "work": "decode-4096", "summary": {"anabranch": spread, "llama.cpp": None}},
                       {"model": "n", "work": "prefill-512", "summary": {"anabranch": None, "llama.cpp": half}}]}
    picture = plot.speed_picture(report)
    widths = [float(part.split('"')[0]) for part in picture.split('width="')[2:] if "<title>" in part]
    assert len(widths) == 2 and abs(widths[0] - 2 * widths[1]) < 0.11, widths
    assert "A &amp; B" in picture and "(2.0x)" in picture and "Prefill" not in picture


def test_a_line_for_each_way_to_route():
    rows = [{"workers": n, "policy": p, "gbits": 25, "ttft_p50_s": 0.01 if p == "both" else 0.1, "ttft_p99_s": 1.0, "hit_rate": 0.5}
            for n in (8, 512) for p in plot.POLICIES]
    picture = plot.fleet_picture({"costs": "a < b", "rows": rows})
    assert picture.count("<polyline") == 3 * len(plot.POLICIES) and "a &lt; b" in picture
    lines = [part.split('"')[0] for part in picture.split('points="')[1:]]
    heights = [[float(point.split(",")[1]) for point in line.split()] for line in lines[:8:2]]  # of the medians
    assert heights[3] == [274.0, 274.0] and heights[0][0] == heights[0][1] < 274, heights
