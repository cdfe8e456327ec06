#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/quantization.h"
#include "load/safetensors.h"
#include "load/stored_tensor.h"

namespace dovetail::load {

// A tensor under the name that it has, or would have, in a folder that is not quantised.
struct NamedTensor {
  std::string name;
  StoredTensor tensor;
};

// Joins the tensors that a quantised weight is stored in (codes, scales, zero points) to one each,
// whose `parts` tell its rows; what belongs to no such weight stays as it is. Scales of
// activations are dropped: products round activations in their own way. `files` has a name for each
// shard. Names and spans view into `shards` and `files`, which must outlive the result.
Result<std::vector<NamedTensor>> join_parts(const Quantization& quantization,
                                            std::span<const std::vector<SafetensorsTensor>> shards,
                                            std::span<const std::string_view> files);

}  // namespace dovetail::load
