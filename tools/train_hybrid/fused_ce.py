"""Cross-entropy through the head on the weighted positions alone; the logits never live longer than one chunk."""
from runtime import *


def _chunk(hs, emb, target, weight):
    logits = F.linear(hs, emb).float()
    lp = torch.log_softmax(logits, -1)
    ce = -lp.gather(1, target[:, None]).squeeze(1)
    d = lp.exp() * weight[:, None]
    d = d.scatter_add(1, target[:, None], -weight[:, None])
    return (ce * weight).sum(), d.to(hs.dtype)


chunk_f = comp(_chunk)


class FusedCE(torch.autograd.Function):
    """The gradients are made in the forward pass; positions are padded to whole chunks."""

    @staticmethod
    def forward(ctx, hs, emb, target, weight, chunk):
        idx = torch.nonzero(weight > 0).squeeze(1)
        w = weight[idx]
        pad = (-idx.numel()) % chunk
        if pad:
            idx = torch.cat([idx, idx.new_zeros(pad)])
            w = torch.cat([w, w.new_zeros(pad)])
        h, t = hs[idx], target[idx]
        d_emb = torch.zeros(emb.shape, device=hs.device, dtype=torch.float32)
        dh = torch.empty_like(h)
        ce = torch.zeros((), device=hs.device)
        for i in range(0, h.shape[0], chunk):
            s = slice(i, i + chunk)
            c, d = chunk_f(h[s], emb, t[s], w[s])
            ce = ce + c
            dh[s] = d @ emb
            d_emb += (d.t() @ h[s]).float()
        full = torch.zeros_like(hs)
        full.index_add_(0, idx, dh)
        ctx.save_for_backward(full, d_emb)
        ctx.dtype = emb.dtype
        return ce, ce.detach()

    @staticmethod
    def backward(ctx, g, *_):
        full, d_emb = ctx.saved_tensors
        return full * g.to(full.dtype), (d_emb * g).to(ctx.dtype), None, None, None


def fused_ce(hs, emb, target, weight, chunk=4096):
    """-> loss, its value without a gradient"""
    return FusedCE.apply(hs, emb, target, weight, chunk)
