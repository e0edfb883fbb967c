#include "layout/config_states.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "kvrail/kv_layout.h"
#include "layout/checked_math.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

// A convolution over n tokens keeps the n - 1 before the next one.
constexpr std::uint32_t kMinKernel = 2;
constexpr std::uint32_t kMaxKernel = 1024;

StateTensor state(const char* name, std::uint32_t heads,
                  std::initializer_list<std::uint64_t> sizes) {
  std::uint64_t bytes = 1;
  for (const std::uint64_t size : sizes) {
    const auto product = checked_product(bytes, size);
    if (!product || *product > UINT32_MAX) {
      refuse("a head of the state \"{}\" has more than {} bytes", name, UINT32_MAX);
    }
    bytes = *product;
  }
  return {name, heads, static_cast<std::uint32_t>(bytes)};
}

// The recurrence adds up over the whole sequence, so the reference implementations keep it in
// float32 whatever the model's type is, unless the configuration names another.
std::uint32_t recurrent_element_bytes(const ConfigFields& config) {
  for (const char* field : {"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}) {
    if (const auto type = config.find_text(field)) return bytes_of_type(field, *type);
  }
  return 4;
}

}  // namespace

std::uint32_t bytes_of_type(const char* field, const std::string& type) {
  std::string_view name = type;
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16" || name == "float16" || name == "half") return 2;
  if (name == "float32" || name == "float") return 4;
  if (name.starts_with("float8")) return 1;
  refuse("\"{}\" is {:?}, but must be float32, float16, bfloat16 or float8...", field,
         type.substr(0, kMaxNameSize));
}

std::vector<StateTensor> delta_net_states(const ConfigFields& config, std::uint32_t element_bytes) {
  const std::uint32_t key_heads = config.number("linear_num_key_heads", 1, kMaxHeads);
  const std::uint32_t value_heads = config.number("linear_num_value_heads", 1, kMaxHeads);
  const std::uint32_t key_size = config.number("linear_key_head_dim");
  const std::uint32_t value_size = config.number("linear_value_head_dim");
  const std::uint32_t kept = config.number("linear_conv_kernel_dim", kMinKernel, kMaxKernel) - 1;
  const std::uint32_t recurrent_bytes = recurrent_element_bytes(config);
  return {state("recurrent", value_heads, {key_size, value_size, recurrent_bytes}),
          state("conv_q", key_heads, {key_size, kept, element_bytes}),
          state("conv_k", key_heads, {key_size, kept, element_bytes}),
          state("conv_v", value_heads, {value_size, kept, element_bytes})};
}

std::vector<StateTensor> mamba2_states(const ConfigFields& config, std::uint32_t element_bytes) {
  const std::uint32_t heads = config.number_of({"mamba_num_heads", "mamba_n_heads"}, 1, kMaxHeads);
  const std::uint32_t head_size = config.number_of({"mamba_head_dim", "mamba_d_head"});
  const std::uint32_t state_size = config.number_of({"ssm_state_size", "mamba_d_state"});
  const std::uint32_t groups = config.number_of({"n_groups", "mamba_n_groups"}, 1, kMaxHeads);
  const std::uint32_t kept =
      config.number_of({"conv_kernel", "mamba_d_conv"}, kMinKernel, kMaxKernel) - 1;
  const std::uint32_t recurrent_bytes = recurrent_element_bytes(config);
  return {state("ssm", heads, {head_size, state_size, recurrent_bytes}),
          state("conv_x", heads, {head_size, kept, element_bytes}),
          state("conv_b", groups, {state_size, kept, element_bytes}),
          state("conv_c", groups, {state_size, kept, element_bytes})};
}

}  // namespace kvrail
