#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/data_type.h"

namespace dovetail::load {

struct StoredParts;

// A tensor as its file declares it; the container's checks are done, so `data` has the bytes that
// type and shape call for. Of a weight that is stored in parts: name and dtype of its codes, the
// shape of the weight, and no data.
struct StoredTensor {
  std::string_view file;                  // for errors; outlives the tensor
  std::string_view stored_name;           // as the file spells it; outlives the tensor
  std::string_view stored_type;           // as the file spells it; outlives the tensor
  std::optional<kernels::DataType> type;  // nothing: a type that no weight may have
  std::vector<std::uint64_t> shape;       // outermost first
  std::span<const std::byte> data;
  std::shared_ptr<const StoredParts> parts = nullptr;
  bool spare = false;   // changes nothing if the configuration does not call for it
  float factor = 1.0F;  // of all that the rows are, as a number above 0; TensorView has it
};

using StoredTensors = std::unordered_map<std::string, StoredTensor>;

}  // namespace dovetail::load
