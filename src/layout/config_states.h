#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/model_shape.h"
#include "layout/config_fields.h"

namespace kvrail {

// What a layer of the configuration keeps of a sequence. Convolutions have elements of
// element_bytes. Both throw Error (kInvalidArgument) that names the field that is missing or wrong.
std::vector<StateTensor> delta_net_states(const ConfigFields& config, std::uint32_t element_bytes);
std::vector<StateTensor> mamba2_states(const ConfigFields& config, std::uint32_t element_bytes);

// Bytes of one element of that type ("bfloat16"); `field` is what an error names.
std::uint32_t bytes_of_type(const char* field, const std::string& type);

}  // namespace kvrail
