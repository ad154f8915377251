"""Two ways to make a quantised model closer to its original than rounding alone.

compensate: GPTQ (Frantar et al. 2022): columns are rounded in order and each one's error is pushed onto the columns
not yet rounded, weighted by the inverse Hessian of the layer's inputs. distil: the codes' real-valued weights, the
scales and the biases are trained by the KL divergence to the original (straight-through rounding).
"""
import time

import torch
import torch.nn.functional as F
from torch.func import functional_call

from affine import codes_of, fit, quantise
from common import DEVICE, run, weight_of
from trained_matrix import Trained, adam, set_rate


def gptq(w, hessian, bits, group, damp=0.01):
    """w [rows, cols], hessian [cols, cols] -> codes, scales, biases."""
    w, h = w.clone(), hessian.clone()
    dead = h.diagonal() == 0
    h[dead, dead] = 1
    h.diagonal().add_(damp * h.diagonal().mean())
    importance = h.diagonal().clone()
    inv = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    codes, scales, biases = torch.zeros_like(w), [], []
    for g0 in range(0, w.shape[1], group):
        block = w[:, g0:g0 + group].clone()
        s, b = fit(block, bits, importance[g0:g0 + group][None])
        errors = torch.zeros_like(block)
        for j in range(group):
            c = g0 + j
            q = codes_of(block[:, j:j + 1], s, b, bits)
            codes[:, c:c + 1] = q
            e = (block[:, j] - (q[:, 0] * s + b)) / inv[c, c]
            block[:, j:] -= e[:, None] * inv[c, c:g0 + group][None]
            errors[:, j] = e
        w[:, g0 + group:] -= errors @ inv[g0:g0 + group, g0 + group:]
        scales.append(s)
        biases.append(b)
    return codes, torch.stack(scales, 1), torch.stack(biases, 1)


@torch.no_grad()
def hessians(model, modules, data, batch=32):
    """X^T X of the inputs of `modules` over `data` [rows, length]."""
    sums, hooks = {}, []

    def hook(name):
        def add(_, args):
            x = args[0].reshape(-1, args[0].shape[-1]).float()
            sums[name] = sums.get(name, 0) + x.T @ x
        return add

    for m in modules:
        hooks.append(model.get_submodule(m).register_forward_pre_hook(hook(m)))
    for part in data.split(batch):
        run(model, part.to(DEVICE))
    for h in hooks:
        h.remove()
    return sums


STAGES = (("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_a", "linear_attn.in_proj_b",
           "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
          ("linear_attn.out_proj", "self_attn.o_proj"), ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",))


@torch.no_grad()
def compensate(model, fmt, data):
    """Quantises the model in place, layer by layer, each on the inputs the quantised layers before it produce.
    -> {module: (codes, scales, biases)}"""
    out = {}

    def put(m, result):
        out[m] = result
        codes, s, b = result
        group = fmt[m][1]
        weight_of(model, m).copy_((codes.view(codes.shape[0], -1, group) * s[..., None] + b[..., None]).view_as(codes))

    put("model.embed_tokens", quantise(weight_of(model, "model.embed_tokens"), *fmt["model.embed_tokens"]))
    for i in range(model.config.num_hidden_layers):
        for stage in STAGES:
            modules = [f"model.layers.{i}.{m}" for m in stage if f"model.layers.{i}.{m}" in fmt]
            sums = hessians(model, modules[:1], data)
            for m in modules:
                put(m, gptq(weight_of(model, m), sums[modules[0]], *fmt[m]))
    return out


# ---------------------------------------------------------------- distillation
def distil(model, teacher, fmt, start, data, seconds, batch, lr=2e-3, report=None):
    """Trains all matrices of `fmt` for a time; -> {module: (codes, scales, biases)}. `lr` is in quantisation steps."""
    trained = {m: Trained(weight_of(teacher, m), start[m], *fmt[m]) for m in fmt}
    optimizer = adam(trained.values(), lr, fused=DEVICE == "cuda")
    begin, step, done = time.time(), 0, 0.0
    while done < 1:
        ids = data[torch.randint(len(data), (batch,))].to(DEVICE)
        with torch.no_grad():
            target = torch.log_softmax(run(teacher, ids), -1).flatten(0, 1)
        values = {m + ".weight": t.value() for m, t in trained.items()}
        values["lm_head.weight"] = values["model.embed_tokens.weight"]
        logits = functional_call(model, values, (ids,), {"use_cache": False}).logits.float()
        loss = F.kl_div(torch.log_softmax(logits, -1).flatten(0, 1), target, log_target=True, reduction="batchmean")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        set_rate(optimizer, step, done)
        optimizer.step()
        if report and step % 25 == 0:
            report(step, float(loss.detach()))
        step, done = step + 1, (time.time() - begin) / seconds
    return {m: t.result() for m, t in trained.items()}
