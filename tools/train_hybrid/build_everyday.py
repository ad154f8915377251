"""Everyday documents from templates, the kind `every`.

usage: build_everyday.py --tokenizer FOLDER --filler FILE --words WORDS.json --out EVERY.npz [--seed 2] [--scale 0.6] [--procs N]

FOLDER holds tokenizer.json and chat_template.jinja; FILE comes from build_filler.py, WORDS.json from word_list.py.
"""
import argparse
from multiprocessing import get_context

import numpy as np

import build_synth as tasks
import everyday_documents as everyday
from everyday_base import encode, pool


def main():
    ap = argparse.ArgumentParser()
    for name in ('tokenizer', 'filler', 'words', 'out'):
        ap.add_argument('--' + name, required=True)
    ap.add_argument('--seed', type=int, default=2)
    ap.add_argument('--scale', type=float, default=0.6)
    ap.add_argument('--procs', type=int, default=2)
    a = ap.parse_args()
    tasks.use(a.tokenizer, a.filler)
    docs = everyday.build(a.seed, a.scale, a.words)
    tasks.R.shuffle(docs)
    print('documents', len(docs), 'pairs', len(pool))
    parts = [docs[i:i + 4000] for i in range(0, len(docs), 4000)]
    with get_context('fork').Pool(a.procs) as workers:
        res = workers.map(encode, parts, chunksize=1)
    t, f, l = [np.concatenate([r[i] for r in res]) for i in range(3)]
    print('tokens', len(t), 'to learn', int((f == 2).sum()), 'documents', len(l), 'mean', len(t) / len(l))
    np.savez(a.out, t=t, f=np.packbits(f == 2), l=l)


if __name__ == '__main__':
    main()
