"""Answers over HTTP do not depend on how they were computed: complete texts and log-probabilities are compared.

The tiny models of tests/models/data are asked, or those of --checkpoint: .deps/test-venv/bin/python -m pytest tests/server/exactness_test.py
--checkpoint FOLDER [--checkpoint-draft FOLDER] [--checkpoint-flags "--cache-kv q8"]. Each is asked cold (one thread, no drafts, no cache),
then with several threads, with each source of drafts, with cache entries in memory and on disk and over kill -9, together,
and with memory for so few that requests are interrupted.
"""

import pathlib
import shutil
import signal
import subprocess

import pytest

from exactness import BLOCK, GROWING, Checkpoint, cached_tokens, copy_tiny, drop_mtp_head
from harness import paths

TINY = ("llama_tied", "cohere2", "qwen35_nested_untied_grouped", "qwen35_moe_nested_mtp", "nemotron_h", "granite_h", "lfm2", "lfm3", "mimo_v2_flash",
        "falcon_h1", "kimi_linear", "deepseek_v3", "qwen4_exp", "gemma3", "gemma4_shared_kv", "qwen3_5_vision", "qwen3_vl", "gemma3_vision")


def pytest_generate_tests(metafunc):
    if "checkpoint" in metafunc.fixturenames:
        metafunc.parametrize("checkpoint", metafunc.config.option.checkpoint or TINY, indirect=True, scope="module")


@pytest.fixture(scope="module")
def checkpoint(request, tmp_path_factory):
    options = request.config.option
    if options.checkpoint:
        return Checkpoint(request.param, options.checkpoint_draft, options.checkpoint_flags.split())
    path = tmp_path_factory.mktemp("tiny") / request.param
    copy_tiny(request.param, path)
    return Checkpoint(path, draft=path)


@pytest.fixture(scope="module")
def drafts(checkpoint):
    """Of two threads: {source: (accepted, drafted)}."""
    with checkpoint.serve("--threads", "2", "--no-cache", *checkpoint.draft) as server:
        checkpoint.compare(checkpoint.ask_all(server, cache=False, speculation="off"))
        return checkpoint.drafts(server)


def test_threads_and_drafts_change_nothing(drafts):
    assert drafts
    for source, (_, drafted) in drafts.items():
        assert drafted > 0, f"{source}: nothing was drafted"


def test_kept_states_change_nothing(checkpoint, tmp_path):
    with checkpoint.serve("--cache-dir", tmp_path, "--cache-disk-worth", "0") as server:
        checkpoint.compare(checkpoint.ask_all(server))
        for way in ("second", "restarted", "killed"):
            answers = checkpoint.ask_all(server)
            checkpoint.compare(answers)
            assert cached_tokens(answers) > 0, f"{way}: nothing was cached"
            if way == "second":
                checkpoint.compare(checkpoint.ask_together(server))
            if way != "killed":
                server.restart(signal.SIGTERM if way == "second" else signal.SIGKILL)


def test_interrupted_requests_change_nothing(checkpoint):
    """Memory for three short ones, which then grow: the youngest must give its memory back."""
    with checkpoint.serve("--no-cache") as server:
        bytes_of = server.health()["model"]["sequence_bytes"]
    each = bytes_of["fixed"] + bytes_of["drafts_fixed"] + 2 * BLOCK * (bytes_of["per_token"] + bytes_of["drafts_per_token"])
    with checkpoint.serve("--memory", f"{3 * each}B", "--cache-ram", "1GB", "--cache-disk", "0B") as server:
        for _ in range(20):  # on a busy machine one may end before the others begin
            checkpoint.compare(checkpoint.ask_together(server, GROWING))
            if server.engine()["preempted"] > 0:
                break
        assert server.engine()["preempted"] > 0


def test_a_head_from_the_original_drafts_as_before(tmp_path):
    """A model without its MTP head gets it back with convert --mtp-from: it answers and drafts as before."""
    whole, without = tmp_path / "whole", tmp_path / "without"
    copy_tiny("qwen35_moe_nested_mtp", whole)
    shutil.copytree(whole, without)
    drop_mtp_head(pathlib.Path(without))
    subprocess.run([paths.PROGRAM, "-q", "convert", "--mtp-from", whole, without], check=True, stdout=subprocess.DEVNULL)
    before, after = Checkpoint(whole), Checkpoint(without)
    assert after.want == before.want
    drafts = []
    for checkpoint in (before, after):
        with checkpoint.serve("--threads", "2", "--no-cache") as server:
            drafts.append(checkpoint.drafts(server)["mtp"])
    assert drafts[0] == drafts[1]
