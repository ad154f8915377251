"""Golden cases of hybrids with Mamba2, short convolutions or other recurrences: configurations, and random weights
whose names and shapes come from Transformers' own model (tools/make_golden_logits.py)."""
import math
import pathlib
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 263
COMMON = {"vocab_size": VOCAB, "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 1024, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MAMBA, FULL, CONV, MLP, MOE = "linear_attention", "full_attention", "conv", "mlp", "moe"
WINDOW = "sliding_attention"


def nemotron_h(layers, **over):
    return COMMON | {
        "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "layers_block_type": layers, "head_dim": 16,
        "intermediate_size": 72, "mamba_num_heads": 6, "mamba_head_dim": 20, "n_groups": 2, "ssm_state_size": 24,
        "conv_kernel": 4, "tie_word_embeddings": False} | over


def nemotron_h_gguf(pattern, **over):
    """With a letter for each layer, as in published files, which llama.cpp's converter reads."""
    config = nemotron_h([], hidden_size=64, intermediate_size=96, head_dim=32, mamba_num_heads=4, mamba_head_dim=32,
                        hybrid_override_pattern=pattern, num_hidden_layers=len(pattern), layer_norm_epsilon=1e-5, **over)
    del config["layers_block_type"]
    return config


GRANITE_GGUF = {"hidden_size": 64, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_expand": 2, "mamba_d_conv": 4, "mamba_n_groups": 2,
                "rms_norm_eps": 1e-5, "position_embedding_type": "nope"}


def granite_h(layers, **over):
    return COMMON | {
        "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "layer_types": layers,
        "num_hidden_layers": len(layers), "num_local_experts": 0, "shared_intermediate_size": 72, "mamba_n_heads": 6,
        "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 20, "embedding_multiplier": 3.0, "logits_scaling": 0.7,
        "residual_multiplier": 0.6, "attention_multiplier": 0.4, "tie_word_embeddings": True} | over


def lfm2(layers, **over):
    return COMMON | {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "layer_types": layers, "num_hidden_layers": len(layers),
        "intermediate_size": 90, "block_multiple_of": 8, "norm_eps": 1e-5, "rope_theta": 10000.0} | over


def lfm3(layers, **over):
    return COMMON | {
        "architectures": ["Lfm3ForCausalLM"], "model_type": "lfm3", "layer_types": layers, "num_hidden_layers": len(layers),
        "intermediate_size": 40, "head_dim": 16, "norm_eps": 1e-5, "sliding_window": 30, "tie_word_embeddings": False} | over


def bamba(layers, **over):
    return COMMON | {
        "architectures": ["BambaForCausalLM"], "model_type": "bamba", "num_hidden_layers": len(layers),
        "attn_layer_indices": [i for i, kind in enumerate(layers) if kind == FULL], "intermediate_size": 72,
        "mamba_n_heads": 4, "mamba_d_head": "auto", "mamba_n_groups": 2, "mamba_d_state": 24,
        "tie_word_embeddings": False} | over


def mamba2(layers, **over):
    config = COMMON | {
        "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "num_hidden_layers": layers, "num_heads": 6, "head_dim": 16,
        "n_groups": 2, "state_size": 20, "expand": 2, "conv_kernel": 4, "tie_word_embeddings": False} | over
    return {key: value for key, value in config.items() if key not in ("num_attention_heads", "num_key_value_heads")}


def olmo_hybrid(layers, **over):
    return COMMON | {
        "architectures": ["OlmoHybridForCausalLM"], "model_type": "olmo_hybrid", "layer_types": layers,
        "num_hidden_layers": len(layers), "intermediate_size": 72, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 24, "linear_value_head_dim": 48, "rope_parameters": None,
        "tie_word_embeddings": False} | over


def falcon_h1(layers, **over):
    return COMMON | {
        "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "num_hidden_layers": layers, "head_dim": 12,
        "intermediate_size": 72, "mamba_d_ssm": 60, "mamba_n_heads": 6, "mamba_n_groups": 2, "mamba_d_state": 20,
        "rope_theta": 1e8, "tie_word_embeddings": False, "embedding_multiplier": 2.5, "lm_head_multiplier": 1.3,
        "mlp_multipliers": [0.8, 1.3], "key_multiplier": 0.7, "attention_in_multiplier": 1.2,
        "attention_out_multiplier": 0.8, "ssm_multipliers": [0.9, 1.2, 0.6, 1.4, 0.7], "ssm_in_multiplier": 1.3,
        "ssm_out_multiplier": 0.75} | over


def minimax(layers, **over):
    return COMMON | {
        "architectures": ["MiniMaxForCausalLM"], "model_type": "minimax", "layer_types": layers,
        "num_hidden_layers": len(layers), "head_dim": 12, "intermediate_size": 40, "num_local_experts": 5,
        "num_experts_per_tok": 2, "block_size": 16, "rope_theta": 20000.0, "full_attn_alpha_factor": 1.4,
        "full_attn_beta_factor": 0.8, "linear_attn_alpha_factor": 1.2, "linear_attn_beta_factor": 0.7,
        "mlp_alpha_factor": 0.9, "mlp_beta_factor": 1.3, "tie_word_embeddings": False} | over


def lara_mini(layers, **over):
    return COMMON | {
        "architectures": ["LaraMiniForCausalLM"], "model_type": "lara_mini", "layer_types": layers,
        "num_hidden_layers": len(layers), "head_dim": 12, "sliding_window": 30, "linear_key_head_dim": 16,
        "linear_value_head_dim": 20, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 5,
        "num_experts_per_tok": 2, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28,
        "tie_word_embeddings": True} | over


def kimi_linear(layers, **over):
    return COMMON | {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "layer_types": layers,
        "num_hidden_layers": len(layers), "intermediate_size": 72, "linear_head_dim": 16, "linear_num_heads": 3,
        "num_key_value_heads": 4, "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
        "moe_intermediate_size": 20, "num_experts": 6, "num_experts_per_token": 2, "tie_word_embeddings": False} | over


def bailing_hybrid(layers, **over):
    return COMMON | {
        "architectures": ["BailingHybridForCausalLM"], "model_type": "bailing_hybrid", "layer_types": layers,
        "num_hidden_layers": len(layers), "intermediate_size": 72, "head_dim": 16, "num_key_value_heads": 4,
        "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "rope_theta": 20000.0,
        "first_k_dense_replace": 1, "moe_intermediate_size": 20, "num_experts": 8, "num_experts_per_token": 3,
        "num_expert_group": 4, "topk_group": 2, "num_nextn_predict_layers": 0, "tie_word_embeddings": False} | over


def qwen4_exp(layers, **over):
    return COMMON | {
        "architectures": ["Qwen4ExpForCausalLM"], "model_type": "qwen4_exp_text", "layer_types": layers,
        "num_hidden_layers": len(layers), "head_dim": 20, "linear_key_head_dim": 16, "linear_value_head_dim": 20,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28, "hc_count": 3, "hc_lowrank": 10,
        "indexer_n_heads": 6, "indexer_kv_heads": 1, "indexer_head_dim": 12, "indexer_budget": 40,
        "indexer_compress_ratio": 5, "ngram_vocab_size_base": 40, "heads_per_ngram": 2, "ple_embed_dim": 24,
        "make_ngram_vocab_size_divisible_by": 7, "split_ngram_parts": 3, "output_gate_type": "sigmoid", "eos_token_id": [9, 2],
        "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.4,
                            "mrope_section": [2, 1, 1], "mrope_interleaved": True},
        "tie_word_embeddings": False} | over


# Heads of attention that CUDA has kernels for.
WIDE_HEADS = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}


HYBRID_CASES = {
    "nemotron_h": dict(config=nemotron_h([MAMBA, MLP, MAMBA, FULL, MLP, MAMBA]), long=True),
    "nemotron_h_biases": dict(config=nemotron_h(
        [FULL, MAMBA, MAMBA, MLP], n_groups=3, mamba_head_dim=24, use_bias=True, use_conv_bias=False, mlp_bias=True,
        conv_kernel=3, time_step_min=0.4), dtype="f32"),
    "granite_h": dict(config=granite_h([MAMBA, MAMBA, FULL, MAMBA]), long=True),
    "granite_h_rope": dict(config=granite_h(
        [FULL, MAMBA, MAMBA], mamba_n_groups=3, position_embedding_type="rope", attention_bias=True, mamba_proj_bias=True,
        mamba_conv_bias=False, time_step_limit=[0.2, 1.5], tie_word_embeddings=False)),
    "lfm2": dict(config=lfm2([CONV, CONV, FULL, CONV]), long=True),
    "lfm2_biases": dict(config=lfm2([FULL, CONV, CONV], conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False,
                                    tie_word_embeddings=False), dtype="f32"),
    "lfm2_gguf": dict(config=lfm2([CONV, FULL, CONV], hidden_size=64, intermediate_size=96, conv_L_cache=3, conv_bias=False,
                                  block_auto_adjust_ff_dim=False, block_ffn_dim_multiplier=1.0), world="gguf", dtype="q8_0"),
    "lfm2_moe": dict(config=lfm2(
        [CONV, FULL, CONV], architectures=["Lfm2MoeForCausalLM"], model_type="lfm2_moe", num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=20, num_dense_layers=1, routed_scaling_factor=1.5)),
    "lfm3": dict(config=lfm3([CONV, WINDOW, FULL, CONV]), long=True),
    "lfm3_biases": dict(config=lfm3(
        [WINDOW, CONV, FULL], conv_bias=True, attention_bias=True, conv_L_cache=4, use_sandwich_norm=False, use_attention_gate=False,
        rope_parameters={WINDOW: {"rope_type": "default", "rope_theta": 5000.0},
                         FULL: {"rope_type": "proportional", "rope_theta": 30000.0, "partial_rotary_factor": 0.3, "factor": 2.0}}),
        dtype="f32"),
    # Experts without a gate, in a latent space.
    "nemotron_h_moe": dict(config=nemotron_h(
        [MAMBA, MOE, FULL, MOE], n_routed_experts=8, num_experts_per_tok=3, n_group=2, topk_group=1, routed_scaling_factor=2.5,
        moe_intermediate_size=20, moe_shared_expert_intermediate_size=28, moe_latent_size=16, mlp_bias=True)),
    "granite_h_moe": dict(config=granite_h(
        [MAMBA, FULL, MAMBA], num_local_experts=6, num_experts_per_tok=2, intermediate_size=20, shared_intermediate_size=28)),
    # As published, with the names of layers and the keys that llama.cpp's converter reads.
    "granite_h_gguf": dict(config=granite_h(["mamba", "attention", "mamba"], **GRANITE_GGUF, shared_intermediate_size=96,
                                            intermediate_size=96), world="gguf", dtype="q8_0"),
    "granite_h_moe_gguf": dict(config=granite_h(
        ["attention", "mamba"], **GRANITE_GGUF | {"mamba_n_groups": 1}, num_local_experts=4, num_experts_per_tok=2,
        intermediate_size=32, shared_intermediate_size=64, tie_word_embeddings=False), world="gguf", dtype="q8_0"),
    "lfm2_moe_gguf": dict(config=lfm2(
        [CONV, FULL, CONV], architectures=["Lfm2MoeForCausalLM"], model_type="lfm2_moe", hidden_size=64, intermediate_size=96,
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, num_dense_layers=1, conv_L_cache=3, conv_bias=False),
        world="gguf", dtype="q8_0"),
    "nemotron_h_gguf": dict(config=nemotron_h_gguf("M-*-M"), world="gguf", dtype="q8_0"),
    "nemotron_h_moe_gguf": dict(config=nemotron_h_gguf(
        "ME*E", n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, n_group=2, topk_group=1, routed_scaling_factor=2.5,
        norm_topk_prob=True, moe_intermediate_size=32, moe_shared_expert_intermediate_size=64, moe_latent_size=32),
        world="gguf", dtype="q8_0"),
    "mamba2": dict(config=mamba2(3), long=True),
    "mamba2_biases": dict(config=mamba2(2, n_groups=3, num_heads=6, head_dim=8, expand=1, conv_kernel=3, use_bias=True,
                                        use_conv_bias=False, time_step_limit=[0.1, 2.0], tie_word_embeddings=True), dtype="f32"),
    "bamba_odd": dict(config=bamba([FULL, MAMBA], rope_parameters={  # 3 dimensions turn, of which Transformers makes two pairs
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}), dtype="f32"),
    "bamba": dict(config=bamba([MAMBA, FULL, MAMBA])),
    "olmo_hybrid": dict(config=olmo_hybrid([MAMBA, MAMBA, MAMBA, FULL]), long=True),
    # Transformers cuts the convolution into equal parts.
    "olmo_hybrid_cut": dict(config=olmo_hybrid([MAMBA, FULL], linear_num_value_heads=6, linear_value_head_dim=16), dtype="f32"),
    "olmo_hybrid_rope": dict(config=olmo_hybrid(
        [MAMBA, FULL, MAMBA], linear_num_value_heads=4, linear_value_head_dim=20, linear_allow_neg_eigval=False,
        rope_parameters={"rope_type": "default", "rope_theta": 20000.0})),
    "falcon_h1": dict(config=falcon_h1(3), long=True),
    "falcon_h1_biases": dict(config=falcon_h1(
        2, attention_bias=True, mlp_bias=True, mamba_proj_bias=True, projectors_bias=True, mamba_conv_bias=False,
        mamba_rms_norm=True, mamba_d_ssm=None, mamba_expand=1, mamba_n_heads=3, mamba_n_groups=3, mamba_d_conv=3,
        tie_word_embeddings=True), dtype="f32"),
    "falcon_h1_gguf": dict(config=falcon_h1(
        2, mamba_d_head=10, mamba_d_conv=4, mamba_rms_norm=True, mamba_norm_before_gate=False), world="gguf", dtype="f32"),
    "minimax": dict(config=minimax([MAMBA, FULL, MAMBA, MAMBA]), long=True, dtype="f32"),
    "minimax_window": dict(config=minimax([FULL, MAMBA, FULL], sliding_window=30, tie_word_embeddings=True), dtype="f32"),
    "lara_mini": dict(config=lara_mini([MAMBA, "sliding_attention", MAMBA, FULL]), long=True),
    "lara_mini_biases": dict(config=lara_mini(["sliding_attention", MAMBA, FULL], attention_bias=True, norm_topk_prob=False,
                                              linear_conv_kernel_dim=3, tie_word_embeddings=False), dtype="f32"),
    "kimi_linear": dict(config=kimi_linear([MAMBA, FULL, MAMBA, MAMBA]), long=True),
    "kimi_linear_groups": dict(config=kimi_linear(
        [MAMBA, FULL], q_lora_rank=17, num_expert_group=3, topk_group=2, num_shared_experts=2, moe_renormalize=False,
        mlp_layer_types=["sparse", "dense"], linear_attn_config={"head_dim": 12, "num_heads": 2, "short_conv_kernel_size": 3}),
        dtype="f32"),
    "bailing_hybrid_card": dict(config=bailing_hybrid([MAMBA, FULL], kv_lora_rank=64, qk_rope_head_dim=32)),
    "bailing_hybrid": dict(config=bailing_hybrid([MAMBA, MAMBA, FULL]), long=True),
    "bailing_hybrid_unbounded": dict(config=bailing_hybrid(
        [FULL, MAMBA], q_lora_rank=17, attention_bias=True, kda_safe_gate=False, short_conv_kernel_size=3,
        moe_renormalize=False), dtype="f32"),
    "qwen4_exp": dict(config=qwen4_exp([MAMBA, "indexed_attention", MAMBA, FULL], ple_layer_ids=[3, 1]), long=True, ends=True),
    "qwen4_exp_silu": dict(config=qwen4_exp(
        [FULL, MAMBA], ple_layer_ids=[2], ngram_size=4, heads_per_ngram=1, ple_conv_kernel_size=3, seed=-7, hc_count=2,
        indexer_head_dim=8, indexer_budget=16, indexer_compress_ratio=16, norm_topk_prob=False, output_gate_type=None,
        linear_conv_kernel_dim=3, split_ngram_parts=1, tie_word_embeddings=True), dtype="f32", ends=True),
    "bamba_wide": dict(config=bamba([MAMBA, FULL, MAMBA], mamba_d_state=64, **WIDE_HEADS)),
    "falcon_h1_wide": dict(config=falcon_h1(2, **WIDE_HEADS | {
        "head_dim": 32, "mamba_d_ssm": 128, "mamba_n_heads": 2, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 256})),
    "minimax_wide": dict(config=minimax([MAMBA, FULL, MAMBA], **WIDE_HEADS | {"head_dim": 32}), dtype="f32"),
    "lfm2_wide": dict(config=lfm2([CONV, FULL, CONV], **WIDE_HEADS)),
    "lfm3_wide": dict(config=lfm3([CONV, WINDOW, FULL], conv_bias=True, **WIDE_HEADS | {"head_dim": 32})),
    "falcon_h1_norm_after": dict(config=falcon_h1(
        2, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_n_groups=3, time_step_limit=[0.0, 5.0]), dtype="f32"),
}


def is_hybrid(config):
    return config["model_type"] in {case["config"]["model_type"] for case in HYBRID_CASES.values()} | {"lfm2_moe"}


def random_hybrid(config, rng):
    """name -> float32 array, as Transformers saves the model: buffers keep their values."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    buffers = {name for name, _ in model.named_buffers()}
    for name, value in model.state_dict().items():
        if name not in buffers and not (name == "lm_head.weight" and config.get("tie_word_embeddings", True)):
            value.copy_(torch.from_numpy(random_tensor(name, tuple(value.shape), rng)))
            if is_offset_norm(config, name, value):
                value += 2 if "hyper_connection_mixer" in name else -1  # their mixture makes small logits
    with tempfile.TemporaryDirectory() as tmp:
        model.save_pretrained(tmp)
        return load_file(pathlib.Path(tmp) / "model.safetensors")


def is_offset_norm(config, name, value):
    """Whether it is w of a norm by 1 + w."""
    return config["model_type"] == "qwen4_exp_text" and value.dim() == 1 and "norm" in name and \
        ".linear_attn.norm." not in name


def random_tensor(name, shape, rng):
    normal = rng.standard_normal(shape)
    if name.endswith("A_log"):
        return np.log(rng.uniform(0.3, 8, shape))
    if name.endswith("dt_bias"):
        step = np.exp(rng.uniform(math.log(1e-3), math.log(1), shape))
        return step + np.log(-np.expm1(-step))  # inverse softplus
    if name.endswith(".D"):
        return normal
    if len(shape) == 3:  # experts, or a convolution
        return normal * (1.5 / math.sqrt(shape[2]) if ".experts." in name else 0.6)
    if len(shape) == 2:
        gain = 2 if "embed" in name or name.startswith("lm_head") else 1.5
        return normal * gain / math.sqrt(shape[1])
    return normal * 0.3 if name.endswith("bias") else 1 + 0.15 * normal
