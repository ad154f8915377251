"""MTP head on the frozen trunk, from an earlier head.

usage: torchrun --nproc-per-node N train_mtp_third.py --data DIR --secs S

Reads $WORK/main.pt and $WORK/mtp0.pt, writes $WORK/mtp.pt. Three unrolled steps, as in the first round; the model's own
words (answers) count in full, everything else a little."""

import argparse
import queue
import threading

import torch.distributed as dist

from common import *
from doc_batches import Docs, Mixture, held_out
from processes import join, pairs

ap = argparse.ArgumentParser()
ap.add_argument('--data', required=True)
ap.add_argument('--secs', type=float, default=170)
ap.add_argument('--batch', type=int, default=32768)
ap.add_argument('--length', type=int, default=512)
ap.add_argument('--lr', type=float, default=1.2e-3)
ap.add_argument('--shares', default='answers=50,own=28,every=10,tools=7,prose=5')
ap.add_argument('--layers', type=int, default=28)
ap.add_argument('--steps', type=int, default=10**9)
a = ap.parse_args()
RANK, WORLD, D = join()
if RANK:
    log = lambda *x: None
cfg = make_cfg(layers=a.layers)
EMB, H = 'model.embed_tokens.weight', cfg['hidden_size']
trunk = {n: t.to(D, DT) for n, t in torch.load(f'{WORK}/main.pt', map_location='cpu', weights_only=False)['p'].items()}
head = torch.load(f'{WORK}/mtp0.pt', map_location='cpu', weights_only=False)['p']
fl = Flat(head, device=D, wd=0.01)
hy = Hybrid(cfg, {**trunk, **fl.p}, device=D)
shares = pairs(a.shares)
docs = {k: Docs(f'{a.data}/{k}.npz', RANK, WORLD, 200) for k in shares}
mix = Mixture(docs, shares, 13 + RANK)


def make():
    tok, mask, names = mix.rows(a.batch // a.length, a.length)
    w = np.where(mask > 0, 1, 0.05).astype(np.float32)
    w[[n == 'prose' for n in names]] = 0.3
    return tok[:, :-1], w[:, 1:]  # w[t]: how much the token after t counts


def roll(t, k):
    return torch.roll(t, -k, 1)


def losses(x, wt, hs):
    """KL to the trunk's own prediction k tokens on; -> loss, [(KL, agreement)] of k = 1..3"""
    B, T = x.shape
    out, h, total = [], hs, 0
    for k in range(1, 4):
        h = hy.mtp(h, roll(x, k))
        w = roll(wt, k).clone()
        w[:, T - k :] = 0
        w = (w / w.sum().clamp(min=1e-6)).reshape(-1).contiguous()
        no_ce = torch.zeros(B * T, device=x.device)
        l, kl, _, ag = fused_kd(
            h.reshape(-1, H), trunk[EMB], roll(hs, k).reshape(-1, H), trunk[EMB], x.reshape(-1), w, no_ce, None, need_E=False
        )
        total = total + (1.0, 0.6, 0.4)[k - 1] * l
        out.append((kl.detach(), ag.detach()))
    return total, out


Q = queue.Queue(8)
threading.Thread(target=lambda: [Q.put(make()) for _ in iter(int, 1)], daemon=True).start()


def batch():
    x, w = to_dev(*[np.ascontiguousarray(z) for z in Q.get()])
    with torch.no_grad():
        return x, w, hy.forward(x)[0]


@torch.no_grad()
def held_out_match():
    r = {}
    for k in shares:
        tok, mask, _ = held_out(docs[k], a.batch // a.length, a.length)
        x, w = to_dev(np.ascontiguousarray(tok[:, :-1]), np.ascontiguousarray(mask[:, 1:]).astype(np.float32))
        if k == 'prose':
            w = torch.ones_like(w)
        scores = losses(x, w, hy.forward(x)[0])[1]
        r[k] = [f'k{i + 1} KL {float(q):.3f} match {float(m):.3f}' for i, (q, m) in enumerate(scores)]
    return r


for _ in range(2):  # compile; the gradients are thrown away
    losses(*batch())[0].backward()
    fl.grad.zero_()
began, step = time.time(), 0
while True:
    fr = (time.time() - began) / a.secs
    if WORLD > 1:
        s = torch.tensor([fr], device=D, dtype=torch.float64)
        dist.broadcast(s, 0)
        fr = float(s)
    if fr >= 1 or step >= a.steps:
        break
    l, o = losses(*batch())
    l.backward()
    if WORLD > 1:
        dist.all_reduce(fl.grad)
        fl.grad.div_(WORLD)
    gn = fl.step(lr_at(fr, a.lr, 0.04, 0.0), 1.0)
    step += 1
    if step <= 2 or step % 50 == 0:
        scores = ' '.join(f'k{k + 1} KL {float(q):.3f} match {float(m):.3f}' for k, (q, m) in enumerate(o))
        log(f'mtp step {step} {scores} gn {float(gn):.2f}')
if RANK == 0:
    r = held_out_match()
    for k, v in r.items():
        log('HELD', k, *v)
    save_pt(dict(p={n: v.cpu() for n, v in fl.tensors().items()}, held=r, steps=step), f'{WORK}/mtp.pt')
    log('saved mtp', step)
if WORLD > 1:
    dist.barrier()
    dist.destroy_process_group()
