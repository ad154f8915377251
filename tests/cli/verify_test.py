"""`verify` and its report."""

import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import paths

SMALL = paths.DRAFT
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/data/llama_tied/model")
DRAFTS = [f"speculation {source}" for source in ("auto", "ngram", "mtp", "draft", "exit", "skip")]
CHECKS = ["load", "tokenizer", "chat template", "greedy text", *DRAFTS, "cache", "batch", "speed", "needle"]


def verify(model, folder, *more):
    """Exit status, {check: (result, details)} of the report, stdout, stderr."""
    report = os.path.join(folder, f"anabranch-verify-{os.path.basename(model)}.md")
    done = subprocess.run([paths.PROGRAM, "verify", "--model", model, *more], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600)
    rows = {}
    if os.path.exists(report):
        with open(report) as file:
            text = file.read()
        assert text.startswith(f"# anabranch verify: {os.path.basename(model)}\n"), text
        table = text.split("| Check | Result | Details |\n|---|---|---|\n")[1].split("\n\n")[0]
        for line in table.splitlines():
            _, check, result, details, _ = re.split(r"(?<!\\)\|", line)
            rows[check.strip()] = (result.strip(), details.strip())
        assert list(rows) == CHECKS, rows
    return done.returncode, rows, done.stdout, done.stderr


def test_a_good_model_passes():
    with tempfile.TemporaryDirectory() as folder:
        code, rows, out, err = verify(paths.MODEL, folder)
        assert code == 0, (rows, err)
        verdicts = {check: rows[check][0] for check in CHECKS}
        assert verdicts.pop("speculation draft") == "not applicable" and "--draft" in rows["speculation draft"][1], rows
        assert [check for check in verdicts if verdicts[check] == "info"] == ["greedy text", "speed", "needle"], rows
        assert list(verdicts.values()).count("pass") == 10, rows
        load = rows["load"][1]
        for part in ("family qwen3_5", "28 layers: 7 attention (9 heads, 3 for keys and values, of 64), 21 gated delta",
                     "28 MLP of 1536; hidden 576, vocabulary 49152 (tied)", "146.2 million", "149 BF16", "MTP head;"):
            assert part in load, load
        assert "8 texts and 11 special tokens" in rows["tokenizer"][1] and "tool call and result: " in rows["chat template"][1]
        assert re.search(r"the same 64 tokens .* \(\d+ %\), by position \d+/\d+ \d+/\d+ \d+/\d+ \d+/\d+$",
                         rows["speculation mtp"][1]), rows
        with open(os.path.join(folder, "anabranch-verify-hybrid-146m.md")) as file:
            assert "    What is the capital of France? Answer in one sentence.⏵The capital of France is Paris" in file.read()
        cached, prompt, extended, _ = map(int, re.findall(r"(\d+) of (\d+)", rows["cache"][1])[0]
                                          + re.findall(r"(\d+) of (\d+)", rows["cache"][1])[1])
        assert 512 < cached < prompt and extended >= cached, rows
        assert re.search(r"prefill of 512 tokens: \d+ tok/s; decode of 64 tokens without drafts: [\d.]+ tok/s", rows["speed"][1]), rows
        sizes = re.findall(r"thinking (?:off|on): (?:not )?found among (\d+) tokens, (\d+) of thought", rows["needle"][1])
        assert [1900 < int(size) < 2200 for size, _ in sizes] == [True, True], rows
        assert sizes[0][1] == "0" and int(sizes[1][1]) > 0, rows
        assert "10 passed, 0 failed, 1 not applicable" in out and "needle" in err, (out, err)
        assert os.listdir(folder) == ["anabranch-verify-hybrid-146m.md"], os.listdir(folder)


def test_a_cut_off_file_is_reported():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "cut")
        shutil.copytree(GOLDEN, model)
        weights = os.path.join(model, "model.safetensors")
        os.truncate(weights, os.path.getsize(weights) // 2)
        code, rows, out, _ = verify(model, folder)
        assert code == 1 and rows["load"][0] == "FAIL", (code, rows)
        assert "model.safetensors" in rows["load"][1] and "truncated" in rows["load"][1], rows
        assert all(rows[check] == ("not run", "") for check in CHECKS[1:]), rows
        assert "1 failed" in out, out


def with_tensors(folder, names):
    """The small model as links, and a file of its own with these tensors of two zeros."""
    for name in os.listdir(SMALL):
        os.symlink(os.path.join(SMALL, name), os.path.join(folder, name))
    header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, name in enumerate(names)}
    header = json.dumps(header).encode()
    with open(os.path.join(folder, "more.safetensors"), "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + bytes(8 * len(names)))


def test_tensors_that_are_not_used():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "more")
        os.mkdir(model)
        with_tensors(model, ["model.layers.0.extra.weight"])
        code, rows, out, _ = verify(model, folder)
        assert code == 1 and rows["load"][0] == "FAIL" and "model.layers.0.extra.weight" in rows["load"][1], rows
        assert rows["needle"] == ("not run", "") and "1 failed" in out, rows
        shutil.rmtree(model)
        os.mkdir(model)
        with_tensors(model, ["model.visual.patch.weight", "visual.patch.bias"])
        code, rows, _, _ = verify(model, folder)
        assert code == 0 and "2 for images or sound, not used" in rows["load"][1], rows
        assert "has no MTP head" in rows["speculation mtp"][1], rows


def test_a_draft_model_is_checked_too():
    with tempfile.TemporaryDirectory() as folder:
        code, rows, _, _ = verify(SMALL, folder, "--draft", SMALL)
        assert code == 0 and rows["speculation draft"][0] == "pass", rows
        assert re.search(r"accepted: \d+ of \d+ \((9\d|100) %\)", rows["speculation draft"][1]), rows  # its own drafts


def test_a_wrong_tokenizer_or_template_is_reported():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "wrong")
        shutil.copytree(SMALL, model)
        path = os.path.join(model, "tokenizer.json")
        with open(path) as file:
            tokenizer = json.load(file)
        tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": "lazy"}, "content": "la|zy"}
        with open(path, "w") as file:
            json.dump(tokenizer, file)
        template = os.path.join(model, "chat_template.jinja")
        with open(template, "w") as file:
            file.write("{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}")
        code, rows, _, _ = verify(model, folder)
        assert code == 1 and rows["tokenizer"][0] == rows["chat template"][0] == "FAIL", rows
        assert rows["tokenizer"][1].startswith('English: decodes to "') and r"la\|zy" in rows["tokenizer"][1], rows
        assert "the text of a message is missing" in rows["chat template"][1], rows
        assert rows["speculation auto"][0] == rows["batch"][0] == "pass", rows
        with open(template, "w") as file:
            file.write("{% for m in messages %}")
        code, rows, _, _ = verify(model, folder)
        assert code == 1 and rows["chat template"][0] == "FAIL" and "cannot be used" in rows["chat template"][1], rows
        with open(template, "w") as file:
            file.write("{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
                       "{% for m in messages %}{{ m.content }}\n{% endfor %}")
        code, rows, _, _ = verify(model, folder)
        assert code == 1 and rows["chat template"][0] == "pass", rows
        assert "refused: System role not supported" in rows["chat template"][1], rows


def test_reports_that_cannot_be_written_are_an_error():
    with tempfile.TemporaryDirectory() as folder:
        code, rows, _, err = verify(SMALL, folder, "--report", "/nowhere/report.md")
        assert code == 1 and not rows and "/nowhere/report.md" in err, err
        code, rows, _, err = verify(SMALL, folder, "--report", os.path.join(folder, "mine.md"))
        assert code == 0 and os.listdir(folder) == ["mine.md"], err
