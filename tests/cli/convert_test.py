"""GGUF files that `convert` writes, read by gguf-py and by ourselves."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

from harness import paths

pytestmark = pytest.mark.network

SMALL = paths.DRAFT
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
HELDOUT = os.path.join(ROOT, "tests/models/data/heldout.txt")
FIXTURES = os.path.join(ROOT, "tests/models/data")
GGUF_PY = os.path.join(ROOT, ".deps/gguf-py")  # fetched once
made = {}  # files by format, of SMALL
folder = tempfile.TemporaryDirectory()


def run(*args, timeout=300):
    done = subprocess.run([paths.PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def refused(text, *args):
    code, _, err = run(*args)
    assert 0 < code < 128, f"exit status {code}: {err}"
    assert text in err, err


def gguf_py():
    """gguf-py, whose other packages the tests have."""
    if not os.path.isdir(GGUF_PY):
        got = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", "--target",
                              GGUF_PY, "gguf==0.19.0"], capture_output=True, text=True)
        if got.returncode:
            pytest.skip(f"gguf-py cannot be fetched: {got.stderr.strip()[-200:]}")
    sys.path[:0] = [GGUF_PY] if GGUF_PY not in sys.path else []
    import gguf
    return gguf


def file_of(format, *more):
    if format not in made:
        path = os.path.join(folder.name, format + ".gguf")
        code, out, err = run("convert", SMALL, path, "--format", format, *more)
        assert code == 0, err
        assert f"{path}: " in out and "1 files" in out, out
        made[format] = path
    return made[format]


def read(path):
    """Metadata, and tensors by name: type and values."""
    gguf = gguf_py()
    reader = gguf.GGUFReader(path)
    return ({name: field.contents() for name, field in reader.fields.items()},
            {t.name: (t.tensor_type.name, gguf.dequantize(t.data, t.tensor_type)) for t in reader.tensors})


def test_gguf_py_reads_what_is_written():
    import numpy
    keys, exact = read(file_of("f16"))
    assert keys["general.architecture"] == "qwen35" and keys["general.file_type"] == 1, keys
    with open(os.path.join(SMALL, "config.json")) as file:
        config = json.load(file)
    config = config.get("text_config", config)
    assert keys["qwen35.block_count"] - keys.get("qwen35.nextn_predict_layers", 0) == config["num_hidden_layers"]
    assert keys["qwen35.embedding_length"] == config["hidden_size"]
    assert exact["token_embd.weight"][1].shape == (config["vocab_size"], config["hidden_size"])
    assert exact["blk.0.ssm_a"][1].max() < 0 and exact["blk.0.ssm_a"][0] == "F32"
    # Blocks of 4 and 8 bits are that near.
    most = {"F32": 1e-12, "F16": 1e-6, "Q8_0": 2e-4, "Q6_K": 1e-3, "Q5_0": 6e-3, "Q5_1": 3e-3, "Q5_K": 3e-3, "Q4_K": 0.011,
            "IQ4_NL": 0.014, "IQ4_XS": 0.014}
    for format in ("q8_0", "q4_k_m", "iq4_xs"):
        _, tensors = read(file_of(format))
        assert tensors.keys() == exact.keys()
        for name, (kind, values) in tensors.items():
            want = exact[name][1].astype(numpy.float64)
            error = ((values - want) ** 2).sum() / max((want ** 2).sum(), 1e-30)
            assert values.shape == want.shape and error < most[kind], (format, name, kind, error)
    kinds = {name: kind for name, (kind, _) in read(file_of("q4_k_m"))[1].items()}
    assert kinds["token_embd.weight"] == "Q6_K" and kinds["output_norm.weight"] == "F32", kinds
    assert kinds["blk.0.attn_qkv.weight"] == "Q6_K" and kinds["blk.1.attn_qkv.weight"] == "Q4_K", kinds
    assert kinds["blk.0.ffn_down.weight"] == "Q8_0" and kinds["blk.1.ffn_down.weight"] == "Q5_0", "rows are not whole blocks of 256"


def test_the_vocabulary_is_the_same():
    keys, _ = read(file_of("f16"))
    with open(os.path.join(SMALL, "tokenizer.json")) as file:
        tokenizer = json.load(file)
    assert (keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"]) == ("gpt2", "smollm"), keys["tokenizer.ggml.pre"]
    tokens = keys["tokenizer.ggml.tokens"]
    assert all(tokens[id] == text for text, id in tokenizer["model"]["vocab"].items())
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    assert keys["tokenizer.ggml.merges"] == merges
    for token in tokenizer["added_tokens"]:
        assert tokens[token["id"]] == token["content"]
        assert keys["tokenizer.ggml.token_type"][token["id"]] == (3 if token["special"] else 4), token
    assert tokens[keys["tokenizer.ggml.eos_token_id"]] == "<|im_end|>"
    with open(os.path.join(SMALL, "chat_template.jinja")) as file:
        assert keys["tokenizer.chat_template"] == file.read()


def test_predictions_are_near():
    """eval --against also compares the bytes of all tokens."""
    text = os.path.join(folder.name, "text.txt")
    with open(HELDOUT) as file, open(text, "w") as to:
        to.write(file.read(3000))
    found = {}
    for format in ("f16", "q8_0", "q4_k_m", "iq4_xs"):
        code, out, err = run("eval", "-m", file_of(format), "--against", SMALL, "--text", text, "--precise", "--json")
        assert code == 0, err
        found[format] = json.loads(out)["against"]["kl_mean"]
    assert found["f16"] < 1e-4 and found["q8_0"] < 0.01 and found["q4_k_m"] < 0.2 and found["iq4_xs"] < 0.4, found
    assert found["f16"] < found["q8_0"] < found["q4_k_m"] < found["iq4_xs"], found


def test_calibration_and_perplexity():
    path, text = os.path.join(folder.name, "calibrated.gguf"), os.path.join(folder.name, "long.txt")
    with open(HELDOUT) as file, open(text, "w") as to:
        to.write(file.read(6000))
    code, out, err = run("convert", SMALL, path, "--format", "q4_k_m", "--calibration", text, "--perplexity", text)
    assert code == 0, err
    assert "KL divergence" in out and "weighted by their inputs" in out, out
    keys, _ = read(path)
    assert keys["quantize.imatrix.dataset"] == "long.txt" and keys["quantize.imatrix.entries_count"] > 20, keys
    with open(path, "rb") as one, open(file_of("q4_k_m"), "rb") as other:
        assert one.read() != other.read()


def test_a_gguf_file_keeps_its_metadata():
    again = os.path.join(folder.name, "again.gguf")
    code, _, err = run("convert", file_of("f16"), again, "--format", "q8_0")
    assert code == 0, err
    before, after = read(file_of("f16"))[0], read(again)[0]
    own = {"GGUF.kv_count", "GGUF.tensor_count", "general.file_type"}
    assert {k: v for k, v in before.items() if k not in own} == {k: v for k, v in after.items() if k not in own}
    with open(again, "rb") as one, open(file_of("q8_0"), "rb") as other:
        assert len(one.read()) == len(other.read())


def test_the_default_model_answers_from_a_gguf_file():
    path = os.path.join(folder.name, "default.gguf")
    code, _, err = run("convert", paths.MODEL, path, "--format", "q8_0")
    assert code == 0, err
    code, answer, err = run("generate", "-m", path, "--temp", "0", "-n", "60", "--thinking", "off",
                            "What is the capital of France?")
    assert code == 0 and "Paris" in answer, answer + err


def test_what_cannot_be_written_is_said():
    out = os.path.join(folder.name, "no.gguf")
    refused("not written for models of type \"mixtral\"", "convert", f"{FIXTURES}/mixtral/model", out, "--format", "q4_k_m")
    for flag in (("--bits", "4"), ("--group", "32"), ("--dtype", "f16"), ("--recipe", "x.json")):
        refused(f"no use for {flag[0]}", "convert", SMALL, out, "--format", "q4_k_m", *flag)
    refused("no use for --calibration", "convert", SMALL, out, "--format", "q8_0", "--calibration", HELDOUT)
    refused("--format", "convert", SMALL, out, "--format", "q9")
    refused("is a directory", "convert", SMALL, folder.name, "--format", "f16", "--force")
    refused("give the file to write", "convert", SMALL, "--format", "f16")
    assert not os.path.exists(out)
    code, _, err = run("convert", f"{FIXTURES}/llama_tied/model", out, "--format", "q8_0")
    assert code == 0 and "has no tokenizer" in err, err
    refused("exists already", "convert", f"{FIXTURES}/llama_tied/model", out, "--format", "q8_0")
    assert [name for name in os.listdir(folder.name) if "partial" in name] == []
