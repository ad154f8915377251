"""MLX's affine quantisation with a better choice of scale and bias than min/max, in torch.

A row is cut into groups of `group` inputs; w ~ scale * q + bias, q in [0, 2^bits), scale and bias rounded to bf16.
`fit` tries shrunken ranges and refits scale and bias by weighted least squares; src/checkpoint/convert.cc does the
same. `weight` [cols] is how much an input matters (mean square of the activations), or None.
"""
import numpy as np
import torch


def bf16(x):
    return x.to(torch.bfloat16).float()


def codes_of(g, s, b, bits):
    safe = torch.where(s.abs() < 1e-12, torch.ones_like(s), s)
    return ((g - b[..., None]) / safe[..., None]).round_().clamp_(0, 2**bits - 1)


def min_max(g, bits):
    low, high = g.amin(-1), g.amax(-1)
    s = bf16((high - low) / (2**bits - 1)).clamp_min(1e-8)
    return s, bf16(low)


def fit(g, bits, weight=None, shrinks=(1.0, 0.96, 0.92, 0.88, 0.84, 0.8, 0.74)):
    """g [..., group] -> scale, bias [...]: the least weighted square error over several starts, two refits each."""
    w = torch.ones_like(g) if weight is None else weight.expand_as(g)
    low, high = g.amin(-1), g.amax(-1)
    mid, half = (high + low) / 2, (high - low) / 2
    best_s, best_b = min_max(g, bits)
    best = error(g, best_s, best_b, bits, w)
    total = w.sum(-1)
    for shrink in shrinks:
        s = 2 * half * shrink / (2**bits - 1)
        b = mid - half * shrink
        for _ in range(2):
            q = codes_of(g, s, b, bits)
            mq, mg = (w * q).sum(-1) / total, (w * g).sum(-1) / total
            var = (w * (q - mq[..., None]) ** 2).sum(-1)
            cov = (w * (q - mq[..., None]) * (g - mg[..., None])).sum(-1)
            s = torch.where(var > 0, cov / var.clamp_min(1e-20), s)
            b = mg - s * mq
        s16 = bf16(s)
        q = codes_of(g, s16, b, bits)
        b16 = bf16((w * (g - s16[..., None] * q)).sum(-1) / total)  # the bias again, for the rounded scale
        e = error(g, s16, b16, bits, w)
        better = e < best
        best_s, best_b = torch.where(better, s16, best_s), torch.where(better, b16, best_b)
        best = torch.where(better, e, best)
    return best_s, best_b


def error(g, s, b, bits, w):
    return (w * (g - (codes_of(g, s, b, bits) * s[..., None] + b[..., None])) ** 2).sum(-1)


def quantise(matrix, bits, group, weight=None, plain=False, rows_at_once=4096):
    """[rows, cols] -> codes [rows, cols], scales and biases [rows, cols / group] (f32 holding bf16 values)."""
    out = []
    for part in matrix.split(rows_at_once):
        g = part.reshape(part.shape[0], -1, group)
        w = None if weight is None else weight.reshape(1, -1, group)
        s, b = min_max(g, bits) if plain else fit(g, bits, w)
        out.append((codes_of(g, s, b, bits).reshape(part.shape), s, b))
    return tuple(torch.cat(x) for x in zip(*out))


def dequantise(codes, s, b, group):
    g = codes.reshape(codes.shape[0], -1, group)
    return (g * s[..., None] + b[..., None]).reshape(codes.shape)


def fake(matrix, bits, group, weight=None, plain=False):
    return dequantise(*quantise(matrix, bits, group, weight, plain), group)


def pack(codes, bits):
    """uint8 codes [rows, cols] -> uint32 [rows, cols * bits / 32], a little-endian bit stream per row."""
    q = codes.to(torch.uint8).cpu().numpy()
    stream = np.unpackbits(q[:, :, None], axis=2, bitorder="little")[:, :, :bits].reshape(q.shape[0], -1)
    return np.packbits(stream, axis=1, bitorder="little").view(np.uint32)


def bytes_of(rows, cols, bits, group):
    return rows * cols * bits // 8 + rows * (cols // group) * 4
