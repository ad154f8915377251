"""A quantised matrix that is trained (straight-through rounding), and the learning rates of its parts.

Needs torch alone, so that tune.py (Transformers) and tune_on_gpu.py (train_hybrid's kernels) share it.
"""
import torch

from affine import bf16


def straight_through(x, hard):
    return x + (hard - x).detach()


class Trained:
    """One matrix as real-valued weights, scales and biases; `value` is what its codes stand for."""

    def __init__(self, original, start, bits, group):
        codes, s, b = start
        self.bits, self.group = bits, group
        # Start from weights that round to the given codes but remember the original within half a step.
        value = (codes.view(codes.shape[0], -1, group) * s[..., None] + b[..., None]).view_as(codes)
        half = (s.abs() / 2 * 0.9)[..., None].expand(-1, -1, group).reshape_as(codes)
        self.w = (value + (original - value).clamp(-half, half)).requires_grad_()
        self.s, self.b = s.clone().requires_grad_(), b.clone().requires_grad_()
        self.step = float(s.abs().mean())

    def parts(self):
        s, b = straight_through(self.s, bf16(self.s)), straight_through(self.b, bf16(self.b))
        x = (self.w.view(self.w.shape[0], -1, self.group) - b[..., None]) / s[..., None]
        q = straight_through(x, x.round()).clamp(0, 2**self.bits - 1)
        return q, s, b

    def value(self):
        q, s, b = self.parts()
        return (q * s[..., None] + b[..., None]).view_as(self.w)

    @torch.no_grad()
    def result(self):
        """-> codes, scales, biases"""
        q, s, b = self.parts()
        return q.round().view_as(self.w), s, b


def adam(matrices, lr, fused):
    """`lr` is in quantisation steps; set_rate changes the rates before each step."""
    groups = []
    for t in matrices:
        for part, factor in ((t.w, 1), (t.s, 0.05), (t.b, 0.5)):
            groups.append({"params": [part], "lr": lr * t.step * factor})
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98), fused=fused)
    for g in optimizer.param_groups:
        g["full"] = g["lr"]
    return optimizer


def set_rate(optimizer, step, done):
    """done: the share of the time that has passed. 20 steps of warm-up, then a straight line to 2 %."""
    scale = min(1.0, (step + 1) / 20) * (0.02 + 0.98 * (1 - done))
    for g in optimizer.param_groups:
        g["lr"] = g["full"] * scale
