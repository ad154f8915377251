"""What check_tokenizers.py and make_tokenizer_goldens.py share: test strings, and Hugging Face tokenizers built from
the files that come in Python packages (tiktoken files, GGUF metadata)."""

import base64
import json
import random
import struct

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPECIAL = ("<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
                "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
                ).split()
QWEN_CONTROL = ("<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> "
                "<|file_sep|> <tool_response> </tool_response> <think> </think>").split()

# ---------------------------------------------------------------------------------------------- test strings

WORDS = {
    "english": "the quick brown fox isn't jumping over they'll I'D we've Don'T HTTPServer camelCase naïve café".split(),
    "german": "Straße Größe überall Äpfel öffnen Donaudampfschifffahrtsgesellschaft ẞ".split(),
    "french": "où çà été œuvre l'eau aujourd'hui Noël".split(),
    "russian": "привет мир ЁЛКА объявление Съешь ещё этих мягких французских булок".split(),
    "greek": "Καλημέρα κόσμε Σίσυφος ΑΒΓ ἀρχή ᾳ".split(),
    "chinese": "你好 世界 中文测试 龍 𠀀𠮷 人工智能 。 ，「引號」".split(),
    "japanese": "こんにちは カタカナ 日本語 ｶﾞｷﾞ が ㍿ ー".split(),
    "korean": "안녕하세요 세계 한국어 각 힣 ㄱㅏ".split(),
    "arabic": "مرحبا بالعالم العَرَبِيَّة ١٢٣ ﷺ لا".split(),
    "hebrew": "שלום עולם שָׁלוֹם".split(),
    "thai": "สวัสดีชาวโลก กำลัง ๑๒๓ น้ำ".split(),
    "hindi": "नमस्ते दुनिया क्षत्रिय १२३ हिन्दी ड़".split(),
    "tamil": "வணக்கம் உலகம் கொ".split(),
    "vietnamese": "Tiếng Việt được Nguyễn".split(),
    "turkish": "İstanbul ığdır ŞİŞLİ ıI iİ".split(),
    "emoji": "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ ✈️ 1️⃣ 🧑🏿‍🚀 🫠".split(),
    "symbols": "€ £ ½ ¼ ² ³ ⅷ Ⅻ ① ㊿ ™ © → ∑ ∞ ≠ ≤ ﬁ ﬅ ſ K Å ℌ « » “ ” … — – ‐ ° µ".split(),
    "code": ["def f(x):", "return", "x+=1;", "if(a&&b||c)", "std::vector<int>", "#include", "/*c*/", "//", "{}", "[]",
             "->", "=>", "!=", "0xFF", "1e-9", "a[i][j]", "\\n", '"str"', "'c'", "`x`", "@dec", "$var", "%d", "~", "^"],
    "numbers": ["0", "7", "42", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", "2026-11-21", "12:30",
                "٣٤٥", "১২৩", "Ⅷ", "1st", "x2y3"],
    "marks": ["é", "ą́", "o͜o", "q̣̇", "q̣̇", "ậ", "Å", "가", "ก็", "◌̈", "\u0301x", "x\u0338\u0301\u0323", "\u0344",
              "शि", "\u1e9b\u0323", "\u3099か", "\u0f71\u0f72\u0f74"],
    "markup": ["<b>", "</b>", "<table>", "<|im_", "start|>", "<s>", "</s>", "<0x0A>", "[INST]", "<think", "&amp;", "▁",
               "▁▁", "Ġ", "Ċ", "�", "<unk>"],
    "odd": ["\u200b", "\u200d", "\u200e", "\u202e", "\ufeff", "\u00ad", "\u2060", "\u180e", "\x00", "\x01", "\x07",
            "\x0b", "\x0c", "\x1b[0m", "\x7f", "\x85", "\x9f", "\ue000", "\U000f0000", "\ufffe", "\U0010ffff", "\u0378"],
    "spaces": [" ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u2028",
               "\u2029", " " * 7, " " * 40, "\n" * 5, "\t" * 9, " \n ", "\n \n", " \t "],
}
SPECIAL_TEXTS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<bos>", "<eos>", "<start_of_turn>",
                 "<end_of_turn>", "<tool_call>", "</tool_call>", "<unused7>", "<file_sep>"]


def random_code_point(rng):
    ranges = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x5FF), (0x600, 0x10FF), (0x1100, 0x2BFF), (0x2C00, 0xD7FF),
              (0xE000, 0xFFFD), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF)]
    return chr(rng.randint(*rng.choice(ranges)))


def make_strings(count, seed=1, specials=True):
    """Random and multilingual texts. No surrogates; everything else may occur."""
    rng = random.Random(seed)
    kinds = sorted(WORDS)
    strings = ["", " ", "\n", "a", "  a", "a  ", "\u0301"]
    while len(strings) < count:
        style = rng.random()
        length = rng.choice([1, 2, 3, 5, 8, 13, 40])
        if style < 0.35:  # one language, mostly with single spaces
            words = WORDS[rng.choice(kinds)]
            parts = [rng.choice(words) + rng.choice([" "] * 8 + ["", "\n", "  ", ", "]) for _ in range(length)]
        elif style < 0.75:  # a mixture of everything
            parts = []
            for _ in range(length):
                parts.append(rng.choice(WORDS[rng.choice(kinds)]))
                parts.append(rng.choice(["", "", " ", " ", "\n", "\t", "  "]))
                if specials and rng.random() < 0.03:
                    parts.append(rng.choice(SPECIAL_TEXTS))
        elif style < 0.85:  # code points at random
            parts = [random_code_point(rng) for _ in range(length)]
        elif style < 0.93:  # white space
            parts = [rng.choice(WORDS["spaces"]) for _ in range(length)]
            parts.insert(rng.randint(0, length), rng.choice(WORDS["english"]))
        else:  # letters at random
            parts = [rng.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ'  ") for _ in range(length * 4)]
        strings.append("".join(parts))
    return strings[:count]


# ---------------------------------------------------------------------------------------------- tokenizers

def byte_alphabet():
    """GPT-2's printable characters for bytes."""
    printable = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xFF and b != 0xAD]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def tiktoken_vocab(path):
    """vocab and merges of a tiktoken file: each token's merge is the last one that byte pair encoding, with the
    tokens of lower rank, makes of its bytes."""
    ranks = {}
    for line in open(path, "rb"):
        if line.strip():
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    alphabet = byte_alphabet()
    text = {token: "".join(alphabet[b] for b in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            found = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
            best, i = min(found)
            if best >= rank:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((text[parts[0]], text[parts[1]]))
    return {text[token]: rank for token, rank in ranks.items()}, merges


def qwen_tokenizer_json(tiktoken_path):
    """tokenizer.json of the Qwen3.5 / 3.6 family."""
    vocab, merges = tiktoken_vocab(tiktoken_path)
    added = [dict(id=len(vocab) + i, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False,
                  special=text in QWEN_SPECIAL) for i, text in enumerate(QWEN_SPECIAL + QWEN_CONTROL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN_PATTERN}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": [list(merge) for merge in merges]}}


def read_gguf_vocab(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields

    def value(key, default=None):
        field = fields.get("tokenizer.ggml." + key)
        return default if field is None else field.contents()

    def strings(key):
        field = fields.get("tokenizer.ggml." + key)
        return [] if field is None else [bytes(field.parts[i]).decode() for i in field.data]

    def numbers(key):
        field = fields.get("tokenizer.ggml." + key)
        return [] if field is None else [field.parts[i][0].item() for i in field.data]

    return dict(model=value("model"), pre=value("pre", ""), tokens=strings("tokens"), scores=numbers("scores"),
                types=numbers("token_type"), merges=strings("merges"), bos=value("bos_token_id", -1),
                eos=value("eos_token_id", -1), unk=value("unknown_token_id", -1), pad=value("padding_token_id", -1),
                add_bos=value("add_bos_token"), add_space_prefix=value("add_space_prefix"))


def write_gguf_dump(vocab, path):
    """The form that tests/tokenizer/gguf_dump.h reads."""
    def string(text):
        data = text.encode()
        return struct.pack("<I", len(data)) + data

    out = [string("gguf vocabulary"), string(vocab["model"]), string(vocab["pre"])]
    out += [struct.pack("<I", len(vocab["tokens"]))] + [string(t) for t in vocab["tokens"]]
    out += [struct.pack(f"<I{len(vocab['scores'])}f", len(vocab["scores"]), *vocab["scores"])]
    out += [struct.pack(f"<I{len(vocab['types'])}i", len(vocab["types"]), *vocab["types"])]
    out += [struct.pack("<I", len(vocab["merges"]))] + [string(t) for t in vocab["merges"]]
    out += [struct.pack("<4i", *(vocab[key] for key in ("bos", "eos", "unk", "pad")))]
    out += [struct.pack("<2i", *(-1 if vocab[key] is None else int(vocab[key]) for key in ("add_bos", "add_space_prefix")))]
    open(path, "wb").write(b"".join(out))


def derive_merges(scores):
    """The merges that Transformers' generate_merges derives from a SentencePiece vocabulary {piece: score}."""
    ids = {piece: i for i, piece in enumerate(scores)}
    merges = []
    for piece, score in scores.items():
        pairs = [(piece[:i], piece[i:], score) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    return [(left, right) for left, right, _ in merges]


def gemma_tokenizer(vocab):
    """What Transformers' GemmaConverter makes of a SentencePiece model, from the same vocabulary in GGUF. The GGUF
    converter writes user-defined runs of U+2581 as spaces and gives control and user-defined pieces -1000 for their
    score 0: both are undone."""
    assert vocab["model"] == "llama" and not vocab["add_space_prefix"]
    pieces, scores = [], {}
    for text, score, kind in zip(vocab["tokens"], vocab["scores"], vocab["types"]):
        if kind == 4 and not text.strip(" "):
            text = "\u2581" * len(text)
        pieces.append(text)
        scores[text] = score if kind == 1 else 0.0
    tokenizer = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=derive_merges(scores),
                                     unk_token=pieces[vocab["unk"]], fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    for text, kind in zip(pieces, vocab["types"]):
        if kind in (3, 4):
            tokenizer.add_tokens([AddedToken(text, normalized=False, special=kind == 3)])
    return tokenizer


def smollm_gguf_tokenizer(vocab):
    """SmolLM2's tokenizer from its GGUF."""
    merges = [tuple(merge.split(" ")) for merge in vocab["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocab["tokens"])}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    for text, kind in zip(vocab["tokens"], vocab["types"]):
        if kind in (3, 4):
            tokenizer.add_tokens([AddedToken(text, normalized=False, special=kind == 3)])
    return tokenizer


def with_ids_only(tokenizer):
    """No BOS and the like: encode() gives the text's own tokens."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load_json(tokenizer_json):
    text = tokenizer_json if isinstance(tokenizer_json, str) else json.dumps(tokenizer_json)
    return with_ids_only(Tokenizer.from_str(text))


def encode(tokenizer, text, parse_special=True):
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=False).ids


