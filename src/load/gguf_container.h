#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "load/container.h"
#include "load/mapped_files.h"
#include "load/model_source.h"

namespace dovetail::load {

Result<Container> read_gguf_container(std::span<const NamedBytes> shards);

// What a GGUF file says beside its model: tokenizer, chat template, recommended sampling.
// `source.config` must be there.
Status read_gguf_extras(const Container& container, ModelSource& source);

// Maps a GGUF file, or all shards of the split that it belongs to.
Result<MappedFiles> map_gguf_files(const std::filesystem::path& path);

}  // namespace dovetail::load
