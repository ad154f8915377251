#!/usr/bin/env python3
"""Reference figures of real models, by Hugging Face Transformers in fp32 on the stored weights.

  eval_model.py greedy MODEL PROMPTS.json OUT.json        64 greedy tokens for each of 20 prompts, and their rivals. A prompt is
                                                          a conversation ("messages", "tools") or a plain "text"
  eval_model.py ppl    MODEL TEXT OUT.json                perplexity in separate windows of 1,024 tokens
  eval_model.py kl     REFERENCE MODEL ROWS.json [TEXT]   KL(reference || model) and top-1 agreement

MODEL is a directory (Hugging Face or MLX-quantised) or a GGUF file. `greedy` and `ppl` write the goldens of
tests/models/accuracy_test.py and tests/real. Gaps are differences of log-probs to the best token: a small one marks a near-tie, where another
order of summation may choose the other token. The end of the turn does not stop `greedy`, so that every prompt gives
64 tokens to compare.
"""
import argparse
import hashlib
import json
import math
import pathlib
import sys

import torch
from jinja2 import Environment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_reference  # noqa: E402

PROMPTS, NEW_TOKENS, WINDOW = 20, 64, 1024
RIVAL_GAP = 0.5  # log-prob
PARTS = 10, 2  # windows of shorter texts, for tests that must not take long
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def load(path):
    return hf_reference.load(path).to(DEVICE)


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def write(path, value):
    """One line per entry of the outermost lists, so that diffs stay readable."""
    lines = ["{"]
    for i, (k, v) in enumerate(value.items()):
        comma = "," if i + 1 < len(value) else ""
        if isinstance(v, list) and v and isinstance(v[0], (list, dict)):
            lines += [f' "{k}": [', ",\n".join("  " + json.dumps(x) for x in v), " ]" + comma]
        else:
            lines.append(f' "{k}": {json.dumps(v)}{comma}')
    pathlib.Path(path).write_text("\n".join(lines) + "\n}\n")


# ---------------------------------------------------------------- text -> ids
def tokenizer_and_template(path):
    path = pathlib.Path(path)
    if path.suffix == ".gguf":
        from transformers import AutoTokenizer
        hf = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        return hf.backend_tokenizer, hf.chat_template
    from tokenizers import Tokenizer  # not AutoTokenizer: it swaps the pre-tokenizer by model_type
    return Tokenizer.from_file(str(path / "tokenizer.json")), (path / "chat_template.jinja").read_text()


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def render(template, prompt, bos):
    if "text" in prompt:
        return bos + prompt["text"]
    env = Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    return env.from_string(template).render(add_generation_prompt=True, **({"tools": None} | prompt))


# ---------------------------------------------------------------- figures
@torch.no_grad()
def continue_greedily(model, ids, n, proposed=()):
    """`proposed`: what another program says the n tokens are. One pass verifies them, and what comes behind the first wrong
    one is continued here."""
    tokens = list(proposed[:n])
    if tokens:
        logits = model(torch.tensor([ids + tokens[:-1]], device=DEVICE), use_cache=False).logits[0, len(ids) - 1:]
        best = logits.argmax(-1).tolist()
        right = next((i for i, token in enumerate(tokens) if token != best[i]), len(tokens))
        tokens = best[:right + 1]
    out = model(torch.tensor([ids + tokens], device=DEVICE), use_cache=True) if len(tokens) < n else None
    if out:
        tokens.append(int(out.logits[0, -1].argmax()))
    while len(tokens) < n:
        out = model(torch.tensor([tokens[-1:]], device=DEVICE), past_key_values=out.past_key_values, use_cache=True)
        tokens.append(int(out.logits[0, -1].argmax()))
    return tokens


@torch.no_grad()
def rivals(model, ids, tokens):
    """-> (gap to the second-best token at each step, [step, token, gap] of every token within RIVAL_GAP of the best)."""
    logits = model(torch.tensor([ids + tokens[:-1]], device=DEVICE), use_cache=False).logits[0, len(ids) - 1:]
    top = torch.log_softmax(logits.float(), -1).topk(8)
    gaps, close = [], []
    for step, (values, order) in enumerate(zip(top.values.tolist(), top.indices.tolist())):
        gaps.append(round(values[0] - values[1], 4))
        assert order[0] == tokens[step] or gaps[-1] < 1e-3, "greedy tokens and one forward pass disagree"
        close += [[step, t, round(values[0] - v, 4)]
                  for t, v in zip(order, values) if t != tokens[step] and values[0] - v < RIVAL_GAP]
    return gaps, close


def greedy(args):
    model = load(args.model)
    tokenizer, template = tokenizer_and_template(args.model)
    runs, proposed = [], read(args.proposed) if args.proposed else None
    prompts = [p for p in read(args.prompts)[:args.count] if template or "text" in p]
    for i, prompt in enumerate(prompts):
        text = render(template, prompt, args.bos)
        ids = encode(tokenizer, text).ids
        tokens = continue_greedily(model, ids, args.tokens, proposed[i] if proposed else ())
        gaps, close = rivals(model, ids, tokens)
        runs.append({"text": text, "prompt": ids, "tokens": tokens, "gaps": gaps, "rivals": close})
        print(f"{i + 1}/{len(prompts)}: smallest gap {min(gaps)}", file=sys.stderr)
    write(args.out, {"model": args.name, "oracle": oracle(), "max_tokens": args.tokens, "runs": runs})


def window_nll(model, ids):
    """Negative log-likelihood of a window: the sum over its tokens but the first."""
    ids = torch.tensor([ids], device=DEVICE)
    logits = model(ids, use_cache=False).logits[0, :-1].float()
    return float(torch.nn.functional.cross_entropy(logits.double(), ids[0, 1:], reduction="sum"))


def text_of_windows(tokenizer, text, windows):
    """The start of the text that gives exactly the first `windows` windows of its tokens."""
    whole = encode(tokenizer, text)
    tokens = min(windows * WINDOW, len(whole.ids))
    part = text[:whole.offsets[tokens - 1][1]]
    assert encode(tokenizer, part).ids == whole.ids[:tokens], f"the text cannot be cut after {tokens} tokens"
    return part


@torch.no_grad()
def ppl(args):
    model = load(args.model)
    tokenizer, _ = tokenizer_and_template(args.model)
    text = pathlib.Path(args.text).read_text()
    ids = encode(tokenizer, text).ids
    nll = []
    for i in range(0, len(ids), WINDOW):
        nll.append(window_nll(model, ids[i:i + WINDOW]))
        print(f"{min(i + WINDOW, len(ids))} of {len(ids)} tokens", file=sys.stderr)
    parts = []
    for windows in (len(nll), *PARTS):
        data = text_of_windows(tokenizer, text, windows).encode()
        tokens = min(windows * WINDOW, len(ids))
        mean = sum(nll[:windows]) / (tokens - windows)
        parts.append({"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "tokens": tokens,
                      "predicted": tokens - windows, "mean_nll": mean, "perplexity": math.exp(mean)})
    write(args.out, {"model": args.name, "oracle": oracle(), "text": pathlib.Path(args.text).name, "window": WINDOW,
                     "parts": parts, "window_nll": [round(x, 4) for x in nll]})


@torch.no_grad()
def kl(args):
    reference, model = load(args.reference), load(args.model)
    sets = {"answers": [(r["prompt"] + r["answer"], len(r["prompt"])) for r in read(args.rows)]}
    if args.text:
        tokenizer, _ = tokenizer_and_template(args.model)
        text = encode(tokenizer, pathlib.Path(args.text).read_text()).ids
        sets["text"] = [(text[i:i + WINDOW], 1) for i in range(0, len(text), WINDOW)]
    for name, rows in sets.items():
        total = top = n = 0
        for ids, first in rows:
            ids = torch.tensor([ids], device=DEVICE)
            a, b = (torch.log_softmax(m(ids, use_cache=False).logits[0, first - 1:-1].float(), -1)
                    for m in (reference, model))
            total += float((a.exp() * (a - b)).sum())
            top += int((a.argmax(-1) == b.argmax(-1)).sum())
            n += len(a)
        print(f"{name}: {n} positions, KL {total / n:.4f}, top-1 agreement {100 * top / n:.1f} %")


def oracle():
    import transformers
    return f"transformers {transformers.__version__}, torch {torch.__version__}, fp32, {DEVICE}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)

    def command(run, *names):
        p = sub.add_parser(run.__name__)
        p.set_defaults(run=run)
        for n in names:
            p.add_argument(n)
        return p

    p = command(greedy, "model", "prompts", "out")
    p.add_argument("--name", default="")
    p.add_argument("--count", type=int, default=PROMPTS)
    p.add_argument("--bos", default="", help="what the model's plain texts begin with, such as <bos>")
    p.add_argument("--proposed", help="a JSON file with the tokens of each prompt as another program has them, to be verified: much faster")
    p.add_argument("--tokens", type=int, default=NEW_TOKENS)
    command(ppl, "model", "text", "out").add_argument("--name", default="")
    command(kl, "reference", "model", "rows").add_argument("text", nargs="?")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    args.run(args)


if __name__ == "__main__":
    main()
