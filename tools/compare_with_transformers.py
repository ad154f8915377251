#!/usr/bin/env python3
"""Compares a checkpoint run by Anabranch with the same checkpoint run by Hugging Face Transformers in fp32.

usage: compare_with_transformers.py DIR_OR_GGUF [--binary build/anabranch] [--report FILE] [--torch-device cpu]

Needs torch, transformers (5.17 or later) and safetensors, for GGUF files also gguf, and 4 bytes of memory for each
parameter. Writes one Markdown report, by default anabranch-compare-<model name>.md. The exit status is 1 if a figure is
outside its tolerance.

  tokens         the tokenizer library must give the same ids
  log-probs      of every token of fixed texts. Both sides compute in fp32 with the same weights (quantised ones are
                 dequantised for Transformers), so the tolerance does not depend on the checkpoint's dtype: only the
                 order of summation differs
  greedy text    Transformers reads Anabranch's greedy answers: each token must be its most likely one too, or a near-tie
  int8           the same log-probs without --precise: what rounding activations to 8 bits costs (no tolerance)
  MTP            the share of accepted drafts in Anabranch; Transformers does not run the head
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

MAX_DIFFERENCE, MEAN_DIFFERENCE = 1e-2, 1e-3  # log-prob, with --precise
NEAR_TIE = 1e-2  # log-prob
GREEDY_TOKENS, MTP_DEPTH = 64, 4

TEXTS = {
    "prose": "The river rises in the hills, where it is hardly wider than a ditch. Further down it turns three mills, "
             "passes under the old bridge and reaches the harbour, from which boats have carried wool, salt and letters "
             "to the other side of the bay since 1486. In dry summers children cross it on foot; in spring nobody does.",
    "code": "def merge(left, right):\n    \"\"\"Merges two sorted lists.\"\"\"\n    out, i, j = [], 0, 0\n"
            "    while i < len(left) and j < len(right):\n        if left[i] <= right[j]:\n            out.append(left[i])\n"
            "            i += 1\n        else:\n            out.append(right[j])\n            j += 1\n"
            "    return out + left[i:] + right[j:]\n\n\nassert merge([1, 4], [2, 3]) == [1, 2, 3, 4]\n",
    "languages": "Der Fluss entspringt in den Hügeln. La rivière passe sous le vieux pont. Η γέφυρα είναι παλιά. "
                 "河流从山上流下来。川は山から流れる。강은 산에서 흐른다. Река течёт к морю. 🚣 👍🏽",
    "list": "".join(f"{n}. {n} times {n} is {n * n}.\n" for n in range(1, 41)),
}
PROMPTS = [
    "The capital of France is",
    "Here is a short story about a lighthouse keeper who found a letter in a bottle.\n\n",
    "def fibonacci(n):\n    \"\"\"Returns the n-th Fibonacci number.\"\"\"\n",
    "Q: What is the difference between a river and a canal?\nA:",
]


class Anabranch:
    def __init__(self, binary, model):
        self.binary, self.model = binary, model

    def run(self, command, option, text, *options):
        """`text` in a file, named by `option`. -> the JSON that the command ends with."""
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(text.encode())
            file.flush()
            args = [self.binary, command, "--model", self.model, "--json", option, file.name, *options]
            done = subprocess.run(args, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"`{' '.join(args)}` ended with status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def predictions(self, text, precise=True):
        return self.run("eval", "--text", text, "--each", *["--precise"] * precise)

    def continuation(self, prompt, *options):
        return self.run("generate", "--prompt-file", prompt, "--raw", "--temp", "0", "--repetition-penalty", "1",
                        "--max-tokens", str(GREEDY_TOKENS), "--ignore-eos", "--no-cache", "--precise", *options)

    def mtp_head(self):
        """"yes", "no", or why it is missing."""
        done = subprocess.run([self.binary, "doctor", "--json", "--model", self.model], capture_output=True, text=True)
        return json.loads(done.stdout)["model"]["mtp_head"] if done.stdout else done.stderr.strip()

    def version(self):
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True).stdout.strip()


class Reference:
    def __init__(self, model, device):
        import torch
        import hf_reference
        self.torch, self.device = torch, device
        self.model = hf_reference.load(model).to(device)

    def log_probs(self, ids):
        """[tokens, vocabulary]: row i is of the token after ids[i]."""
        with self.torch.no_grad():
            logits = self.model(self.torch.tensor([ids], device=self.device), use_cache=False).logits[0]
            return self.torch.log_softmax(logits.double(), -1)


def tokenizer_of(path):
    if path.suffix == ".gguf":
        from transformers import AutoTokenizer
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).backend_tokenizer
    from tokenizers import Tokenizer  # not AutoTokenizer, which replaces parts of it by model_type
    return Tokenizer.from_file(str(path / "tokenizer.json"))


def compare_log_probs(got, reference):
    """-> largest and mean difference, share of equal most likely tokens (or near-ties), number of tokens."""
    start = [] if got["bos"] is None or got["token_ids"][0] == got["bos"] else [got["bos"]]
    rows = reference.log_probs(start + got["token_ids"])
    differences, same = [], 0
    for token in got["each"]:
        row = rows[len(start) + token["at"] - 1]
        differences.append(abs(float(row[got["token_ids"][token["at"]]]) - token["logprob"]))
        same += float(row.max() - row[token["best"]]) < NEAR_TIE
    return max(differences), sum(differences) / len(differences), same / len(differences), len(differences)


def check_texts(report, anabranch, reference, tokenizer):
    equal = []
    for name, text in TEXTS.items():
        precise = anabranch.predictions(text)
        equal.append(tokenizer.encode(text, add_special_tokens=False).ids == precise["token_ids"])
        most, mean, same, tokens = compare_log_probs(precise, reference)
        report.row(f"log-probs, {name}", most <= MAX_DIFFERENCE and mean <= MEAN_DIFFERENCE and same == 1,
                   f"{tokens} tokens: largest difference {most:.2g}, mean {mean:.2g}; most likely token equal or tied "
                   f"in {same:.1%}")
        most, mean, same, _ = compare_log_probs(anabranch.predictions(text, precise=False), reference)
        report.row(f"int8, {name}", None, f"largest difference {most:.2g}, mean {mean:.2g}; most likely token equal or "
                                          f"tied in {same:.1%}")
    report.row("tokens", all(equal), f"{sum(equal)} of {len(equal)} texts have the ids of the tokenizers library")


def first_difference(prompt_ids, tokens, reference):
    """-> (place, token, Transformers' token, how much more likely) of the first token that is not its best; or None."""
    rows = reference.log_probs(prompt_ids + tokens)
    for i, token in enumerate(tokens):
        row = rows[len(prompt_ids) - 1 + i]
        best = int(row.argmax())
        if best != token:
            return i, token, best, float(row[best] - row[token])
    return None


def check_greedy(report, anabranch, reference, tokenizer, bos):
    texts = []
    for number, prompt in enumerate(PROMPTS, 1):
        answer = anabranch.continuation(prompt, "--spec", "off")
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        if answer["prompt_tokens"] == len(ids) + 1:
            ids = [bos] + ids
        texts.append((prompt, answer["text"]))
        name = f"greedy text {number}"
        if answer["prompt_tokens"] != len(ids):
            report.row(name, False, f"{answer['prompt_tokens']} prompt tokens, and {len(ids)} by the tokenizers library")
            continue
        found = first_difference(ids, answer["token_ids"], reference)
        if not found:
            report.row(name, True, f"all {len(answer['token_ids'])} tokens are Transformers' too")
            continue
        at, token, best, gap = found
        report.row(name, gap < NEAR_TIE, f"token {at + 1} is {token}, Transformers' is {best}; for Transformers {token} is "
                                         f"less likely by {gap:.2g} in log-prob" + (" (a tie)" if gap < NEAR_TIE else ""))
    return texts


def check_mtp(report, anabranch):
    if (head := anabranch.mtp_head()) != "yes":
        report.row("MTP", None, f"MTP head: {head}")
        return
    drafted, accepted, same = [0] * MTP_DEPTH, [0] * MTP_DEPTH, True
    for prompt in PROMPTS:
        plain = anabranch.continuation(prompt, "--spec", "off")
        answer = anabranch.continuation(prompt, "--spec", "mtp", "--spec-depth", str(MTP_DEPTH))
        same &= answer["token_ids"] == plain["token_ids"]
        counts = answer["speculation"]["sources"].get("mtp", {"drafted_at": [], "accepted_at": []})
        for i, (d, a) in enumerate(zip(counts["drafted_at"], counts["accepted_at"])):
            drafted[i] += d
            accepted[i] += a
    shares = ", ".join(f"{i}: {a} of {d} ({a / d:.0%})" for i, (d, a) in enumerate(zip(drafted, accepted), 1) if d)
    report.row("MTP", same, ("the tokens are those without drafts" if same else "the tokens differ from those without drafts") +
               f"; drafts accepted by position: {shares or 'nothing was drafted'}")


class Report:
    def __init__(self, path, name, setting):
        self.path, self.rows, self.failed, self.passed = path, [], 0, 0
        self.head = [f"# Anabranch and Transformers: {name}", "", "| | |", "|---|---|"]
        self.head += [f"| {key} | {value} |" for key, value in setting.items()]

    def row(self, check, good, details):
        """good: None where there is no right and wrong."""
        self.passed += good is True
        self.failed += good is False
        result = {None: "info", True: "pass", False: "FAIL"}[good]
        print(f"{result:5} {check}: {details}", file=sys.stderr, flush=True)
        self.rows.append(f"| {check} | {result} | {details.replace('|', chr(92) + '|')} |")
        self.write([])

    def write(self, texts):
        lines = self.head + ["", f"{self.passed} passed, {self.failed} failed. Tolerance with `--precise`: {MAX_DIFFERENCE} at "
                             f"most and {MEAN_DIFFERENCE} on average in log-prob; tokens less than {NEAR_TIE} apart are tied.",
                             "", "| Check | Result | Details |", "|---|---|---|", *self.rows]
        for number, (prompt, answer) in enumerate(texts, 1):
            lines += ["", f"Greedy text {number} (the answer begins at ⏵):", ""] + ["    " + line for line in (prompt + "⏵" + answer).split("\n")]
        self.path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--binary", default=str(root / "build/anabranch"))
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--torch-device", default="cpu", help="where Transformers computes, such as cuda")
    args = parser.parse_args()
    sys.path.insert(0, str(root / "tools"))
    import torch
    import transformers
    name = args.model.resolve().name.removesuffix(".gguf")
    anabranch = Anabranch(args.binary, str(args.model))
    report = Report(args.report or pathlib.Path(f"anabranch-compare-{name}.md"), name, {
        "Anabranch": anabranch.version(), "Transformers": f"{transformers.__version__}, torch {torch.__version__}, "
        f"fp32 on {args.torch_device}", "Machine": platform.machine() + ", " + platform.system()})
    reference, tokenizer = Reference(args.model, args.torch_device), tokenizer_of(args.model)
    check_texts(report, anabranch, reference, tokenizer)
    bos = reference.model.config.get_text_config().bos_token_id
    texts = check_greedy(report, anabranch, reference, tokenizer, bos)
    check_mtp(report, anabranch)
    report.write(texts)
    print(f"{report.path}: {report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
