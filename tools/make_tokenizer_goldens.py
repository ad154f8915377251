#!/usr/bin/env python3
"""Makes the golden files of tests/tokenizer/tokenizer_test.cc with Hugging Face's `tokenizers`:

    tools/make_tokenizer_goldens.py [--tokenizer models/hybrid-146m/tokenizer.json]

tests/tokenizer/data/tokenizer_components.json: small tokenizers, one per component and setting, over shared models and
strings. tests/tokenizer/data/tokenizer_default.json: strings and ids of the default model's tokenizer."""

import argparse
import json
import os
import random

import tokenizer_oracle as oracle
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "tokenizer", "data")
DECODED = 8  # of each case's texts, the last ones
BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def corpus():
    rng = random.Random(5)
    lines = []
    for words in oracle.WORDS.values():
        for _ in range(30):
            lines.append(" ".join(rng.choice(words) for _ in range(6)))
    lines += ["aaaa aaaaaaaa  aaaa    aa", "the the the in the on", "12 123 1234 12345", "e\u0301 é E\u0301"] * 20
    return lines


def byte_level_model():
    tokenizer = Tokenizer(models.BPE())
    # Split at spaces only, so that some merges cross what other pre-tokenizers would cut.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tokenizer.to_str())["model"]


def sentencepiece_model():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=700, show_progress=False, limit_alphabet=150,
        special_tokens=["<unk>", "<s>", "</s>"] + BYTE_TOKENS))
    model = json.loads(tokenizer.to_str())["model"]
    return {**model, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}


def unigram_model():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=600, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
        max_piece_length=8))
    model = json.loads(tokenizer.to_str())["model"]
    model["vocab"] = [[piece, round(score, 6)] for piece, score in model["vocab"]]
    return model


def sequence(kind, parts):
    return {"type": "Sequence", kind: parts}


def byte_level(add_prefix_space=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False):
    pattern = pattern if isinstance(pattern, dict) else {"Regex": pattern}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(**settings):
    return {"type": "Metaspace", "replacement": "▁", **settings}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def added(first_id, *tokens):
    out = []
    for i, (content, settings) in enumerate(tokens):
        out.append({"id": first_id + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": False, **settings})
    return out


def component_cases(shared):
    cases = []

    def case(name, model="bytes", normalizer=None, pre=None, decoder=None, tokens=(), extra=(), **override):
        cases.append(dict(name=name, model=model, override=override, extra=list(extra), tokenizer={
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens),
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": None,
            "decoder": decoder or byte_level()}))

    plain = byte_level(use_regex=True)
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        case("normalizer " + kind, normalizer={"type": kind}, pre=plain)
    case("normalizer NFD, StripAccents, Lowercase", pre=plain, normalizer=sequence(
        "normalizers", [{"type": "NFD"}, sequence("normalizers", [{"type": "StripAccents"}]), {"type": "Lowercase"}]))
    for left in (True, False):
        case(f"normalizer Strip left {left}", pre=plain,
             normalizer={"type": "Strip", "strip_left": left, "strip_right": not left})
    case("normalizer Replace string", normalizer=replace("aa", "b."), pre=plain)
    case("normalizer Replace regex", pre=plain,
         normalizer={"type": "Replace", "pattern": {"Regex": r"\s{2,}|[aeiou]+(?=n)"}, "content": "_"})
    case("normalizer Prepend", normalizer={"type": "Prepend", "prepend": "x "}, pre=plain)

    case("ByteLevel", pre=plain)
    case("ByteLevel add_prefix_space", pre=byte_level(True, True))
    case("ByteLevel without regex", pre=byte_level())
    case("ByteLevel, then Digits", pre=sequence("pretokenizers", [byte_level(), {"type": "Digits", "individual_digits": True}]))
    parts = {f"Split {name}": [split(pattern)] for name, pattern in (
        ("Llama 3", LLAMA3), ("Qwen", oracle.QWEN_PATTERN), ("cl100k", CL100K), ("Tekken", TEKKEN),
        ("interval plus", r"\p{N}{1,3}+|[a-z]{2}"), ("words", r"\w+|\d+|\S"), ("not words", r"\W+"),
        ("classes", r"[\w\-]+|[^\s\w]+"), ("caseless", r"(?i)'S|THE|k|ſ"), ("Han", r"\p{Han}+|\p{Hiragana}+"),
        ("lines", r"^a|e$"), ("empty matches", r"x*"), ("code points", "[\\x{4e00}-\\x{9fff}]+|\\x20\\x{e9}"),
        ("space", r"\s"))}
    parts["Split DeepSeek"] = [split(pattern) for pattern in DEEPSEEK]
    for behavior in BEHAVIORS:
        for invert in (False, True):
            parts[f"Split {behavior} {invert}"] = [split(r"\s|\d", behavior, invert)]
        parts[f"Split string {behavior}"] = [split({"String": "a."}, behavior), split({"String": " "}, behavior)]
        parts[f"Punctuation {behavior}"] = [{"type": "Punctuation", "behavior": behavior}]
    parts["Digits individual"] = [{"type": "Digits", "individual_digits": True}]
    parts["Digits runs"] = [{"type": "Digits", "individual_digits": False}]
    parts["Whitespace"] = [{"type": "Whitespace"}]
    parts["WhitespaceSplit"] = [{"type": "WhitespaceSplit"}]
    for name, steps in parts.items():
        case(name, pre=sequence("pretokenizers", steps + [byte_level()]))

    case("ignore_merges", pre=plain, ignore_merges=True)
    case("merges as strings", pre=plain, merges=[" ".join(merge) for merge in shared["bytes"]["merges"]])

    replace_decoder = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    gemma = sequence("decoders", [replace_decoder, {"type": "ByteFallback"}, {"type": "Fuse"}])
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    llama = sequence("decoders", gemma["decoders"] + [strip])
    special = added(1, ("<s>", {"special": True}), ("</s>", {"special": True}))
    spaces = replace(" ", "▁")
    case("Gemma", "sentencepiece", spaces, split({"String": " "}, "MergedWithPrevious"), gemma, special)
    case("Llama 2", "sentencepiece", sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, spaces]), None, llama,
         special)
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            case(f"Metaspace {scheme} {cut}", "sentencepiece", None, metaspace(prepend_scheme=scheme, split=cut),
                 sequence("decoders", [metaspace(prepend_scheme=scheme), {"type": "ByteFallback"}]), special)
    case("Metaspace, old form", "sentencepiece", None, metaspace(add_prefix_space=True),
         metaspace(add_prefix_space=True), special)
    case("no fallback, fused unk", "sentencepiece", spaces, None, gemma, special, byte_fallback=False)
    case("no fallback, single unk", "sentencepiece", spaces, None, gemma, special, byte_fallback=False, fuse_unk=False)
    case("no unk", "sentencepiece", spaces, None, gemma, special, byte_fallback=False, unk_token=None)
    case("Strip decoder", "sentencepiece", spaces, None, sequence("decoders", [
        {"type": "Strip", "content": "e", "start": 2, "stop": 1}, replace_decoder, {"type": "Fuse"}]), special)
    case("Unigram", "unigram", {"type": "NFKC"}, metaspace(), metaspace(), special)
    case("Unigram first", "unigram", None, metaspace(prepend_scheme="first"), metaspace(prepend_scheme="first"), special)
    case("Unigram, bytes", "unigram bytes", None, metaspace(prepend_scheme="never"), llama, special, byte_fallback=True)

    tokens = added(700, ("<|im_start|>", {"special": True}), ("<|im_end|>", {"special": True, "rstrip": True}),
                   ("<think>", {}), ("<thinking>", {}), ("[X]", {"lstrip": True, "rstrip": True}),
                   ("word", {"single_word": True}), ("Mixed Case", {"normalized": True}),
                   ("<|im", {"special": True}), ("  ", {}), ("é!", {"normalized": True}), ("ünd", {}))
    texts = ["<|im_start|>user\nhi<|im_end|>  \n<|im_start|>", "<|im_s<|im<|im_end|>x", "<think><thinking></think>",
             "a  [X]  b [X][X]", "word sword words _word word. éword word", "Mixed Case mixed case MIXED CASE",
             "  x    y     z", "é! e\u0301! É!", "[X] word  <think>  ünd", "\u3000[X]\u2003\n", "<|im_end|> \u00a0x"]
    case("added tokens", pre=plain, tokens=tokens, extra=texts)
    case("added tokens, Lowercase and NFC", pre=plain, tokens=tokens, extra=texts,
         normalizer=sequence("normalizers", [{"type": "NFC"}, {"type": "Lowercase"}]))
    case("added tokens, Prepend", "sentencepiece", sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, spaces]),
         None, llama, special + tokens, extra=texts)
    case("added tokens, Metaspace first", "sentencepiece", None, metaspace(prepend_scheme="first"),
         sequence("decoders", [metaspace(prepend_scheme="first"), {"type": "ByteFallback"}, {"type": "Fuse"}]),
         special + tokens, extra=texts)
    return cases


def decode(tokenizer, ids, added_tokens):
    """None where Hugging Face is no model: its Strip decoder panics on tokens shorter than what it strips, and 0.23
    gives added tokens that are looked for after normalising their normalised text."""
    if any(token["id"] in ids and tokenizer.id_to_token(token["id"]) != token["content"] for token in added_tokens):
        return None
    try:
        return tokenizer.decode(ids, skip_special_tokens=False)
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        return None


def make_components():
    shared = {"bytes": byte_level_model(), "sentencepiece": sentencepiece_model(), "unigram": unigram_model()}
    shared["unigram bytes"] = {**shared["unigram"], "vocab": shared["unigram"]["vocab"] + [[t, -9.0] for t in BYTE_TOKENS]}
    strings = [s[:48] for s in oracle.make_strings(28, seed=3, specials=False)]
    rng = random.Random(9)
    out = {"models": shared, "strings": strings, "cases": []}
    for case in component_cases(shared):
        tokenizer = oracle.load_json({**case["tokenizer"], "model": {**shared[case["model"]], **case["override"]}})
        texts = strings + case["extra"]
        size = tokenizer.get_vocab_size()
        case["ids"] = [oracle.encode(tokenizer, text) for text in texts]
        added_tokens = case["tokenizer"]["added_tokens"]
        case["decoded"] = [decode(tokenizer, ids, added_tokens) for ids in case["ids"][-DECODED:]]
        if case["extra"]:
            case["plain_ids"] = [oracle.encode(tokenizer, text, False) for text in case["extra"]]
        if "decoder" in case["name"].lower() or case["name"] in ("Gemma", "Llama 2", "ByteLevel", "Metaspace first True",
                                                                 "added tokens", "Unigram, bytes"):
            # Random ids: broken byte sequences, special tokens anywhere.
            case["random"] = []
            for _ in range(12):
                ids = [rng.randrange(size if rng.random() < 0.3 else 270) for _ in range(rng.randint(1, 10))]
                case["random"].append([ids, tokenizer.decode(ids, skip_special_tokens=False),
                                       tokenizer.decode(ids, skip_special_tokens=True)])
        out["cases"].append(case)
    return out


def write(name, value):
    path = os.path.join(DATA, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(value, separators=(",", ":")).replace('{"name":', '\n{"name":'))
        file.write("\n")
    print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", default=os.path.join(ROOT, "models", "hybrid-146m", "tokenizer.json"))
    args = parser.parse_args()
    os.makedirs(DATA, exist_ok=True)
    write("tokenizer_components.json", make_components())
    tokenizer = oracle.load_json(open(args.tokenizer, encoding="utf-8").read())
    strings = [s[:64] for s in oracle.make_strings(200, seed=2)]
    write("tokenizer_default.json", {"strings": strings, "ids": [oracle.encode(tokenizer, s) for s in strings]})


if __name__ == "__main__":
    main()
