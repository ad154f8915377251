"""Greedy answers to the questions of evalset.py. Needs no engine.

usage: NOCOMPILE=1 ask60.py CHECKPOINT.pt TOKENIZER.json [think]
"""

from common import *
from evalset import EVAL, score
from tokenizers import Tokenizer

tk = Tokenizer.from_file(sys.argv[2])
cfg = make_cfg(layers=28)
E = 'model.embed_tokens.weight'
p = {n: t.to(DEV, DT) for n, t in torch.load(sys.argv[1], map_location='cpu', weights_only=False)['p'].items()}
hm = Hybrid(cfg, p)


@torch.no_grad()
def greedy(prompts, n):
    T = (max(map(len, prompts)) + n + 63) // 64 * 64
    B = len(prompts)
    ids = torch.zeros(B, T, dtype=torch.long, device=DEV)
    ln = torch.tensor([len(q) for q in prompts], device=DEV)
    for b, q in enumerate(prompts):
        ids[b, : len(q)] = torch.tensor(q, device=DEV)
    l0, ar, done = ln.clone(), torch.arange(B, device=DEV), torch.zeros(B, dtype=torch.bool, device=DEV)
    for _ in range(n):
        Tc = min(T, (int(ln.max()) + 63) // 64 * 64)
        hs = hm.forward(ids[:, :Tc].contiguous())[0]
        nx = F.linear(hs[ar, ln - 1], p[E]).float().argmax(-1)
        ids[ar, ln] = torch.where(done, ids[ar, ln], nx)
        ln = torch.where(done, ln, ln + 1)
        done |= (nx == IM_E) | (nx == EOT)
        if bool(done.all()):
            break
    return [tk.decode(ids[b, l0[b] : ln[b]].tolist(), skip_special_tokens=False).replace('<|im_end|>', '') for b in range(B)]


for think in ([False, True] if len(sys.argv) > 3 else [False]):
    block = '<think>\n' if think else '<think>\n\n</think>\n\n'
    pr = [tk.encode(f'<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n{block}').ids for q, _, _ in EVAL]
    an = greedy(pr, 150)
    ok = score(an)
    print('EVAL', sys.argv[1], 'think' if think else 'plain', sum(ok), 'of', len(ok), flush=True)
    for (q, _, _), a_, o in zip(EVAL, an, ok):
        if not think or not o:
            print('OK ' if o else 'BAD', '|', q, '->', a_[:260].replace('\n', '\\n'))
