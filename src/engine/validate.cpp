#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/sampling_table.h"
#include "dialog/reasoning_budget.h"
#include "engine/options.h"
#include "grammar/token_masks.h"
#include "schedule/scheduler.h"

namespace dovetail::engine {
namespace {

constexpr std::uint64_t kMaxChoices = 128;
constexpr std::size_t kMaxNameBytes = 512;

Status check_range(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kInvalid, "{}: {} is out of range, expected {} to {}", field, value, low,
              high);
}

Status check_token(std::string_view field, TokenId id, std::uint32_t vocab_size) {
  if (id >= 0 && static_cast<std::uint32_t>(id) < vocab_size) return {};
  return fail(ErrorKind::kInvalid, "{}: token id {} is out of range, expected 0 to {}", field, id,
              vocab_size - 1);
}

Status check_sampling(const SamplingParams& params, const RequestLimits& limits) {
  for (const SamplingRow& row : kSamplingRows) {
    if (const Status ok = check_sampling_value(row, sampling_value(params, row)); !ok) return ok;
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (const Status ok = check_token("logit_bias", id, limits.vocab_size); !ok) return ok;
    if (const Status ok = check_range("logit_bias", bias, -100.0F, 100.0F); !ok) return ok;
  }
  return {};
}

Status check_length(std::string_view field, const std::string& text) {
  if (text.size() <= kMaxNameBytes) return {};
  return fail(ErrorKind::kInvalid, "{}: {} bytes are too long, expected at most {}", field,
              text.size(), kMaxNameBytes);
}

Status check_scheduling(const Request& request) {
  if (request.priority < -schedule::kMaxPriority || request.priority > schedule::kMaxPriority) {
    return fail(ErrorKind::kInvalid, "priority: {} is out of range, expected {} to {}",
                request.priority, -schedule::kMaxPriority, schedule::kMaxPriority);
  }
  if (request.timeout &&
      !(*request.timeout >= std::chrono::milliseconds(1) && *request.timeout <= kMaxTimeout)) {
    return fail(ErrorKind::kInvalid, "timeout: {} ms is out of range, expected 1 to {}",
                request.timeout->count(), std::chrono::milliseconds(kMaxTimeout).count());
  }
  if (const Status ok = check_length("tenant", request.tenant); !ok) return ok;
  return check_length("cache_salt", request.cache_salt);
}

// Whether the model does what is asked for.
Status check_kind(const Request& request, const RequestLimits& limits) {
  if (limits.ranks && !request.rank) {
    return fail(ErrorKind::kInvalid,
                "model: it ranks documents; expected rank (`dovetail rerank`, /v1/rerank)");
  }
  if (!limits.ranks && request.rank) {
    return fail(ErrorKind::kInvalid,
                "model: it ranks no documents; expected a model with a head for that, such as "
                "bge-reranker");
  }
  if (!request.embed && !request.rank && !limits.has_logits) {
    return fail(ErrorKind::kInvalid,
                "model: it embeds texts and generates none; expected embed (`dovetail embed`, "
                "/v1/embeddings)");
  }
  if (request.embed && request.rank)
    return fail(ErrorKind::kInvalid, "rank: true beside embed, expected one of the two");
  const std::string_view pooled = request.embed ? "embed" : request.rank ? "rank" : "";
  if (!pooled.empty() && request.prompt_logprobs >= 0) {
    return fail(ErrorKind::kInvalid, "prompt_logprobs: {} beside {}, expected one of the two",
                request.prompt_logprobs, pooled);
  }
  if (request.no_output && (!pooled.empty() || request.grammar)) {
    return fail(ErrorKind::kInvalid, "no_output: true beside {}, expected one of the two",
                pooled.empty() ? "a grammar" : pooled);
  }
  if ((request.embed || request.rank) && (request.n != 1 || request.grammar)) {
    return fail(ErrorKind::kInvalid,
                "{}: true with {}, expected neither choices nor a grammar without an output",
                request.embed ? "embed" : "rank", request.n != 1 ? "n above 1" : "a grammar");
  }
  if (request.second >= request.prompt.size()) {
    return fail(ErrorKind::kInvalid, "second: token {} of a prompt of {}, expected a token of it",
                request.second, request.prompt.size());
  }
  return {};
}

}  // namespace

Status validate(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty())
    return fail(ErrorKind::kInvalid, "prompt: it has no tokens, expected at least one");
  for (const TokenId id : request.prompt) {
    if (const Status ok = check_token("prompt", id, limits.vocab_size); !ok) return ok;
  }
  if (request.max_tokens < 0)
    return fail(ErrorKind::kInvalid, "max_tokens: {} is out of range, expected 1 or more",
                request.max_tokens);
  const std::int32_t new_tokens = request.no_output ? 1 : std::max(request.max_tokens, 1);
  const std::uint64_t needed = request.prompt.size() + static_cast<std::uint64_t>(new_tokens);
  if (request.prompt.size() + 1 > limits.max_context) {
    return fail(ErrorKind::kInvalid,
                "prompt: {} tokens, but the context has {} positions, one of them for what follows",
                request.prompt.size(), limits.max_context);
  }
  if (needed > limits.max_context) {
    return fail(ErrorKind::kInvalid,
                "max_tokens: a prompt of {} tokens and {} new ones need {} positions, but the "
                "context has {}",
                request.prompt.size(), new_tokens, needed, limits.max_context);
  }
  if (request.min_tokens < 0 ||
      (request.max_tokens > 0 && request.min_tokens > request.max_tokens)) {
    return fail(ErrorKind::kInvalid,
                "min_tokens: {} is out of range, expected 0 to max_tokens ({})", request.min_tokens,
                request.max_tokens);
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty())
      return fail(ErrorKind::kInvalid,
                  "stop: an empty string would stop everything, expected non-empty strings");
  }
  for (const TokenId id : request.stop_ids) {
    if (const Status ok = check_token("stop_ids", id, limits.vocab_size); !ok) return ok;
  }
  if (request.logprobs < -1 || request.logprobs > 20) {
    return fail(ErrorKind::kInvalid, "logprobs: {} is out of range, expected 0 to 20",
                request.logprobs);
  }
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > 20) {
    return fail(ErrorKind::kInvalid, "prompt_logprobs: {} is out of range, expected 0 to 20",
                request.prompt_logprobs);
  }
  const std::uint64_t most = std::clamp<std::uint64_t>(
      std::uint64_t{limits.max_num_seqs} + limits.max_waiting, 1, kMaxChoices);
  if (const Status ok = check_kind(request, limits); !ok) return ok;
  if (request.n < 1 || static_cast<std::uint64_t>(request.n) > most) {
    return fail(ErrorKind::kInvalid, "n: {} is out of range, expected 1 to {}", request.n, most);
  }
  if (request.grammar && request.grammar->vocabulary().size() != limits.vocab_size) {
    return fail(ErrorKind::kInvalid,
                "grammar: compiled for {} tokens, but the model has {}; expected one of this "
                "engine's compile()",
                request.grammar->vocabulary().size(), limits.vocab_size);
  }
  if (request.reasoning) {
    if (request.reasoning->closing.empty()) {
      return fail(ErrorKind::kInvalid,
                  "reasoning: no token closes it, expected one at least in `closing`");
    }
    for (const TokenId id : request.reasoning->closing) {
      if (const Status ok = check_token("reasoning", id, limits.vocab_size); !ok) return ok;
    }
  }
  if (const Status ok = check_scheduling(request); !ok) return ok;
  return check_sampling(request.sampling, limits);
}

}  // namespace dovetail::engine
