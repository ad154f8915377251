#!/usr/bin/env python3
"""Writes tests/checkpoint/data/layouts: make_gguf_layouts.py [OUT]. Needs numpy, gguf 0.19 and ml_dtypes.

The tiny models of tests/models/data, which llama.cpp's converter made, once more in other layouts: with the names and
keys of Ollama's converter (convert/ and llama/compat/ in its sources), and split by gguf's own writer. Each holds the
same model as its twin.

qwen35_ollama.gguf      of qwen35_gguf: a list of key heads, ssm_dt, an MTP head under its own names, a vision tower
qwen3_vl_ollama.gguf    of qwen3_vl: a vision tower with deepstack mergers
qwen3_next_ollama.gguf  of qwen3_next_gguf: the same of Qwen3-Next
ministral3_ollama.gguf  of ministral3_gguf: keys of the rope, and a tower that we do not have
gemma3_ollama.gguf      of gemma3_gguf: keys of the ropes, none of their scaling, no epsilon, a vision tower
gemma4_moe_ollama.gguf  of gemma4_moe_gguf: other names of norms and scales, experts' matrices apart
qwen2-0000N-of-0000M.gguf  of qwen2_gguf: split
"""
import json
import pathlib
import struct
import sys

import gguf
import ml_dtypes
import numpy as np

MODELS = pathlib.Path(__file__).parent.parent / "tests/models/data"
T = gguf.GGUFValueType


class Model:
    """A GGUF file in memory. keys: name -> (value, type, type of a list's entries)."""

    def __init__(self, case):
        reader = gguf.GGUFReader(MODELS / case / "model.gguf")
        self.keys, self.tensors = {}, {}
        for name, field in reader.fields.items():
            if name.startswith("GGUF."):
                continue
            kind = field.types[0]
            self.keys[name] = (field.contents(), kind, field.types[-1] if kind == T.ARRAY else None)
        self.arch = self.keys.pop("general.architecture")[0]
        for tensor in reader.tensors:
            self.tensors[tensor.name] = (np.array(tensor.data), tensor.tensor_type)

    def own(self, name):
        return f"{self.arch}.{name}"

    def set(self, name, value, kind, of=None):
        self.keys[self.own(name)] = (value, kind, of)

    def drop(self, *names):
        for name in names:
            del self.keys[self.own(name)]

    def rename_keys(self, names):
        for old, new in names.items():
            self.keys[self.own(new)] = self.keys.pop(self.own(old))

    def rename(self, change):
        self.tensors = {change(name): tensor for name, tensor in self.tensors.items()}

    def add(self, name, values, kind=np.float16):
        values = np.ascontiguousarray(values.astype(kind))
        self.tensors[name] = (values, gguf.GGMLQuantizationType.F16 if kind == np.float16
                              else gguf.GGMLQuantizationType.F32)

    def write(self, path, **more):
        writer = gguf.GGUFWriter(path, self.arch, **more)
        for name, (value, kind, of) in self.keys.items():
            writer.add_key_value(name, value, kind, sub_type=of)
        for name, (data, kind) in self.tensors.items():
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def tower_of(case):
    """(vision_config, tensors) of a checkpoint directory, values in f32."""
    raw = (MODELS / case / "model/model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    kinds = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32}
    out = {}
    for name, entry in header.items():
        if "vision" in name or "visual" in name or "multi_modal_projector" in name:
            begin, end = entry["data_offsets"]
            out[name] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"]).astype(np.float32)
    return json.loads((MODELS / case / "model/config.json").read_text())["vision_config"], out


def replaced(name, pairs):
    for old, new in pairs:
        name = name.replace(old, new)
    return name


def add_qwen_tower(model, case="qwen3_5_vision"):
    config, tensors = tower_of(case)
    if deep := config["deepstack_visual_indexes"]:
        model.set("vision.deepstack_visual_indexes", deep, T.ARRAY, T.INT32)
    for name, key in (("block_count", "depth"), ("embedding_length", "hidden_size"),
                      ("attention.head_count", "num_heads"), ("num_channels", "in_channels"),
                      ("patch_size", "patch_size"), ("spatial_merge_size", "spatial_merge_size"),
                      ("temporal_patch_size", "temporal_patch_size")):
        model.set("vision." + name, config[key], T.UINT32)
    for name in ("image_mean", "image_std"):
        model.set("vision." + name, [0.5, 0.5, 0.5], T.ARRAY, T.FLOAT32)
    for key, value in (("image_token_id", 260), ("vision_start_token_id", 261), ("vision_end_token_id", 262)):
        model.set(key, value, T.UINT32)
    for name, values in tensors.items():
        name = replaced(name, (("model.visual", "v"), ("patch_embed.proj", "patch_embed"), ("blocks", "blk"),
                               ("attn.qkv", "attn_qkv"), ("attn.proj", "attn_out"),
                               ("deepstack_merger_list", "deepstack_merger")))
        if "attn_qkv" in name:
            for letter, part in zip("qkv", np.split(values, 3)):
                model.add(name.replace("attn_qkv", "attn_" + letter), part)
        elif name == "v.patch_embed.weight":
            model.add(name, values.reshape(-1, *values.shape[2:]))
        else:
            model.add(name, values)


def add_gemma_tower(model):
    config, tensors = tower_of("gemma3_vision")
    for name, key in (("block_count", "num_hidden_layers"), ("embedding_length", "hidden_size"),
                      ("feed_forward_length", "intermediate_size"), ("image_size", "image_size"),
                      ("patch_size", "patch_size"), ("num_channels", "num_channels"),
                      ("attention.head_count", "num_attention_heads")):
        model.set("vision." + name, config[key], T.UINT32)
    model.set("vision.attention.layer_norm_epsilon", config["layer_norm_eps"], T.FLOAT32)
    model.set("mm.tokens_per_image", 16, T.UINT32)
    for name, values in tensors.items():
        name = name.removeprefix("model.")
        name = replaced(name, (("vision_tower.vision_model.embeddings", "v"), ("vision_tower.vision_model", "v"),
                               ("vision_tower.embeddings", "v"), ("vision_tower", "v"), ("encoder.layers", "blk"),
                               ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                               ("self_attn.v_proj", "attn_v"), ("self_attn.out_proj", "attn_output"),
                               ("input_projection_weight", "input_projection.weight"),
                               ("multi_modal_projector", "mm")))
        model.add(name, values + 1 if name == "mm.mm_soft_emb_norm.weight" else values)


def of_hybrid(case, layers):
    model = Model(case)
    heads = model.keys[model.own("attention.head_count_kv")][0]
    kinds = [0 if (i + 1) % 4 else heads for i in range(layers)]
    model.drop("attention.head_count_kv")
    model.set("attention.head_count_kv", kinds, T.ARRAY, T.UINT32)
    model.keys.pop(model.own("attention.recurrent_layers"), None)
    model.rename(lambda name: name.replace(".ssm_dt.bias", ".ssm_dt"))
    return model


def qwen35(out):
    layers = 4
    model = of_hybrid("qwen35_gguf", layers)
    model.set("block_count", layers, T.UINT32)
    model.drop("nextn_predict_layers")
    model.drop("rope.dimension_sections")
    for name in ("mrope_sections", "rope.mrope_section"):
        model.set(name, [4, 2, 2], T.ARRAY, T.INT32)
    model.set("rope.mrope_interleaved", True, T.BOOL)
    model.set("ssm.v_head_reordered", True, T.BOOL)
    top = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "shared_head_norm": "norm"}

    def name_of(name):
        if not name.startswith(f"blk.{layers}."):
            return name
        part = name.removeprefix(f"blk.{layers}.")
        if part.startswith("nextn."):
            return f"mtp.{top[part.split('.')[1]]}.weight"
        return "mtp.layers.0." + part
    model.rename(name_of)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):  # not stored as 1 + w
        data, kind = model.tensors[f"mtp.{name}.weight"]
        model.tensors[f"mtp.{name}.weight"] = (data - np.float32(1), kind)
    add_qwen_tower(model)
    model.write(out / "qwen35_ollama.gguf")


def qwen3_vl(out):
    model = Model("qwen3_vl")
    model.set("mrope_sections", model.keys.pop(model.own("rope.dimension_sections"))[0][:3], T.ARRAY, T.INT32)
    add_qwen_tower(model, "qwen3_vl")
    model.write(out / "qwen3_vl_ollama.gguf")


def qwen3_next(out):
    model = of_hybrid("qwen3_next_gguf", 4)
    model.set("norm_top_k_prob", True, T.BOOL)
    model.write(out / "qwen3_next_ollama.gguf")


def ministral3(out):
    model = Model("ministral3_gguf")
    model.rename_keys({"rope.scaling.yarn_beta_fast": "rope.scaling.beta_fast",
                       "rope.scaling.yarn_beta_slow": "rope.scaling.beta_slow",
                       "rope.scaling.yarn_log_multiplier": "rope.scaling.mscale_all_dim",
                       "attention.temperature_scale": "rope.scaling_beta"})
    model.set("rope.scaling.mscale", 1.0, T.FLOAT32)
    model.set("vision.block_count", 1, T.UINT32)
    for name in ("v.patch_conv.weight", "mm.linear_1.weight"):
        model.add(name, np.ones((32, 32)))
    model.write(out / "ministral3_ollama.gguf")


def gemma3(out):
    model = Model("gemma3_gguf")
    model.drop("attention.layer_norm_rms_epsilon", "rope.scaling.type", "rope.scaling.factor")
    model.keys.pop(model.own("attention.sliding_window_pattern"), None)
    model.rename_keys({"rope.freq_base": "rope.global.freq_base", "rope.freq_base_swa": "rope.local.freq_base"})
    model.set("context_length", 131072, T.UINT32)
    add_gemma_tower(model)
    model.write(out / "gemma3_ollama.gguf")


def gemma4_moe(out):
    model = Model("gemma4_moe_gguf")
    names = ((".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale"),
             (".post_attention_norm.", ".attn_post_norm."), (".post_ffw_norm.", ".ffn_post_norm."),
             (".post_ffw_norm_1.", ".ffn_post_norm_1."), (".pre_ffw_norm_2.", ".ffn_pre_norm_2."),
             (".post_ffw_norm_2.", ".ffn_post_norm_2."), (".layer_output_scale.weight", ".layer_scalar"))
    model.rename(lambda name: replaced(name, names))
    for name in [name for name in model.tensors if name.endswith(".ffn_gate_up_exps.weight")]:
        data, kind = model.tensors.pop(name)
        gate, up = np.split(data, 2, axis=1)
        model.tensors[name.replace("gate_up", "gate")] = (np.ascontiguousarray(gate), kind)
        model.tensors[name.replace("gate_up", "up")] = (np.ascontiguousarray(up), kind)
    for name in ("a.conv1d.0.weight", "v.patch_embd.weight", "mm.input_projection.weight", "v.clamp_data"):
        model.add(name, np.ones((4, 32)))
    model.write(out / "gemma4_moe_ollama.gguf")


def split(out):
    Model("qwen2_gguf").write(out / "qwen2.gguf", split_max_tensors=10)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/checkpoint/data/layouts")
    folder.mkdir(parents=True, exist_ok=True)
    for make in (qwen35, qwen3_vl, qwen3_next, ministral3, gemma3, gemma4_moe, split):
        make(folder)
