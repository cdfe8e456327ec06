#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "load/model_source.h"

namespace dovetail::load {

// The bytes of a file and the name that errors give it.
struct NamedBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

// Reads a model from all shards of a GGUF file, in order; one shard if it is not split. The result
// views into the bytes; path, name and mappings are left to the caller.
Result<ModelSource> read_gguf_model(std::span<const NamedBytes> shards);

// Opens a GGUF file, or all shards of the split that it belongs to.
Result<std::shared_ptr<const ModelSource>> open_gguf_model(const std::filesystem::path& path);

}  // namespace dovetail::load
