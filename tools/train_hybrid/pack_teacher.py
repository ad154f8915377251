"""Packs a Qwen2.5 GGUF for generation on a GPU machine: raw quantised blocks and a tokenizer.

usage: pack_teacher.py FILE.gguf OUT_DIR

OUT_DIR/teacher.bin    the tensors' bytes as the GGUF stores them, one after another
OUT_DIR/teacher.json   name -> [GGUF type, shape, offset, bytes]
OUT_DIR/qtok.json      the tokenizer in the format of Hugging Face's `tokenizers`

The vocabulary is cut to its first KEEP tokens and the three control tokens, because the rest is hardly ever used in
English. The head is tied to the embedding.
"""

import json
import os
import sys

import numpy as np
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

KEEP = 80000
CONTROL = range(151643, 151646)  # <|endoftext|>, <|im_start|>, <|im_end|>
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" r"\s+(?!\S)|\s+"


def pack_tensors(reader, out):
    index, offset = {}, 0
    with open(f'{out}/teacher.bin', 'wb') as f:
        for t in reader.tensors:
            if t.name == 'output.weight':
                continue
            data = np.asarray(t.data)
            shape = [int(x) for x in t.shape[::-1]]
            if t.name == 'token_embd.weight':
                data = np.concatenate([data[:KEEP], data[CONTROL.start : CONTROL.stop]])
                shape[0] = data.shape[0]
            raw = np.ascontiguousarray(data).tobytes()
            f.write(raw)
            index[t.name] = [int(t.tensor_type), shape, offset, len(raw)]
            offset += len(raw)
    json.dump(index, open(f'{out}/teacher.json', 'w'))
    return offset


def pack_tokenizer(reader, out):
    field = lambda name: reader.fields['tokenizer.ggml.' + name].contents()
    tokens, types = field('tokens'), field('token_type')
    vocab = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    merges = [tuple(m.split(' ')) for m in field('merges')]
    tk = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, byte_fallback=False))
    tk.normalizer = normalizers.NFC()
    tk.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tk.decoder = decoders.ByteLevel()
    tk.add_special_tokens(
        [AddedToken(tokens[i], special=True) for i in range(151643, 151665) if i < len(tokens) and types[i] == 3]
    )
    assert tk.token_to_id('<|im_end|>') == CONTROL[2]
    tk.save(f'{out}/qtok.json')
    ids = tk.encode('<|im_start|>user\nHello world, 2024!<|im_end|>\n').ids
    print(ids, repr(tk.decode(ids, skip_special_tokens=False)))


if __name__ == '__main__':
    source, target = sys.argv[1:3]
    os.makedirs(target, exist_ok=True)
    gguf = GGUFReader(source)
    print('bytes', pack_tensors(gguf, target))
    pack_tokenizer(gguf, target)
