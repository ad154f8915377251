"""The gated delta rule for training: plain torch, and fla's kernels where they run."""
from runtime import *


def l2n(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def gdn_torch(q, k, v, g, beta, C=64):
    """Chunked gated delta rule, plain torch, fp32 (fallback + reference). q,k,v [B,T,H,D]; g,beta [B,T,H]."""
    dt = q.dtype
    B, T, H, K = q.shape
    V = v.shape[-1]
    q, k, v, g, beta = [x.transpose(1, 2).float() for x in (q, k, v, g, beta)]
    q, k = l2n(q) * K ** -0.5, l2n(k)
    pad = (-T) % C
    if pad:
        q, k, v = [F.pad(x, (0, 0, 0, pad)) for x in (q, k, v)]
        g, beta = [F.pad(x, (0, pad)) for x in (g, beta)]
    N = (T + pad) // C
    q, k, v = [x.reshape(B, H, N, C, -1) for x in (q, k, v)]
    g, beta = [x.reshape(B, H, N, C) for x in (g, beta)]
    vb, kb = v * beta[..., None], k * beta[..., None]
    cg = g.cumsum(-1)
    tri = torch.ones(C, C, dtype=torch.bool, device=q.device).triu(1)
    dec = (cg[..., :, None] - cg[..., None, :]).masked_fill(tri, float('-inf')).exp()
    A = ((kb @ k.transpose(-1, -2)) * dec).tril(-1)
    rhs = torch.cat([vb, kb * cg.exp()[..., None]], -1)
    sol = torch.linalg.solve_triangular(A, rhs, upper=False, unitriangular=True)
    u, w = sol.split([V, K], -1)
    att = (q @ k.transpose(-1, -2)) * dec
    qe = q * cg.exp()[..., None]
    ke = k * (cg[..., -1:] - cg).exp()[..., None]
    ce = cg[..., -1].exp()[..., None, None]
    S = q.new_zeros(B, H, K, V)
    outs = []
    for i in range(N):
        vn = u[:, :, i] - w[:, :, i] @ S
        outs.append(qe[:, :, i] @ S + att[:, :, i] @ vn)
        S = S * ce[:, :, i] + ke[:, :, i].transpose(-1, -2) @ vn
    o = torch.stack(outs, 2).reshape(B, H, N * C, V)[:, :, :T]
    return o.transpose(1, 2).to(dt)


def _dqkwg(q, k, v, do, h, dh, w, g, dv, scale, chunk_size):
    """torch replacement for fla's chunk_bwd_dqkwg (Triton 3.4..3.7.0 miscompiles it on Hopper, fla raises).
    g is the chunk-local cumsum in log2 units; q,k [B,T,H,K] (l2-normalised), h,dh [B,NT,H,K,V]; T % chunk == 0, H == HV."""
    B, T, H, K = q.shape
    C = chunk_size
    N = T // C

    def ch(x):                                               # [B,T,H,D] -> [B*N*H? , C, D]
        return x.view(B, N, C, H, x.shape[-1]).permute(0, 1, 3, 2, 4).reshape(B * N * H, C, x.shape[-1])
    qc, kc, vc, doc, dvc = ch(q), ch(k), ch(v), ch(do), ch(dv)
    hh = h.reshape(B * N * H, K, -1)
    dhh = dh.reshape(B * N * H, K, -1)
    gg = g.view(B, N, C, H).permute(0, 1, 3, 2).reshape(B * N * H, C).float()
    gl = gg[:, -1]
    hT, dhT = hh.transpose(1, 2), dhh.transpose(1, 2)
    dgl = (hh.float() * dhh.float()).sum((1, 2)) * torch.exp2(gl)
    ds = torch.bmm(doc, vc.transpose(1, 2)).float()
    dq = torch.bmm(doc, hT.to(doc.dtype)).float()
    dk = torch.bmm(vc, dhT.to(vc.dtype)).float()
    dw = torch.bmm(dvc.to(vc.dtype), hT.to(vc.dtype))
    dq = dq * torch.exp2(gg)[..., None] * scale
    dk = dk * torch.exp2(gl[:, None] - gg)[..., None]
    dgl = dgl + (dk * kc.float()).sum((1, 2))
    i = torch.arange(C, device=q.device)
    m = i[:, None] >= i[None, :]
    ds = torch.where(m, ds * torch.exp2(torch.where(m, gg[:, :, None] - gg[:, None, :], 0.0)), 0.0) * scale
    ds = ds.to(kc.dtype)
    dq = dq + torch.bmm(ds, kc).float()
    dk = dk + torch.bmm(ds.transpose(1, 2), qc).float()
    dg = (dq * qc.float()).sum(-1) - (dk * kc.float()).sum(-1)
    dg = torch.cat([dg[:, :-1], dg[:, -1:] + dgl[:, None]], 1)

    def un(x):
        return x.view(B, N, H, C, -1).permute(0, 1, 3, 2, 4).reshape(B, T, H, -1)
    return (un(dq).to(q.dtype), un(dk).to(k.dtype), -un(dw).to(w.dtype),
            dg.view(B, N, H, C).permute(0, 1, 3, 2).reshape(B, T, H).contiguous())


_dqkwg_c = comp(_dqkwg)
_FLA = None


def fla_gdn():
    """fla's chunk kernel with the broken bwd piece replaced; None when unusable."""
    global _FLA
    if _FLA is None:
        _FLA = False
        if CUDA and os.environ.get('NOFLA', '0') != '1':
            try:
                import fla.ops.gated_delta_rule.chunk as fc
                import inspect

                def patched(q, k, v, do, h, dh, w=None, g=None, g_gamma=None, dv=None, scale=None, state_v_first=False,
                            cu_seqlens=None, chunk_size=64, chunk_indices=None, **kw):
                    assert cu_seqlens is None and not state_v_first and q.shape[1] % chunk_size == 0
                    if scale is None:
                        scale = k.shape[-1] ** -0.5
                    B, T, H, K = q.shape
                    fl = lambda x: x.contiguous().view(1, B * T, *x.shape[2:])
                    hf = lambda x: x.contiguous().view(1, x.shape[0] * x.shape[1], *x.shape[2:])
                    r = _dqkwg_c(fl(q), fl(k), fl(v), fl(do), hf(h), hf(dh), fl(w), fl(g), fl(dv), float(scale), chunk_size)
                    return tuple(x.view(B, T, *x.shape[2:]) for x in r)
                if os.environ.get('FLA_ORIG_DQKWG', '0') != '1':
                    fc.chunk_bwd_dqkwg = patched
                f = fc.chunk_gated_delta_rule

                def run(q, k, v, g, beta):
                    return f(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]
                _FLA = run
            except Exception as e:
                log('fla unusable:', repr(e)[:300])
    return _FLA or None


GDN_IMPL = os.environ.get('GDN_IMPL', '')                    # '', 'torch', 'fla'
_flag = f'{WORK}/gdn_impl'
if not GDN_IMPL and os.path.exists(_flag):
    GDN_IMPL = open(_flag).read().strip()


def gdn(q, k, v, g, beta):
    if GDN_IMPL != 'torch' and q.shape[1] % 64 == 0:
        f = fla_gdn()
        if f is not None:
            return f(q, k, v, g, beta)
    return gdn_torch(q, k, v, g, beta)
