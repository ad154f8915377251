"""Qwen2.5 as the teacher: weights from pack_teacher.py, and a decode step for rows that are at different positions."""
import json

import numpy as np
import torch
import torch.nn.functional as F

from runtime import CUDA, DEV, DT, comp, log

EPS, THETA, HEAD = 1e-6, 1e6, 128


def unpack_q4_k(b):
    """[n, 144] bytes -> [n, 256] floats (GGUF's Q4_K)"""
    n = b.shape[0]
    d = b[:, 0:2].contiguous().view(torch.float16).float()
    dmin = b[:, 2:4].contiguous().view(torch.float16).float()
    s = b[:, 4:16].int()
    low, mid, high = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    scale = torch.cat([low & 63, (high & 15) | ((low >> 6) << 4)], 1).float() * d
    minimum = torch.cat([mid & 63, (high >> 4) | ((mid >> 6) << 4)], 1).float() * dmin
    q = b[:, 16:].view(n, 4, 1, 32)
    q = torch.cat([q & 15, q >> 4], 2).reshape(n, 8, 32).float()
    return (q * scale[..., None] - minimum[..., None]).reshape(n, 256)


def unpack_q6_k(b):
    """[n, 210] bytes -> [n, 256] floats (GGUF's Q6_K)"""
    n = b.shape[0]
    ql, qh = b[:, :128].reshape(n, 2, 2, 32).int(), b[:, 128:192].reshape(n, 2, 32).int()
    scale = b[:, 192:208].contiguous().view(torch.int8).float()
    d = b[:, 208:210].contiguous().view(torch.float16).float()
    q = torch.stack([(ql[:, :, 0] & 15) | ((qh & 3) << 4), (ql[:, :, 1] & 15) | (((qh >> 2) & 3) << 4),
                     (ql[:, :, 0] >> 4) | (((qh >> 4) & 3) << 4), (ql[:, :, 1] >> 4) | (((qh >> 6) & 3) << 4)], 2)
    q = (q - 32).reshape(n, 16, 16).float()
    return (q * (scale * d)[..., None]).reshape(n, 256)


def load_weights(folder):
    """-> dict of tensors on the device, dequantised there"""
    index = json.load(open(f'{folder}/teacher.json'))
    raw = np.memmap(f'{folder}/teacher.bin', np.uint8, 'r')
    out = {}
    for name, (kind, shape, offset, size) in index.items():
        b = torch.from_numpy(np.array(raw[offset:offset + size])).to(DEV)
        if kind == 0:
            x = b.view(torch.float32)
        else:
            block, unpack = {12: (144, unpack_q4_k), 14: (210, unpack_q6_k)}[kind]
            x = torch.cat([unpack(part) for part in b.view(-1, block).split(1 << 18)])
        out[name] = x.view(shape).to(DT)
    return out


# ----------------------------------------------------------------------------- attention of one new token per row
try:
    import triton
    import triton.language as tl

    @triton.jit
    def _attend(Q, K, V, LAST, OUT, S, scale, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, BN: tl.constexpr,
                NKV: tl.constexpr):
        row, head = tl.program_id(0), tl.program_id(1)
        last = tl.load(LAST + row)
        g, d, j = tl.arange(0, GP), tl.arange(0, D), tl.arange(0, BN)
        at = (row * NKV + head).to(tl.int64)
        q = tl.load(Q + (at * G + g)[:, None] * D + d[None, :], mask=g[:, None] < G, other=0.0)
        top = tl.full([GP], -1e30, tl.float32)
        total = tl.zeros([GP], tl.float32)
        acc = tl.zeros([GP, D], tl.float32)
        for start in range(0, last + 1, BN):
            ok = (start + j) <= last
            off = (at * S + start + j)[:, None] * D + d[None, :]
            k = tl.load(K + off, mask=ok[:, None], other=0.0)
            v = tl.load(V + off, mask=ok[:, None], other=0.0)
            x = tl.where(ok[None, :], tl.dot(q, tl.trans(k)) * scale, -1e30)
            new = tl.maximum(top, tl.max(x, 1))
            p = tl.exp(x - new[:, None])
            fade = tl.exp(top - new)
            total = total * fade + tl.sum(p, 1)
            acc = acc * fade[:, None] + tl.dot(p.to(v.dtype), v)
            top = new
        acc = acc / total[:, None]
        tl.store(OUT + (at * G + g)[:, None] * D + d[None, :], acc.to(OUT.dtype.element_ty), mask=g[:, None] < G)
except ImportError:
    triton = None


def attend_triton(q, k, v, last):
    b, heads, d = q.shape
    kv, s = k.shape[1], k.shape[2]
    out = torch.empty_like(q)
    _attend[(b, kv)](q, k, v, last, out, s, d ** -0.5, heads // kv, 16, d, 64, kv, num_warps=4, num_stages=2)
    return out


def attend_torch(q, k, v, last):
    b, heads, d = q.shape
    kv, s = k.shape[1], k.shape[2]
    mask = (torch.arange(s, device=q.device)[None] <= last[:, None])[:, None, None]
    return F.scaled_dot_product_attention(q.view(b, kv, heads // kv, d), k, v, attn_mask=mask).reshape(b, heads, d)


def pick_attention(b, kv, groups, s):
    """The Triton kernel if it runs here and agrees with PyTorch on random data, else PyTorch's masked attention."""
    if not CUDA or triton is None:
        return attend_torch
    try:
        q = torch.randn(64, kv * groups, HEAD, device=DEV, dtype=DT)
        k, v = [torch.randn(64, kv, s, HEAD, device=DEV, dtype=DT) for _ in range(2)]
        last = torch.randint(0, s, (64,), device=DEV)
        x, y = attend_triton(q, k, v, last).float(), attend_torch(q, k, v, last).float()
        error = float((x - y).norm() / y.norm())
        log('attention kernel, relative error', round(error, 5))
        return attend_triton if error < 0.02 else attend_torch
    except Exception as e:
        log('attention kernel unusable:', repr(e)[:300])
        return attend_torch


# ----------------------------------------------------------------------------- the model
def _rms(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + EPS) * w.float()).to(x.dtype)


def _before(x, norm, wqkv, bias, cos, sin, heads, kv):
    n = x.shape[0]
    q, k, v = F.linear(_rms(x, norm), wqkv, bias).split([heads * HEAD, kv * HEAD, kv * HEAD], -1)

    def rope(a, count):
        a = a.reshape(n, count, HEAD)
        turned = torch.cat([-a[..., HEAD // 2:], a[..., :HEAD // 2]], -1)
        return (a * cos[:, None] + turned * sin[:, None]).contiguous()
    return rope(q, heads), rope(k, kv), v.reshape(n, kv, HEAD).contiguous()


def _after(x, o, wo, norm, wgu, wd):
    x = x + F.linear(o, wo)
    a, b = F.linear(_rms(x, norm), wgu).chunk(2, -1)
    return x + F.linear(F.silu(a) * b, wd)


before, after, rms_c = comp(_before), comp(_after), comp(_rms)


class Teacher:
    def __init__(self, folder, rows, length):
        w = load_weights(folder)
        self.emb, self.norm = w['token_embd.weight'], w['output_norm.weight']
        self.hidden = self.emb.shape[1]
        self.kv = w['blk.0.attn_k.weight'].shape[0] // HEAD
        self.heads = self.hidden // HEAD
        self.layers = []
        for i in range(1 + max(int(k.split('.')[1]) for k in w if k.startswith('blk.'))):
            g = lambda name: w[f'blk.{i}.{name}']
            self.layers.append(dict(
                n1=g('attn_norm.weight'), n2=g('ffn_norm.weight'), o=g('attn_output.weight'), down=g('ffn_down.weight'),
                qkv=torch.cat([g(f'attn_{x}.weight') for x in 'qkv']), bias=torch.cat([g(f'attn_{x}.bias') for x in 'qkv']),
                gu=torch.cat([g('ffn_gate.weight'), g('ffn_up.weight')])))
        del w
        angle = torch.arange(length).float()[:, None] / THETA ** (torch.arange(0, HEAD, 2).float() / HEAD)[None]
        self.cos = torch.cat([angle.cos()] * 2, -1).to(DEV, DT)
        self.sin = torch.cat([angle.sin()] * 2, -1).to(DEV, DT)
        self.attend = pick_attention(rows, self.kv, self.heads // self.kv, length)
        self.k = torch.zeros(len(self.layers), rows, self.kv, length, HEAD, device=DEV, dtype=DT)
        self.v = torch.zeros_like(self.k)
        self.rows = torch.arange(rows, device=DEV)

    @torch.no_grad()
    def step(self, ids, pos):
        """ids, pos [rows] -> logits of the next token; the row's cache up to pos counts"""
        x = F.embedding(ids, self.emb)
        cos, sin = self.cos[pos], self.sin[pos]
        for i, l in enumerate(self.layers):
            q, k, v = before(x, l['n1'], l['qkv'], l['bias'], cos, sin, self.heads, self.kv)
            self.k[i][self.rows, :, pos] = k
            self.v[i][self.rows, :, pos] = v
            o = self.attend(q, self.k[i], self.v[i], pos)
            x = after(x, o.reshape(len(ids), self.hidden), l['o'], l['n2'], l['gu'], l['down'])
        return F.linear(rms_c(x, self.norm), self.emb)
