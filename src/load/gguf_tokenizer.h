#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "load/gguf.h"
#include "load/model_source.h"

namespace dovetail::load {

// What tokenizer.ggml.* says; nothing where the file has no tokenizer. Lengths agree, ids lie
// within the tokens, and there are no more tokens than `vocab_size`. `file` names the source in
// errors.
Result<std::optional<GgufTokenizer>> parse_gguf_tokenizer(const GgufFile& gguf,
                                                          std::uint32_t vocab_size,
                                                          std::string_view file);

}  // namespace dovetail::load
