#pragma once

#include <string_view>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace dovetail::text {

// What a name in tokenizer.ggml.pre stands for.
struct GgufSplits {
  PreTokenizer pre_tokenizer;  // ends in bytes to stand-ins
  Normalizer normalizer;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

Result<GgufSplits> gguf_splits(std::string_view name);

}  // namespace dovetail::text
