"""Golden cases of members of the Llama family that differ in their norms, activations or names (tools/make_golden_logits.py)."""
from golden_cases import WIDE, member

NO_HEAD_DIM = dict(num_hidden_layers=2, rope_theta=5000.0)
LINEAR = dict(rope_scaling={"rope_type": "linear", "factor": 2.0})
COHERE = dict(head_dim=12, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, logit_scale=0.7, sliding_window=21,
              sliding_window_pattern=2, first_k_dense_replace=1, num_hidden_layers=4, tie_word_embeddings=True)

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
