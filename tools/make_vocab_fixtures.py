#!/usr/bin/env python3
"""Makes small vocabularies with their publishers' tools, and what these tools make of texts:

    pip install sentencepiece==0.2.3 mistral_common==1.13.1 transformers==5.24.0 tokenizers==0.23.3
    tools/make_vocab_fixtures.py

Each folder there holds a tokenizer as a model's directory does, and goldens.json:

    tool            which tool the ids are from
    plain           [text, ids]: as text, so special tokens in it are none
    special         [text, ids]: special tokens in the text are recognised
    invalid         [bytes in hex, ids]
    decoded         [ids, text without special tokens]
    bos, eos, add_bos"""

import base64
import json
import os
import random
import shutil
import tempfile

import sentencepiece
import tokenizer_oracle as oracle
import transformers
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, TokenizersBackend

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "tokenizer", "data", "vocab")

TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
TEXTS = ["", " ", "  ", "   a", "a", "hello world", "Hello,  world!   ", "Größe überall, ẞ Straße", "你好 世界。中文测试",
         "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ❤️", "def f(x):\n    return x+=1;\n\n\n\tif(a&&b||c)", "\n", "\n\n\n\n", "\t\t x", "1234567 3.14",
         "<s> </s> <unk> [INST] <|im_start|>", "▁ ▁▁a ▁", "<0x0A><0x41>", "<sep>a<sep>", "é e\u0301 ﬁ ① ｈｉ ㍿ a\u200bb\u3000c",
         "\u0000\u0001", "the the  the   the    the", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
INVALID = [b"a\xffb", b"\xc3", b"\xe4\xbd", b"abc\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf x"]


def corpus():
    rng = random.Random(5)
    lines = []
    for words in oracle.WORDS.values():
        for _ in range(30):
            lines.append(" ".join(rng.choice(words) for _ in range(6)))
    return lines + ["aaaa aaaaaaaa aaaa aa", "the the the in the on", "hello world", "12 123 1234 12345"] * 20


def texts():
    return TEXTS + [text[:60] for text in oracle.make_strings(40, seed=11, specials=False)]


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace('],["', '],\n["') + "\n")


class Folder:
    def __init__(self, root, name, **files):
        self.path = os.path.join(root, name)
        os.makedirs(self.path)
        self.write(files)

    def write(self, files):
        for file, value in files.items():
            write_json(self.file(file + ".json"), value)

    def file(self, name):
        return os.path.join(self.path, name)

    def goldens(self, tool, plain, decode, special, special_texts, size, bos=None, eos=None, add_bos=None):
        """plain and special: text to ids; decode: ids to a text without special tokens."""
        rng = random.Random(7)
        cases = texts()
        sequences = [plain(text) for text in cases[-12:]]
        sequences += [[rng.randrange(size) for _ in range(rng.randint(1, 8))] for _ in range(12)]
        write_json(self.file("goldens.json"), {
            "tool": tool,
            "plain": [[text, plain(text)] for text in cases],
            "special": [[text, special(text)] for text in special_texts],
            "invalid": [[data.hex(), plain(data.decode("utf-8", errors="replace"))] for data in INVALID],
            "decoded": [[ids, decode(ids)] for ids in sequences],
            "bos": bos, "eos": eos, "add_bos": add_bos})


# ------------------------------------------------------------------------------------------- SentencePiece

# Some rules as those of NFKC, in sequences of code points: what is replaced, and by what.
RULES = ["FB01\t66 69", "2460\t31", "FF48\t68", "FF49\t69", "337F\t682A 5F0F 4F1A 793E", "65 301\tE9", "200B\t",
         "3000\t20", "2126\t3A9", "A0\t20", "2026\t2E 2E 2E"]


def train(folder, **options):
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # the model file repeats these paths
        with open("corpus.txt", "w", encoding="utf-8") as file:
            file.write("\n".join(corpus()))
        if options.pop("rules", False):
            options["normalization_rule_tsv"] = "rules.tsv"
            with open("rules.tsv", "w", encoding="utf-8") as file:
                file.write("\n".join(RULES) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input="corpus.txt", model_prefix="m", hard_vocab_limit=False, minloglevel=2, character_coverage=0.98,
            max_sentencepiece_length=12, **options)
        shutil.copy("m.model", folder.file("tokenizer.model"))
        os.chdir(before)
    return sentencepiece.SentencePieceProcessor(model_file=folder.file("tokenizer.model"))


def sentencepiece_folder(root, name, options, special_texts=(), add_bos=True, files=lambda size: {}):
    """files: from the number of pieces to the small files."""
    folder = Folder(root, name)
    model = train(folder, **options)
    folder.write(files(model.get_piece_size()))
    reference = AutoTokenizer.from_pretrained(folder.path) if special_texts else None
    size = model.get_piece_size()
    # Unknown pieces have a text of their own in SentencePiece's answers; ours is the piece, as in Transformers.
    unknown = model.unk_id()

    def decode(ids):
        ids[:] = [i for i in ids if i != unknown]
        return model.decode(ids)

    folder.goldens(f"sentencepiece {sentencepiece.__version__}"
                   + (f", transformers {transformers.__version__}" if special_texts else ""),
                   model.encode, decode,
                   (lambda text: reference.encode(text, add_special_tokens=False)) if special_texts else None,
                   special_texts, size, model.id_to_piece(model.bos_id()), model.id_to_piece(model.eos_id()), add_bos)


def sentencepiece_folders(root):
    llama = dict(model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True)
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}

    def added(size):
        named = {0: "<unk>", 1: "<s>", 2: "</s>", size: "<|im_start|>"}
        return {**{str(i): {**flags, "content": text} for i, text in named.items()},
                str(size + 1): {**flags, "special": False, "content": "<think>"}}
    special = ["<s>hello</s>", "a<|im_start|>user", "<|im_start|>a<think>b", "hello</s> world", "<s>[INST] hi[/INST]"]
    roles = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    sentencepiece_folder(root, "llama", dict(llama, user_defined_symbols=["<sep>", "<sep><sep>", "ell"]), special, False,
                         lambda size: dict(config={"model_type": "llama"}, tokenizer_config={
                             **roles, "added_tokens_decoder": added(size), "legacy": False, "add_bos_token": False}))
    # Each stretch of text has a dummy prefix. The older files name the added tokens.
    sentencepiece_folder(root, "mistral", llama, special, True, lambda size: dict(
        config={"model_type": "mistral"}, tokenizer_config=roles,
        added_tokens={"<|im_start|>": size, "<think>": size + 1},
        special_tokens_map={"additional_special_tokens": ["<|im_start|>"]}))
    sentencepiece_folder(root, "gemma", dict(
        llama, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
        user_defined_symbols=["<start_of_turn>", "▁▁", "▁▁▁", "▁▁▁▁", "\n", "\n\n", "\t", "<table>"]),
        files=lambda size: dict(config={"model_type": "gemma2"},
                                tokenizer_config={"tokenizer_class": "GemmaTokenizer", "add_bos_token": True}))
    sentencepiece_folder(root, "rules", dict(model_type="bpe", vocab_size=600, rules=True, byte_fallback=True))
    sentencepiece_folder(root, "unknown", dict(model_type="bpe", vocab_size=400, normalization_rule_name="identity"))
    sentencepiece_folder(root, "unigram", dict(model_type="unigram", vocab_size=500, rules=True))
    sentencepiece_folder(root, "unigram_bytes", dict(model_type="unigram", vocab_size=700, byte_fallback=True,
                                                     normalization_rule_name="identity",
                                                     remove_extra_whitespaces=False))


# ------------------------------------------------------------------------------------------- byte-level BPE

def byte_level(size, pattern):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tokenizer.to_str())["model"]


def tekken_json(model, special, version, vocab_size, num_special):
    """The bytes come first, then the merges in their order."""
    byte_of = {char: byte for byte, char in oracle.byte_alphabet().items()}
    ranks = [bytes([b]) for b in range(256)]
    ranks += [bytes(byte_of[c] for c in left + right) for left, right in model["merges"]]

    def text(token):
        try:
            return token.decode()
        except UnicodeDecodeError:
            return None
    return {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(ranks), "default_vocab_size": vocab_size,
                       "default_num_special_tokens": num_special, "version": version},
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": text(token)}
                      for i, token in enumerate(ranks)],
            "special_tokens": special}


def tekken_folder(root, name, tekken, special_texts):
    folder = Folder(root, name, tekken=tekken, config={"model_type": "mistral"})
    tool = Tekkenizer.from_file(folder.file("tekken.json"))
    reference = TokenizersBackend.from_pretrained(folder.path, vocab_file=folder.file("tekken.json"))
    import mistral_common
    folder.goldens(f"mistral_common {mistral_common.__version__}, transformers {transformers.__version__}",
                   lambda text: tool.encode(text, bos=False, eos=False), tool.decode,
                   lambda text: reference.encode(text, add_special_tokens=False), special_texts, tool.n_words,
                   "<s>", "</s>", True)


def tekken_folders(root):
    model = byte_level(700, TEKKEN)
    named = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
             "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
             "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[THINK]", "[/THINK]"]
    special = [{"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(named)]
    special_texts = ["<s>[INST]hello[/INST] world</s>", "[THINK]a[/THINK]", "<SPECIAL_30>x", "[SYSTEM_PROMPT]\n  "]
    count = 256 + len(model["merges"])
    tekken_folder(root, "tekken", tekken_json(model, special, "v13", count + 32, 32), special_texts)
    # Older files do not list the special tokens; this one has more tokens than its model uses.
    tekken_folder(root, "tekken_old", tekken_json(model, None, "v3", count - 50 + 30, 30), special_texts[:1])


def merges_folder(root, name, pattern, special_texts, **files):
    folder = Folder(root, name, **files)
    model = byte_level(600, pattern)
    write_json(folder.file("vocab.json"), model["vocab"])
    with open(folder.file("merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(" ".join(merge) + "\n" for merge in model["merges"]))
    # Qwen3_5Tokenizer does not look for these two files itself.
    tool = AutoTokenizer.from_pretrained(folder.path, vocab=folder.file("vocab.json"),
                                         merges=folder.file("merges.txt"))
    bare = Tokenizer.from_str(tool.backend_tokenizer.to_str())
    bare.encode_special_tokens = True
    folder.goldens(f"transformers {transformers.__version__}",
                   lambda text: bare.encode(text, add_special_tokens=False).ids,
                   lambda ids: tool.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
                   lambda text: tool.encode(text, add_special_tokens=False), special_texts, len(tool),
                   tool.bos_token, tool.eos_token, bool(tool.add_bos_token))


def merges_folders(root):
    qwen2 = oracle.QWEN_PATTERN.replace(r"[\p{L}\p{M}]+", r"\p{L}+").replace(r"\p{M}", "")
    flags = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    special_texts = ["<|im_start|>user\nhello<|im_end|>\n", "a <tool_call>b", "<|endoftext|>x"]
    merges_folder(root, "qwen2", qwen2, special_texts, config={"model_type": "qwen2"}, tokenizer_config={
        "tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "unk_token": None, "add_prefix_space": False, "model_max_length": 32768, "added_tokens_decoder": {
            "600": {**flags, "content": "<|endoftext|>"}, "601": {**flags, "content": "<|im_start|>"},
            "602": {**flags, "content": "<|im_end|>"}, "603": {**flags, "special": False, "content": "<tool_call>"}}})
    merges_folder(root, "qwen3_5", oracle.QWEN_PATTERN, special_texts, config={"model_type": "qwen3_5"},
                  tokenizer_config={"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>"},
                  added_tokens={"<|endoftext|>": 600, "<|im_start|>": 601, "<|im_end|>": 602, "<tool_call>": 603},
                  special_tokens_map={"eos_token": {**flags, "content": "<|im_end|>"}, "pad_token": "<|endoftext|>",
                                      "extra_special_tokens": ["<|im_start|>"]})
    gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    merges_folder(root, "gpt2", gpt2, ["<|endoftext|>x", "a <|endoftext|>"], config={"model_type": "llama"},
                  tokenizer_config={"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "<|endoftext|>",
                                    "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"})


def main():
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(scratch, "vocab")
        sentencepiece_folders(root)
        tekken_folders(root)
        merges_folders(root)
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.copytree(root, DATA)


if __name__ == "__main__":
    main()
