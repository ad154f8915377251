"""Writes tuned matrices as an MLX-quantised directory, everything else as the source directory has it."""
import json
import pathlib
import shutil

import numpy as np
from safetensors.numpy import save_file

from affine import bf16, pack
from common import hf_reference


def to_bf16(x):
    import ml_dtypes
    return x.float().cpu().numpy().astype(ml_dtypes.bfloat16)


def write_shards(tensors, target, limit=47_000_000):
    shards, size = [[]], 0
    for name in sorted(tensors):
        if shards[-1] and size + tensors[name].nbytes > limit:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += tensors[name].nbytes
    where = {}
    for i, names in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        save_file({k: tensors[k] for k in names}, target / file, metadata={"format": "mlx"})
        where |= {k: file for k in names}
    index = {"metadata": {"total_size": sum(v.nbytes for v in tensors.values())}, "weight_map": where}
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=0) + "\n")


def write_mlx(source, target, result, fmt):
    """result {module: (codes, scales, biases)} -> a directory like `source`, with these codes."""
    packed = {}
    for module, (codes, s, b) in result.items():
        p = "language_model." + module
        packed[p + ".weight"] = pack(codes, fmt[module][0])
        packed[p + ".scales"], packed[p + ".biases"] = to_bf16(bf16(s)), to_bf16(bf16(b))
    write_packed(source, target, packed, fmt)


def write_packed(source, target, packed, fmt):
    """packed {name: array as stored} -> a directory like `source`, with these tensors in place of its own."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    target.mkdir(parents=True, exist_ok=True)
    tensors = hf_reference.load_tensors(source) | packed
    left = [k for k, v in tensors.items() if v.dtype == np.uint32 and k.split(".", 1)[1][:-7] not in fmt]
    assert not left, left
    write_shards(tensors, target)
    config = json.loads((source / "config.json").read_text())
    modes = [tuple(f) for f in fmt.values()]
    common = max(set(modes), key=modes.count)
    quant = {"group_size": common[1], "bits": common[0], "mode": "affine"}
    quant |= {"language_model." + m: {"group_size": g, "bits": b, "mode": "affine"}
              for m, (b, g) in sorted(fmt.items()) if (b, g) != common}
    config["quantization"] = config["quantization_config"] = quant
    (target / "config.json").write_text(json.dumps(config, indent=4) + "\n")
    tokenizer = source / "tokenizer.json"
    if tokenizer.exists():  # without its indentation: 1.5 MB less
        compact = json.dumps(json.loads(tokenizer.read_text()), ensure_ascii=False, separators=(",", ":"))
        (target / "tokenizer.json").write_text(compact)
    for name in ("tokenizer_config.json", "chat_template.jinja", "generation_config.json", "mtp.safetensors"):
        if (source / name).exists():
            shutil.copy(source / name, target)
