"""The table of docs/convert.md is that of bench/results/quantisation.json."""

import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(ROOT, "bench/quality")]
import quantisation  # noqa: E402


def results():
    with open(os.path.join(ROOT, "bench/results/quantisation.json")) as file:
        return json.load(file)


def test_the_page_has_the_figures_of_the_results():
    with open(os.path.join(ROOT, "docs/convert.md")) as file:
        assert quantisation.table(results()["rows"]) in file.read(), "docs/convert.md has other figures"


def test_every_kind_was_measured_once():
    titles = [quantisation.title(kind) for kind in quantisation.KINDS]
    assert len(set(titles)) == len(titles)
    assert [row["kind"] for row in results()["rows"]] == titles


def test_figures_make_sense():
    rows = {row["kind"]: row for row in results()["rows"]}
    assert len({(row["predicted"], row["original_perplexity"]) for row in rows.values()}) == 1, "one original, one text"
    for row in rows.values():
        assert 0 <= row["kl_mean"] <= row["kl_p99"] <= row["kl_max"] and 0 < row["same_top"] <= 1, row
    for better, worse in [("MLX 8 bits, group 64", "MLX 6 bits, group 64"), ("MLX 6 bits, group 64", "MLX 4 bits, group 64"),
                          ("MLX 4 bits, group 64", "MLX 3 bits, group 64"), ("GGUF F16", "GGUF Q8_0"),
                          ("GGUF Q4_K_M", "GGUF IQ4_XS")]:
        assert rows[better]["kl_mean"] < rows[worse]["kl_mean"], (better, worse)
