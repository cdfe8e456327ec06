#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "load/decoder_numbers.h"
#include "load/model_source.h"

namespace dovetail::load {

// A tensor as its file declares it; the container's checks are done, so `data` has the bytes that
// type and shape call for. Of a weight that is stored in parts: name and dtype of its codes, the
// shape of the weight, and no data.
struct StoredTensor {
  std::string_view file;                  // for errors; outlives the binding
  std::string_view stored_name;           // as the file spells it; outlives the binding
  std::string_view stored_type;           // as the file spells it; outlives the binding
  std::optional<kernels::DataType> type;  // nothing: a type that no weight may have
  std::vector<std::uint64_t> shape;       // outermost first
  std::span<const std::byte> data;
  std::shared_ptr<const StoredParts> parts = nullptr;
  bool spare = false;  // changes nothing if the configuration does not call for it
};

// By GGUF name; a tensor that has none is under any other name that ends as in its file.
using StoredTensors = std::unordered_map<std::string, StoredTensor>;

// Picks the tensors that the configuration calls for and checks type and shape of each; a tensor
// of all experts of a layer is cut into one view for each. A tensor that is left over is an error
// if leaving it out would change what the model computes. `source` names the model in errors about
// a tensor that is missing.
Result<std::unordered_map<std::string, TensorView>> bind_tensors(const ModelConfig& config,
                                                                 const StoredTensors& stored,
                                                                 std::string_view source);

// The sizes that the loader takes at all, before they are held against the tensors, and how they
// must agree with each other. `source` names the model in errors.
Status check_numbers(const DecoderNumbers& config, std::string_view source);

inline constexpr std::uint32_t kMostLayers = 1024;
inline constexpr std::uint32_t kMostExperts = 1024;    // of a layer
inline constexpr std::uint32_t kMostUsedExperts = 64;  // by a token
inline constexpr std::uint32_t kLargestHeadDim = 256;
inline constexpr std::uint32_t kMostHeads = 4096;
inline constexpr std::uint32_t kLargestHiddenSize = 1U << 18U;
inline constexpr std::uint32_t kLargestIntermediateSize = 1U << 20U;
inline constexpr std::uint32_t kLargestVocabulary = 1U << 24U;
inline constexpr std::uint32_t kLargestContext = 1U << 30U;
inline constexpr float kLargestTheta = 1e15F;
inline constexpr float kLargestFactor = 1e6F;

}  // namespace dovetail::load
