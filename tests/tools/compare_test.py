"""The arithmetic and the report of tools/compare_with_transformers.py, with made-up programs on both sides."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import compare_with_transformers as tool  # noqa: E402

ROWS = numpy.log([[0.1, 0.6, 0.3], [0.5, 0.499, 0.001], [0.2, 0.3, 0.5], [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]])
IDS = [2, 1, 0, 2]  # a tie where 0 stands: ROWS[1]


class Reference:
    def log_probs(self, ids):
        assert len(ids) <= len(ROWS)
        return ROWS[:len(ids)]


class Tokenizer:
    def encode(self, text, add_special_tokens):
        return type("Encoding", (), {"ids": IDS})


class Anabranch:
    def __init__(self, error=0.0, best=(1, 1, 2), head="yes", answer=(1, 0, 2, 0), bos=None):
        self.error, self.best, self.head, self.answer, self.bos = error, best, head, list(answer), bos

    def predictions(self, text, precise=True):
        rows = ROWS if self.bos is not None and self.bos != IDS[0] else [None, *ROWS]  # by the place that they predict
        each = [{"at": at, "logprob": float(rows[at][IDS[at]]) + self.error * (at == 2),
                 "best": self.best[at - 1] if rows[0] is None else int(ROWS[at].argmax())}
                for at in range(4) if rows[at] is not None]
        return {"token_ids": IDS, "each": each, "bos": self.bos}

    def continuation(self, prompt, *options):
        sources = {"mtp": {"drafted_at": [4, 2], "accepted_at": [3, 1]}} if "mtp" in options else {}
        answer = self.answer[:3] if "mtp" in options and self.head == "wrong" else self.answer
        return {"prompt_tokens": 1, "token_ids": answer, "text": "an answer", "speculation": {"sources": sources}}

    def mtp_head(self):
        return "yes" if self.head == "wrong" else self.head


def report_of(check, *args):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        report = tool.Report(pathlib.Path(folder) / "report.md", "made-up", {"Anabranch": "0"})
        check(report, *args)
        return report, report.path.read_text()


def test_log_probs():
    report, text = report_of(tool.check_texts, Anabranch(), Reference(), Tokenizer())
    assert (report.passed, report.failed) == (5, 0) and "| tokens | pass | 4 of 4" in text, text
    assert "3 tokens: largest difference 0, mean 0; most likely token equal or tied in 100.0%" in text, text
    report, text = report_of(tool.check_texts, Anabranch(error=0.03), Reference(), Tokenizer())
    assert report.failed == 4 and "largest difference 0.03, mean 0.01" in text, text
    report, text = report_of(tool.check_texts, Anabranch(best=(1, 0, 0)), Reference(), Tokenizer())
    assert report.failed == 4 and "tied in 66.7%" in text, text


def test_bos_goes_before_a_text():
    report, text = report_of(tool.check_texts, Anabranch(bos=7), Reference(), Tokenizer())
    assert report.failed == 0 and "4 tokens: largest difference 0, mean 0;" in text, text
    report, text = report_of(tool.check_texts, Anabranch(bos=IDS[0]), Reference(), Tokenizer())
    assert report.failed == 0 and "3 tokens: largest difference 0, mean 0;" in text, text


def test_tokens_that_differ():
    Tokenizer.encode, encode = lambda *_, **__: type("Encoding", (), {"ids": IDS[:2]}), Tokenizer.encode
    report, text = report_of(tool.check_texts, Anabranch(), Reference(), Tokenizer())
    Tokenizer.encode = encode
    assert report.failed == 1 and "| tokens | FAIL | 0 of 4" in text, text


def greedy(*answer):
    tokenizer = type("Tokenizer", (), {"encode": lambda *_, **__: type("Encoding", (), {"ids": [2]})})()
    return report_of(tool.check_greedy, Anabranch(answer=answer), Reference(), tokenizer, None)


def test_greedy_text():
    report, text = greedy(1, 0, 2, 0)
    assert report.failed == 0 and "all 4 tokens are Transformers' too" in text, text
    report, text = greedy(1, 1, 2, 0)
    assert report.failed == 0 and "token 2 is 1, Transformers' is 0" in text and "by 0.002 in log-prob (a tie)" in text, text
    report, text = greedy(1, 0, 1, 0)
    assert report.failed == len(tool.PROMPTS) and "token 3 is 1, Transformers' is 2" in text and "by 0.51" in text, text


def test_mtp():
    report, text = report_of(tool.check_mtp, Anabranch())
    assert report.passed == 1 and "1: 12 of 16 (75%), 2: 4 of 8 (50%)" in text, text
    assert report_of(tool.check_mtp, Anabranch(head="wrong"))[0].failed == 1
    report, text = report_of(tool.check_mtp, Anabranch(head="no"))
    assert (report.passed, report.failed) == (0, 0) and "MTP head: no" in text, text
