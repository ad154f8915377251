#!/usr/bin/env python3
"""`verify` and its report: verify_test.py BINARY MODEL_DIR. The last line is "N passed, N failed"."""
import json, os, re, shutil, subprocess, sys, tempfile, traceback

BINARY, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SMALL = os.path.join(os.path.dirname(MODEL), "hybrid-draft-19m")
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/data/llama_tied/model")
CHECKS = ["load", "tokenizer", "chat template", "speculation", "cache", "batch", "speed", "needle"]


def verify(model, folder, *more):
    """Exit status, {check: (result, details)} of the report, stdout, stderr."""
    report = os.path.join(folder, f"anabranch-verify-{os.path.basename(model)}.md")
    done = subprocess.run([BINARY, "verify", "--model", model, *more], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    rows = {}
    if os.path.exists(report):
        with open(report) as file:
            text = file.read()
        assert text.startswith(f"# anabranch verify: {os.path.basename(model)}\n"), text
        table = text.split("| Check | Result | Details |\n|---|---|---|\n")[1]
        for line in table.splitlines():
            _, check, result, details, _ = re.split(r"(?<!\\)\|", line)
            rows[check.strip()] = (result.strip(), details.strip())
        assert list(rows) == CHECKS, rows
    return done.returncode, rows, done.stdout, done.stderr


def test_a_good_model_passes():
    with tempfile.TemporaryDirectory() as folder:
        code, rows, out, err = verify(MODEL, folder)
        assert code == 0, (rows, err)
        assert all(rows[check][0] == "pass" for check in CHECKS[:6]), rows
        assert all(rows[check][0] == "info" for check in CHECKS[6:]), rows
        load = rows["load"][1]
        for part in ("family qwen3_5", "28 layers: 7 attention, 21 gated delta; 28 MLP", "146.2 million", "MTP head"):
            assert part in load, load
        assert "auto, ngram, mtp, exit, skip: the same 64 tokens" in rows["speculation"][1], rows
        cached, prompt, extended, _ = map(int, re.findall(r"(\d+) of (\d+)", rows["cache"][1])[0]
                                          + re.findall(r"(\d+) of (\d+)", rows["cache"][1])[1])
        assert 512 < cached < prompt and extended >= cached, rows
        assert re.search(r"prefill of 512 tokens: \d+ tok/s; decode of 64 tokens: [\d.]+ tok/s", rows["speed"][1]), rows
        assert re.search(r"mtp \d+ of \d+ \(\d+ %\)", rows["speed"][1]), rows
        sizes = re.findall(r"thinking (?:off|on): (?:not )?found among (\d+) tokens, (\d+) of thought", rows["needle"][1])
        assert [1900 < int(size) < 2200 for size, _ in sizes] == [True, True], rows
        assert sizes[0][1] == "0" and int(sizes[1][1]) > 0, rows
        assert "6 passed, 0 failed" in out and "needle" in err, (out, err)
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
        assert rows["speculation"][0] == rows["batch"][0] == "pass", rows
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


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
