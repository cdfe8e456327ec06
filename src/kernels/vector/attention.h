#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/vector/cache.h"
#include "kernels/vector/functions.h"

// Included after an instruction set's vec.h, which defines Vec.
//
// A context is walked in spans of four blocks, and reduced in segments of many spans; both are
// anchored at position 0. Of a span: the scores of its positions, each a chain over the dimensions;
// their maximum; their weights; the values, in the order of the positions. Of a segment: a running
// maximum, and sums relative to it. Segments are merged in their order.
namespace dovetail::kernels {
namespace {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();
inline constexpr std::size_t kSpanBlocks = 4;
inline constexpr std::size_t kSpan = kSpanBlocks * kBlockSize;
static_assert(kAttentionSegment % kSpan == 0);
// Query-head pairs that share the walk over the context: their sums stay in the second-level cache.
inline constexpr std::size_t kMaxPairs = 64;

constexpr std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
constexpr std::size_t most(std::size_t a, std::size_t b) { return a < b ? b : a; }

// Asks for what is read soon: into the second-level cache, since the span under way fills the
// first.
inline void fetch(const std::byte* p) { __builtin_prefetch(p, 0, 2); }

// What has been reduced of some positions: the maximum of their scores, the sum of their weights
// and that of the values times their weights, both relative to that maximum.
template <std::size_t kDims>
struct AttentionSums {
  float maximum, sum;
  alignas(64) float values[kDims];
};

// Where the values begin in a part: see attention_part_floats().
inline constexpr std::size_t kPartValues = Vec::kWidth;

// One query head of one row, on its way through the context.
template <std::size_t kDims>
struct AttentionState {
  const float* query;
  float* output;
  const float* sink;           // or null
  std::size_t first, last;     // the positions it sees, both included
  AttentionSums<kDims> part;   // of the segment under way
  AttentionSums<kDims> whole;  // of the segments before it, if any
};

// The tiles of a span's blocks [begin, end), and the keys of the next span, which are asked for
// meanwhile: any tile where there is none.
struct AttentionSpan {
  std::size_t begin, end;
  const std::byte* keys[kSpanBlocks];
  const std::byte* values[kSpanBlocks];
  const std::byte* next_keys[kSpanBlocks];
};

// How tiles of a type are read, for states of so many dimensions; those of latents are values, and
// keys as well.
template <CacheType type, std::size_t kDims>
struct AttentionSource {
  using State = AttentionState<kDims>;
  static constexpr CacheType kType = type;
  static constexpr bool kLatent = kDims == kMostLatentDims;
  static constexpr bool kScaled = scaled_dims(type) > 0;
  static constexpr std::size_t kGroup = kScaled ? scaled_dims(type) : kMostLatentDims;
  static constexpr std::size_t kVectorBytes = info(type).element_bytes * Vec::kWidth;
};

// q . k for the positions of K blocks from `block` on, times the scale.
template <class Source, std::size_t P, std::size_t K>
inline void attention_scores(const AttentionArgs& a, const AttentionSpan& span, std::size_t block,
                             typename Source::State* const* states, float (*scores)[kSpan]) {
  constexpr std::size_t kBytes = Source::kVectorBytes;
  const float* queries[P];
  for (std::size_t i = 0; i < P; ++i) queries[i] = states[i]->query;
  const std::byte* const* keys = span.keys + block;
  const std::byte* const* ahead = span.values + block;
  Vec::F sums[P][K];
  for (std::size_t i = 0; i < P; ++i)
    for (std::size_t k = 0; k < K; ++k) sums[i][k] = Vec::zero();
  for (std::size_t group = 0; group < a.head_dim; group += Source::kGroup) {
    Vec::F steps[K];
    if constexpr (Source::kScaled) {
      for (std::size_t k = 0; k < K; ++k)
        steps[k] = load_steps<Source::kType>(keys[k], a.head_dim, group);
    }
    const std::size_t end = least(group + Source::kGroup, a.head_dim);
    for (std::size_t d = group; d < end; ++d) {
      Vec::F key[K];
      for (std::size_t k = 0; k < K; ++k) {
        fetch(ahead[k] + d * kBytes);
        key[k] = load_elements<Source::kType>(keys[k] + d * kBytes);
        if constexpr (Source::kScaled) key[k] = Vec::mul(key[k], steps[k]);
      }
      for (std::size_t i = 0; i < P; ++i) {
        const Vec::F query = Vec::set1(queries[i][d]);
        for (std::size_t k = 0; k < K; ++k) sums[i][k] = Vec::fma(query, key[k], sums[i][k]);
      }
    }
  }
  const Vec::F scale = Vec::set1(a.scale);
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t k = 0; k < K; ++k)
      Vec::store(scores[i] + (block + k) * kBlockSize, Vec::mul(sums[i][k], scale));
  }
}

// The same of latents, whose dimensions follow each other: sixteen chains, which are then summed,
// for K positions of the block at a time.
template <class Source, std::size_t P, std::size_t K>
inline void latent_scores(const AttentionArgs& a, const AttentionSpan& span, std::size_t block,
                          typename Source::State* const* states, float (*scores)[kSpan]) {
  constexpr std::size_t w = Vec::kWidth;
  const std::size_t stride = whole_vectors(a.head_dim) / w * Source::kVectorBytes;
  const std::size_t whole = a.head_dim / w * w;
  alignas(64) float steps[kMaxScales][kBlockSize];
  if constexpr (Source::kScaled) {
    for (std::size_t d = 0; d < a.head_dim; d += Source::kGroup)
      Vec::store(steps[d / Source::kGroup],
                 load_steps<Source::kType>(span.keys[block], a.head_dim, d));
  }
  for (std::size_t p = 0; p < kBlockSize; p += K) {
    const std::byte* rows = span.keys[block] + p * stride;
    Vec::F sums[P][K];
    for (std::size_t i = 0; i < P; ++i)
      for (std::size_t k = 0; k < K; ++k) sums[i][k] = Vec::zero();
    const auto add = [&](std::size_t d, std::size_t count) {
      Vec::F key[K];
      for (std::size_t k = 0; k < K; ++k) {
        key[k] = load_elements<Source::kType>(rows + k * stride + d / w * Source::kVectorBytes);
        if constexpr (Source::kScaled)
          key[k] = Vec::mul(key[k], Vec::set1(steps[d / Source::kGroup][p + k]));
      }
      for (std::size_t i = 0; i < P; ++i) {
        const float* from = states[i]->query + d;
        const Vec::F query = count == w ? Vec::load(from) : Vec::load_n(from, count);
        for (std::size_t k = 0; k < K; ++k) sums[i][k] = Vec::fma(query, key[k], sums[i][k]);
      }
    };
    for (std::size_t d = 0; d < whole; d += w) add(d, w);
    if (whole < a.head_dim) add(whole, a.head_dim - whole);
    for (std::size_t i = 0; i < P; ++i) Vec::sums(sums[i], scores[i] + block * kBlockSize + p);
  }
  const Vec::F scale = Vec::set1(a.scale);
  for (std::size_t i = 0; i < P; ++i) {
    float* at = scores[i] + block * kBlockSize;
    Vec::store(at, Vec::mul(Vec::load(at), scale));
  }
}

// softcap * tanh(score / softcap) for the scores of blocks [begin, end) of `count` pairs. Out of
// line, or compilers keep registers free for it in the loops of all others.
[[gnu::noinline]] inline void cap_scores(float softcap, float (*scores)[kSpan], std::size_t count,
                                         std::size_t begin, std::size_t end) {
  const Vec::F cap = Vec::set1(softcap);
  for (std::size_t i = 0; i < count; ++i) {
    for (float* at = scores[i] + begin * kBlockSize; at != scores[i] + end * kBlockSize;
         at += Vec::kWidth)
      Vec::store(at, Vec::mul(cap, vec_tanh(Vec::div(Vec::load(at), cap))));
  }
}

// Takes the scores of the span's positions [begin, end) into the states and leaves their weights in
// `scores`, and in `factors` what the sums so far are to be multiplied with.
template <std::size_t P, class State>
inline void attention_weights(State* const* states, std::size_t begin, std::size_t end,
                              float (*scores)[kSpan], float* factors) {
  static_assert(P <= Vec::kWidth);
  const Vec::F none = Vec::set1(kNoScore);
  const std::size_t from = begin / kBlockSize * kBlockSize;
  for (std::size_t i = 0; i < P; ++i) {
    Vec::F top = none;
    for (std::size_t at = from; at < end; at += kBlockSize) {
      Vec::F seen = Vec::load(scores[i] + at);
      if (begin > at || end < at + kBlockSize) {
        seen = Vec::keep(seen, most(begin, at) - at, least(end - at, kBlockSize), none);
        Vec::store(scores[i] + at, seen);
      }
      top = Vec::max(top, seen);
    }
    const float maximum = Vec::max_of(top);
    auto& part = states[i]->part;
    factors[i] = part.maximum;
    if (maximum > part.maximum) part.maximum = maximum;
    factors[i] -= part.maximum;
  }
  Vec::store_n(factors, vec_exp(Vec::load_n(factors, P)), P);
  Vec::F totals[P];
  for (std::size_t i = 0; i < P; ++i) {
    const Vec::F maximum = Vec::set1(states[i]->part.maximum);
    totals[i] = Vec::zero();
    for (std::size_t at = from; at < end; at += kBlockSize) {
      const Vec::F weights = vec_exp(Vec::sub(Vec::load(scores[i] + at), maximum));
      Vec::store(scores[i] + at, weights);
      totals[i] = Vec::add(totals[i], weights);
    }
  }
  float sums[P];
  Vec::sums(totals, sums);
  for (std::size_t i = 0; i < P; ++i) {
    auto& part = states[i]->part;
    part.sum = part.sum * factors[i] + sums[i];
  }
}

// values = values * factor + sum over the visible positions, in order, of weight * value, for V
// vectors of dimensions from d on. Tiles have `stored` of them.
template <class Source, std::size_t P, std::size_t V>
inline void attention_values(const AttentionSpan& span, std::size_t stored,
                             typename Source::State* const* states, std::size_t d,
                             std::size_t begin, std::size_t end, const float (*weights)[kSpan],
                             const float* factors) {
  constexpr std::size_t kBytes = Source::kVectorBytes;
  // Vectors begin anywhere in a group.
  constexpr std::size_t kGroups = (V * Vec::kWidth + Source::kGroup - 2) / Source::kGroup + 1;
  const std::size_t in_group = d % Source::kGroup;
  const std::size_t stride = whole_vectors(stored) / Vec::kWidth * kBytes;
  const std::size_t column = d / Vec::kWidth * kBytes;
  Vec::F sums[P][V];
  for (std::size_t i = 0; i < P; ++i) {
    const Vec::F factor = Vec::set1(factors[i]);
    for (std::size_t v = 0; v < V; ++v)
      sums[i][v] = Vec::mul(Vec::load(states[i]->part.values + d + v * Vec::kWidth), factor);
  }
  for (std::size_t base = begin / kBlockSize * kBlockSize; base < end; base += kBlockSize) {
    const std::size_t b = base / kBlockSize;
    const std::size_t from = most(begin, base) - base;
    const std::size_t to = least(end - base, kBlockSize);
    alignas(64) float steps[kGroups][kBlockSize];
    if constexpr (Source::kScaled) {
      for (std::size_t g = 0; g * Source::kGroup < in_group + V * Vec::kWidth; ++g)
        Vec::store(steps[g],
                   load_steps<Source::kType>(span.values[b], stored, d + g * Source::kGroup));
    }
    const std::byte* rows = span.values[b] + column;
    const std::byte* ahead = span.next_keys[b] + column;
    for (std::size_t p = from; p < to; ++p) {
      Vec::F weight[P];
      for (std::size_t i = 0; i < P; ++i) weight[i] = Vec::set1(weights[i][base + p]);
      for (std::size_t v = 0; v < V; ++v) {
        fetch(ahead + p * stride + v * kBytes);
        Vec::F value = load_elements<Source::kType>(rows + p * stride + v * kBytes);
        if constexpr (Source::kScaled)
          value =
              Vec::mul(value, Vec::set1(steps[(in_group + v * Vec::kWidth) / Source::kGroup][p]));
        for (std::size_t i = 0; i < P; ++i) sums[i][v] = Vec::fma(weight[i], value, sums[i][v]);
      }
    }
  }
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t v = 0; v < V; ++v)
      Vec::store(states[i]->part.values + d + v * Vec::kWidth, sums[i][v]);
  }
}

// The largest power of two up to n.
constexpr std::size_t power_of_two(std::size_t n) {
  std::size_t power = 1;
  while (2 * power <= n) power *= 2;
  return power;
}

template <class Source, std::size_t P, std::size_t V>
inline void attention_columns(const AttentionArgs& a, const AttentionSpan& span,
                              typename Source::State* const* states, std::size_t d,
                              std::size_t begin, std::size_t end, const float (*weights)[kSpan],
                              const float* factors) {
  const std::size_t stored = Source::kLatent ? a.head_dim : a.value_dim;
  for (; d + V * Vec::kWidth <= whole_vectors(a.value_dim); d += V * Vec::kWidth)
    attention_values<Source, P, V>(span, stored, states, d, begin, end, weights, factors);
  if constexpr (V > 1)
    attention_columns<Source, P, V / 2>(a, span, states, d, begin, end, weights, factors);
}

// P pairs that see the span's positions [begin, end).
template <class Source, std::size_t P>
inline void attention_step(const AttentionArgs& a, const AttentionSpan& span,
                           typename Source::State* const* states, std::size_t begin,
                           std::size_t end) {
  constexpr std::size_t kTogether = power_of_two(least(Vec::kPairSums / P, kSpanBlocks));
  constexpr std::size_t kColumns = power_of_two(least(Vec::kPairSums / P, 8));
  alignas(64) float scores[P][kSpan];
  alignas(64) float factors[P];
  std::size_t b = begin / kBlockSize;
  const std::size_t blocks = (end + kBlockSize - 1) / kBlockSize;
  if constexpr (Source::kLatent) {
    for (; b < blocks; ++b) latent_scores<Source, P, kTogether>(a, span, b, states, scores);
  } else {
    for (; b + kTogether <= blocks; b += kTogether)
      attention_scores<Source, P, kTogether>(a, span, b, states, scores);
    for (; b < blocks; ++b) attention_scores<Source, P, 1>(a, span, b, states, scores);
  }
  if (__builtin_expect(a.softcap != 0.0F, 0))
    cap_scores(a.softcap, scores, P, begin / kBlockSize, blocks);
  attention_weights<P>(states, begin, end, scores, factors);
  attention_columns<Source, P, kColumns>(a, span, states, 0, begin, end, scores, factors);
}

template <class Source, std::size_t P = Vec::kPairs>
inline void attention_steps(const AttentionArgs& a, const AttentionSpan& span,
                            typename Source::State* const* states, std::size_t count,
                            std::size_t begin, std::size_t end) {
  for (; count >= P; states += P, count -= P)
    attention_step<Source, P>(a, span, states, begin, end);
  if constexpr (P > 1)
    if (count > 0) attention_steps<Source, P - 1>(a, span, states, count, begin, end);
}

// All pairs that see something of the span at `base`.
template <class Source>
inline void attention_span(const AttentionArgs& a, const AttentionSpan& span, std::size_t base,
                           typename Source::State* states, std::size_t count) {
  typename Source::State* alike[kMaxPairs];  // those that see the same positions
  for (std::size_t i = 0; i < count;) {
    const std::size_t begin = most(states[i].first, base) - base;
    const std::size_t end = least(states[i].last + 1, base + kSpan);
    std::size_t n = 0;
    for (; i < count; ++i) {
      if (most(states[i].first, base) - base != begin ||
          least(states[i].last + 1, base + kSpan) != end)
        break;
      alike[n++] = states + i;
    }
    if (begin < kSpan && end > base + begin)
      attention_steps<Source>(a, span, alike, n, begin, end - base);
  }
}

// Of no positions at all.
template <class Sums>
inline void clear(Sums& sums, std::size_t value_dim) {
  sums.maximum = kNoScore;
  sums.sum = 0.0F;
  std::memset(sums.values, 0, whole_vectors(value_dim) * sizeof(float));
}

// Adds the sums of the next segment. A segment of which something is seen has a sum of at least 1,
// or NaN; one with a sum of 0 has nothing to add, whatever its maximum is.
template <class Sums>
inline void merge(Sums& whole, const Sums& part, std::size_t value_dim) {
  if (part.sum == 0.0F) return;
  if (whole.sum == 0.0F) {
    whole = part;
    return;
  }
  const float maximum = part.maximum > whole.maximum ? part.maximum : whole.maximum;
  alignas(64) float factors[Vec::kWidth] = {whole.maximum - maximum, part.maximum - maximum};
  Vec::store(factors, vec_exp(Vec::load(factors)));
  const Vec::F of_whole = Vec::set1(factors[0]);
  const Vec::F of_part = Vec::set1(factors[1]);
  for (std::size_t d = 0; d < value_dim; d += Vec::kWidth) {
    const Vec::F scaled = Vec::mul(Vec::load(whole.values + d), of_whole);
    Vec::store(whole.values + d, Vec::fma(Vec::load(part.values + d), of_part, scaled));
  }
  whole.sum = whole.sum * factors[0] + part.sum * factors[1];
  whole.maximum = maximum;
}

// The sink joins last, so that it does so once however the positions were divided. Of no positions:
// zeros.
template <class Sums>
inline void finish(const Sums& whole, const float* sink, std::size_t value_dim, float* output) {
  if (whole.sum == 0.0F) {
    std::memset(output, 0, value_dim * sizeof(float));
    return;
  }
  if (sink == nullptr) {
    for (std::size_t d = 0; d < value_dim; ++d) output[d] = whole.values[d] / whole.sum;
    return;
  }
  const float maximum = whole.maximum > *sink ? whole.maximum : *sink;
  alignas(64) float factors[Vec::kWidth] = {whole.maximum - maximum, *sink - maximum};
  Vec::store(factors, vec_exp(Vec::load(factors)));
  const float sum = whole.sum * factors[0] + factors[1];
  for (std::size_t d = 0; d < value_dim; ++d) output[d] = whole.values[d] * factors[0] / sum;
}

// `count` pairs walk positions [first, last] together; each joins where it sees something.
template <class Source>
inline void attention_walk_of(const AttentionArgs& a, typename Source::State* states,
                              std::size_t count, std::size_t first, std::size_t last) {
  const std::byte* const* keys = Source::kLatent ? a.value_blocks : a.key_blocks;
  const std::size_t blocks = last / kBlockSize + 1;
  for (std::size_t base = first / kSpan * kSpan; base <= last; base += kSpan) {
    AttentionSpan span;
    const std::size_t block = base / kBlockSize;
    span.begin = most(first / kBlockSize, block) - block;
    span.end = least(blocks - block, kSpanBlocks);
    for (std::size_t b = span.begin; b < span.end; ++b) {
      const std::size_t next = least(block + b + kSpanBlocks, blocks - 1);
      span.keys[b] = keys[block + b];
      span.values[b] = a.value_blocks[block + b];
      span.next_keys[b] = keys[next];
    }
    attention_span<Source>(a, span, base, states, count);
  }
}

template <std::size_t kDims>
inline void attention_walk(const AttentionArgs& a, AttentionState<kDims>* states, std::size_t count,
                           std::size_t first, std::size_t last) {
  switch (a.cache_type) {
#define DOVETAIL_LISTED(name, text, bytes)                                                        \
  case CacheType::k##name:                                                                        \
    return attention_walk_of<AttentionSource<CacheType::k##name, kDims>>(a, states, count, first, \
                                                                         last);
    DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED)
#undef DOVETAIL_LISTED
  }
}

// Leaves in `part` what `count` pairs see of a segment.
template <class State>
inline void attention_segment(const AttentionArgs& a, State* states, std::size_t count,
                              std::size_t segment) {
  const std::size_t base = segment * kAttentionSegment;
  std::size_t first = base + kAttentionSegment;
  std::size_t last = base;
  bool seen = false;
  for (std::size_t i = 0; i < count; ++i) {
    clear(states[i].part, a.value_dim);
    if (states[i].last < base || states[i].first >= base + kAttentionSegment) continue;
    seen = true;
    first = least(first, most(states[i].first, base));
    last = most(last, least(states[i].last, base + kAttentionSegment - 1));
  }
  if (seen) attention_walk(a, states, count, first, last);
}

template <class State>
inline void attention_of(const AttentionArgs& a, State* states, std::size_t count) {
  if (a.segment != AttentionArgs::kAllSegments) {
    attention_segment(a, states, count, a.segment);
    for (std::size_t i = 0; i < count; ++i) {
      float* out = states[i].output;
      out[0] = states[i].part.maximum;
      out[1] = states[i].part.sum;
      const std::size_t floats = whole_vectors(a.value_dim);
      std::memcpy(out + kPartValues, states[i].part.values, floats * sizeof(float));
    }
    return;
  }
  std::size_t first = states[0].first;
  std::size_t last = states[0].last;
  for (std::size_t i = 0; i < count; ++i) {
    states[i].whole.sum = 0.0F;
    first = least(first, states[i].first);
    last = most(last, states[i].last);
  }
  for (std::size_t s = first / kAttentionSegment; s <= last / kAttentionSegment; ++s) {
    attention_segment(a, states, count, s);
    for (std::size_t i = 0; i < count; ++i) merge(states[i].whole, states[i].part, a.value_dim);
  }
  for (std::size_t i = 0; i < count; ++i)
    finish(states[i].whole, states[i].sink, a.value_dim, states[i].output);
}

template <std::size_t kDims>
inline void attention_rows(const AttentionArgs& a) {
  assert(a.head_dim <= kDims && a.value_dim <= kDims);
  assert(a.causal || a.end >= a.first_position + a.rows);
  const bool whole = a.segment == AttentionArgs::kAllSegments;
  const std::size_t floats = whole ? a.value_dim : kPartValues + whole_vectors(a.value_dim);
  AttentionState<kDims> states[kMaxPairs];
  std::size_t count = 0;
  for (std::size_t row = 0; row < a.rows; ++row) {
    const std::size_t position = a.first_position + row;
    for (std::size_t head = 0; head < a.heads; ++head) {
      AttentionState<kDims>& state = states[count++];
      state.query = a.query + row * a.query_stride + head * a.head_dim;
      state.output = a.output + row * a.output_stride + head * floats;
      state.sink = a.sinks == nullptr ? nullptr : a.sinks + head;
      state.last = position;
      if (!a.causal)
        state.last = a.window != 0 ? least(a.end - 1, position + a.window - 1) : a.end - 1;
      state.first = a.window != 0 && position + 1 > a.window ? position + 1 - a.window : 0;
      if (count == kMaxPairs || (row + 1 == a.rows && head + 1 == a.heads)) {
        attention_of(a, states, count);
        count = 0;
      }
    }
  }
}

inline void attention(const AttentionArgs& given) {
  AttentionArgs a = given;
  if (a.value_dim == 0) a.value_dim = a.head_dim;
  if (a.latent) return attention_rows<kMostLatentDims>(a);
  a.head_dim <= kMaxHeadDim ? attention_rows<kMaxHeadDim>(a) : attention_rows<kMaxWideHeadDim>(a);
}

template <std::size_t kDims>
inline void merge_attention_of(const float* parts, std::size_t count, std::size_t stride,
                               std::size_t value_dim, const float* sink, float* output) {
  AttentionSums<kDims> whole;
  whole.sum = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    const float* from = parts + i * stride;
    AttentionSums<kDims> part;
    part.maximum = from[0];
    part.sum = from[1];
    std::memcpy(part.values, from + kPartValues, whole_vectors(value_dim) * sizeof(float));
    merge(whole, part, value_dim);
  }
  finish(whole, sink, value_dim, output);
}

inline void merge_attention(const float* parts, std::size_t count, std::size_t stride,
                            std::size_t value_dim, const float* sink, float* output) {
  const auto merge_all = value_dim <= kMaxHeadDim ? merge_attention_of<kMaxHeadDim>
                                                  : merge_attention_of<kMostLatentDims>;
  merge_all(parts, count, stride, value_dim, sink, output);
}

}  // namespace
}  // namespace dovetail::kernels
