#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "load/gguf.h"
#include "load/model_source.h"
#include "load/tensor_binding.h"

namespace dovetail::load {

// Reads a model's shape from the metadata of a GGUF file, as llama.cpp's converter writes it.
// `tensors` are those of all shards; they tell the vocabulary's size, tied embeddings and biases.
// What would change the model's results and is not implemented is an error that names the key.
Result<ModelConfig> parse_gguf_config(const GgufFile& gguf, const StoredTensors& tensors,
                                      std::string_view file);

// What tokenizer.ggml.* says; nothing where the file has no tokenizer. Lengths agree, ids lie
// within the tokens, and there are no more tokens than `vocab_size`. `file` names the source in
// errors.
Result<std::optional<GgufTokenizer>> parse_gguf_tokenizer(const GgufFile& gguf,
                                                          std::uint32_t vocab_size,
                                                          std::string_view file);

}  // namespace dovetail::load
