#!/usr/bin/env python3
"""Random LoRA adapters that PEFT writes, and what PEFT in Transformers computes with them, for tests/models.

  python tools/make_peft_goldens.py tests/models/data/adapters [case ...]

Needs what make_golden_logits.py needs, and peft. The base models are those of tests/models/data. For each case it writes

  <case>/adapter_config.json, adapter_model.safetensors   as PEFT's save_pretrained() writes them
  <case>/index.json, golden.bin                           as make_golden_logits.py does; `model` is the base model

Every value of an adapter is random, so each module that it has changes the logits. `effect` is the mean change of a log-prob.
"""
import json
import pathlib
import shutil

import numpy as np
import peft
import torch
import transformers

from make_golden_logits import compact, load, run, write_cases

MODELS = pathlib.Path(__file__).parents[1] / "tests/models/data"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
RECURRENCE = ["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
POSITIONS, EVERY = 210, 3

# name -> base model, arguments of LoraConfig
CASES = {
    "dense_rank4": ("qwen3_qk_norm", dict(r=4, lora_alpha=8, target_modules=ATTENTION + MLP)),
    "dense_biases_rank16_rslora": ("llama_biases", dict(r=16, lora_alpha=12, use_rslora=True, target_modules="all-linear")),
    "dense_patterns": ("qwen3_qk_norm", dict(
        r=4, lora_alpha=6, target_modules=ATTENTION + MLP,
        rank_pattern={r"layers\.[12]\..*\.v_proj": 3, "^model.layers.0.self_attn.q_proj": 7, "q_proj": 2, "mlp.down_proj": 5},
        alpha_pattern={"^model.layers.0.self_attn.q_proj": 20, "model.layers.2.mlp.up_proj": 1, "up_proj": 11, "0.self_attn.q_proj": 40})),
    "hybrid_rank4": ("qwen35_nested_untied_grouped", dict(r=4, lora_alpha=8, target_modules=ATTENTION + RECURRENCE + MLP)),
    "hybrid_rank16_rslora": ("qwen35_flat_tied", dict(r=16, lora_alpha=16, use_rslora=True, target_modules="all-linear")),
    "hybrid_regex": ("qwen35_wide_values_f32", dict(
        r=4, lora_alpha=4, use_rslora=True, target_modules=r"model\.layers\.[123]\.(linear_attn\.(in_proj_.*|out_proj)|self_attn\.[qv]_proj|mlp\.up_proj)",
        rank_pattern={"linear_attn.out_proj": 9}, alpha_pattern={"in_proj_qkv": 16})),
    "moe_attention": ("qwen3_moe", dict(r=4, lora_alpha=8, target_modules=ATTENTION)),
    "hybrid_moe_rank16": ("qwen35_moe_fused", dict(r=16, lora_alpha=20, target_modules=ATTENTION + RECURRENCE)),
}


def write_adapter(path, base, settings, rng):
    """An adapter none of whose values is zero."""
    model = peft.get_peft_model(load(MODELS / base / "model"), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    for name, value in model.named_parameters():
        if "lora_" in name:
            value.data = torch.from_numpy(rng.standard_normal(tuple(value.shape)) * 0.3 / np.sqrt(value.shape[1])).float()
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    (path / "README.md").unlink()
    (path / "adapter_model.safetensors").chmod(0o644)
    config = json.loads((path / "adapter_config.json").read_text()) | {"base_model_name_or_path": base}
    (path / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def write_case(root, name, case):
    base, settings = case
    path = root / name
    for seed in range(1, 400):
        rng = np.random.default_rng(seed)
        plain = load(MODELS / base / "model")
        prompt = rng.integers(3, plain.config.vocab_size, POSITIONS).tolist()
        positions = list(range(0, POSITIONS, EVERY))
        without = run(plain, prompt, positions)[0]
        write_adapter(path, base, settings, rng)
        # As the file says: PEFT sorts the keys of patterns when it saves them, and the first one that fits counts.
        rows, greedy, gap, _ = run(peft.PeftModel.from_pretrained(plain, path).eval(), prompt, positions)
        if gap > 0.02 and len(set(greedy)) >= 8:
            break
    else:
        raise SystemExit(f"{name}: no seed gives a continuation without near-ties")
    (path / "golden.bin").write_bytes(rows.astype("<f4").tobytes())
    effect = float(np.abs(rows - without).mean())
    index = {"model": f"../../{base}/model", "vocab": plain.config.vocab_size, "data": "golden.bin",
             "oracle": f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, fp32", "seed": seed,
             "effect": round(effect, 4),
             "runs": [{"prompt": prompt, "positions": positions, "offset": 0, "greedy": greedy, "greedy_gap": round(gap, 4)}]}
    (path / "index.json").write_text(compact(json.dumps(index, indent=1)) + "\n")
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"{name}: seed {seed}, mean effect {effect:.2f}, {size / 1024:.0f} KB", flush=True)


if __name__ == "__main__":
    write_cases(__doc__, CASES, write_case)
