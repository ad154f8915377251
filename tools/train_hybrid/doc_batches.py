"""Documents with a mask of the tokens to learn, and rows packed from them in a fixed mixture of kinds.

A file of documents (npz) has t (uint16 tokens of all documents), f (packed bits: 1 = learn this token by cross-entropy),
l (lengths) and optionally h (1 = held out). Without h, every 50th document is held out.
"""

import numpy as np

from runtime import REUSED

LENGTHS = (128, 256, 512, 1024)  # of rows; a document belongs to the smallest that holds it


class Docs:
    """One kind. next() goes through all training documents once before any of them comes again."""

    def __init__(self, path, rank=0, world=1, seed=0):
        d = np.load(path)
        self.t, self.l = d['t'], d['l'].astype(np.int64)
        self.f = np.unpackbits(d['f'])[: len(self.t)] if 'f' in d else np.zeros(len(self.t), np.uint8)
        self.o = np.concatenate([[0], np.cumsum(self.l)])
        held = d['h'] > 0 if 'h' in d else np.arange(len(self.l)) % 50 == 49
        self.held = np.flatnonzero(held)
        train = np.flatnonzero(~held)
        train = train[train % world == rank] if len(train) > 4 * world else train
        self.rng = np.random.default_rng(seed + 17 * rank)
        size = np.digitize(self.l[train] - 1, LENGTHS[:-1], right=True)
        self.queue = [self.rng.permutation(train[size == c]) for c in range(len(LENGTHS))]
        self.at, self.passes = [0] * len(LENGTHS), [0] * len(LENGTHS)
        self.tokens = int(self.l[train].sum())

    def progress(self, c):
        return self.passes[c] + self.at[c] / len(self.queue[c])

    def next(self, largest):
        """a document of the class (up to `largest`) that lags behind the most"""
        ok = [c for c in range(largest + 1) if len(self.queue[c])]
        if not ok:  # only longer ones exist: they will be cut
            ok = [min(c for c in range(len(LENGTHS)) if len(self.queue[c]))]
        c = min(ok, key=self.progress)
        i = self.queue[c][self.at[c]]
        self.at[c] += 1
        if self.at[c] == len(self.queue[c]):
            self.queue[c] = self.rng.permutation(self.queue[c])
            self.at[c], self.passes[c] = 0, self.passes[c] + 1
        return i

    def cut(self, i, most):
        n = min(int(self.l[i]), most)
        return self.t[self.o[i] : self.o[i] + n], self.f[self.o[i] : self.o[i] + n]


class Mixture:
    """Rows of several kinds: `shares` is name -> share of the tokens; a row holds documents of one kind."""

    def __init__(self, kinds, shares, seed):
        self.kinds = kinds
        total = sum(shares.values())
        self.shares = {k: v / total for k, v in shares.items()}
        self.drawn = {k: 0 for k in shares}
        self.rng = np.random.default_rng(seed)

    def rows(self, count, length):
        """-> tokens [count, length + 1], mask of tokens to learn, kind of each row"""
        tok = np.zeros((count, length + 1), np.int64)
        mask = np.zeros((count, length + 1), np.uint8)
        names = []
        largest = LENGTHS.index(length)
        for b in range(count):
            name = max(self.shares, key=lambda k: self.shares[k] * (sum(self.drawn.values()) + 1) - self.drawn[k])
            docs, pos = self.kinds[name], 0
            while pos < length - 16:
                # the first document may be as long as the row, the others should fit in what is left
                room = largest if pos == 0 else max(0, sum(length + 1 - pos > x for x in LENGTHS) - 1)
                t, f = docs.cut(docs.next(room), length + 1 - pos)
                tok[b, pos : pos + len(t)], mask[b, pos : pos + len(t)] = t, f
                pos += len(t)
            self.drawn[name] += min(pos, length)
            names.append(name)
        return tok, mask, names

    def passes(self):
        return {
            k: round(float(np.mean([d.progress(c) for c in range(len(LENGTHS)) if len(d.queue[c])])), 2)
            for k, d in self.kinds.items()
        }


def held_out(docs, count, length):
    """`count` rows of held-out documents, each with one document at its start (and more if they are short)"""
    tok = np.zeros((count, length + 1), np.int64)
    mask = np.zeros((count, length + 1), np.uint8)
    used = np.zeros((count, length + 1), np.uint8)
    order = np.random.default_rng(5).permutation(docs.held)
    k = 0
    for b in range(count):
        pos = 0
        while pos < length - 16 and len(order):
            t, f = docs.cut(order[k % len(order)], length + 1 - pos)
            tok[b, pos : pos + len(t)], mask[b, pos : pos + len(t)], used[b, pos : pos + len(t)] = t, f, 1
            pos, k = pos + len(t), k + 1
    return tok, mask, used


def no_reused(y):
    """1 where SmolLM2 can be a teacher: it does not know the think and tool tokens"""
    return (~np.isin(y, REUSED)).astype(np.float32)
