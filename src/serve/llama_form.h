#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "dovetail/request.h"
#include "serve/output_format.h"

namespace dovetail::serve {

// What an answer of llama.cpp's own form shows, and where it ends beside what the engine knows.
struct LlamaForm {
  bool tokens = false;              // their ids in a body; streams always have them
  bool timings = false;             // with every event of a stream
  std::vector<std::string> fields;  // of the answer: paths with '/'; empty: all
  // An answer ends ahead of the first of its lines, but for the one that it begins with, that has
  // less white space at its begin; 0: none does.
  std::uint32_t least_indent = 0;
  // It ends with the first end of a line later than this after its first token; 0: never.
  std::chrono::milliseconds predict_limit{0};
  std::uint32_t context = 0;         // positions
  std::vector<std::string> prompts;  // their texts
  Json settings;                     // "generation_settings"
};

// Such a request as it is read, before what concerns several fields is settled.
struct LlamaDraft {
  LlamaForm form;
  // n_predict, max_completion_tokens, max_tokens: the first that is given counts; -1: no limit.
  std::array<std::optional<std::int32_t>, 3> limits;
  std::array<std::optional<std::int32_t>, 2> probabilities;  // n_probs, logprobs
  bool post_sampling = false;
  bool only_likeliest = false;  // top_p left no share
  bool adaptive = false;        // adaptive_target is one; it acts only where the samplers say so
  std::optional<OutputFormat> grammar, schema;
  // Of /infill.
  struct File {
    std::string name, text;
  };
  std::vector<File> files;
  std::optional<std::vector<TokenId>> before, after;
  std::vector<TokenId> middle;  // what the text between the two begins with
};

}  // namespace dovetail::serve
