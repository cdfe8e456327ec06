#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "load/container.h"
#include "load/gguf.h"
#include "load/model_source.h"

namespace dovetail::load {

Result<Container> read_gguf_container(std::span<const NamedBytes> shards);

// What a GGUF file says beside its model: tokenizer, chat template, recommended sampling.
// `source.config` must be there.
Status read_gguf_extras(const Container& container, ModelSource& source);

// Maps a GGUF file, or all shards of the split that it belongs to, and the file beside it of the
// layer that drafts, if there is one.
Result<MappedFiles> map_gguf_files(const std::filesystem::path& path);

// What tokenizer.ggml.* says; nothing where the file has no tokenizer. Lengths agree, ids lie
// within the tokens, and there are no more tokens than `vocab_size`. `file` names the source in
// errors.
Result<std::optional<GgufTokenizer>> parse_gguf_tokenizer(const GgufFile& gguf,
                                                          std::uint32_t vocab_size,
                                                          std::string_view file);

}  // namespace dovetail::load
