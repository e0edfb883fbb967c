#pragma once

namespace kvrail {

// What the config.json of public models says of their caches.

inline constexpr const char* kLlama3Config = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "num_hidden_layers": 80, "hidden_size": 8192, "vocab_size": 128256,
  "num_attention_heads": 64, "num_key_value_heads": 8,
  "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "torch_dtype": "bfloat16"})";

inline constexpr const char* kQwen3Config = R"({
  "model_type": "qwen3_moe", "num_hidden_layers": 94, "hidden_size": 4096, "vocab_size": 151936,
  "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
  "max_window_layers": 94, "sliding_window": null, "use_sliding_window": false,
  "num_experts": 128, "mlp_only_layers": [], "torch_dtype": "bfloat16"})";

inline constexpr const char* kMistralConfig = R"({
  "model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 32000,
  "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096,
  "torch_dtype": "bfloat16"})";

inline constexpr const char* kDeepSeekR1Config = R"({
  "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129280,
  "num_attention_heads": 128, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
  "torch_dtype": "bfloat16"})";

inline constexpr const char* kDeepSeekV32Config = R"({
  "model_type": "deepseek_v32", "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129280,
  "num_attention_heads": 128, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
  "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "torch_dtype": "bfloat16"})";

// The type is not named: the weights have several.
inline constexpr const char* kGptOssConfig = R"({
  "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "vocab_size": 201088,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
  "layer_types": [
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention"]})";

// Of several kinds of input; fields that are as in the model's class are left out.
inline constexpr const char* kGemma3Config = R"({
  "model_type": "gemma3", "torch_dtype": "bfloat16",
  "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 48, "hidden_size": 3840,
                  "num_attention_heads": 16, "num_key_value_heads": 8, "sliding_window": 1024},
  "vision_config": {"model_type": "siglip_vision_model", "num_hidden_layers": 27,
                    "hidden_size": 1152, "num_attention_heads": 16}})";

inline constexpr const char* kQwen3NextConfig = R"({
  "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "vocab_size": 151936,
  "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
  "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
  "linear_key_head_dim": 128, "linear_num_key_heads": 16,
  "linear_num_value_heads": 32, "linear_value_head_dim": 128, "torch_dtype": "bfloat16"})";

// 52 layers: 23 of Mamba, 6 of attention, 23 that are experts only.
inline constexpr const char* kNemotronConfig = R"({
  "model_type": "nemotron_h", "num_hidden_layers": 52, "hidden_size": 2688, "vocab_size": 131072,
  "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
  "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
  "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
  "conv_kernel": 4, "mamba_ssm_cache_dtype": "float32", "torch_dtype": "bfloat16"})";

}  // namespace kvrail
