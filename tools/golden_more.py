"""Golden cases of members of the Llama family that differ in their norms, activations or names (tools/make_golden_logits.py)."""
from golden_cases import WIDE, YARN, member

NO_HEAD_DIM = dict(num_hidden_layers=2, rope_theta=5000.0)
LINEAR = dict(rope_scaling={"rope_type": "linear", "factor": 2.0})
COHERE = dict(head_dim=12, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, logit_scale=0.7, sliding_window=21,
              sliding_window_pattern=2, first_k_dense_replace=1, num_hidden_layers=4, tie_word_embeddings=True)

AFMOE = dict(head_dim=12, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=20, route_scale=1.6,
             sliding_window=21, num_dense_layers=1)
SARVAM = dict(head_dim=12, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=20,
              first_k_dense_replace=1, num_hidden_layers=3)
FLINT = dict(head_dim=12, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=28,
             sliding_window=21)
MELLUM = dict(head_dim=12, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, sliding_window=21)
LAGUNA = dict(head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64,
              sliding_window=21, moe_routed_scaling_factor=1.6, rope_parameters={
                  "full_attention": YARN | {"partial_rotary_factor": 0.5},
                  "sliding_attention": {"rope_type": "default", "rope_theta": 3000.0, "partial_rotary_factor": 0.75}})
WIDE5 = {key: value for key, value in WIDE.items() if key != "num_hidden_layers"}

MORE_CASES = {
    "gemma": member("gemma", "Gemma", head_dim=12, hidden_act="gelu", num_key_value_heads=1, tie_word_embeddings=True,
                    attention_bias=True, rms_norm_eps=1e-4, num_hidden_layers=2),
    "arcee": member("arcee", "Arcee", hidden_act="relu2", mlp_bias=True, attention_bias=True, num_hidden_layers=2),
    "cwm": member("cwm", "Cwm", head_dim=12, sliding_window=20, mlp_bias=True, num_hidden_layers=5, long=True),
    "olmo": member("olmo", "Olmo", attention_bias=True, **NO_HEAD_DIM),
    "apertus": member("apertus", "Apertus", hidden_act="xielu", attention_bias=True, num_hidden_layers=2),
    "nanochat": member("nanochat", "NanoChat", hidden_act="relu2", final_logit_softcapping=9.0, **NO_HEAD_DIM),
    "nanochat_wide": member("nanochat", "NanoChat", hidden_act="relu2", num_attention_heads=1, num_key_value_heads=1, **NO_HEAD_DIM),
    "hyperclovax": member("hyperclovax", "HyperCLOVAX", head_dim=12, attention_bias=True, mlp_bias=True, embedding_multiplier=3.0,
                          logits_scaling=0.8, residual_multiplier=0.4, attention_multiplier=0.2, num_hidden_layers=2),
    "vaultgemma": member("vaultgemma", "VaultGemma", head_dim=12, query_pre_attn_scalar=20, sliding_window=20, tie_word_embeddings=True,
                         attn_logit_softcapping=3.0, final_logit_softcapping=9.0, num_hidden_layers=3),
    "flex_olmo": member("flex_olmo", "FlexOlmo", num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, **NO_HEAD_DIM),
    "jais2": member("jais2", "Jais2", head_dim=12, hidden_act="relu2", layer_norm_eps=1e-3, num_hidden_layers=2),
    "nemotron": member("nemotron", "Nemotron", head_dim=12, hidden_act="relu2", norm_eps=1e-3, mlp_bias=True, num_hidden_layers=2),
    "cohere2_moe": member("cohere2_moe", "Cohere2Moe", prefix_dense_intermediate_size=24, **COHERE),
    "phi": member("phi", "Phi", hidden_act="gelu_new", num_attention_heads=2, partial_rotary_factor=0.4, **NO_HEAD_DIM),
    "gpt_neox": member("gpt_neox", "GPTNeoX", hidden_act="gelu", num_attention_heads=2, num_key_value_heads=None, rotary_pct=0.4,
                       rotary_emb_base=3000, num_hidden_layers=2),
    "gpt_neox_serial": member("gpt_neox", "GPTNeoX", hidden_act="gelu_new", num_attention_heads=4, num_key_value_heads=None,
                              rotary_pct=0.5, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True,
                              num_hidden_layers=2),
    "exaone": member("exaone", "Exaone", head_dim=12, num_key_value_heads=1, rms_norm_eps=1e-3, num_hidden_layers=2, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}),
    "internlm3": member("internlm3", "InternLM3", head_dim=12, attention_bias=True, mlp_bias=True, num_hidden_layers=2, rope_theta=5e4,
                        tie_word_embeddings=True),
    "afmoe": member("afmoe", "Afmoe", **AFMOE, mup_enabled=True, global_attn_every_n_layers=2, long=True),
    "afmoe_biases": member("afmoe", "Afmoe", **AFMOE | {"num_hidden_layers": 2, "num_shared_experts": 0}, attention_bias=True,
                           layer_types=["full_attention", "sliding_attention"], tie_word_embeddings=True),
    "sarvam_moe": member("sarvam_moe", "SarvamMoE", **SARVAM, attention_bias=True),
    "sarvam_moe_plain": member("sarvam_moe", "SarvamMoE", **SARVAM | {"n_shared_experts": 0, "n_group": 2}, topk_group=1,
                               use_qk_norm=False, norm_topk_prob=False),
    "flint": member("flint", "Flint", **FLINT, num_hidden_layers=4, long=True),
    "flint_biases": member("flint", "Flint", **FLINT, num_hidden_layers=3, attention_bias=True, norm_topk_prob=False,
                           mlp_only_layers=[1], layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "mellum": member("mellum", "Mellum", **MELLUM, layer_types=["sliding_attention", "full_attention"] * 2, long=True,
                     rope_parameters={"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 3000.0}}),
    "mellum_dense": member("mellum", "Mellum", **MELLUM | {"num_hidden_layers": 2}, mlp_layer_types=["sparse", "dense"],
                           attention_bias=True, norm_topk_prob=False),
    "exaone_gguf": member("exaone", "Exaone", num_attention_heads=1, num_key_value_heads=1, activation_function="silu",
                          layer_norm_epsilon=1e-5, **WIDE),
    "hy_v3_gguf": member("hy_v3", "HYV3", head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                         router_scaling_factor=1.4, mlp_layer_types=["dense", "sparse"], num_nextn_predict_layers=0, **WIDE),
    "afmoe_gguf": member("afmoe", "Afmoe", **AFMOE | {"head_dim": 32, "moe_intermediate_size": 32, "num_hidden_layers": 5} | WIDE5,
                         mup_enabled=True),
    "mellum_gguf": member("mellum", "Mellum", **MELLUM | {"head_dim": 32, "moe_intermediate_size": 32} | WIDE,
                          layer_types=["sliding_attention", "full_attention"],
                          rope_parameters={"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 3000.0}}),
    "laguna_gguf": member("laguna", "Laguna", **LAGUNA | WIDE5, num_hidden_layers=5, mlp_layer_types=["dense"] + ["sparse"] * 4,
                          layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
                          num_attention_heads_per_layer=[4, 2, 2, 2, 4], gating="per-head"),
    "laguna_elements_gguf": member("laguna", "Laguna", **LAGUNA | WIDE, layer_types=["full_attention", "sliding_attention"],
                                   mlp_layer_types=["sparse", "sparse"], gating="per-element"),
    "gemma_gguf": member("gemma", "Gemma", head_dim=32, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, **WIDE),
    "arcee_gguf": member("arcee", "Arcee", hidden_act="relu2", head_dim=32, **LINEAR, **WIDE),
    "olmo_gguf": member("olmo", "Olmo", num_attention_heads=1, num_key_value_heads=1, **WIDE),
    "apertus_gguf": member("apertus", "Apertus", hidden_act="xielu", num_attention_heads=1, num_key_value_heads=1,
                           rope_scaling={"rope_type": "default"}, **WIDE),
    "nemotron_gguf": member("nemotron", "Nemotron", hidden_act="relu2", num_attention_heads=1, num_key_value_heads=1, **WIDE),
    "jais2_gguf": member("jais2", "Jais2", hidden_act="relu2", num_attention_heads=1, num_key_value_heads=1, **WIDE),
    "phi_gguf": member("phi", "Phi", hidden_act="gelu_new", num_attention_heads=2, num_key_value_heads=2, partial_rotary_factor=0.5,
                       **WIDE | {"intermediate_size": 128}),
    "gpt_neox_gguf": member("gpt_neox", "GPTNeoX", hidden_act="gelu", num_attention_heads=2, num_key_value_heads=None, rotary_pct=0.5,
                            rotary_emb_base=10000, layer_norm_eps=1e-5, **WIDE),
}
