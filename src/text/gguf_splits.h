#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace dovetail::text {

// What a name in `tokenizer.ggml.pre` stands for: how text becomes the pieces that BPE encodes.
struct GgufSplits {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // Tokens are bytes spelled by stand-ins, as GPT-2's; pre_tokenizer ends in them. Otherwise they
  // are text with U+2581 for spaces, and <0xNN> for bytes of what is no token.
  bool byte_level = true;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool add_bos = false;        // where the file does not say
  bool needs_bos = false;      // whatever the file says
};

// All names, in the order of the error below.
std::vector<std::string_view> gguf_split_names();

// The splits of this name, as llama.cpp knows it. Another name is kUnsupported, with all valid ones
// in the error.
Result<GgufSplits> gguf_splits(std::string_view name);

}  // namespace dovetail::text
