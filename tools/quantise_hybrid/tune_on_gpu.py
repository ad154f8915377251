"""Quantisation-aware tuning on a GPU: codes, scales and biases are trained by the KL divergence to the unquantised model.

usage: tune_on_gpu.py --data DIR --recipe RECIPE.json --secs S --out TUNED.safetensors

Reads the trained weights $WORK/main.pt and the documents of DIR, as ../train_hybrid does, whose fused kernels it uses;
assemble.py makes a model's directory of TUNED.safetensors. tune.py does the same by Transformers, without documents.
"""
import argparse
import hashlib
import pathlib
import queue
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'train_hybrid'))
from safetensors.torch import save_file  # noqa: E402

from common import *  # noqa: E402  (train_hybrid's)
from affine import pack, quantise  # noqa: E402
from doc_batches import Docs, Mixture, held_out  # noqa: E402
from recipe import format_of  # noqa: E402
from trained_matrix import Trained, adam, set_rate  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument('--data', required=True)
ap.add_argument('--recipe', required=True)
ap.add_argument('--secs', type=float, default=80)
ap.add_argument('--batch', type=int, default=32768)
ap.add_argument('--length', type=int, default=512)
ap.add_argument('--lr', type=float, default=4e-3)
ap.add_argument('--steps', type=int, default=10 ** 9)
ap.add_argument('--out', required=True)
a = ap.parse_args()
SHARES = dict(answers=40, prose=28, own=18, every=8, tools=6)
torch.manual_seed(5)
cfg = make_cfg(layers=28)
EMB, H = 'model.embed_tokens.weight', cfg['hidden_size']
original = torch.load(f'{WORK}/main.pt', map_location='cpu', weights_only=False)['p']
# With gradients, as in training, so that the same compiled graphs serve.
teacher_p = {n: t.detach().to(DEV, DT, copy=True).requires_grad_() for n, t in original.items()}
teacher = Hybrid(cfg, teacher_p)
recipe = json.load(open(a.recipe))
fmt = {n[:-7]: format_of(recipe, n[:-7]) for n, t in original.items() if t.dim() == 2}
log('matrices', len(fmt))


def of_matrix(w, f):
    return Trained(w, quantise(w, *f), *f)


trained = {m: of_matrix(original[m + '.weight'].float().to(DEV), f) for m, f in fmt.items()}
rest = {n: t.detach().clone().requires_grad_() for n, t in teacher_p.items() if n[:-7] not in fmt}
log('rounded')


def student():
    return Hybrid(cfg, {**rest, **{m + '.weight': t.value().to(DT) for m, t in trained.items()}})


docs = {k: Docs(f'{a.data}/{k}.npz', 0, 1, 400) for k in SHARES}
mix = Mixture(docs, SHARES, 31)
NO_BAN = torch.zeros(VOCAB, device=DEV)


def batch(tok, used):
    x = np.ascontiguousarray(tok[:, :-1])
    w = np.ascontiguousarray(used, np.float32).reshape(-1)
    return x, w / max(w.sum(), 1)


def make():
    tok, _, _ = mix.rows(a.batch // a.length, a.length)
    return batch(tok, (tok[:, 1:] + tok[:, :-1] > 0))


def loss_of(hy, x, w, need=True):
    x, w = to_dev(x, w)
    w = w.reshape(-1).float()
    ht = teacher.forward(x)[0].detach().reshape(-1, H)
    hs = hy.forward(x)[0].reshape(-1, H)
    y = torch.zeros(x.numel(), dtype=torch.long, device=hs.device)
    return fused_kd(hs, hy.p[EMB], ht, teacher_p[EMB].detach(), y, w, torch.zeros_like(w), NO_BAN, need_E=need)


held = {}
for k, d in docs.items():
    tok, mask, used = held_out(d, a.batch // a.length, a.length)
    held[k] = batch(tok, mask[:, 1:] if k != 'prose' else used[:, 1:])


def check(step):
    hy = student()
    out = []
    for k, (x, w) in held.items():
        r = loss_of(hy, x, w, False)
        out.append(f'{k} KL {float(r[1].detach()):.4f} top {float(r[3].detach()):.4f}')
    log(f'CHECK {step}', ' '.join(out))


opt = adam(trained.values(), a.lr, fused=CUDA)
check(0)
Q = queue.Queue(8)
threading.Thread(target=lambda: [Q.put(make()) for _ in iter(int, 1)], daemon=True).start()
began, step, done = time.time(), 0, 0.0
while done < 1 and step < a.steps:
    loss = loss_of(student(), *Q.get())[0]
    opt.zero_grad(set_to_none=True)
    loss.backward()
    set_rate(opt, step, done)
    opt.step()
    if step % 20 == 0:
        log(f'step {step} {100 * done:.0f}% KL {float(loss.detach()):.4f}')
    if step == 1 and CUDA:
        torch.cuda.synchronize()
        began = time.time()
    step, done = step + 1, (time.time() - began) / a.secs
check(step)
out = {}
for m, t in trained.items():
    q, s, b = t.result()
    n = 'language_model.' + m
    out[n + '.weight'] = torch.from_numpy(pack(q, t.bits))
    out[n + '.scales'], out[n + '.biases'] = s.to(torch.bfloat16).cpu().contiguous(), b.to(torch.bfloat16).cpu().contiguous()
save_file(out, a.out, metadata={'format': 'mlx'})
log('saved', a.out, hashlib.sha256(open(a.out, 'rb').read()).hexdigest())
