"""What the steps of quantise_hybrid share: which matrices move together, evaluation."""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import hf_reference  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Matrices of one layer that read the same input (or feed the same product) get the same format.
UNITS = {
    "in": ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "self_attn.q_proj", "self_attn.k_proj",
           "self_attn.v_proj"),
    "out": ("linear_attn.out_proj", "self_attn.o_proj"),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
SMALL = ("linear_attn.in_proj_a", "linear_attn.in_proj_b")  # a few rows, and exponents hang on them: 8 bit


def units(model):
    """unit name -> module names; "embed" is the tied embedding and head."""
    names = {n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    out = {"embed": ["model.embed_tokens"]}
    for i in range(model.config.num_hidden_layers):
        for unit, members in UNITS.items():
            have = [f"model.layers.{i}.{m}" for m in members if f"model.layers.{i}.{m}" in names]
            out[f"{i}.{unit}"] = have
    return out


def small(model):
    return [n for n, _ in model.named_modules() if n.endswith(SMALL)]


def weight_of(model, module):
    return model.get_submodule(module).weight.data


# ---------------------------------------------------------------- evaluation
def pad_batches(rows, batch):
    """Lists of ids -> right-padded id tensors; padding is harmless to a causal model and is masked in the loss."""
    rows = sorted(rows, key=lambda r: len(r[0]))
    for i in range(0, len(rows), batch):
        part = rows[i:i + batch]
        n = max(len(ids) for ids, _ in part)
        ids = torch.zeros(len(part), n, dtype=torch.long)
        mask = torch.zeros(len(part), n, dtype=torch.bool)
        for j, (row, first) in enumerate(part):
            ids[j, :len(row)] = torch.tensor(row)
            mask[j, max(first - 1, 0):len(row) - 1] = True  # positions that predict an answer token
        yield ids.to(DEVICE), mask.to(DEVICE)


class Reference:
    """Log-probs of the unquantised model over a set of rows [(ids, first position to predict)]."""

    def __init__(self, model, rows, batch=16):
        self.batches = []
        for ids, mask in pad_batches(rows, batch):
            logp = torch.log_softmax(run(model, ids)[mask], -1)
            target = torch.roll(ids, -1, 1)[mask]
            self.batches.append((ids, mask, logp, target))
        self.positions = sum(int(m.sum()) for _, m, _, _ in self.batches)

    def compare(self, model):
        """-> mean KL(reference || model), top-1 agreement, mean negative log-likelihood of the text."""
        kl = top = nll = 0.0
        for ids, mask, ref, target in self.batches:
            logp = torch.log_softmax(run(model, ids)[mask], -1)
            kl += float((ref.exp() * (ref - logp)).sum())
            top += float((ref.argmax(-1) == logp.argmax(-1)).sum())
            nll += float(F.nll_loss(logp, target, reduction="sum"))
        n = self.positions
        return kl / n, top / n, nll / n


@torch.no_grad()
def run(model, ids):
    return model(ids, use_cache=False).logits.float()
