#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/functions.h"

namespace dovetail::engine {
namespace {

struct Candidate {
  float logit;
  TokenId id;
};

bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool changes_logits(const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  return !params.logit_bias.empty() || !context.forbidden.empty() || !context.allowed.empty() ||
         params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

// Removes tokens without a bit. Whole words are usually alike: inside of a string nearly every
// token may come next, elsewhere nearly none.
void keep_allowed(std::span<float> logits, std::span<const std::uint64_t> allowed) {
  assert(allowed.size() * 64 >= logits.size());
  for (std::size_t first = 0; first < logits.size(); first += 64) {
    const std::uint64_t word = allowed[first / 64];
    if (word == ~std::uint64_t{0}) continue;
    const std::span<float> some =
        logits.subspan(first, std::min<std::size_t>(64, logits.size() - first));
    if (word == 0) {
      std::fill(some.begin(), some.end(), kNever);
      continue;
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      some[i] = ((word >> i) & 1U) != 0 ? some[i] : kNever;
    }
  }
}

void adjust(std::vector<float>& logits, const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  const auto in_range = [&](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < logits.size();
  };
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_range(id)) logits[static_cast<std::size_t>(id)] += bias;
  }
  if (params.repetition_penalty != 1.0F) {
    const auto punish = [&](TokenId id) {
      float& logit = logits[static_cast<std::size_t>(id)];
      logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    };
    for (const auto& [id, count] : context.counts->prompt) punish(id);
    for (const auto& [id, count] : context.counts->output) {
      if (!context.counts->prompt.contains(id)) punish(id);
    }
  }
  if (params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F) {
    for (const auto& [id, count] : context.counts->output) {
      logits[static_cast<std::size_t>(id)] -=
          params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
    }
  }
  for (const TokenId id : context.forbidden) {
    if (in_range(id)) logits[static_cast<std::size_t>(id)] = kNever;
  }
  if (!context.allowed.empty()) keep_allowed(logits, context.allowed);
}

// The share of a token relative to the best one.
double weight(float logit, float best, float temperature) {
  return kernels::exp((static_cast<double>(logit) - best) / temperature);
}

// Keeps the smallest set of the best with at least `top_p` of the total. Sorts no more than it
// needs: the best few usually suffice.
void keep_top_p(std::vector<Candidate>& candidates, double total, float best,
                const SamplingParams& params) {
  std::size_t sorted = 0;
  double sum = 0.0;
  for (std::size_t wanted = 256; sorted < candidates.size(); wanted *= 8) {
    const std::size_t end = std::min(wanted, candidates.size());
    std::partial_sort(candidates.begin() + static_cast<std::ptrdiff_t>(sorted),
                      candidates.begin() + static_cast<std::ptrdiff_t>(end), candidates.end(),
                      before);
    for (; sorted < end; ++sorted) {
      sum += weight(candidates[sorted].logit, best, params.temperature);
      if (sum >= params.top_p * total) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

// The lowest id with the highest logit; nothing where no logit is above minus infinity. NaN is
// above nothing.
std::optional<TokenId> highest(std::span<const float> logits) {
  // Several maxima side by side, which compilers turn into vector instructions: for a large
  // vocabulary this is what greedy sampling costs.
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> best;
  best.fill(kNever);
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
  }
  for (; i < logits.size(); ++i) best[0] = logits[i] > best[0] ? logits[i] : best[0];
  const float top = *std::max_element(best.begin(), best.end());
  if (top == kNever) return std::nullopt;
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), top) - logits.begin());
}

}  // namespace

std::optional<TokenId> sample(std::span<const float> logits, const SamplingContext& context) {
  const SamplingParams& params = *context.params;
  std::vector<float> changed;
  std::span<const float> adjusted = logits;
  if (changes_logits(context)) {
    changed.assign(logits.begin(), logits.end());
    adjust(changed, context);
    adjusted = changed;
  }

  const std::optional<TokenId> top = highest(adjusted);
  if (!top || params.temperature == 0.0F) return top;
  const Candidate best{adjusted[static_cast<std::size_t>(*top)], *top};
  if (!std::isfinite(best.logit)) return top;

  std::vector<Candidate> candidates;
  candidates.reserve(adjusted.size());
  for (std::size_t i = 0; i < adjusted.size(); ++i) {
    if (adjusted[i] > kNever) candidates.push_back({adjusted[i], static_cast<TokenId>(i)});
  }
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < candidates.size()) {
    const auto end = candidates.begin() + params.top_k;
    std::nth_element(candidates.begin(), end, candidates.end(), before);
    candidates.erase(end, candidates.end());
    std::sort(candidates.begin(), candidates.end(), before);
  }
  if (params.top_p < 1.0F) {
    double total = 0.0;
    for (const Candidate& candidate : candidates)
      total += weight(candidate.logit, best.logit, params.temperature);
    keep_top_p(candidates, total, best.logit, params);
  }

  double sum = 0.0;
  std::vector<double> sums;  // prefix sums of the candidates that min-p leaves
  std::size_t kept = 0;
  for (const Candidate& candidate : candidates) {
    const double share = weight(candidate.logit, best.logit, params.temperature);
    if (share < params.min_p) continue;
    candidates[kept++] = candidate;
    sum += share;
    sums.push_back(sum);
  }
  const double target = uniform(context.seed, context.choice, context.position) * sum;
  const auto hit = std::upper_bound(sums.begin(), sums.end(), target);
  const auto index =
      std::min<std::ptrdiff_t>(hit - sums.begin(), static_cast<std::ptrdiff_t>(kept) - 1);
  return candidates[static_cast<std::size_t>(index)].id;
}

OutputToken describe(std::span<const float> logits, TokenId chosen, std::int32_t top) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += kernels::exp(static_cast<double>(logit) - best);
  const double log_sum = kernels::log(sum) + best;
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };

  OutputToken token;
  token.id = chosen;
  const float its_logit = logits[static_cast<std::size_t>(chosen)];
  token.logprob = logprob(its_logit);
  const auto before_it = std::span(logits).first(static_cast<std::size_t>(chosen));
  token.rank = 1;
  for (const float logit : logits) token.rank += logit > its_logit ? 1 : 0;
  for (const float logit : before_it) token.rank += logit == its_logit ? 1 : 0;
  const std::size_t count = std::min(static_cast<std::size_t>(std::max(top, 0)), logits.size());
  if (count == 0) return token;
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates.push_back({logits[i], static_cast<TokenId>(i)});
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates.end(), before);
  for (std::size_t i = 0; i < count; ++i)
    token.top.push_back({candidates[i].id, logprob(candidates[i].logit)});
  return token;
}

}  // namespace dovetail::engine
