"""bench/gpu/run.py with programs that print made-up figures: what it reads, keeps and compares."""

import contextlib
import io
import json
import os
import stat
import sys
import tempfile

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [os.path.join(BENCH, "peers")]
sys.path[:0] = [os.path.join(BENCH, "gpu")]
import llama  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402

GPU_BENCH = """9B: 5.04 GB read a token; the limit of decode is 947 tok/s
  decode, prompt 512                469.0 tok/s     2.132 ms a step    2364 GB/s of weights
  8 streams: 6.0x of one           2814.0 tok/s     2.843 ms a step    1772 GB/s of weights
"""
OURS = {"results": [{"work": "pp4096", "depth": 0, "tok_s": 20000.0}, {"work": "tg128", "depth": 0, "tok_s": 540.0},
                    {"work": "tg128 @ d512", "depth": 512, "tok_s": 500.0}]}


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    os.chmod(path, stat.S_IRWXU)


def fake_programs(folder):
    program(folder, "gpu_bench", GPU_BENCH)
    program(folder, "anabranch", json.dumps(OURS))
    lines = [{"n_prompt": 4096, "n_gen": 0, "n_depth": 0, "avg_ts": 10000.0}, {"n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 270.0},
             {"n_prompt": 0, "n_gen": 128, "n_depth": 512, "avg_ts": 250.0}]
    with open(os.path.join(folder, "llama-bench"), "w") as file:  # prompts or depths, as it is asked
        file.write(f"#!/bin/sh\ncase \"$*\" in *'-n 0'*) echo '{json.dumps(lines[0])}';; *) echo noise; echo '{json.dumps(lines[1])}';"
                   f" echo '{json.dumps(lines[2])}';; esac\n")
    os.chmod(os.path.join(folder, "llama-bench"), stat.S_IRWXU)
    program(folder, "llama-batched-bench", json.dumps({"pl": 8, "speed_tg": 938.0, "speed_pp": 9000.0}))


def done(folder, *words):
    """run.py's main with these words; -> (exit status, what it printed)"""
    given, sys.argv = sys.argv, ["run.py", "--work", os.path.join(folder, "work"), "--binaries", folder, *words]
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = run.main()
    finally:
        sys.argv = given
    return status, out.getvalue()


def test_figures_of_several_runs_are_kept_and_compared():
    with tempfile.TemporaryDirectory() as folder:
        fake_programs(folder)
        kept, model = os.path.join(folder, "report.json"), os.path.join(folder, "model.gguf")
        status, out = done(folder, "--works", "models", "--models", "9b", "--json", kept)
        assert status == 0 and "| 9b | decode, prompt 512 | - | 469 | - |" in out, out
        status, out = done(folder, "--works", "file,batched", "--llama", folder, "--file", model, "--json", kept)
        assert status == 0, out
        for line in ("| pp4096 | 10,000 | 20,000 | 2.00x |", "| tg @ d512 | 250 | 500 | 2.00x |", "| 8 streams | 938 | 2,814 | 3.00x |",
                     "| 9b | decode, prompt 512 |"):
            assert line in out, (line, out)
        assert done(folder, "--works", "", "--json", kept)[1].count("2.00x") == 3
        assert report.read(kept)["file"]["ours"]["tg @ d0"] == 540.0


def test_a_failed_work_is_told_and_the_next_is_done():
    with tempfile.TemporaryDirectory() as folder:
        fake_programs(folder)
        status, out = done(folder, "--works", "models,batched", "--models", "0.8b")  # no llama.cpp
        assert status == 1 and "error: batched: needs --llama" in out and "| 0.8b | decode" in out, out


def test_figures_of_another_card_are_not_mixed():
    with tempfile.TemporaryDirectory() as folder:
        fake_programs(folder)
        kept = os.path.join(folder, "report.json")
        report.write(kept, {"card": "another", "date": "2026-01-01"})
        assert done(folder, "--works", "models", "--json", kept)[0] == 1


def test_http_is_compared_client_by_client():
    row = {"tok_s": 3000.0, "ttft_p50_s": 0.5, "gap_p99_s": 0.05}
    figures = {"http 512+128": {"anabranch 9b-q4_0": {"64": row}, "llama-server 9b-q4_0": {"64": {**row, "tok_s": 1000.0, "ttft_p50_s": 2.0}}}}
    assert "| 9b-q4_0 | 64 | 1,000 | 3,000 | 3.00x | 2.00 s | 500 ms | 50 ms | 50 ms |" in report.text(figures), report.text(figures)


def test_a_long_prompt_beside_streams():
    row = {"ttft_s": 4.0, "ttft_alone_s": 2.0, "gap_before_p50_s": 0.002, "gap_beside_p50_s": 0.02, "gap_beside_p99_s": 0.04}
    assert "| anabranch 9b-q4_0 | 16 | 2.00 s | 4.00 s | 2.00x | 2 ms | 20 ms | 40 ms |" in report.text({"stall": {"anabranch 9b-q4_0": {"16": row}}})


def test_the_archive_must_hold_the_source():
    with tempfile.TemporaryDirectory() as folder:
        import tarfile
        archive = os.path.join(folder, "a.tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(__file__, "x.py")
        try:
            llama.build(archive, os.path.join(folder, "made"), os.path.join(folder, "log"))
        except llama.Failure as failure:
            assert "CMakeLists.txt" in str(failure)
        else:
            raise AssertionError("no failure")
