"""Sensitivity of the model to each unit's format, and the cheapest mix under a size.

One unit at a time is quantised (everything else exact) and KL(exact || quantised) measured; the mix minimises the
sum of these under a byte budget. Sums predict well because the single effects are small.
"""
import torch

from affine import bytes_of, fake
from common import small, units, weight_of

OPTIONS = [(3, 64), (4, 64), (4, 32), (5, 64), (6, 64), (8, 64)]


@torch.no_grad()
def sensitivity(model, reference, options=OPTIONS):
    """-> {unit: {(bits, group): (bytes, KL)}}"""
    table = {}
    for unit, modules in units(model).items():
        table[unit] = {}
        for bits, group in options:
            saved = [weight_of(model, m).clone() for m in modules]
            size = 0
            for m in modules:
                w = weight_of(model, m)
                w.copy_(fake(w, bits, group))
                size += bytes_of(*w.shape, bits, group)
            table[unit][bits, group] = (size, reference.compare(model)[0])
            for m, w in zip(modules, saved):
                weight_of(model, m).copy_(w)
    return table


def allocate(table, budget):
    """Steepest descent on the convex hull of each unit's (bytes, KL) points -> {unit: (bits, group)}."""
    choice = {u: min(opts, key=lambda o: opts[o][0]) for u, opts in table.items()}
    used = sum(table[u][o][0] for u, o in choice.items())
    while True:
        best, gain = None, 0.0
        for u, opts in table.items():
            size, kl = opts[choice[u]]
            for o, (size2, kl2) in opts.items():
                if size2 > size and used - size + size2 <= budget and (kl - kl2) / (size2 - size) > gain:
                    best, gain = (u, o), (kl - kl2) / (size2 - size)
        if best is None:
            return choice
        u, o = best
        used += table[u][o][0] - table[u][choice[u]][0]
        choice[u] = o


def formats(model, choice):
    """{unit: (bits, group)} -> {module: (bits, group)}, the small matrices included."""
    out = {m: choice[u] for u, modules in units(model).items() for m in modules}
    return out | {m: (8, 64) for m in small(model)}


def size_of(model, fmt):
    """Bytes of all tensors of the quantised model: matrices, and the rest in bf16 (A_log and gated norms too)."""
    total = 0
    done = set()
    for name, p in model.named_parameters():
        module = name.removesuffix(".weight")
        if p.data_ptr() in done:
            continue
        done.add(p.data_ptr())
        total += bytes_of(*p.shape, *fmt[module]) if module in fmt else p.numel() * 2
    return total


@torch.no_grad()
def apply(model, fmt, plain=False):
    for m, (bits, group) in fmt.items():
        w = weight_of(model, m)
        w.copy_(fake(w, bits, group, plain=plain))


def as_rules(fmt, default):
    """Ordered rules, the first match wins: exceptions by exact module path, then the default."""
    rules = [{"match": m, "bits": b, "group": g} for m, (b, g) in sorted(fmt.items()) if (b, g) != default]
    return rules + [{"match": "*", "bits": default[0], "group": default[1]}]
