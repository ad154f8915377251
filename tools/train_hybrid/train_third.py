"""Third round: cross-entropy on answers, and SmolLM2's logits (KL) on plain text and on the teacher's answers to the end.

usage: torchrun --nproc-per-node N train_third.py --data DIR --secs S
Reads $WORK/student.pt, $WORK/teacher.gguf (SmolLM2-135M-Instruct) and DIR/<kind>.npz for the kinds of --shares; writes
$WORK/main.pt (the weights with the lowest held-out loss) and $WORK/train.json.

A step is `--accum` batches of `--batch` tokens on each GPU. 5/8 of a batch's rows are of the kinds with KL, the rest have
cross-entropy alone. The clock of the learning rate starts after every shape has been compiled.
"""

import argparse
import queue
import threading

import torch.distributed as dist

from common import *
from doc_batches import Docs, LENGTHS, Mixture, held_out, no_reused
from fused_ce import fused_ce
from processes import join, pairs

ap = argparse.ArgumentParser()
ap.add_argument('--data', required=True)
ap.add_argument('--secs', type=float, default=1100)
ap.add_argument('--batch', type=int, default=32768)
ap.add_argument('--accum', type=int, default=2)
ap.add_argument('--lr', type=float, default=7e-4)
ap.add_argument('--kl-shares', default='answers=48,prose=14.5', help='kinds with KL and their shares of the tokens')
ap.add_argument('--ce-shares', default='own=25,every=8,tools=4.5', help='kinds with cross-entropy alone')
ap.add_argument('--kl', default='answers=0.3,prose=0.5', help='weight of the KL')
ap.add_argument('--ce', default='answers=1,prose=0.15', help='weight of the cross-entropy')
ap.add_argument('--steps', type=int, default=10**9)
ap.add_argument('--layers', type=int, default=28)
ap.add_argument('--eval-every', type=int, default=100)
ap.add_argument('--patience', type=int, default=4, help='held-out losses in a row above the best that end the run')
ap.add_argument('--queue', type=int, default=12)
a = ap.parse_args()
KL_SHARES, CE_SHARES, KL_W, CE_W = [pairs(x) for x in (a.kl_shares, a.ce_shares, a.kl, a.ce)]
RANK, WORLD, HERE_DEV = join()
if RANK:
    log = lambda *x: None

cfg = make_cfg(layers=a.layers)
EMB = 'model.embed_tokens.weight'
p = torch.load(f'{WORK}/student.pt', map_location='cpu', weights_only=False)['p']
MIXERS = ('linear_attn.', 'self_attn.')
fl = Flat(p, device=HERE_DEV, lr_of=lambda n: 1.0 if any(m in n for m in MIXERS) else 0.6, wd=0.01)
hy = Hybrid(cfg, fl.p, device=HERE_DEV)
te = Teacher(device=HERE_DEV)
BAN = ban_vec(HERE_DEV)
H = cfg['hidden_size']

docs = {k: Docs(f'{a.data}/{k}.npz', RANK, WORLD, 100) for k in (*KL_SHARES, *CE_SHARES)}
for k, d in docs.items():
    log(
        f'{k}: {len(d.l)} documents, {len(d.t) / 1e6:.1f}M tokens, {int(d.f.sum()) / 1e6:.1f}M to learn, {len(d.held)} held out'
    )
mix_kl = Mixture({k: docs[k] for k in KL_SHARES}, KL_SHARES, 3 + RANK)
mix_ce = Mixture({k: docs[k] for k in CE_SHARES}, CE_SHARES, 7 + RANK)
rng = np.random.default_rng(11 + RANK)
SIZES = [x for x in LENGTHS if x <= a.batch // 8]
OFTEN = np.array([0.20, 0.34, 0.28, 0.18])[: len(SIZES)]  # share of the batches with rows of this length


def make(length=None):
    """-> x, y, weight of the KL and of the cross-entropy per token (not normalised), counts"""
    T = length or int(rng.choice(SIZES, p=OFTEN / sum(OFTEN)))
    B = a.batch // T
    n = B * 5 // 8
    t1, m1, k1 = mix_kl.rows(n, T)
    t2, m2, _ = mix_ce.rows(B - n, T)
    tok, mask = np.concatenate([t1, t2]), np.concatenate([m1, m2])
    x, y = tok[:, :-1], tok[:, 1:]
    kl = np.zeros((n, T), np.float32)
    ce = mask[:, 1:].astype(np.float32)
    for b, k in enumerate(k1):
        plain = (t1[b, 1:] + t1[b, :-1] > 0).astype(np.float32)  # not the padding
        kl[b] = KL_W[k] * no_reused(t1[b, 1:]) * plain
        if CE_W[k] != 1:
            ce[b] = CE_W[k] * (plain if k == 'prose' else ce[b])
    return T, n, [np.ascontiguousarray(x), np.ascontiguousarray(y), kl, ce]


def counts(arr):
    return float(arr[2].sum()) + 1e-6, float(arr[3].sum()) + 1e-6


def loss_of(T, n, arr, n_kl, n_ce):
    """Sum of the KL over n_kl + sum of the cross-entropy over n_ce, of one batch; -> loss, KL part, CE part"""
    x, y, kl, ce = to_dev(*arr)
    hs = hy.forward(x)[0].reshape(-1, H)
    with torch.no_grad():
        ht = te.forward(x[:n]).reshape(-1, H)
    k = n * T
    y, ce = y.reshape(-1), ce.reshape(-1) / n_ce
    l1, kl1, ce1, _ = fused_kd(hs[:k], fl.p[EMB], ht, te.emb, y[:k], kl.reshape(-1) / n_kl, ce[:k].contiguous(), BAN)
    l2, ce2 = fused_ce(hs[k:], fl.p[EMB], y[k:], ce[k:])
    return l1 + l2, kl1, ce1 + ce2


HELD = {}
rows = (a.batch // 512, 512) if CUDA else (2, 128)  # shapes that training has compiled anyway
for k, d in docs.items():
    tok, mask, used = held_out(d, rows[0] * WORLD, rows[1])
    part = slice(RANK * rows[0], (RANK + 1) * rows[0])
    HELD[k] = (tok[part], (used if k == 'prose' else mask)[part], used[part])


def held_out_loss():
    """-> kind -> [cross-entropy a token, KL a token (on 5/8 of the rows)], and their weighted sum. Runs with gradients on, so
    that the compiled training graphs serve; they are not used."""
    out = {}
    for k, (tok, mask, used) in HELD.items():
        parts = tok[:, :-1], tok[:, 1:], mask[:, 1:].astype(np.float32)
        x, y, ce = to_dev(*[np.ascontiguousarray(z) for z in parts])
        y, ce = y.reshape(-1), ce.reshape(-1)
        hs = hy.forward(x)[0].detach().reshape(-1, H)
        n = rows[0] * 5 // 8 if k in KL_SHARES else 0
        m = n * rows[1]
        kl_sum = kl_count = torch.zeros((), device=HERE_DEV)
        ce_sum = fused_ce(hs[m:], fl.p[EMB].detach(), y[m:], ce[m:])[1]
        if n:
            w = to_dev(np.ascontiguousarray(used[:n, 1:] * no_reused(tok[:n, 1:]), np.float32))[0].reshape(-1)
            with torch.no_grad():
                ht = te.forward(x[:n]).reshape(-1, H)
            _, kl_sum, c1, _ = fused_kd(
                hs[:m], fl.p[EMB].detach(), ht, te.emb, y[:m], w, ce[:m].contiguous(), BAN, need_E=False
            )
            ce_sum, kl_count = ce_sum + c1, w.sum()
        s = torch.stack(
            [torch.as_tensor(z, device=HERE_DEV).detach().float().reshape(()) for z in (ce_sum, ce.sum(), kl_sum, kl_count)]
        )
        if WORLD > 1:
            dist.all_reduce(s)
        out[k] = [float(s[0] / s[1].clamp(min=1)), float(s[2] / s[3].clamp(min=1))]
    share = {**CE_SHARES, **KL_SHARES}
    total = sum(share[k] / 100 * (CE_W.get(k, 1) * c + KL_W.get(k, 0) * l) for k, (c, l) in out.items())
    return out, total


Q = queue.Queue(a.queue)
for T in SIZES:  # compile every shape; the gradients are thrown away
    args = make(T)
    loss_of(*args, *counts(args[2]))[0].backward()
    fl.grad.zero_()
    log('compiled', T)
threading.Thread(target=lambda: [Q.put(make()) for _ in iter(int, 1)], daemon=True).start()
best, best_total, bad, history = None, float('inf'), 0, []


def check(step, fr):
    """-> True if the run should end"""
    global best, best_total, bad
    out, total = held_out_loss()
    history.append(dict(step=step, share=fr, total=total, held=out))
    show = lambda k, c, l: (
        f'{k} CE {c:.4f}'
        + (f' KL {l:.4f}' if k in KL_SHARES else '')
        + (f' ppl {math.exp(min(c, 20)):.1f}' if k == 'prose' else '')
    )
    log(f'HELD {step} {100 * fr:.0f}% total {total:.4f} ' + ' '.join(show(k, c, l) for k, (c, l) in out.items()))
    if total < best_total:
        best_total, bad = total, 0
        best = fl.master.clone() if best is None else best.copy_(fl.master)
    elif total > best_total * 1.002:
        bad += 1
    return bad >= a.patience and fr > 0.3


check(0, 0.0)
if CUDA:
    torch.cuda.synchronize()
began, step, toks = time.time(), 0, 0
while True:
    fr = (time.time() - began) / a.secs
    if WORLD > 1:
        s = torch.tensor([fr], device=HERE_DEV, dtype=torch.float64)
        dist.broadcast(s, 0)
        fr = float(s)
    if fr >= 1 or step >= a.steps:
        break
    got = [Q.get() for _ in range(a.accum)]
    n_kl, n_ce = [sum(c) for c in zip(*(counts(g[2]) for g in got))]
    # the KL's weights are in its sum: normalise by the number of tokens, so that the weights count
    n_kl = sum(float((g[2][2] > 0).sum()) for g in got) + 1e-6
    parts = []
    for g in got:
        loss, kl, ce = loss_of(*g, n_kl, n_ce)
        loss.backward()
        parts.append((kl, ce))
        toks += g[2][0].size * WORLD
    if WORLD > 1:
        dist.all_reduce(fl.grad)
        fl.grad.div_(WORLD)
    lr = lr_at(fr, a.lr, warm=0.03, final=0.0)
    gn = fl.step(lr, clip=1.0)
    step += 1
    if step <= 3 or step % 25 == 0:
        k, c = [sum(float(torch.as_tensor(z[i]).detach()) for z in parts) for i in range(2)]
        passes = f' passes { {**mix_kl.passes(), **mix_ce.passes()} }' if step % 200 == 0 else ''
        log(
            f'step {step} {100 * fr:.1f}% T {got[-1][0]} KL {k:.4f} CE {c:.4f} gn {float(gn):.2f} lr {lr:.2e} '
            f'{toks / 1e6:.1f}M tok {toks / (time.time() - began):.0f} tok/s queue {Q.qsize()}{passes}'
        )
    if step % a.eval_every == 0 and check(step, fr):
        log('held-out loss rises: stop')
        break
check(step, 1.0)
if RANK == 0:
    if best is not None and best_total < history[-1]['total']:
        fl.master.copy_(best)
    save_pt(dict(p={n: v.cpu() for n, v in fl.tensors().items()}, steps=step, toks=toks), f'{WORK}/main.pt')
    json.dump(cfg, open(f'{WORK}/main_config.json', 'w'))
    passes = {**mix_kl.passes(), **mix_ce.passes()}
    json.dump(
        dict(args=vars(a), steps=step, tokens=toks, passes=passes, history=history), open(f'{WORK}/train.json', 'w'), indent=1
    )
    log(
        'saved main.pt: steps',
        step,
        'tokens',
        toks,
        'best held-out',
        round(best_total, 4),
        'seconds',
        round(time.time() - began),
    )
if WORLD > 1:
    dist.barrier()
    dist.destroy_process_group()
