#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "load/model_source.h"
#include "model/cpu/weight_bytes.h"

namespace dovetail::engine {

// How an engine holds a model's weights.
struct Packing {
  model::WeightBytes bytes;
  model::TypeSet types;                 // that are packed
  std::vector<kernels::DataType> left;  // that could be, but stay in the files
  std::string notice;  // why, in a line for a person; empty where the options alone say so
};

// Bytes of an engine's cache and states that weights are packed beside: all where options say how
// large the cache is. An automatic one is a bound that contexts may never reach, and products of
// weights that are not packed take several times as long: of that a quarter.
std::uint64_t expected_cache(const ResolvedOptions& resolved);

// `cache`: bytes that the cache is to have (expected_cache()). `available`: bytes that are free
// before the engine is opened (available_memory()); nothing: the system does not say, and all is
// packed.
Packing plan_packing(const load::ModelSource& source, const ResolvedOptions& resolved,
                     std::uint64_t cache, std::optional<std::uint64_t> available);

}  // namespace dovetail::engine
