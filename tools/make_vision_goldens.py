#!/usr/bin/env python3
"""Tiny random checkpoints with a vision tower, and what Hugging Face Transformers computes with them.

  python tools/make_vision_goldens.py tests/models/data [case ...]

Needs what tools/make_golden_logits.py needs, and torchvision. For each case it writes

  <case>/model/       config.json + safetensors with Hugging Face's names, preprocessor_config.json
  <case>/golden.json  {model, vocab, data, images, runs}
  <case>/golden.bin   little endian, at the offsets (in bytes) that golden.json gives
  <case>/mlx/, mlxq/  the tower alone as mlx-vlm writes it, and quantised to 8 bits (with features of its own)
  <case>/mmproj.gguf  the tower alone as llama.cpp's converter writes it
  <case>/model.gguf   of Qwen3-VL: the text model, likewise

images: {width, height, rows, columns, tokens, pixels, features, features_mlxq}: a resized picture (u8 [height, width,
3] at `pixels`), its grid of patches and what the tower makes of it (f32 [tokens, width of the text model], and of
Qwen3-VL after these rows as many for each of the `deepstack` layers).
runs: {prompt, images, rope_positions, positions, offset, greedy, greedy_gap}: a prompt with placeholders for the
images (indices into `images`), for Qwen the positions of its tokens on three axes, and as in
tools/make_golden_logits.py the log-probs at some positions and a greedy continuation of 12 tokens. All in fp32.
"""
import json
import pathlib
import shutil
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

import golden_cases
from make_golden_logits import BF16, compact, log_probs, nested_config, quantise, random_weights, write_cases

GREEDY = 12
IMAGE, VISION_START, VISION_END = 260, 261, 262  # token ids at the end of the vocabulary

QWEN_VISION = {"model_type": "qwen3_5_vision", "depth": 3, "hidden_size": 32, "hidden_act": "gelu_pytorch_tanh",
               "intermediate_size": 64, "num_heads": 2, "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2,
               "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 36,
               "deepstack_visual_indexes": []}
GEMMA_VISION = {"model_type": "siglip_vision_model", "num_hidden_layers": 2, "hidden_size": 32,
                "hidden_act": "gelu_pytorch_tanh", "intermediate_size": 64, "num_attention_heads": 2,
                "num_channels": 3, "patch_size": 14, "image_size": 112, "layer_norm_eps": 1e-6,
                "vision_use_head": False}
# Its tower gives features of two layers, which are added behind the first two layers of the text model.
QWEN3_VL_VISION = QWEN_VISION | {"model_type": "qwen3_vl", "depth": 4, "deepstack_visual_indexes": [1, 2]}


def qwen3_vl_text(**over):
    moe = "_moe" if "num_experts" in over else ""
    return golden_cases.llama_like(
        "qwen3" + moe, hidden_size=32, head_dim=32, num_hidden_layers=3, max_position_embeddings=4096, tie_word_embeddings=False,
        rope_scaling={"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]},
        **over) | {"model_type": f"qwen3_vl{moe}_text"}


# sizes: of resized pictures (width, height); prompts: runs of text tokens (numbers) with images between them (tuples)
CASES = {
    "qwen3_5_vision": dict(text=golden_cases.qwen35_text(), vision=QWEN_VISION,
                           sizes=[(32, 32), (56, 24), (8, 80)],
                           prompts=[[5, (0,), 9], [3, (1,), 2, (2,), 30], [12, (2,), 0, (0,), 1]]),
    "qwen3_vl": dict(text=qwen3_vl_text(), vision=QWEN3_VL_VISION, sizes=[(32, 32), (56, 24), (8, 80)],
                     prompts=[[5, (0,), 9], [3, (1,), 2, (2,), 30], [12, (2,), 0, (0,), 1]]),
    "qwen3_vl_moe": dict(text=qwen3_vl_text(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24),
                         vision=QWEN3_VL_VISION | {"model_type": "qwen3_vl_moe"}, sizes=[(56, 24), (16, 24)],
                         prompts=[[5, (0,), 9, (1,), 12]], variants=False),
    "gemma3_vision": dict(text=golden_cases.gemma(3), vision=GEMMA_VISION, sizes=[(112, 112), (112, 112)],
                          prompts=[[5, (0,), 9], [20, (1,), 2, (0,), 31]]),
    # The tower alone, with heads of 72, and a picture of several pieces of work (src/models/vision_encoding.cc).
    "qwen3_5_vision_72": dict(text=golden_cases.qwen35_text(),
                              vision=QWEN_VISION | {"depth": 1, "hidden_size": 72, "num_heads": 1},
                              sizes=[(64, 48), (128, 96)], prompts=[], variants=False),
}


def is_gemma(case):
    return case["vision"]["model_type"].startswith("siglip")


def text_weights(case, rng):
    """name -> float32, flat Hugging Face names."""
    text = case["text"]
    if not text["model_type"].startswith("qwen3_vl"):
        return random_weights(text, rng)
    out = random_weights(text | {"model_type": text["model_type"].replace("_vl", "").removesuffix("_text")}, rng)
    for i in range(text["num_hidden_layers"] if "num_experts" in text else 0):  # published files have stacks [experts, in, out]
        p = f"model.layers.{i}.mlp.experts."
        gate, up, down = (np.stack([np.ascontiguousarray(out.pop(f"{p}{e}.{m}_proj.weight").T) for e in range(text["num_experts"])])
                          for m in ("gate", "up", "down"))
        out[p + "gate_up_proj"], out[p + "down_proj"] = np.concatenate([gate, up], 2), down
    return out


def vision_weights(case, rng):
    """name -> float32, Hugging Face's names in a released checkpoint. Scales as in random_weights()."""
    vision, out = case["vision"], {}
    h, f, patch = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]

    def linear(name, rows, cols, gain=1.5):
        out[name + ".weight"] = rng.standard_normal((rows, cols)) * gain / np.sqrt(cols)
        out[name + ".bias"] = rng.standard_normal(rows) * 0.3

    def norm(name, size=h):
        out[name + ".weight"] = 1 + 0.15 * rng.standard_normal(size)
        out[name + ".bias"] = 0.15 * rng.standard_normal(size)

    def conv(name, shape):
        out[name + ".weight"] = rng.standard_normal((h, *shape)) * 1.5 / np.sqrt(np.prod(shape))
        out[name + ".bias"] = rng.standard_normal(h) * 0.3

    if is_gemma(case):
        p = "vision_tower.vision_model."
        conv(p + "embeddings.patch_embedding", (3, patch, patch))
        count = (vision["image_size"] // patch) ** 2
        out[p + "embeddings.position_embedding.weight"] = rng.standard_normal((count, h)) * 0.7
        for i in range(vision["num_hidden_layers"]):
            layer = f"{p}encoder.layers.{i}."
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                linear(layer + "self_attn." + name, h, h)
            linear(layer + "mlp.fc1", f, h)
            linear(layer + "mlp.fc2", h, f)
            norm(layer + "layer_norm1")
            norm(layer + "layer_norm2")
        norm(p + "post_layernorm")
        width = case["text"]["hidden_size"]
        out["multi_modal_projector.mm_input_projection_weight"] = rng.standard_normal((h, width)) * 0.2 / np.sqrt(h)
        out["multi_modal_projector.mm_soft_emb_norm.weight"] = 0.15 * rng.standard_normal(h)
    else:
        p, merged = "model.visual.", h * vision["spatial_merge_size"] ** 2
        conv(p + "patch_embed.proj", (3, vision["temporal_patch_size"], patch, patch))
        out[p + "pos_embed.weight"] = rng.standard_normal((vision["num_position_embeddings"], h)) * 0.7
        for i in range(vision["depth"]):
            layer = f"{p}blocks.{i}."
            linear(layer + "attn.qkv", 3 * h, h)
            linear(layer + "attn.proj", h, h)
            linear(layer + "mlp.linear_fc1", f, h)
            linear(layer + "mlp.linear_fc2", h, f)
            norm(layer + "norm1")
            norm(layer + "norm2")
        norm(p + "merger.norm")
        linear(p + "merger.linear_fc1", merged, merged)
        linear(p + "merger.linear_fc2", vision["out_hidden_size"], merged, 0.5)
        for i in range(len(vision["deepstack_visual_indexes"])):
            merger = f"{p}deepstack_merger_list.{i}."
            norm(merger + "norm", merged)
            linear(merger + "linear_fc1", merged, merged)
            linear(merger + "linear_fc2", vision["out_hidden_size"], merged, 0.5)
    return {k: both_halves(v) for k, v in out.items()}


def both_halves(w):
    """Values that bf16 and f16 both have."""
    w = w.astype(np.float32).astype(BF16).astype(np.float32)
    return np.where(np.abs(w) < 2.0**-16, 0, w).astype(np.float32)


# ---------------------------------------------------------------- files
def model_config(case):
    config = nested_config(case["text"], vision_config=case["vision"])
    if is_gemma(case):
        tokens = (case["vision"]["image_size"] // case["vision"]["patch_size"] // 2) ** 2
        return config | {"image_token_index": IMAGE, "boi_token_index": VISION_START, "eoi_token_index": VISION_END,
                         "mm_tokens_per_image": tokens}
    if case["text"]["model_type"].startswith("qwen3_vl"):
        moe = "Moe" if "num_experts" in case["text"] else ""
        config |= {"model_type": case["vision"]["model_type"], "architectures": [f"Qwen3VL{moe}ForConditionalGeneration"]}
    return config | {"image_token_id": IMAGE, "vision_start_token_id": VISION_START, "vision_end_token_id": VISION_END,
                     "video_token_id": 259}


def processor_config(case):
    vision = case["vision"]
    both = {"do_rescale": True, "do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3, "rescale_factor": 1 / 255}
    if is_gemma(case):
        side = vision["image_size"]
        return both | {"image_processor_type": "Gemma3ImageProcessor", "image_seq_length": tokens_of(case, side, side),
                       "size": {"height": side, "width": side}, "resample": 2, "do_pan_and_scan": None}
    return both | {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": vision["patch_size"],
                   "merge_size": vision["spatial_merge_size"], "temporal_patch_size": vision["temporal_patch_size"],
                   "size": {"shortest_edge": 256, "longest_edge": 8192}}


def write_directory(path, config, tensors, metadata, processor):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (path / "preprocessor_config.json").write_text(json.dumps(processor, indent=1) + "\n")
    save_file(tensors, path / "model.safetensors", metadata=metadata)


def to_mlx(tensors):
    """mlx-vlm: convolutions have their channels last, Qwen's tower is called vision_tower too."""
    out = {}
    for name, w in tensors.items():
        if name.endswith(("patch_embed.proj.weight", "patch_embedding.weight")):
            w = np.ascontiguousarray(np.moveaxis(w, 1, -1))
        out[name.replace("model.visual.", "vision_tower.")] = w
    return out


def quantise_mlx(tensors, bits=8, group=32):
    """(tensors to store, their exact values)."""
    stored, exact = {}, {}
    for name, w in tensors.items():
        if w.ndim != 2 or not name.endswith(".weight") or "pos" in name or w.shape[1] % group:
            stored[name] = exact[name] = w
            continue
        packed, scales, biases, exact[name] = quantise(w.astype(np.float32), bits, group)
        module = name.removesuffix(".weight")
        stored |= {name: packed, module + ".scales": scales, module + ".biases": biases}
    return stored, exact


def write_mmproj(path, case, weights):
    vision, names = case["vision"], {}
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    kind = "gemma3" if is_gemma(case) else "qwen3vl_merger"
    writer.add_string("clip.projector_type", kind)
    grid = vision.get("image_size") or int(vision["num_position_embeddings"] ** 0.5) * vision["patch_size"]
    for key, value in {"image_size": grid, "patch_size": vision["patch_size"],
                       "embedding_length": vision["hidden_size"], "feed_forward_length": vision["intermediate_size"],
                       "projection_dim": case["text"]["hidden_size"],
                       "block_count": vision.get("depth", vision.get("num_hidden_layers")),
                       "attention.head_count": vision.get("num_heads", vision.get("num_attention_heads"))}.items():
        writer.add_uint32("clip.vision." + key, value)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_bool("clip.use_gelu", True)
    if is_gemma(case):
        writer.add_uint32("clip.vision.projector.scale_factor", 2)
    else:
        writer.add_uint32("clip.vision.spatial_merge_size", vision["spatial_merge_size"])
        writer.add_array("clip.vision.is_deepstack_layers",
                         [i in vision["deepstack_visual_indexes"] for i in range(vision["depth"])])
    parts = {"attn.qkv": "attn_qkv", "attn.proj": "attn_out", "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
             "norm1": "ln1", "norm2": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
             "layer_norm1": "ln1", "layer_norm2": "ln2"}
    top = {"patch_embed.proj": "v.patch_embd", "embeddings.patch_embedding": "v.patch_embd",
           "pos_embed": "v.position_embd", "embeddings.position_embedding": "v.position_embd",
           "merger.norm": "v.post_ln", "post_layernorm": "v.post_ln", "merger.linear_fc1": "mm.0",
           "merger.linear_fc2": "mm.2", "mm_soft_emb_norm": "mm.soft_emb_norm"}
    for name, w in weights.items():
        for prefix in ("model.visual.", "vision_tower.vision_model.encoder.", "vision_tower.vision_model.",
                       "multi_modal_projector."):
            name = name.removeprefix(prefix)
        module, _, end = name.rpartition(".")
        if module.startswith(("blocks.", "layers.")):
            _, layer, part = module.split(".", 2)
            names[f"v.blk.{layer}.{parts[part]}.{end}"] = w
        elif module.startswith("deepstack_merger_list."):
            _, index, part = module.split(".")
            layer = vision["deepstack_visual_indexes"][int(index)]
            names[f"v.deepstack.{layer}.{part.removeprefix('linear_')}.{end}"] = w
        elif name == "mm_input_projection_weight":
            names["mm.input_projection.weight"] = w
        elif module == "patch_embed.proj" and end == "weight":
            for i in range(2):
                names["v.patch_embd.weight" + ".1" * i] = np.ascontiguousarray(w[:, :, i])
        else:
            names[f"{top[module]}.{end}"] = w + 1 if module == "mm_soft_emb_norm" else w
    for name, w in names.items():
        plain = w.ndim == 1 or "position_embd" in name or "patch_embd" in name
        writer.add_tensor(name, w.astype(np.float32 if plain else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_text_gguf(path, text, weights):
    moe = "num_experts" in text
    writer = gguf.GGUFWriter(path, "qwen3vlmoe" if moe else "qwen3vl")
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(text["num_attention_heads"])
    writer.add_head_count_kv(text["num_key_value_heads"])
    writer.add_key_length(text["head_dim"])
    writer.add_value_length(text["head_dim"])
    writer.add_rope_freq_base(text["rope_theta"])
    writer.add_rope_dimension_sections([*text["rope_scaling"]["mrope_section"], 0])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    if moe:
        writer.add_expert_count(text["num_experts"])
        writer.add_expert_used_count(text["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(text["moe_intermediate_size"])
    parts = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output", "mlp.gate": "ffn_gate_inp"}
    parts |= {f"self_attn.{m}_proj": f"attn_{m}" for m in "qkv"} | {f"self_attn.{m}_norm": f"attn_{m}_norm" for m in "qk"}
    parts |= {f"mlp.{m}_proj": f"ffn_{m}" for m in ("gate", "up", "down")}
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    for name, w in weights.items():
        module = name.removesuffix(".weight")
        layer = f"blk.{name.split('.')[2]}." if name.startswith("model.layers.") else ""
        part = module.split(".", 3)[-1]
        if part == "mlp.experts.gate_up_proj":
            made = {layer + f"ffn_{m}_exps": half.transpose(0, 2, 1) for m, half in zip(("gate", "up"), np.split(w, 2, axis=2))}
        elif part == "mlp.experts.down_proj":
            made = {layer + "ffn_down_exps": w.transpose(0, 2, 1)}
        else:
            made = {top.get(module) or layer + parts[part]: w}
        for own, values in made.items():
            plain = values.ndim == 1 or own.endswith("gate_inp")
            writer.add_tensor(own + ".weight", np.ascontiguousarray(values, np.float32 if plain else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---------------------------------------------------------------- pictures and the oracle
def picture(width, height, rng):
    """Smooth, with some noise."""
    y, x = np.mgrid[0:height, 0:width] / 16
    waves = [np.sin(x * a + y * b + c) for a, b, c in rng.uniform(-3, 3, (3, 3))]
    return np.clip(128 + 90 * np.stack(waves, -1) + 25 * rng.standard_normal((height, width, 3)), 0, 255).astype(np.uint8)


def grid_of(case, width, height):
    patch = case["vision"]["patch_size"]
    return height // patch, width // patch


def tokens_of(case, width, height):
    rows, columns = grid_of(case, width, height)
    return rows * columns // 4


def pixel_values(case, pixels):
    """As Transformers' image processors make them of a picture that needs no resizing."""
    x = (torch.tensor(pixels).float() / 255 - 0.5) / 0.5
    x = x.permute(2, 0, 1)
    if is_gemma(case):
        return x[None]
    patch, merge = case["vision"]["patch_size"], case["vision"]["spatial_merge_size"]
    rows, columns = x.shape[1] // patch, x.shape[2] // patch
    x = x.reshape(3, rows // merge, merge, patch, columns // merge, merge, patch)
    x = x.permute(1, 4, 2, 5, 0, 3, 6)  # blocks, patches in them, channel, pixels
    x = x.reshape(rows * columns, 3, 1, patch, patch).repeat(1, 1, case["vision"]["temporal_patch_size"], 1, 1)
    return x.reshape(rows * columns, -1)


def load(path):
    model, info = transformers.AutoModelForImageTextToText.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    bad = [k for k in info["missing_keys"] if "lm_head" not in k] + list(info["unexpected_keys"])
    if bad or info["mismatched_keys"]:
        raise SystemExit(f"{path}: Transformers did not load {bad} {info['mismatched_keys']}")
    return model.eval()


@torch.no_grad()
def features(case, model, pixels):
    values = pixel_values(case, pixels)
    if is_gemma(case):
        return model.model.get_image_features(values).pooler_output[0].numpy()
    grid = torch.tensor([[1, *grid_of(case, pixels.shape[1], pixels.shape[0])]])
    made = model.model.get_image_features(values, grid)
    deep = getattr(made, "deepstack_features", None) or []
    return torch.cat([made.pooler_output[0], *(one[0] for one in deep)]).numpy()


@torch.no_grad()
def run(case, model, prompt, images, positions):
    """The whole prompt again for each token: images' rows see each other both ways in one pass only."""
    kinds = {"pixel_values": torch.cat([pixel_values(case, p) for p in images])}
    if not is_gemma(case):
        kinds["image_grid_thw"] = torch.tensor([[1, *grid_of(case, p.shape[1], p.shape[0])] for p in images])

    def forward(tokens):
        types = torch.tensor([[int(t == IMAGE) for t in tokens]])
        key = "token_type_ids" if is_gemma(case) else "mm_token_type_ids"
        return log_probs(model(torch.tensor([tokens]), **kinds, **{key: types}, use_cache=False).logits[0])

    tokens, greedy, gaps = list(prompt), [], []
    rows = forward(tokens)
    last = rows[-1]
    for _ in range(GREEDY):
        top = last.topk(2)
        greedy.append(int(top.indices[0]))
        gaps.append(float(top.values[0] - top.values[1]))
        tokens.append(greedy[-1])
        last = forward(tokens)[-1]
    rope = None
    if not is_gemma(case):
        types = torch.tensor([[int(t == IMAGE) for t in prompt]])
        rope = model.model.get_rope_index(torch.tensor([prompt]), types, kinds["image_grid_thw"])[0][:, 0].tolist()
    return rows[positions].numpy(), greedy, min(gaps), rope


def make(case, seed):
    rng = np.random.default_rng(seed)
    text = {k: both_halves(v) for k, v in text_weights(case, rng).items()}
    nested = {"language_model." + k if is_gemma(case) else k.replace("model.", "model.language_model.", 1): v
              for k, v in text.items()}
    vision = vision_weights(case, rng)
    pictures = [picture(*size, rng) for size in case["sizes"]]
    tensors = {k: v.astype(np.float32 if k.endswith(("A_log", "linear_attn.norm.weight")) else BF16)
               for k, v in (nested | vision).items()}
    mlxq, exact = quantise_mlx({k: v.astype(BF16) for k, v in to_mlx(vision).items()})
    back = {k: exact[m] for k, m in zip(vision, to_mlx(vision))}  # in Hugging Face's layout again
    back = {k: np.ascontiguousarray(np.moveaxis(v, -1, 1)) if v.ndim > 2 else v for k, v in back.items()}
    runs = []
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "m"
        write_directory(path, model_config(case), tensors, {"format": "pt"}, processor_config(case))
        model = load(path)
        made = [features(case, model, p) for p in pictures]
        for spec in case["prompts"]:
            prompt, images = [], []
            for part in spec:
                if isinstance(part, tuple):
                    height, width, _ = pictures[part[0]].shape
                    images.append(part[0])
                    prompt += [VISION_START, *[IMAGE] * tokens_of(case, width, height), VISION_END]
                else:
                    prompt += rng.integers(3, 255, part).tolist()
            positions = sorted({*range(0, len(prompt), 7), *range(max(len(prompt) - 4, 0), len(prompt))})
            runs.append((prompt, images, positions, *run(case, model, prompt, [pictures[i] for i in images], positions)))
        shutil.rmtree(path)
        whole = {k: v.astype(np.float32) for k, v in tensors.items() if k not in vision} | {
            k: v.astype(np.float32) for k, v in back.items()}
        write_directory(path, model_config(case), whole, {"format": "pt"}, processor_config(case))
        made_mlxq = [features(case, load(path), p) for p in pictures]
    return tensors, text, vision, mlxq, pictures, made, made_mlxq, runs


def write_case(root, name, case):
    for seed in range(1, 200):
        made = make(case, seed)
        if all(gap > 0.02 and len(set(greedy)) >= 5 for *_, greedy, gap, _ in made[-1]):
            break
    else:
        raise SystemExit(f"{name}: no seed gives a continuation without near-ties")
    tensors, text, vision, mlxq, pictures, feature_rows, mlxq_rows, runs = made
    path = root / name
    shutil.rmtree(path, ignore_errors=True)
    config, processor = model_config(case), processor_config(case)
    if not case["prompts"]:
        tensors = {k: v for k, v in tensors.items() if k in vision}
    write_directory(path / "model", config, tensors, {"format": "pt"}, processor)
    if case.get("variants", True):
        write_directory(path / "mlx", config, {k: v.astype(BF16) for k, v in to_mlx(vision).items()},
                        {"format": "mlx"}, processor)
        write_directory(path / "mlxq", config | {"quantization": {"group_size": 32, "bits": 8, "mode": "affine"}}, mlxq,
                        {"format": "mlx"}, processor)
    with_text = case["text"]["model_type"].startswith("qwen3_vl")
    if case.get("variants", True) or with_text:
        write_mmproj(path / "mmproj.gguf", case, vision)
    if with_text:
        write_text_gguf(path / "model.gguf", case["text"], text)
    data, images, entries = b"", [], []

    def put(x):
        nonlocal data
        at = len(data)
        data += x.tobytes() + b"\0" * (-x.nbytes % 4)
        return at

    for pixels, rows, rows_mlxq in zip(pictures, feature_rows, mlxq_rows):
        height, width, _ = pixels.shape
        grid = grid_of(case, width, height)
        images.append({"width": width, "height": height, "rows": grid[0], "columns": grid[1],
                       "tokens": tokens_of(case, width, height), "pixels": put(pixels),
                       "features": put(rows.astype("<f4")), "features_mlxq": put(rows_mlxq.astype("<f4"))})
    for prompt, shown, positions, rows, greedy, gap, rope in runs:
        entries.append({"prompt": prompt, "images": shown, "positions": positions, "offset": put(rows.astype("<f4")),
                        "greedy": greedy, "greedy_gap": round(gap, 4)} | ({"rope_positions": rope} if rope else {}))
    (path / "golden.bin").write_bytes(data)
    index = {"model": "model", "vocab": case["text"]["vocab_size"], "width": case["text"]["hidden_size"],
             "data": "golden.bin", "image_token": IMAGE,
             "oracle": f"transformers {transformers.__version__}, torch {torch.__version__}, fp32", "seed": seed,
             "images": images, "runs": entries}
    if deep := case["vision"].get("deepstack_visual_indexes"):
        index["deepstack"] = len(deep)
    (path / "golden.json").write_text(compact(json.dumps(index, indent=1)) + "\n")
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"{name}: seed {seed}, features std {feature_rows[0].std():.2f}, {size / 1024:.0f} KB", flush=True)


if __name__ == "__main__":
    write_cases(__doc__, CASES, write_case)
