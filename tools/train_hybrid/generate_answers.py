"""The teacher answers listed prompts, and prompts that it invents after a stem.

usage: generate_answers.py --teacher DIR --prompts FILE.json --out DIR --secs S --rank R [--rows B] [--length S]

Every row of the batch is a conversation of its own, at its own position; a row that ends takes the next prompt. The
prompt file has `system` (list), `prompts` (list of texts) and `stems` (list). A conversation is of kind 0 (listed
prompt), 1 (own prompt) or 2 (own prompts, several turns). Writes OUT/s<rank>_<n>.npy, int32 [steps, rows]: the tokens in
the order of time, so that a row's stream is a column over all files; a conversation starts with "<|im_start|>system".
"""

import argparse
import json
import os
import random
import threading
import time

import numpy as np
import torch
from tokenizers import Tokenizer

from runtime import CUDA, DEV, comp, log
from teacher_model import Teacher

KEEP = 80000  # the vocabulary's cut; the control tokens follow
END_OF_TEXT, START, END = KEEP, KEEP + 1, KEEP + 2
PROMPT, ASK, TO_ANSWER, ANSWER, TO_ASK = range(5)  # what a row is doing
MAX_PROMPT, MAX_QUESTION, MAX_ANSWER = 288, 48, 230


def sample(logits, inverse_temperature, ban, uniform):
    """min-p sampling (5 %) by the Gumbel trick"""
    l = logits.float() * inverse_temperature[:, None] + ban
    l = torch.where(l < l.max(-1, keepdim=True).values - 3.0, float('-inf'), l)
    return (l - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))).argmax(-1)


class Prompts:
    """All conversations' openings as one table on the device; row b takes entries b, b + rows, b + 2 rows, ..."""

    def __init__(self, path, tokenizer, count, shares, seed):
        source = json.load(open(path))
        rnd = random.Random(seed)
        ids = lambda s: [i if i < KEEP else i - 151643 + KEEP if 151643 <= i <= 151645 else -9 for i in tokenizer.encode(s).ids]
        head = lambda s: ids(f'<|im_start|>system\n{s}<|im_end|>\n<|im_start|>user\n')
        self.to_answer, self.to_ask = ids('<|im_end|>\n<|im_start|>assistant\n')[1:], ids('<|im_end|>\n<|im_start|>user\n')[1:]
        heads, stems = [head(s) for s in source['system']], [ids(s) if s else [] for s in source['stems']]
        listed = source['prompts']
        rnd.shuffle(listed)
        listed = listed[:count]
        texts = []
        for e in tokenizer.encode_batch(listed):
            t = [i if i < KEEP else -9 for i in e.ids]
            if -9 not in t and len(t) < MAX_PROMPT - 40:
                texts.append(t)
        table = np.full((count, MAX_PROMPT), -1, np.int32)
        size, kind, at = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
        for i in range(count):
            r = rnd.random()
            kind[i] = 0 if r < shares[0] else 1 if r < shares[0] + shares[1] else 2
            if kind[i] == 0:
                t = rnd.choice(heads) + texts[at % len(texts)] + [END] + self.to_answer
                at += 1
            else:
                t = rnd.choice(heads) + rnd.choice(stems)
            table[i, : len(t)] = t
            size[i] = len(t)
        self.table, self.size, self.kind = [torch.from_numpy(x).to(DEV) for x in (table, size, kind)]
        log('prompts', len(texts), 'of them used', at, 'conversations', count)


class Rows:
    """The state of every row, on the device. advance() has no host synchronisation, so that a CUDA graph can hold it."""

    def __init__(self, prompts, rows, length):
        self.p, self.length = prompts, length
        z = lambda: torch.zeros(rows, dtype=torch.long, device=DEV)
        self.pos, self.mode, self.inject, self.count, self.turn = z(), z(), z(), z(), z()
        self.entry = torch.arange(rows, device=DEV) % len(prompts.size)
        self.cur = prompts.table[self.entry, 0].long()
        self.step_rows = rows
        self.answer_cold, self.ask_hot = torch.zeros(rows, device=DEV), torch.zeros(rows, device=DEV)
        self.answer_cold.copy_(torch.from_numpy(1 / np.random.choice([0.02, 0.3, 0.5, 0.7], rows)))
        self.ask_hot.copy_(torch.from_numpy(1 / np.random.uniform(0.8, 1.1, rows)))
        self.header = torch.tensor([prompts.to_answer, prompts.to_ask], device=DEV)
        self.n_header = len(prompts.to_answer)
        assert len(prompts.to_ask) <= self.n_header
        self.header_size = torch.tensor([len(prompts.to_answer), len(prompts.to_ask)], device=DEV)

    def inverse_temperature(self):
        return torch.where(self.mode == ASK, self.ask_hot, self.answer_cold)

    def advance(self, drawn):
        """drawn [rows]: a sampled next token; -> the rows' next inputs in self.cur, self.pos"""
        p, mode = self.p, self.mode
        kind, size = p.kind[self.entry], p.size[self.entry]
        nxt = self.pos + 1
        forced = p.table[self.entry, nxt.clamp(max=MAX_PROMPT - 1)].long()
        which = (mode == TO_ASK).long()
        header = self.header[which, self.inject.clamp(max=self.n_header - 1)]
        free = (mode == ASK) | (mode == ANSWER)
        full = nxt + 2 >= self.length
        limit = torch.where(mode == ASK, MAX_QUESTION, MAX_ANSWER)
        tok = torch.where(free, drawn, torch.where(mode == PROMPT, forced, header))
        tok = torch.where(free & ((self.count + 1 >= limit) | full), END, tok)
        stop = free & (tok == END)
        asked, answered = stop & (mode == ASK), stop & (mode == ANSWER)
        more = answered & (kind == 2) & (self.turn < 3) & (nxt < self.length - 200)
        last_header = ((mode == TO_ANSWER) | (mode == TO_ASK)) & (self.inject + 1 >= self.header_size[which])
        new = torch.where((mode == PROMPT) & (nxt + 1 >= size), torch.where(kind == 0, ANSWER, ASK), mode)
        new = torch.where(last_header, torch.where(mode == TO_ANSWER, ANSWER, ASK), new)
        new = torch.where(asked, TO_ANSWER, torch.where(more, TO_ASK, new))
        # a header follows the end token, which is an input first: its tokens are injected from the next step on
        self.inject.copy_(torch.where((mode == TO_ANSWER) | (mode == TO_ASK), self.inject + 1, 0))
        self.count.copy_(torch.where(free & ~stop, self.count + 1, 0))
        # the conversation is over when its last token has been written; the next entry begins in its place
        over = (answered & ~more) | (full & ~free)
        self.turn.copy_(torch.where(over, 0, self.turn + answered.long()))
        entry = torch.where(over, (self.entry + self.step_rows) % len(p.size), self.entry)
        first = p.table[entry, 0].long()
        self.entry.copy_(entry)
        self.mode.copy_(torch.where(over, PROMPT, new))
        self.pos.copy_(torch.where(over, 0, nxt))
        self.cur.copy_(torch.where(over, first, tok))


class Generator:
    """One step of all rows, as a CUDA graph where that works."""

    def __init__(self, teacher, rows, vocabulary):
        self.teacher, self.rows = teacher, rows
        self.ban = torch.zeros(vocabulary, device=DEV)
        self.ban[[END_OF_TEXT, START]] = -1e4
        self.sample = comp(sample)
        self.graph = None

    def eager(self):
        r = self.rows
        logits = self.teacher.step(r.cur, r.pos)
        r.advance(self.sample(logits, r.inverse_temperature(), self.ban, torch.rand(logits.shape, device=DEV)))

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.eager()
        self.graph = graph

    def step(self):
        self.graph.replay() if self.graph is not None else self.eager()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--teacher', required=True)
    ap.add_argument('--prompts', required=True)
    ap.add_argument('--out', required=True)
    ap.add_argument('--secs', type=float, required=True)
    ap.add_argument('--rank', type=int, default=0)
    ap.add_argument('--rows', type=int, default=4096)
    ap.add_argument('--length', type=int, default=448)
    ap.add_argument('--chunk', type=int, default=128, help='steps in a file')
    ap.add_argument('--table', type=int, default=700000, help='conversations in the table; it starts again when used up')
    ap.add_argument('--shares', type=float, nargs=3, default=(0.68, 0.22, 0.10), help='of kinds 0, 1, 2')
    ap.add_argument('--seed', type=int, default=1)
    a = ap.parse_args()
    start = time.time()
    os.makedirs(a.out, exist_ok=True)
    seed = a.seed * 1000 + a.rank
    torch.manual_seed(seed)
    np.random.seed(seed)
    tokenizer = Tokenizer.from_file(f'{a.teacher}/qtok.json')
    box = []
    loading = threading.Thread(target=lambda: box.append(Prompts(a.prompts, tokenizer, a.table, a.shares, seed)))
    loading.start()
    if CUDA:  # a row's cache takes 28 layers x 2 x 2 heads x 128 bf16 values a token
        free = torch.cuda.mem_get_info()[0]
        a.rows = min(a.rows, int((free - 24e9) / (a.length * 28 * 2 * 2 * 128 * 2)) // 128 * 128)
        log('rows', a.rows, 'free', round(free / 1e9), 'GB')
    teacher = Teacher(a.teacher, a.rows, a.length)
    loading.join()
    rows = Rows(box[0], a.rows, a.length)
    g = Generator(teacher, rows, teacher.emb.shape[0])
    log('ready', round(time.time() - start, 1), 's')
    if CUDA:
        try:
            g.capture()
            log('graph captured', round(time.time() - start, 1), 's')
        except Exception as e:
            log('no CUDA graph:', repr(e)[:300])
            torch.cuda.synchronize()
    files, total, began = 0, 0, time.time()
    while time.time() - start < a.secs and not os.path.exists(f'{a.out}/stop'):
        out = torch.zeros(a.chunk, a.rows, dtype=torch.int32, device=DEV)
        for i in range(a.chunk):
            # the input of a step is written down before it; a conversation's last token is never an input
            out[i] = rows.cur.int()
            g.step()
        o = out.cpu().numpy()
        np.save(f'{a.out}/s{a.rank}_{files:04d}.tmp.npy', o)
        os.rename(f'{a.out}/s{a.rank}_{files:04d}.tmp.npy', f'{a.out}/s{a.rank}_{files:04d}.npy')
        files += 1
        total += o.size
        if files < 4 or files % 8 == 0:
            log(f'rank {a.rank} file {files}: {total / 1e6:.1f}M tokens, {total / (time.time() - began):.0f} tok/s')
        if files == 2 and a.rank == 0:
            for b in range(2):
                x = o[:, b].astype(np.int64)
                print(
                    'SAMPLE',
                    repr(tokenizer.decode(np.where(x >= KEEP, x - KEEP + 151643, x).tolist(), skip_special_tokens=False)[:700]),
                    flush=True,
                )
    log('done', total, 'tokens')


if __name__ == '__main__':
    main()
