#pragma once

#include <memory>

#include "base/result.h"
#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::text {

// A tokenizer from GGUF metadata: `llama` (SentencePiece's BPE with scores) or `gpt2` (byte-level
// BPE with the splits that tokenizer.ggml.pre names).
Result<std::shared_ptr<const Tokenizer::Impl>> read_gguf_tokenizer(const load::GgufTokenizer& data);

}  // namespace dovetail::text
