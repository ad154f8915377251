"""Quantisation-aware tuning on a GPU: codes, scales and biases are trained by the KL divergence to the unquantised model.

usage: tune_on_gpu.py --data DIR --recipe RECIPE.json --secs S --out TUNED.safetensors

Reads the trained weights $WORK/main.pt and the documents of DIR, as ../train_hybrid does, whose fused kernels it uses;
assemble.py makes a model's directory of TUNED.safetensors. tune.py does the same by Transformers, without documents.
"""
import argparse
import fnmatch
import hashlib
import pathlib
import queue
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'train_hybrid'))
from safetensors.torch import save_file  # noqa: E402

from common import *  # noqa: E402  (train_hybrid's)
from affine import bf16, pack, quantise  # noqa: E402
from doc_batches import Docs, Mixture, held_out  # noqa: E402

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


def format_of(module):
    for r in recipe['rules']:
        if fnmatch.fnmatchcase(module, r['match']):
            return r['bits'], r['group']
    return recipe['default']['bits'], recipe['default']['group']


fmt = {n[:-7]: format_of(n[:-7]) for n, t in original.items() if t.dim() == 2}
log('matrices', len(fmt))


def ste(x, hard):
    return x + (hard - x).detach()


class Trained:
    """One matrix, as tune.py has it; quantised plainly at first."""

    def __init__(self, w, bits, group):
        codes, s, b = quantise(w, bits, group)
        self.bits, self.group = bits, group
        value = (codes.view(codes.shape[0], -1, group) * s[..., None] + b[..., None]).view_as(codes)
        half = (s.abs() / 2 * 0.9)[..., None].expand(-1, -1, group).reshape_as(codes)
        self.w = (value + (w - value).clamp(-half, half)).requires_grad_()
        self.s, self.b = s.clone().requires_grad_(), b.clone().requires_grad_()
        self.step = float(s.abs().mean())

    def parts(self):
        s, b = ste(self.s, bf16(self.s)), ste(self.b, bf16(self.b))
        x = (self.w.view(self.w.shape[0], -1, self.group) - b[..., None]) / s[..., None]
        return ste(x, x.round()).clamp(0, 2 ** self.bits - 1), s, b

    def value(self):
        q, s, b = self.parts()
        return (q * s[..., None] + b[..., None]).view_as(self.w).to(DT)


trained = {m: Trained(original[m + '.weight'].float().to(DEV), *f) for m, f in fmt.items()}
rest = {n: t.detach().clone().requires_grad_() for n, t in teacher_p.items() if n[:-7] not in fmt}
log('rounded')


def student():
    return Hybrid(cfg, {**rest, **{m + '.weight': t.value() for m, t in trained.items()}})


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


params = []
for t in trained.values():
    for x, f in ((t.w, 1.0), (t.s, 0.05), (t.b, 0.5)):
        params.append({'params': [x], 'lr': a.lr * t.step * f})
opt = torch.optim.Adam(params, betas=(0.9, 0.98), fused=CUDA)
base = [g['lr'] for g in opt.param_groups]
check(0)
Q = queue.Queue(8)
threading.Thread(target=lambda: [Q.put(make()) for _ in iter(int, 1)], daemon=True).start()
began, step, done = time.time(), 0, 0.0
while done < 1 and step < a.steps:
    loss = loss_of(student(), *Q.get())[0]
    opt.zero_grad(set_to_none=True)
    loss.backward()
    scale = min(1.0, (step + 1) / 20) * (0.02 + 0.98 * (1 - done))
    for g, l in zip(opt.param_groups, base):
        g['lr'] = l * scale
    opt.step()
    if step % 20 == 0:
        log(f'step {step} {100 * done:.0f}% KL {float(loss.detach()):.4f}')
    if step == 1 and CUDA:
        torch.cuda.synchronize()
        began = time.time()
    step, done = step + 1, (time.time() - began) / a.secs
check(step)
out = {}
with torch.no_grad():
    for m, t in trained.items():
        q, s, b = t.parts()
        n = 'language_model.' + m
        out[n + '.weight'] = torch.from_numpy(pack(q.round().view_as(t.w), t.bits))
        out[n + '.scales'], out[n + '.biases'] = s.to(torch.bfloat16).cpu().contiguous(), b.to(torch.bfloat16).cpu().contiguous()
save_file(out, a.out, metadata={'format': 'mlx'})
log('saved', a.out, hashlib.sha256(open(a.out, 'rb').read()).hexdigest())
