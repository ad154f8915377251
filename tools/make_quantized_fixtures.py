#!/usr/bin/env python3
"""Writes tests/checkpoint/data/quantized: make_quantized_fixtures.py [OUT] [NAME ...].

One directory for each format, made of the same tiny Llama by the tool that publishers use. expected.json has, for every
quantised matrix, FNV-1a of its values in fp32 as that tool dequantises them (dimensions, then the hash); where the
tool's arithmetic differs from ours in the last place, the values of k_proj and the tolerance instead.

Needs torch, transformers 5.24, compressed-tensors 0.20, auto-round 0.16, bitsandbytes 0.50, accelerate; the MLX formats
need mlx 0.32 in the Python that ANABRANCH_MLX_PYTHON names. GPTQ's, AWQ's and ModelOpt's tools need a GPU: these are
written by their documents, and AutoRound, which writes GPTQ's and AWQ's layouts on a CPU, is the check.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/checkpoint/data/quantized")
ONLY = set(sys.argv[2:])
MODULES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
           "mlp.up_proj", "mlp.down_proj"]
PREFIX = "model.layers.0."


def base_model(hidden=128, ffn=256):
    torch.manual_seed(20261125)
    config = LlamaConfig(vocab_size=32, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=1, head_dim=64, max_position_embeddings=128,
                         tie_word_embeddings=False, initializer_range=0.05)
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    for p in model.parameters():  # rows and columns of different magnitudes
        if p.dim() == 2:
            p.data *= torch.exp(torch.randn(p.shape[0], 1) * 0.5).to(p.dtype)
    return model.eval()


def fnv(values):
    data = (values.detach().to(torch.float32) + 0.0).contiguous().numpy().tobytes()  # no negative zeros
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def write_expected(directory, values, tolerance=0.0):
    out = {}
    for name, value in sorted(values.items()):
        value = value.detach().to(torch.float32)
        out[name] = {"shape": list(value.shape)}
        if tolerance == 0:
            out[name]["fnv"] = fnv(value)
        elif name.endswith("k_proj.weight"):
            out[name]["tolerance"] = tolerance
            out[name]["f32"] = base64.b64encode(value.contiguous().numpy().tobytes()).decode()
    (directory / "expected.json").write_text(json.dumps(out, indent=1) + "\n")


def fresh(name):
    directory = OUT / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def tidy(directory):
    for name in ("generation_config.json", "recipe.yaml"):
        (directory / name).unlink(missing_ok=True)


def save_raw(directory, model, tensors, quantization, side=None):
    """The model with `tensors` instead of the weights of its linear layers."""
    state = {k: v.contiguous() for k, v in model.state_dict().items()}
    for module in MODULES:
        del state[PREFIX + module + ".weight"]
    state |= {k: v.contiguous() for k, v in tensors.items()}
    save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads(model.config.to_json_string())
    if quantization:
        config["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if side:
        (directory / "hf_quant_config.json").write_text(json.dumps(side, indent=1) + "\n")


def weights(model):
    return {PREFIX + m: model.get_submodule(PREFIX + m).weight.data for m in MODULES}


def e4m3(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn)


# ---------------------------------------------------------------- FP8


def block_scales(w, n=128):
    rows, cols = (w.shape[0] + n - 1) // n, (w.shape[1] + n - 1) // n
    padded = torch.zeros(rows * n, cols * n)
    padded[: w.shape[0], : w.shape[1]] = w.float().abs()
    return padded.view(rows, n, cols, n).amax((1, 3)).clamp(min=1e-6) / 448


def spread(scale, shape, n=128):
    return scale.repeat_interleave(n, 0).repeat_interleave(n, 1)[: shape[0], : shape[1]]


def fp8_official():
    """Blocks as Qwen's releases have them; the last ones are smaller."""
    directory, model = fresh("fp8-block"), base_model(hidden=192, ffn=320)
    tensors, expected = {}, {}
    for name, w in weights(model).items():
        scale = block_scales(w).to(torch.bfloat16)
        q = e4m3(w.float() / spread(scale.float(), w.shape))
        tensors |= {name + ".weight": q, name + ".weight_scale_inv": scale}
        expected[name + ".weight"] = q.float() * spread(scale.float(), w.shape)
    save_raw(directory, model, tensors, {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                                         "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]})
    write_expected(directory, expected)


def fp8_static():
    """As Ministral 3 ships: a scale for each matrix, and one for its inputs."""
    directory, model = fresh("fp8-static"), base_model()
    tensors, expected = {}, {}
    for name, w in weights(model).items():
        scale = (w.float().abs().max() / 448).to(torch.bfloat16)
        q = e4m3(w.float() / scale.float())
        tensors |= {name + ".weight": q, name + ".weight_scale_inv": scale,
                    name + ".activation_scale": torch.tensor(0.5, dtype=torch.bfloat16)}
        expected[name + ".weight"] = q.float() * scale.float()
    save_raw(directory, model, tensors, {"quant_method": "fp8", "activation_scheme": "static", "dequantize": False,
                                         "weight_block_size": None, "modules_to_not_convert": ["lm_head"]})
    write_expected(directory, expected)


# ---------------------------------------------------------------- compressed-tensors


def compressed(name, scheme, tolerance=0.0, **changes):
    """Scales by least and largest value; quantised, packed and saved by compressed-tensors."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (QuantizationConfig, apply_quantization_config, dequantize,
                                                 preset_name_to_scheme)
    from compressed_tensors.quantization.utils import calculate_qparams

    directory, model = fresh(name), base_model()
    group = preset_name_to_scheme(scheme, ["Linear"])
    for key, value in changes.items():
        setattr(group.weights, key, value)
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": group}, ignore=["lm_head"]))
    args, expected = group.weights, {}
    strategy = str(args.strategy.value if hasattr(args.strategy, "value") else args.strategy)
    for module in MODULES:
        layer = model.get_submodule(PREFIX + module)
        w = layer.weight.data.float()
        rows, cols = w.shape
        if strategy == "tensor":
            low, high = w.min().view(1), w.max().view(1)
        elif strategy == "channel":
            low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
        elif strategy == "block":
            n = args.block_structure[0]
            blocks = w.view(rows // n if rows >= n else 1, min(n, rows), cols // n, n)
            low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
        else:
            grouped = w.view(rows, -1, args.group_size)
            low, high = grouped.amin(-1), grouped.amax(-1)
        global_scale = None
        if strategy == "tensor_group":
            global_scale = (448 * 6 / w.abs().max()).view(1)
            layer.weight_global_scale.data.copy_(global_scale)
            global_scale = layer.weight_global_scale.data
        scale, zero = calculate_qparams(low, high, args, global_scale=global_scale)
        layer.weight_scale.data.copy_(scale.view_as(layer.weight_scale))
        if hasattr(layer, "weight_zero_point"):
            layer.weight_zero_point.data.copy_(zero.view_as(layer.weight_zero_point))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(directory)
    compressor.update_config(directory)
    tidy(directory)
    files = load_file(directory / "model.safetensors")
    for module in MODULES:
        expected[PREFIX + module + ".weight"] = decompress(files, PREFIX + module, args, dequantize)
    write_expected(directory, expected, tolerance)


def decompress(files, module, args, dequantize):
    """compressed-tensors' own steps, in fp32."""
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    get = lambda suffix: files.get(module + suffix)
    scale, zero = get(".weight_scale"), get(".weight_zero_point")
    if get(".weight_packed") is not None and get(".weight_packed").dtype == torch.int32:
        shape = get(".weight_shape").tolist()
        q = unpack_from_int32(get(".weight_packed"), args.num_bits, shape)
        if zero is not None:
            zero = unpack_from_int32(zero, args.num_bits, (shape[0], scale.shape[-1]), packed_dim=0)
    elif get(".weight_packed") is not None:
        packed = get(".weight_packed")
        q = unpack_fp4_from_uint8(packed, packed.shape[0], packed.shape[1] * 2)
    else:
        q = get(".weight")
    if scale.dtype == torch.uint8:
        scale = 2.0 ** (scale.to(torch.float32) - 127)
    return dequantize(x_q=q.float(), scale=scale.float(), zero_point=None if zero is None else zero.float(), args=args,
                      dtype=torch.float32, global_scale=get(".weight_global_scale"))


# ---------------------------------------------------------------- GPTQ, AWQ, AutoRound


def pack_stream(codes, bits):
    """Rows of codes [n, lines] along dimension 0, as a stream of bits in 32-bit words."""
    n, lines = codes.shape
    out = torch.zeros((n * bits + 31) // 32 + 1, lines, dtype=torch.int64)
    for i in range(n):
        bit = i * bits
        value = codes[i].to(torch.int64) << (bit % 32)
        out[bit // 32] |= value & 0xFFFFFFFF
        out[bit // 32 + 1] |= value >> 32
    out = out[:-1]
    return torch.where(out >= 2**31, out - 2**32, out).to(torch.int32)


def affine_codes(w, bits, group, sym):
    """codes [out, in], scales f16 and zeros [out, groups]."""
    rows, cols = w.shape
    grouped = w.float().view(rows, -1, group)
    if sym:
        scale = (grouped.abs().amax(-1) / (2 ** (bits - 1) - 0.5)).to(torch.float16)
        zero = torch.full_like(scale, 2 ** (bits - 1)).float()
    else:
        low, high = grouped.amin(-1).clamp(max=0), grouped.amax(-1).clamp(min=0)
        scale = ((high - low) / (2**bits - 1)).to(torch.float16)
        zero = torch.round(-low / scale.float()).clamp(1, 2**bits - 1)
    q = torch.round(grouped / scale.float()[..., None] + zero[..., None]).clamp(0, 2**bits - 1)
    return q.view(rows, cols).long(), scale, zero.long()


def gptq(name, bits, group, sym=True, v2=False, desc_act=False):
    directory, model = fresh(name), base_model()
    tensors, expected = {}, {}
    torch.manual_seed(7)
    for module, w in weights(model).items():
        rows, cols = w.shape
        size = cols if group == -1 else group
        order = torch.randperm(cols) if desc_act else torch.arange(cols)
        g_idx = torch.empty(cols, dtype=torch.int32)
        g_idx[order] = (torch.arange(cols) // size).to(torch.int32)
        q, scale, zero = affine_codes(w[:, order], bits, size, sym)
        codes = torch.empty_like(q)
        codes[:, order] = q
        stored = zero if v2 else (zero - 1) & (2**bits - 1)
        tensors |= {module + ".qweight": pack_stream(codes.t(), bits), module + ".g_idx": g_idx,
                    module + ".qzeros": pack_stream(stored, bits).t().contiguous(), module + ".scales": scale.t()}
        index = g_idx.long()
        expected[module + ".weight"] = (codes - zero[:, index]).float() * scale.float()[:, index]
    save_raw(directory, model, tensors, {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": sym,
                                         "desc_act": desc_act, "checkpoint_format": "gptq_v2" if v2 else "gptq"})
    write_expected(directory, expected)


def awq():
    directory, model = fresh("awq"), base_model()
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # the output that nibble i of a word is of

    def pack(codes):  # [lines, outputs]
        grouped = codes.view(codes.shape[0], -1, 8)
        out = sum(grouped[..., order[i]] << (4 * i) for i in range(8))
        return torch.where(out >= 2**31, out - 2**32, out).to(torch.int32)

    tensors, expected = {}, {}
    for module, w in weights(model).items():
        q, scale, zero = affine_codes(w, 4, 64, False)
        tensors |= {module + ".qweight": pack(q.t().contiguous()), module + ".qzeros": pack(zero.t().contiguous()),
                    module + ".scales": scale.t()}
        index = torch.arange(w.shape[1]) // 64
        expected[module + ".weight"] = (q - zero[:, index]).float() * scale.float()[:, index]
    save_raw(directory, model, tensors, {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True,
                                         "version": "gemm", "modules_to_not_convert": None})
    write_expected(directory, expected)


def auto_round(name, fmt, bits=4, sym=True, layer=None):
    """AutoRound without tuning (iters=0). Expected: its own unpacking."""
    from auto_round import AutoRound
    from transformers import PreTrainedTokenizerFast
    from tokenizers import Tokenizer, models

    directory, model = fresh(name), base_model()
    work = directory / "work"
    model.save_pretrained(work / "base")
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(32)}, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(work / "base")
    ar = AutoRound(str(work / "base"), bits=bits, group_size=32, sym=sym, iters=0, device_map="cpu",
                   layer_config={PREFIX + "mlp.down_proj": {"bits": layer}} if layer else None, disable_opt_rtn=True)
    ar.quantize_and_save(str(work / "out"), format=fmt)
    found = next(p for p in (work / "out").rglob("config.json"))
    for file in found.parent.glob("*.safetensors"):
        shutil.move(file, directory / file.name)
    shutil.move(found, directory / "config.json")
    shutil.rmtree(work)
    files = {}
    for file in directory.glob("*.safetensors"):
        files |= load_file(file)
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    minus = 1 if "gptq" in config.get("packing_format", "") else 0
    expected = {}
    for module in MODULES:
        m = PREFIX + module
        expected[m + ".weight"] = unpack_int(files[m + ".qweight"], files[m + ".qzeros"], files[m + ".scales"], minus)
    write_expected(directory, expected)


def unpack_int(qweight, qzeros, scales, plus):
    """An independent unpacking of both layouts: [out, in]."""
    words = lambda t: t.to(torch.int64) & 0xFFFFFFFF
    if qweight.shape[1] == scales.shape[1]:
        bits = qzeros.shape[1] * 32 // scales.shape[1]
        shifts = torch.arange(0, 32, bits)
        q = ((words(qweight)[:, None, :] >> shifts[None, :, None]) & (2**bits - 1)).reshape(-1, qweight.shape[1])
        z = ((words(qzeros)[:, :, None] >> shifts) & (2**bits - 1)).reshape(scales.shape) + plus
    else:
        nibble = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]) * 4
        q = ((words(qweight)[:, :, None] >> nibble) & 15).reshape(qweight.shape[0], -1)
        z = ((words(qzeros)[:, :, None] >> nibble) & 15).reshape(scales.shape)
    group = q.shape[0] // scales.shape[0]
    spread_rows = lambda t: t.repeat_interleave(group, 0)
    return ((q - spread_rows(z)).float() * spread_rows(scales.float())).t()


# ---------------------------------------------------------------- ModelOpt


FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def fp4_codes(x):
    return (x.abs()[..., None] - FP4[:8]).abs().argmin(-1) | ((x < 0).long() << 3)


def model_opt(name, kind, alone):
    directory, model = fresh(name), base_model()
    tensors, expected = {}, {}
    for module, w in weights(model).items():
        w = w.float()
        if kind == "FP8":
            scale = w.abs().max() / 448
            q = e4m3(w / scale)
            tensors |= {module + ".weight": q, module + ".weight_scale": scale}
            expected[module + ".weight"] = q.float() * scale
        else:
            second = w.abs().max() / (6 * 448)
            grouped = w.view(w.shape[0], -1, 16)
            scale = e4m3(grouped.abs().amax(-1) / 6 / second)
            step = scale.float() * second
            q = fp4_codes(grouped / step.clamp(min=1e-12)[..., None]).view(w.shape)
            tensors |= {module + ".weight": (q[:, ::2] | (q[:, 1::2] << 4)).to(torch.uint8),
                        module + ".weight_scale": scale, module + ".weight_scale_2": second}
            # Twice the value is an integer: a scale is rounded once.
            half = scale.float() * (second * 0.5)
            expected[module + ".weight"] = FP4[q] * 2 * half.repeat_interleave(16, 1)
        tensors[module + ".input_scale"] = torch.tensor(0.25)
    state = {"quant_algo": kind, "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}
    if kind == "NVFP4":
        state["group_size"] = 16
    side = {"producer": {"name": "modelopt", "version": "0.39.0"}, "quantization": state} if alone else None
    inside = None if alone else {"quant_method": "modelopt", "quant_algo": kind, "ignore": ["lm_head"],
                                 "producer": {"name": "modelopt", "version": "0.39.0"}}
    save_raw(directory, model, tensors, inside, side)
    write_expected(directory, expected)


# ---------------------------------------------------------------- bitsandbytes


def bitsandbytes(name, kind, nested=False):
    from bitsandbytes import functional as F

    directory, model = fresh(name), base_model()
    tensors, expected = {}, {}
    for module, w in weights(model).items():
        if kind == "int8":
            q, stats, _ = F.int8_vectorwise_quant(w.to(torch.float16))
            tensors |= {module + ".weight": q, module + ".SCB": stats,
                        module + ".weight_format": torch.tensor(0, dtype=torch.uint8)}
            expected[module + ".weight"] = F.int8_vectorwise_dequant(q, stats)
            continue
        q, state = F.quantize_4bit(w, blocksize=64, quant_type=kind, compress_statistics=nested)
        tensors[module + ".weight"] = q
        for key, value in state.as_dict(packed=True).items():
            tensors[f"{module}.weight.{key}"] = value
        expected[module + ".weight"] = F.dequantize_4bit(q, state).float()
    config = {"quant_method": "bitsandbytes", "load_in_4bit": kind != "int8", "load_in_8bit": kind == "int8",
              "bnb_4bit_quant_type": kind if kind != "int8" else "fp4", "bnb_4bit_use_double_quant": nested}
    save_raw(directory, model, tensors, config)
    # 8 bits: we add -128 * scale to code * scale in fp32, whose last place is 2^-17 of the smallest weight.
    write_expected(directory, expected, 8e-6 if kind == "int8" else 0.0)


# ---------------------------------------------------------------- MLX

MLX = r"""
import json, sys
import mlx.core as mx
directory, mode = sys.argv[1:]
bits, group = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}[mode]
weights = mx.load(directory + "/base.safetensors")
out, expected = {}, {}
for name, w in weights.items():
    if ".layers.0.mlp." in name or "_proj" in name:
        q, s = mx.quantize(w, group_size=group, bits=bits, mode=mode)
        out[name] = q
        out[name[:-7] + ".scales"] = s
        expected[name] = mx.dequantize(q, s, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
    else:
        out[name] = w
mx.save_safetensors(directory + "/model.safetensors", out, metadata={"format": "mlx"})
mx.save_safetensors(directory + "/values.safetensors", expected)
"""


def mlx_mode(mode):
    directory, model = fresh("mlx-" + mode), base_model()
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, directory / "base.safetensors")
    subprocess.run([os.environ["ANABRANCH_MLX_PYTHON"], "-c", MLX, str(directory), mode], check=True)
    bits, group = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}[mode]
    config = json.loads(model.config.to_json_string())
    config["quantization"] = {"group_size": group, "bits": bits, "mode": mode}
    config["quantization_config"] = config["quantization"]
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_expected(directory, load_file(directory / "values.safetensors"))
    (directory / "base.safetensors").unlink()
    (directory / "values.safetensors").unlink()


ALL = {
    "fp8-block": fp8_official,
    "fp8-static": fp8_static,
    "ct-fp8-dynamic": lambda: compressed("ct-fp8-dynamic", "FP8_DYNAMIC"),
    "ct-fp8-static": lambda: compressed("ct-fp8-static", "FP8"),
    "ct-fp8-block": lambda: compressed("ct-fp8-block", "FP8_BLOCK"),
    "ct-w4a16": lambda: compressed("ct-w4a16", "W4A16"),
    "ct-w4a16-asym": lambda: compressed("ct-w4a16-asym", "W4A16_ASYM", group_size=32),
    "ct-w3a16": lambda: compressed("ct-w3a16", "W3A16"),
    "ct-w8a16": lambda: compressed("ct-w8a16", "W8A16"),
    "ct-w8a8": lambda: compressed("ct-w8a8", "W8A8"),
    "ct-nvfp4": lambda: compressed("ct-nvfp4", "NVFP4A16", tolerance=2.5e-7),
    "ct-mxfp4": lambda: compressed("ct-mxfp4", "MXFP4A16"),
    "ct-mxfp8": lambda: compressed("ct-mxfp8", "MXFP8A16"),
    "gptq-4": lambda: gptq("gptq-4", 4, 128),
    "gptq-4-asym": lambda: gptq("gptq-4-asym", 4, 32, sym=False),
    "gptq-4-v2": lambda: gptq("gptq-4-v2", 4, 64, sym=False, v2=True),
    "gptq-4-desc-act": lambda: gptq("gptq-4-desc-act", 4, 32, desc_act=True),
    "gptq-3-channel": lambda: gptq("gptq-3-channel", 3, -1),
    "gptq-2": lambda: gptq("gptq-2", 2, 64, sym=False),
    "gptq-8": lambda: gptq("gptq-8", 8, 128),
    "awq": awq,
    "auto-round": lambda: auto_round("auto-round", "auto_round", layer=8),
    "auto-round-asym": lambda: auto_round("auto-round-asym", "auto_round", sym=False),
    "auto-round-awq": lambda: auto_round("auto-round-awq", "auto_round:auto_awq", sym=False),
    "modelopt-fp8": lambda: model_opt("modelopt-fp8", "FP8", alone=True),
    "modelopt-nvfp4": lambda: model_opt("modelopt-nvfp4", "NVFP4", alone=False),
    "modelopt-nvfp4-alone": lambda: model_opt("modelopt-nvfp4-alone", "NVFP4", alone=True),
    "bnb-nf4": lambda: bitsandbytes("bnb-nf4", "nf4"),
    "bnb-nf4-nested": lambda: bitsandbytes("bnb-nf4-nested", "nf4", nested=True),
    "bnb-fp4": lambda: bitsandbytes("bnb-fp4", "fp4"),
    "bnb-int8": lambda: bitsandbytes("bnb-int8", "int8"),
    "mlx-mxfp4": lambda: mlx_mode("mxfp4"),
    "mlx-mxfp8": lambda: mlx_mode("mxfp8"),
    "mlx-nvfp4": lambda: mlx_mode("nvfp4"),
}


def main():
    failed = []
    for name, make in ALL.items():
        if ONLY and name not in ONLY:
            continue
        try:
            make()
            print("made", name, flush=True)
        except Exception as error:  # the others are made
            failed.append(name)
            print("failed", name, type(error).__name__, error, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":  # AutoRound starts processes that import this file
    main()
