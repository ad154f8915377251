#!/usr/bin/env python3
"""Reference figures of real models, by Hugging Face Transformers in fp32 on the stored weights.

  eval_model.py ids    MODEL PROMPTS.json TEXT OUT.json   render and tokenise (20 prompts, the held-out text)
  eval_model.py greedy MODEL IDS.json OUT.json            64 greedy tokens per prompt with their top-2 gaps
  eval_model.py ppl    MODEL IDS.json OUT.json            perplexity in separate chunks of 1,024 tokens
  eval_model.py kl     REFERENCE MODEL ROWS.json [TEXT-IDS.json]   KL(reference || model) and top-1 agreement

MODEL is a directory (Hugging Face or MLX-quantised) or a GGUF file. `ids` files hold token ids, so that tests of the
engine's arithmetic do not depend on its tokenizer. Gaps are differences of log-probs between the best and the
second-best token: a small one marks a near-tie, where another order of summation may choose the other token.
"""
import argparse
import json
import math
import pathlib
import sys

import torch
from jinja2 import Environment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_reference  # noqa: E402

PROMPTS, NEW_TOKENS, CHUNK = 20, 64, 1024
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
        return lambda s: hf.encode(s, add_special_tokens=False), hf.chat_template
    from tokenizers import Tokenizer  # not AutoTokenizer: it swaps the pre-tokenizer by model_type
    hf = Tokenizer.from_file(str(path / "tokenizer.json"))
    return lambda s: hf.encode(s, add_special_tokens=False).ids, (path / "chat_template.jinja").read_text()


def render(template, prompt):
    env = Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    return env.from_string(template).render(add_generation_prompt=True, **({"tools": None} | prompt))


def make_ids(args):
    encode, template = tokenizer_and_template(args.model)
    prompts = [encode(render(template, p)) for p in read(args.prompts)[:args.count]]
    write(args.out, {"prompts": prompts, "text": encode(pathlib.Path(args.text).read_text())})


# ---------------------------------------------------------------- figures
@torch.no_grad()
def continue_greedily(model, ids, n, eos):
    """-> (tokens, top-2 gaps); stops after an end-of-turn token."""
    out = model(torch.tensor([ids], device=DEVICE), use_cache=True)
    tokens, gaps = [], []
    while True:
        top = torch.log_softmax(out.logits[0, -1].float(), -1).topk(2)
        tokens.append(int(top.indices[0]))
        gaps.append(round(float(top.values[0] - top.values[1]), 4))
        if len(tokens) == n or tokens[-1] in eos:
            return tokens, gaps
        out = model(torch.tensor([tokens[-1:]], device=DEVICE), past_key_values=out.past_key_values, use_cache=True)


def greedy(args):
    model = load(args.model)
    runs = []
    for ids in read(args.ids)["prompts"]:
        tokens, gaps = continue_greedily(model, ids, args.tokens, (0, 2))
        runs.append({"prompt": ids, "tokens": tokens, "gaps": gaps})
    write(args.out, {"model": args.name, "oracle": oracle(), "max_tokens": args.tokens, "eos": [0, 2], "runs": runs})


@torch.no_grad()
def ppl(args):
    model, text = load(args.model), read(args.ids)["text"]
    chunks = [text[i:i + CHUNK] for i in range(0, len(text), CHUNK)]
    nll = []
    for chunk in chunks:
        ids = torch.tensor([chunk], device=DEVICE)
        logits = model(ids, use_cache=False).logits[0, :-1].float()
        nll.append(float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")))
    predicted = len(text) - len(chunks)
    write(args.out, {"model": args.name, "oracle": oracle(), "text": "heldout.txt", "chunk": CHUNK,
                     "tokens": len(text), "predicted": predicted, "perplexity": math.exp(sum(nll) / predicted),
                     "mean_nll": sum(nll) / predicted, "chunk_nll": [round(x, 4) for x in nll], "ids": text})


@torch.no_grad()
def kl(args):
    reference, model = load(args.reference), load(args.model)
    sets = {"answers": [(r["prompt"] + r["answer"], len(r["prompt"])) for r in read(args.rows)]}
    if args.text:
        text = read(args.text)["text"]
        sets["text"] = [(text[i:i + CHUNK], 1) for i in range(0, len(text), CHUNK)]
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
        p = sub.add_parser(run.__name__.removeprefix("make_"))
        p.set_defaults(run=run)
        for n in names:
            p.add_argument(n)
        return p

    command(make_ids, "model", "prompts", "text", "out").add_argument("--count", type=int, default=PROMPTS)
    p = command(greedy, "model", "ids", "out")
    p.add_argument("--name", default="")
    p.add_argument("--tokens", type=int, default=NEW_TOKENS)
    command(ppl, "model", "ids", "out").add_argument("--name", default="")
    command(kl, "reference", "model", "rows").add_argument("text", nargs="?")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    args.run(args)


if __name__ == "__main__":
    main()
