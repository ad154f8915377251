"""The configurations of the golden cases: tiny models of every family (tools/make_golden_logits.py)."""
VOCAB = 263  # odd on purpose: not a multiple of any vector width


def llama_like(model_type, **over):
    arch = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe",
            "mixtral": "Mixtral", "ministral": "Ministral", "ministral3": "Ministral3"}[model_type]
    config = {
        "architectures": [arch + "ForCausalLM"], "model_type": model_type, "vocab_size": VOCAB, "hidden_size": 64,
        "intermediate_size": 72, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 1024,
        "tie_word_embeddings": True, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    return config | over


def qwen35_text(**over):
    layers = over.get("num_hidden_layers", 4)
    config = {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": VOCAB,
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": layers, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 64, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "attention_bias": False, "attn_output_gate": True, "full_attention_interval": 4,
        "layer_types": ["linear_attention" if (i + 1) % 4 else "full_attention" for i in range(layers)],
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 4096, "mtp_num_hidden_layers": 0, "mtp_use_dedicated_embeddings": False,
        "partial_rotary_factor": 0.25, "tie_word_embeddings": True, "use_cache": True, "dtype": "bfloat16",
        "eos_token_id": 2, "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0, "partial_rotary_factor": 0.25,
                            "mrope_interleaved": True, "mrope_section": [3, 3, 2]},
    }
    config |= over
    rotary = int(config["head_dim"] * 0.25)
    third = rotary // 2 // 3
    config["rope_parameters"]["mrope_section"] = [rotary // 2 - 2 * third, third, third]
    return config


def qwen35_moe_text(**over):
    config = qwen35_text(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
                         shared_expert_intermediate_size=40, **over)
    del config["intermediate_size"]
    return config | {"architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text"}


def qwen3_next(**over):
    config = qwen35_text(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                         shared_expert_intermediate_size=32, decoder_sparse_step=1, mlp_only_layers=[1],
                         linear_num_key_heads=2, linear_num_value_heads=4, **over)
    return config | {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
                     "rope_theta": 100000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0,
                                                                 "partial_rotary_factor": 0.25}}


def gemma(generation, **over):
    arch = {2: "Gemma2ForCausalLM", 3: "Gemma3ForCausalLM", 4: "Gemma4ForCausalLM"}[generation]
    kind = {2: "gemma2", 3: "gemma3_text", 4: "gemma4_text"}[generation]
    config = {
        "architectures": [arch], "model_type": kind, "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 72,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "max_position_embeddings": 1024,
        "sliding_window": 24, "tie_word_embeddings": True, "attention_bias": False, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0, "dtype": "bfloat16",
    }
    if generation < 4:
        config |= {"query_pre_attn_scalar": 40}
    if generation == 2:
        config |= {"rope_theta": 10000.0, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 6.0}
    if generation == 3:
        config |= {"sliding_window_pattern": 3, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                   "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    if generation == 4:
        config |= {"global_head_dim": 64, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": VOCAB,
                   "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
                   "num_hidden_layers": 6, "num_kv_shared_layers": 0,
                   "rope_parameters": {
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                       "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                          "rope_theta": 1000000.0}}}
    return config | over


YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128,
        "beta_fast": 32.0, "beta_slow": 1.0}


# `world` says how the directory is written: hf = flat names as the text-only class has them; nested = released
# multimodal naming; mlx = mlx-lm's conversion; mlxq = the same, quantised. `long` adds a 300-token prompt, which
# crosses a 256-position block of the KV cache.
CASES = {
    "llama_tied": dict(config=llama_like("llama"), long=True),
    "llama3_rope_untied": dict(
        config=llama_like("llama", hidden_size=32, head_dim=16, tie_word_embeddings=False, rope_theta=50000.0,
                          rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        dtype="f32"),
    "llama_biases": dict(config=llama_like("llama", hidden_size=32, head_dim=16, intermediate_size=64, num_hidden_layers=2,
                                           attention_bias=True, mlp_bias=True), dtype="f32"),
    "llama_biases_gguf": dict(config=llama_like("llama", hidden_size=32, head_dim=16, intermediate_size=64,
                                                num_hidden_layers=2, attention_bias=True, mlp_bias=True),
                              world="gguf", dtype="q8_0"),
    # A window in every layer, which the config states without naming the layers.
    "mistral_window": dict(config=llama_like("mistral", hidden_size=32, head_dim=16, num_hidden_layers=2,
                                             sliding_window=20), dtype="f16"),
    "mistral_f16": dict(config=llama_like("mistral", hidden_size=32, head_dim=32, num_key_value_heads=1,
                                          tie_word_embeddings=False, sliding_window=None), dtype="f16"),
    "ministral_windows": dict(
        config=llama_like("ministral", hidden_size=32, head_dim=32, sliding_window=20,
                          layer_types=["sliding_attention", "full_attention"] * 2), dtype="f16"),
    # Past its original context of 48 a query also grows with its position.
    "ministral3": dict(config=llama_like("ministral3", hidden_size=32, head_dim=32, rope_parameters=YARN | {
        "type": "yarn", "original_max_position_embeddings": 48, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1}), long=True),
    "mistral3_nested": dict(
        config=llama_like("ministral3", hidden_size=32, head_dim=32, num_hidden_layers=2, tie_word_embeddings=False,
                          rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.2}),
        world="nested"),
    "llama_yarn": dict(config=llama_like("llama", hidden_size=32, head_dim=32, num_hidden_layers=2,
                                         rope_scaling={k: v for k, v in YARN.items() if k != "rope_theta"}), long=True),
    "qwen3_yarn": dict(config=llama_like("qwen3", hidden_size=32, head_dim=32, num_hidden_layers=2, rope_scaling={
        "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 8.0, "beta_slow": 2.0,
        "attention_factor": 1.3, "truncate": False})),
    # What depends on the length of a sequence in Transformers is compared one token at a time: a position has the
    # frequencies of a sequence that ends with it.
    "llama_longrope": dict(config=llama_like("llama", hidden_size=32, head_dim=16, num_hidden_layers=2, rope_scaling={
        "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0],
        "long_factor": [1.0, 1.3, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0], "original_max_position_embeddings": 32}),
        stepwise=True),
    "qwen2_dynamic": dict(config=llama_like("qwen2", hidden_size=32, head_dim=16, num_hidden_layers=2,
                                            max_position_embeddings=40, use_sliding_window=False,
                                            rope_scaling={"rope_type": "dynamic", "factor": 4.0}), stepwise=True),
    "qwen2_bias": dict(config=llama_like("qwen2", use_sliding_window=False, rms_norm_eps=1e-6)),
    "qwen3_qk_norm": dict(config=llama_like("qwen3", hidden_size=32, head_dim=32, tie_word_embeddings=False,
                                            attention_bias=False, use_sliding_window=False, sliding_window=None)),
    "mixtral": dict(config=llama_like("mixtral", hidden_size=32, head_dim=32, intermediate_size=48,
                                      num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2,
                                      sliding_window=None, tie_word_embeddings=False)),
    "qwen3_moe": dict(config=llama_like("qwen3_moe", hidden_size=32, head_dim=32, num_experts=8,
                                        num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True,
                                        decoder_sparse_step=1, mlp_only_layers=[2], tie_word_embeddings=False,
                                        attention_bias=False, use_sliding_window=False, sliding_window=None)),
    "qwen3_moe_not_normalised": dict(
        config=llama_like("qwen3_moe", hidden_size=32, head_dim=32, num_hidden_layers=2, num_experts=8,
                          num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=False,
                          decoder_sparse_step=2, mlp_only_layers=[], attention_bias=False,
                          use_sliding_window=False, sliding_window=None), dtype="f32"),
    "qwen3_next": dict(config=qwen3_next()),
    # Of heads of 20 dimensions 5 turn, of which Transformers makes three pairs.
    "qwen35_biases": dict(config=qwen35_text(head_dim=20, attention_bias=True), dtype="f32"),
    "qwen35_moe_fused": dict(config=qwen35_moe_text(), long=True),
    "qwen35_moe_nested_mtp": dict(
        config=qwen35_moe_text(linear_num_key_heads=1, linear_num_value_heads=2, tie_word_embeddings=False,
                               mtp_num_hidden_layers=1), world="nested", mtp=True, shards=2),
    "qwen35_moe_mlx_quantised": dict(
        config=qwen35_moe_text(hidden_size=64, head_dim=64, num_hidden_layers=4) | {
            "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64},
        world="mlxq",
        quant={"group_size": 32, "bits": 4, "mode": "affine",
               "model.layers.0.mlp.gate": {"group_size": 64, "bits": 8},
               "model.layers.0.mlp.shared_expert_gate": {"group_size": 64, "bits": 8},
               "model.layers.1.mlp.switch_mlp.down_proj": {"group_size": 64, "bits": 6},
               "model.layers.2.mlp.switch_mlp.up_proj": {"group_size": 64, "bits": 3}}),
    # GGUF, converted by llama.cpp. Its metadata has no query_pre_attn_scalar: the heads' size stands for it.
    "llama3_rope_gguf": dict(
        config=llama_like("llama", hidden_size=32, head_dim=16, intermediate_size=64, num_hidden_layers=2,
                          rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        world="gguf", dtype="q8_0"),
    "ministral3_gguf": dict(
        config=llama_like("ministral3", hidden_size=32, head_dim=32, num_hidden_layers=2, tie_word_embeddings=False,
                          rope_parameters=YARN | {"original_max_position_embeddings": 48, "mscale": 1.0,
                                                  "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.1}),
        world="gguf", dtype="f16"),
    "qwen2_gguf": dict(config=llama_like("qwen2", intermediate_size=64, num_hidden_layers=2, use_sliding_window=False,
                                         tie_word_embeddings=False), world="gguf", dtype="q8_0"),
    "gemma2_gguf": dict(config=gemma(2, hidden_size=32, intermediate_size=64, query_pre_attn_scalar=32),
                        world="gguf", dtype="q8_0"),
    "gemma3_gguf": dict(
        config=gemma(3, hidden_size=32, intermediate_size=64, num_hidden_layers=7, sliding_window_pattern=6,
                     query_pre_attn_scalar=32, num_key_value_heads=1), world="gguf", dtype="q8_0"),
    "gemma4_shared_kv_gguf": dict(
        config=gemma(4, hidden_size=32, intermediate_size=64, num_kv_shared_layers=3, hidden_size_per_layer_input=32,
                     use_double_wide_mlp=True, final_logit_softcapping=8.0), world="gguf", dtype="q8_0"),
    "gemma4_moe_gguf": dict(
        config=gemma(4, hidden_size=32, intermediate_size=64, num_hidden_layers=3, enable_moe_block=True, num_experts=6,
                     top_k_experts=2, moe_intermediate_size=32, attention_k_eq_v=True, num_global_key_value_heads=1,
                     layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
        world="gguf", dtype="q8_0"),
    "qwen3_next_gguf": dict(config=qwen3_next() | {"mlp_only_layers": []}, world="gguf", dtype="q8_0"),
    "qwen35_gguf": dict(
        config=qwen35_text(linear_num_key_heads=1, linear_num_value_heads=2, tie_word_embeddings=False,
                           mtp_num_hidden_layers=1), world="gguf", dtype="q8_0", mtp=True),
    "mixtral_gguf": dict(
        config=llama_like("mixtral", hidden_size=32, head_dim=32, intermediate_size=48, num_hidden_layers=2,
                          num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
                          tie_word_embeddings=False), world="gguf", dtype="f16"),
    "qwen3_moe_gguf": dict(
        config=llama_like("qwen3_moe", hidden_size=32, head_dim=32, num_hidden_layers=2, num_experts=8,
                          num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True,
                          decoder_sparse_step=1, mlp_only_layers=[], attention_bias=False,
                          use_sliding_window=False, sliding_window=None), world="gguf", dtype="q8_0"),
    "qwen35_moe_gguf": dict(config=qwen35_moe_text(), world="gguf", dtype="q8_0"),
    "gemma2": dict(config=gemma(2), long=True),
    "gemma3": dict(config=gemma(3), long=True),
    "gemma3_nested_untied": dict(
        config=gemma(3, tie_word_embeddings=False, hidden_size=48, num_key_value_heads=1, rope_scaling=None,
                     layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        world="nested", dtype="f32"),
    # Shared keys and values, per-layer inputs and wide MLPs: the shape of E2B and E4B.
    "gemma4_shared_kv": dict(
        config=gemma(4, num_kv_shared_layers=3, hidden_size_per_layer_input=16, use_double_wide_mlp=True,
                     final_logit_softcapping=8.0), long=True),
    # Keys that are the values too: the shape of 31B.
    "gemma4_keys_are_values_nested": dict(
        config=gemma(4, attention_k_eq_v=True, num_global_key_value_heads=1, tie_word_embeddings=False),
        world="nested"),
    # A mixture of experts beside each MLP: the shape of 26B-A4B.
    "gemma4_moe": dict(
        config=gemma(4, enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=24,
                     attention_k_eq_v=True, num_global_key_value_heads=1), long=True),
    "qwen35_flat_tied": dict(config=qwen35_text(), long=True),
    "qwen35_nested_untied_grouped": dict(
        config=qwen35_text(linear_num_key_heads=1, linear_num_value_heads=2, num_attention_heads=4,
                           num_key_value_heads=2, head_dim=32, tie_word_embeddings=False, mtp_num_hidden_layers=1),
        world="nested", mtp=True, shards=2),
    "qwen35_true_heads": dict(
        config=qwen35_text(num_hidden_layers=3, num_attention_heads=2, head_dim=256, linear_key_head_dim=128,
                           linear_value_head_dim=128, linear_num_key_heads=1, linear_num_value_heads=2,
                           layer_types=["linear_attention", "full_attention", "linear_attention"],
                           intermediate_size=72)),
    "qwen35_wide_values_f32": dict(
        config=qwen35_text(num_hidden_layers=3, linear_key_head_dim=32, linear_value_head_dim=64,
                           linear_num_key_heads=1, linear_num_value_heads=3, head_dim=32,
                           layer_types=["full_attention", "linear_attention", "linear_attention"]),
        dtype="f32"),
    "qwen35_mlx": dict(config=qwen35_text(linear_num_key_heads=1, linear_num_value_heads=2, head_dim=32,
                                          tie_word_embeddings=False), world="mlx"),
    "qwen35_mlx_quantised": dict(
        config=qwen35_text(hidden_size=64, intermediate_size=128, num_attention_heads=2, head_dim=64),
        world="mlxq",
        quant={"group_size": 32, "bits": 4, "mode": "affine",
               "model.embed_tokens": {"group_size": 64, "bits": 6},
               "model.layers.0.mlp.down_proj": {"group_size": 128, "bits": 8},
               "model.layers.1.mlp.gate_proj": {"group_size": 64, "bits": 3},
               "model.layers.1.mlp.up_proj": {"group_size": 64, "bits": 5},
               "model.layers.2.linear_attn.in_proj_z": {"group_size": 32, "bits": 2},
               "model.layers.3.self_attn.o_proj": False}),
}

def member(model_type, architecture, long=False, dtype="bf16", world="hf", stepwise=False, mxfp4=False, **over):
    """A case of another member of the Llama family: weights of the shapes that Transformers' class has."""
    config = {
        "architectures": [architecture + "ForCausalLM"], "model_type": model_type, "vocab_size": VOCAB, "hidden_size": 32,
        "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_act": "silu", "max_position_embeddings": 1024, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0, "torch_dtype": "bfloat16", "rope_theta": 10000.0,
    }
    return dict(config=config | over, long=long, dtype=dtype, world=world, stepwise=stepwise, mxfp4=mxfp4, drawn=True)


LATENT = dict(q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=4)
# With heads of sizes that there are kernels for on CUDA.
CARD_LATENT = dict(kv_lora_rank=32, qk_rope_head_dim=32, qk_nope_head_dim=32, v_head_dim=10)
DEEP_YARN = dict(rope_scaling={"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "mscale": 1.0,
                               "mscale_all_dim": 0.7, "beta_fast": 32, "beta_slow": 1})


DEEP_EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, moe_intermediate_size=20, n_shared_experts=2,
                    routed_scaling_factor=1.3, norm_topk_prob=True)


def latent(model_type, architecture, **over):
    """A case with latent attention."""
    return member(model_type, architecture, **LATENT | {"num_hidden_layers": 3} | over)


def longrope(pairs):
    return {"type": "longrope", "short_factor": [1.0 + 0.1 * i for i in range(pairs)],
            "long_factor": [1.0 + 0.8 * i for i in range(pairs)]}


FULL, WINDOW = "full_attention", "sliding_attention"


def by_kind(model_type, architecture, layers, **over):
    """A case whose layers with windows differ from the others in more than the window."""
    return member(model_type, architecture, layer_types=layers, num_hidden_layers=len(layers), sliding_window=21, **over)


# In their GGUF files the matrices' widths are multiples of 32.
WIDE = dict(world="gguf", dtype="q8_0", intermediate_size=32, num_hidden_layers=2)
WIDE_HEADS = dict(hidden_size=64, num_attention_heads=2, num_key_value_heads=1)
GPT_OSS_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
                "beta_slow": 1.0, "truncate": False}
GRANITE = dict(embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.1, logits_scaling=0.5)
DEEP = dict(n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, routed_scaling_factor=1.8, norm_topk_prob=True,
            moe_intermediate_size=20)
WIDE_DEEP = DEEP | {"moe_intermediate_size": 32} | WIDE
CASES |= {
    "seed_oss": member("seed_oss", "SeedOss", head_dim=20, num_key_value_heads=1, attention_bias=True, attention_out_bias=True,
                       mlp_bias=True, num_hidden_layers=2),
    "qwen2_moe": member("qwen2_moe", "Qwen2Moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                        shared_expert_intermediate_size=28, mlp_only_layers=[1], num_hidden_layers=3),
    "smollm3": member("smollm3", "SmolLM3", head_dim=20, no_rope_layers=[1, 0, 1, 0], use_sliding_window=True,
                      sliding_window=21, tie_word_embeddings=True, mlp_bias=True, attention_bias=True),
    "phi3_longrope": member("phi3", "Phi3", num_attention_heads=2, num_key_value_heads=1, partial_rotary_factor=0.75, rope_scaling=longrope(6),
                            original_max_position_embeddings=32, num_hidden_layers=2, stepwise=True),
    "phi3_window": member("phi3", "Phi3", hidden_size=36, num_attention_heads=3, num_key_value_heads=1, sliding_window=19, num_hidden_layers=2,
                          tie_word_embeddings=True, dtype="f16"),
    "olmo2": member("olmo2", "Olmo2", num_hidden_layers=3, attention_bias=True),
    "olmo3": member("olmo3", "Olmo3", sliding_window=22, rope_theta=500000.0, num_key_value_heads=1, long=True,
                    rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                                  "attention_factor": 1.1, "beta_fast": 32.0, "beta_slow": 1.0}),
    "granite": member("granite", "Granite", num_hidden_layers=3, attention_bias=True, mlp_bias=True, **GRANITE),
    "ernie4_5": member("ernie4_5", "Ernie4_5", head_dim=20, use_bias=True, num_hidden_layers=3, dtype="f32"),
    "exaone4": member("exaone4", "Exaone4", sliding_window=23, sliding_window_pattern=3, head_dim=16, long=True,
                      rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 32}),
    "exaone4_full": member("exaone4", "Exaone4", sliding_window=None, layer_types=["full_attention"] * 2, head_dim=16,
                           num_hidden_layers=2, tie_word_embeddings=True),
    "hunyuan_v1_dense": member("hunyuan_v1_dense", "HunYuanDenseV1", head_dim=16, num_hidden_layers=3, attention_bias=True,
                               rope_scaling={"type": "dynamic", "alpha": 50.0, "factor": 1.0}),
    "cohere2": member("cohere2", "Cohere2", sliding_window=18, sliding_window_pattern=3, logit_scale=0.7,
                      tie_word_embeddings=True, attention_bias=True, long=True),
    "starcoder2": member("starcoder2", "Starcoder2", hidden_act="gelu_pytorch_tanh", sliding_window=25, num_key_value_heads=1,
                         tie_word_embeddings=True, num_hidden_layers=3),
    "glm4": member("glm4", "Glm4", head_dim=12, partial_rotary_factor=0.5, attention_bias=True, num_hidden_layers=3),
    "stablelm": member("stablelm", "StableLm", num_attention_heads=2, partial_rotary_factor=0.4, use_qkv_bias=True, num_hidden_layers=2),
    "stablelm_parallel": member("stablelm", "StableLm", use_parallel_residual=True, num_key_value_heads=4,
                                partial_rotary_factor=0.5, num_hidden_layers=2),
    "deepseek_v3": latent("deepseek_v3", "DeepseekV3", q_lora_rank=24, attention_bias=True, num_nextn_predict_layers=0,
                          rms_norm_eps=1e-3, long=True, first_k_dense_replace=1, **DEEP_YARN, **DEEP_EXPERTS),
    "deepseek_v2": latent("deepseek_v2", "DeepseekV2", mlp_bias=True, tie_word_embeddings=True, first_k_dense_replace=1,
                          topk_method="group_limited_greedy", **DEEP_EXPERTS),
    "glm4_moe_lite": latent("glm4_moe_lite", "Glm4MoeLite", q_lora_rank=17, rope_interleave=False,
                            mlp_layer_types=["dense", "sparse", "sparse"], **DEEP_EXPERTS | {"norm_topk_prob": False}),
    "mistral4_nested": latent("mistral4", "Mistral4", world="nested", q_lora_rank=16, first_k_dense_replace=0, **DEEP_EXPERTS, rope_parameters={
        "type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 24, "mscale": 1.0,
        "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0, "llama_4_scaling_beta": 0.2}, long=True),
    "deepseek_v3_card": latent("deepseek_v3", "DeepseekV3", **CARD_LATENT, q_lora_rank=24, num_nextn_predict_layers=0,
                               first_k_dense_replace=1, long=True, **DEEP_YARN, **DEEP_EXPERTS),
    "mistral4_card": latent("mistral4", "Mistral4", **CARD_LATENT, q_lora_rank=16, num_hidden_layers=2, first_k_dense_replace=0, **DEEP_EXPERTS,
                            rope_parameters={"type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 24, "mscale": 1.0,
                                             "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0, "llama_4_scaling_beta": 0.2}),
    "minicpm3_card": latent("minicpm3", "MiniCPM3", **CARD_LATENT, q_lora_rank=16, scale_emb=3, scale_depth=1.4, dim_model_base=24,
                            rope_scaling=longrope(16), original_max_position_embeddings=32, stepwise=True, num_hidden_layers=2),
    # Transformers makes the row of a padding token 0 where the head is the embedding.
    "youtu": latent("youtu", "Youtu", v_head_dim=17, pad_token_id=None, tie_word_embeddings=True, num_hidden_layers=2),
    "minicpm3": latent("minicpm3", "MiniCPM3", q_lora_rank=16, scale_emb=3, scale_depth=1.4, dim_model_base=24,
                       rope_scaling=longrope(4), original_max_position_embeddings=32, stepwise=True, num_hidden_layers=2),
    "gpt_oss": member("gpt_oss", "GptOss", hidden_size=36, intermediate_size=20, num_hidden_layers=3, num_attention_heads=3,
                      num_key_value_heads=1, head_dim=12, num_local_experts=5, num_experts_per_tok=2, sliding_window=21,
                      swiglu_limit=2.5, swiglu_alpha=1.2, rms_norm_eps=1e-4, long=True,
                      rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 48,
                                    "beta_fast": 16.0, "beta_slow": 1.5, "truncate": False}),
    # As published: experts in MXFP4. The rope is the one that a config without any means.
    "gpt_oss_mxfp4": member("gpt_oss", "GptOss", mxfp4=True, intermediate_size=64, num_hidden_layers=2, head_dim=16,
                            num_local_experts=4, num_experts_per_tok=3, sliding_window=19, rope_theta=150000.0,
                            layer_types=["full_attention", "sliding_attention"], tie_word_embeddings=True),
    "gpt_oss_gguf": member("gpt_oss", "GptOss", mxfp4=True, head_dim=32, num_local_experts=4, num_experts_per_tok=2,
                           sliding_window=20, rope_scaling=GPT_OSS_ROPE, **WIDE),
    # Gemma 4 12B: a config without the keys of per-layer embeddings.
    "gemma4_unified": dict(drawn=True, config={k: v for k, v in gemma(
        4, hidden_size=32, intermediate_size=40, num_hidden_layers=3, attention_k_eq_v=True, num_global_key_value_heads=1,
        global_head_dim=48, tie_word_embeddings=False, model_type="gemma4_unified_text", architectures=["Gemma4UnifiedForCausalLM"],
        layer_types=["sliding_attention", "sliding_attention", "full_attention"]).items()
        if "per_layer_input" not in k}),
    "deepseek_v3_gguf": latent("deepseek_v3", "DeepseekV3", q_lora_rank=32, num_nextn_predict_layers=0, first_k_dense_replace=1,
                               world="gguf", dtype="f16", rope_scaling=DEEP_YARN["rope_scaling"] | {"mscale": 0.7}, **DEEP_EXPERTS),
    "deepseek_v2_gguf": latent("deepseek_v2", "DeepseekV2", first_k_dense_replace=1, topk_method="greedy", world="gguf", dtype="f16",
                               **DEEP_EXPERTS | {"n_group": 1, "topk_group": 1, "norm_topk_prob": False}),
    "youtu_gguf": latent("youtu", "Youtu", pad_token_id=None, tie_word_embeddings=True, num_hidden_layers=2, world="gguf", dtype="f16"),
    "qwen2_moe_gguf": member("qwen2_moe", "Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                             shared_expert_intermediate_size=32, **WIDE),
    "seed_oss_gguf": member("seed_oss", "SeedOss", head_dim=32, attention_bias=True, **WIDE),
    "smollm3_gguf": member("smollm3", "SmolLM3", tie_word_embeddings=True, **WIDE | {"num_hidden_layers": 4}),
    "phi3_gguf": member("phi3", "Phi3", num_attention_heads=2, sliding_window=19, partial_rotary_factor=0.75, stepwise=True,
                        rope_scaling=longrope(6), original_max_position_embeddings=32, **WIDE),
    "olmo2_gguf": member("olmo2", "Olmo2", **WIDE),
    "olmo3_gguf": member("olmo3", "Olmo3", sliding_window=22, layer_types=["sliding_attention", "full_attention"],
                         rope_theta=500000.0, rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                                                            "original_max_position_embeddings": 64, "beta_slow": 1.0},
                         **WIDE),
    "granite_gguf": member("granite", "Granite", **GRANITE, **WIDE),
    "ernie4_5_gguf": member("ernie4_5", "Ernie4_5", head_dim=32, **WIDE),
    "exaone4_gguf": member("exaone4", "Exaone4", sliding_window=23, layer_types=["sliding_attention", "full_attention"],
                           **WIDE),
    "hunyuan_v1_dense_gguf": member("hunyuan_v1_dense", "HunYuanDenseV1", head_dim=32, **WIDE),
    "cohere_gguf": member("cohere", "Cohere", logit_scale=0.4, tie_word_embeddings=True, use_qk_norm=False, **WIDE),
    "cohere2_gguf": member("cohere2", "Cohere2", sliding_window=18, rotary_pct=1.0, logit_scale=0.7,
                           tie_word_embeddings=True, **WIDE | {"num_hidden_layers": 4}),
    "starcoder2_gguf": member("starcoder2", "Starcoder2", hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, **WIDE),
    "glm4_gguf": member("glm4", "Glm4", head_dim=32, partial_rotary_factor=0.5, attention_bias=True, **WIDE),
    "stablelm_gguf": member("stablelm", "StableLm", partial_rotary_factor=0.25, use_qkv_bias=True, **WIDE),
    # Mixtures of experts. Groups, scales, biases for the choice, leading dense layers, shared experts.
    "glm4_moe": member("glm4_moe", "Glm4Moe", **DEEP, n_shared_experts=1, first_k_dense_replace=1, use_qk_norm=True, head_dim=12,
                       attention_bias=True, partial_rotary_factor=0.5, num_nextn_predict_layers=0, num_hidden_layers=3, long=True),
    "minimax_m2": member("minimax_m2", "MiniMaxM2", num_local_experts=6, num_experts_per_tok=2, head_dim=12, rotary_dim=6,
                         intermediate_size=20, num_hidden_layers=2, world="published"),
    "granitemoeshared": member("granitemoeshared", "GraniteMoeShared", num_local_experts=5, num_experts_per_tok=2, intermediate_size=20,
                               shared_intermediate_size=28, num_hidden_layers=2, world="published", **GRANITE),
    "olmoe": member("olmoe", "Olmoe", num_experts=6, num_experts_per_tok=3, intermediate_size=20, num_hidden_layers=2),
    "ernie4_5_moe": member("ernie4_5_moe", "Ernie4_5_Moe", moe_num_experts=6, moe_k=2, moe_intermediate_size=20, use_bias=True,
                           moe_num_shared_experts=2, moe_layer_start_index=1, moe_norm_min=0.6, num_hidden_layers=3, head_dim=12),
    "hunyuan_v1_moe": member("hunyuan_v1_moe", "HunYuanMoEV1", num_experts=5, moe_topk=[2, 1], intermediate_size=20, head_dim=12,
                             num_hidden_layers=2, world="published"),
    "dots1": member("dots1", "Dots1", **DEEP | {"norm_topk_prob": False}, n_shared_experts=2, first_k_dense_replace=1,
                    sliding_window=19, layer_types=["sliding_attention", "full_attention"], num_hidden_layers=2),
    "exaone_moe": member("exaone_moe", "ExaoneMoe", **{k: v for k, v in DEEP.items() if k != "n_routed_experts"}, num_experts=8,
                         num_shared_experts=1, sliding_window=21, sliding_window_pattern=2, head_dim=12,
                         mlp_layer_types=["sparse", "dense", "sparse"], num_hidden_layers=3),
    "glm4_moe_gguf": member("glm4_moe", "Glm4Moe", **WIDE_DEEP, n_shared_experts=1, first_k_dense_replace=1, use_qk_norm=True, head_dim=32,
                            partial_rotary_factor=0.5, num_nextn_predict_layers=0),
    "hunyuan_v1_moe_gguf": member("hunyuan_v1_moe", "HunYuanMoEV1", num_experts=4, moe_topk=[2, 2], num_shared_expert=[1, 1],
                                  moe_intermediate_size=[32, 32], head_dim=32, **WIDE),
    "dots1_gguf": member("dots1", "Dots1", **WIDE_DEEP, n_shared_experts=2, first_k_dense_replace=1, head_dim=32, sliding_window=None),
    "exaone_moe_gguf": member("exaone_moe", "ExaoneMoe", **{k: v for k, v in WIDE_DEEP.items() if k != "n_routed_experts"}, num_experts=8,
                              num_shared_experts=1, scoring_func="sigmoid", sliding_window=21, sliding_window_pattern=2, head_dim=32,
                              layer_types=["sliding_attention", "full_attention"]),
    "minimax_m2_gguf": member("minimax_m2", "MiniMaxM2", num_local_experts=4, num_experts_per_tok=2, head_dim=32, rotary_dim=16, **WIDE),
    "granitemoeshared_gguf": member("granitemoeshared", "GraniteMoeShared", num_local_experts=4, num_experts_per_tok=2,
                                    shared_intermediate_size=64, **GRANITE, **WIDE),
    "olmoe_gguf": member("olmoe", "Olmoe", num_experts=4, num_experts_per_tok=2, num_key_value_heads=4, **WIDE),
    "ernie4_5_moe_gguf": member("ernie4_5_moe", "Ernie4_5_Moe", moe_num_experts=4, moe_k=2, num_experts_per_tok=2, moe_intermediate_size=32,
                                moe_num_shared_experts=1, moe_layer_start_index=1, head_dim=32, **WIDE),
    # Layers of two kinds. Values narrower than keys, and sinks only in layers with windows.
    "mimo_v2_flash": by_kind("mimo_v2_flash", "MiMoV2Flash", [FULL, WINDOW, WINDOW], head_dim=12, v_head_dim=8, num_key_value_heads=1,
                             n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, attention_bias=True, long=True,
                             world="published"),
    "step3p7": by_kind("step3p5", "Step3p7", [FULL, WINDOW, WINDOW, FULL], head_dim=12, num_sliding_attention_heads=2,
                       num_key_value_heads=1, n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
                       share_expert_dim=28, pad_token_id=1, mlp_layer_types=["dense", "sparse", "sparse", "dense"],
                       swiglu_limits=[0, 0.7, None, 0], swiglu_limits_shared=[0.6, 0.8, 0, 0], world="published"),
    "laguna": by_kind("laguna", "Laguna", [FULL, WINDOW, WINDOW], head_dim=12, num_attention_heads_per_layer=[4, 6, 2], num_experts=5,
                      num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28,
                      moe_router_logit_softcapping=1.5, moe_routed_scaling_factor=1.7, long=True, world="published"),
    "laguna_elements": by_kind("laguna", "Laguna", [WINDOW, FULL], head_dim=12, gating="per-element", num_experts=5, attention_bias=True,
                               num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28, dtype="f32",
                               rope_parameters={FULL: YARN, WINDOW: {"rope_type": "default", "rope_theta": 3000.0}}),
    "muse_glimmer_nested": by_kind("muse_glimmer_text", "MuseGlimmer", [FULL, WINDOW, WINDOW, FULL], head_dim=12, post_norm_eps=1e-2,
                                   rms_norm_eps=1e-3, final_logit_softcapping=12.0, output_multiplier=0.7, qk_scale_factor=2.0,
                                   layer_rope_theta=[0, 1.0, 1.0, 0], world="nested"),
    "hy_v3": member("hy_v3", "HYV3", head_dim=12, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20, mlp_bias=True,
                    attention_bias=True, num_hidden_layers=3, world="published"),
    "granite_swa": by_kind("granite_swa", "GraniteSWA", [FULL, WINDOW, WINDOW], layer_rope_theta=[0, 5000.0, 20000.0], **GRANITE, long=True),
    # Heads that CUDA has kernels for.
    "granite_swa_wide": by_kind("granite_swa", "GraniteSWA", [FULL, WINDOW], layer_rope_theta=[0, 5000.0], **GRANITE, **WIDE_HEADS),
    "mimo_v2_flash_wide": by_kind("mimo_v2_flash", "MiMoV2Flash", [FULL, WINDOW], head_dim=32, v_head_dim=24, num_key_value_heads=1,
                                  num_attention_heads=2, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                                  world="published"),
    "laguna_wide": by_kind("laguna", "Laguna", [FULL, WINDOW], head_dim=32, num_attention_heads_per_layer=[2, 4], num_experts=5,
                           num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28,
                           moe_router_logit_softcapping=1.5, world="published"),
    "granitemoe_swa": by_kind("granitemoe_swa", "GraniteMoeSWA", [WINDOW, FULL], num_local_experts=5, num_experts_per_tok=2,
                              intermediate_size=20, shared_intermediate_size=28, **GRANITE, world="published"),
}
