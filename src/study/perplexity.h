#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "dovetail/engine.h"
#include "load/model_source.h"

namespace dovetail::study {

// Perplexity as llama.cpp's `llama-perplexity` computes it: the text's tokens are cut into chunks
// of `context`; a chunk begins with BOS (in place of its first token) where the tokenizer adds one;
// the tokens of its second half are scored, each by what the model expects after all before it.
struct PerplexityOptions {
  EngineOptions engine;         // threads, kernels, cache type and packing of it
  std::uint32_t context = 512;  // tokens of a chunk, 4 at least
  std::uint32_t chunks = 0;     // at most; 0: all that the text has
  TokenId first_token = -1;     // of each chunk; -1: the text's own
};

struct Perplexity {
  double value = 0.0;           // exp of the mean negative log-probability of a scored token
  double standard_error = 0.0;  // of `value`, for independent tokens
  std::uint64_t scored = 0;     // tokens
  std::uint32_t chunks = 0;
};

// `tokens` are ids in [0, vocab_size). `on_chunk`, if there is one, is told the result so far after
// each chunk. kInvalid: less than one chunk of text, a context that the model or an option does not
// allow; otherwise errors are those of an engine that starts.
Result<Perplexity> measure_perplexity(const std::shared_ptr<const load::ModelSource>& source,
                                      const PerplexityOptions& options,
                                      std::span<const TokenId> tokens,
                                      const std::function<void(const Perplexity&)>& on_chunk = {});

// -log softmax(logits)[token], in double precision. `logits` is not empty.
double negative_log_probability(std::span<const float> logits, TokenId token);

}  // namespace dovetail::study
