"""Conversations -> documents for training, in the model's chat template."""

import hashlib
import json
import sys
from multiprocessing import get_context

import numpy as np
from tokenizers import Tokenizer

USER, ASSISTANT, END = '<|im_start|>user\n', '<|im_start|>assistant\n', '<|im_end|>\n'
NO_THOUGHT = '<think>\n\n</think>\n\n'
_tk = None


def segments(turns, system='', thought=''):
    """turns: [(question, answer), ...]; -> [(text, 1 if it is to be learned)]. The thought belongs to the last answer; the
    template drops earlier ones. With an empty thought the block stands there closed, as with thinking off."""
    out = [(f'<|im_start|>system\n{system}{END}', 0)] if system else []
    for i, (q, a) in enumerate(turns):
        last = i == len(turns) - 1
        block = ('<think>\n' if thought else NO_THOUGHT) if last else ''
        out.append((USER + q + END + ASSISTANT + block, 0))
        out.append(((thought + '\n</think>\n\n' if last and thought else '') + a + '<|im_end|>', 1))
        out.append(('\n', 0))
    return out


def _encode(args):
    global _tk
    docs, path, longest = args
    _tk = _tk or Tokenizer.from_file(path)
    segs = [segments(*d) for d in docs]
    enc = iter(_tk.encode_batch([s for d in segs for s, _ in d]))
    T, F, L, H = [], [], [], []
    for d, doc in zip(segs, docs):
        ids, mask = [], []
        for _, learn in d:
            e = next(enc).ids
            ids += e
            mask += [learn] * len(e)
        if len(ids) <= longest:
            T.append(np.array(ids, np.uint16))
            F.append(np.array(mask, np.uint8))
            L.append(len(ids))
            # all documents with the same first question are on the same side
            H.append(hashlib.md5(doc[0][0][0].lower().encode()).digest()[0] < 5)
    return np.concatenate(T), np.concatenate(F), L, H


def save(docs, tokenizer, path, procs=1, longest=1024):
    """docs: (turns, system, thought); writes t, f (packed), l, h (1: held out, about 2 %)"""
    parts = [(docs[i : i + 4000], tokenizer, longest) for i in range(0, len(docs), 4000)]
    if procs > 1:
        with get_context('fork').Pool(procs) as pool:
            res = pool.map(_encode, parts, chunksize=1)
    else:
        res = [_encode(p) for p in parts]
    t, f = [np.concatenate([r[i] for r in res]) for i in range(2)]
    l, h = [np.array([x for r in res for x in r[i]]) for i in (2, 3)]
    np.savez(path, t=t, f=np.packbits(f), l=l.astype(np.uint16), h=h.astype(np.uint8))
    print(path, 'documents', len(l), 'tokens', len(t), 'to learn', int(f.sum()), 'held out', int(h.sum()))


def check_template(template, docs):
    """The segments are what the chat template renders."""
    from jinja2 import Environment

    env = Environment()
    env.filters['tojson'] = lambda x: json.dumps(x, ensure_ascii=False)
    tpl = env.from_string(open(template).read())
    for turns, system, thought in docs:
        m = [dict(role='system', content=system)] if system else []
        for i, (q, a) in enumerate(turns):
            m += [
                dict(role='user', content=q),
                dict(role='assistant', content=a, reasoning_content=thought if i == len(turns) - 1 else ''),
            ]
        want, got = tpl.render(messages=m, add_generation_prompt=False), ''.join(s for s, _ in segments(turns, system, thought))
        assert want == got, (want, got)


if __name__ == '__main__':
    check_template(
        sys.argv[1], [([('Hi', 'Hello!')], '', ''), ([('Hi', 'Hello!'), ('2+2?', '4')], 'Be brief.', 'Two and two make four.')]
    )
    print('same as the template')
