#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/vector/functions.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();
inline constexpr std::size_t kMaxHeadDim = 256;
// Query-head pairs that share the walk over the context: their sums stay in the first-level cache.
inline constexpr std::size_t kMaxPairs = 64;
static_assert(kBlockSize == Vec::kWidth, "the scores of a block are one vector");

inline std::size_t whole_vectors(std::size_t n) {
  return (n + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth;
}

template <CacheType T>
inline Vec::Part::F load_cache(const std::byte* p) {
  return T == CacheType::kF32 ? Vec::Part::load(p) : Vec::Part::load_f16(p);
}

template <CacheType T>
inline Vec::Part::F load_cache_n(const std::byte* p, std::size_t n) {
  return T == CacheType::kF32 ? Vec::Part::load_n(p, n) : Vec::Part::load_f16_n(p, n);
}

// One block of keys with the positions innermost, and of values as floats: the cache's own where
// they can be read in whole vectors, else a copy.
struct AttentionBlock {
  alignas(64) float keys[kMaxHeadDim * kBlockSize];
  alignas(64) float copied[kBlockSize * kMaxHeadDim];
  const float* values;
  std::size_t value_stride;
};

// Opens a block; the next one, if `more`, is asked for meanwhile. It goes by parts of the vector:
// nothing is computed, and a part's transposition fits the registers.
template <CacheType T>
inline void open_block(const AttentionArgs& a, std::size_t block, bool more, AttentionBlock& out) {
  using Part = Vec::Part;
  constexpr std::size_t w = Part::kWidth;
  constexpr std::size_t kElement = T == CacheType::kF32 ? 4 : 2;
  const std::byte* keys = a.key_blocks[block];
  const std::byte* values = a.value_blocks[block];
  if (more) {
    for (std::size_t i = 0; i < kBlockSize * a.head_dim * kElement; i += 64) {
      __builtin_prefetch(a.key_blocks[block + 1] + i);
      __builtin_prefetch(a.value_blocks[block + 1] + i);
    }
  }
  const bool copy = T != CacheType::kF32 || a.head_dim % Vec::kWidth != 0;
  out.value_stride = whole_vectors(a.head_dim);
  out.values = copy ? out.copied : reinterpret_cast<const float*>(values);
  std::size_t d = 0;
  for (; d + w <= a.head_dim; d += w) {
    for (std::size_t p0 = 0; p0 < kBlockSize; p0 += w) {
      Part::F rows[w];
// Unrolled, so that they stay in registers.
#pragma GCC unroll 16
      for (std::size_t p = 0; p < w; ++p)
        rows[p] = load_cache<T>(keys + ((p0 + p) * a.head_dim + d) * kElement);
      Part::transpose(rows);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < w; ++i)
        Part::store(out.keys + (d + i) * kBlockSize + p0, rows[i]);
    }
    for (std::size_t p = 0; copy && p < kBlockSize; ++p) {
      Part::store(out.copied + p * out.value_stride + d,
                  load_cache<T>(values + (p * a.head_dim + d) * kElement));
    }
  }
  // The rest of the last vector, which holds zeros where there is nothing.
  for (; d < out.value_stride; d += w) {
    const std::size_t n = d < a.head_dim ? a.head_dim - d : 0;
    for (std::size_t p0 = 0; p0 < kBlockSize && n > 0; p0 += w) {
      Part::F rows[w];
      for (std::size_t p = 0; p < w; ++p)
        rows[p] = load_cache_n<T>(keys + ((p0 + p) * a.head_dim + d) * kElement, n);
      Part::transpose(rows);
      for (std::size_t i = 0; i < n; ++i)
        Part::store(out.keys + (d + i) * kBlockSize + p0, rows[i]);
    }
    for (std::size_t p = 0; p < kBlockSize; ++p) {
      Part::store(
          out.copied + p * out.value_stride + d,
          n > 0 ? load_cache_n<T>(values + (p * a.head_dim + d) * kElement, n) : Part::zero());
    }
  }
}

// One query head of one row, on its way through the context: the running maximum of its scores, the
// sum of their exponentials and the values weighted by them, both relative to that maximum.
struct AttentionState {
  const float* query;
  float* output;
  std::size_t first, last;  // the positions it sees, both included
  float maximum, sum;
  alignas(64) float values[kMaxHeadDim];
};

// q . k for the block's positions, times the scale. Even and odd dimensions are summed apart, so
// that two additions are in flight.
template <std::size_t P>
inline void attention_scores(const AttentionArgs& a, const AttentionBlock& block,
                             AttentionState* const* states, float (*scores)[kBlockSize]) {
  Vec::F even[P], odd[P];
  for (std::size_t i = 0; i < P; ++i) even[i] = odd[i] = Vec::zero();
  std::size_t d = 0;
  for (; d + 2 <= a.head_dim; d += 2) {
    const Vec::F k0 = Vec::load(block.keys + d * kBlockSize);
    const Vec::F k1 = Vec::load(block.keys + (d + 1) * kBlockSize);
    for (std::size_t i = 0; i < P; ++i) {
      even[i] = Vec::fma(Vec::set1(states[i]->query[d]), k0, even[i]);
      odd[i] = Vec::fma(Vec::set1(states[i]->query[d + 1]), k1, odd[i]);
    }
  }
  const Vec::F scale = Vec::set1(a.scale);
  for (std::size_t i = 0; i < P; ++i) {
    if (d < a.head_dim) {
      const Vec::F k0 = Vec::load(block.keys + d * kBlockSize);
      even[i] = Vec::fma(Vec::set1(states[i]->query[d]), k0, even[i]);
    }
    Vec::store(scores[i], Vec::mul(Vec::add(even[i], odd[i]), scale));
  }
}

// Takes the scores of positions [begin, end) of the block into the state and leaves their weights
// in `scores`; returns the factor for the sums so far.
inline float attention_weights(AttentionState& state, std::size_t begin, std::size_t end,
                               float* scores) {
  const Vec::F none = Vec::set1(kNoScore);
  const Vec::F seen = Vec::keep(Vec::load(scores), begin, end, none);
  const float maximum = Vec::max_of(Vec::max(none, seen));
  float factor = 1.0F;
  if (maximum > state.maximum) {
    alignas(64) float lanes[Vec::kWidth];
    Vec::store(lanes, vec_exp(Vec::set1(state.maximum - maximum)));
    factor = lanes[0];
    state.maximum = maximum;
  }
  const Vec::F weights = vec_exp(Vec::sub(seen, Vec::set1(state.maximum)));
  Vec::store(scores, weights);
  state.sum = state.sum * factor + Vec::sum(weights);
  return factor;
}

// values = values * factor + sum over the visible positions, in order, of weight * value.
template <std::size_t V>
inline void attention_values(const AttentionBlock& block, AttentionState& state, std::size_t d,
                             std::size_t begin, std::size_t end, const float* weights,
                             float factor) {
  Vec::F sums[V];
  for (std::size_t v = 0; v < V; ++v) {
    sums[v] = Vec::mul(Vec::load(state.values + d + v * Vec::kWidth), Vec::set1(factor));
  }
  for (std::size_t p = begin; p < end; ++p) {
    const Vec::F weight = Vec::set1(weights[p]);
    const float* row = block.values + p * block.value_stride + d;
    for (std::size_t v = 0; v < V; ++v) {
      sums[v] = Vec::fma(weight, Vec::load(row + v * Vec::kWidth), sums[v]);
    }
  }
  for (std::size_t v = 0; v < V; ++v) Vec::store(state.values + d + v * Vec::kWidth, sums[v]);
}

template <std::size_t P>
inline void attention_step(const AttentionArgs& a, std::size_t base, const AttentionBlock& block,
                           AttentionState* const* states) {
  alignas(64) float scores[P][kBlockSize];
  attention_scores<P>(a, block, states, scores);
  for (std::size_t i = 0; i < P; ++i) {
    AttentionState& state = *states[i];
    const std::size_t begin = state.first > base ? state.first - base : 0;
    const std::size_t end = state.last - base < kBlockSize ? state.last - base + 1 : kBlockSize;
    const float factor = attention_weights(state, begin, end, scores[i]);
    std::size_t d = 0;
    for (; d + 4 * Vec::kWidth <= block.value_stride; d += 4 * Vec::kWidth) {
      attention_values<4>(block, state, d, begin, end, scores[i], factor);
    }
    if (d + 2 * Vec::kWidth <= block.value_stride) {
      attention_values<2>(block, state, d, begin, end, scores[i], factor);
      d += 2 * Vec::kWidth;
    }
    if (d < block.value_stride) {
      attention_values<1>(block, state, d, begin, end, scores[i], factor);
    }
  }
}

// The last pairs, fewer than kTilePairs.
template <std::size_t P>
inline void attention_rest(const AttentionArgs& a, std::size_t base, const AttentionBlock& block,
                           AttentionState* const* states, std::size_t count) {
  if constexpr (P > 0) {
    if (count == P) return attention_step<P>(a, base, block, states);
    attention_rest<P - 1>(a, base, block, states, count);
  }
}

// `count` pairs walk the context together; each joins where it sees something.
inline void attention_walk(const AttentionArgs& a, AttentionState* states, std::size_t count) {
  std::size_t first = states[0].first;
  std::size_t last = states[0].last;
  for (std::size_t i = 1; i < count; ++i) {
    first = states[i].first < first ? states[i].first : first;
    last = states[i].last > last ? states[i].last : last;
  }
  AttentionBlock block;
  for (std::size_t b = first / kBlockSize; b <= last / kBlockSize; ++b) {
    const std::size_t base = b * kBlockSize;
    const bool more = b < last / kBlockSize;
    if (a.cache_type == CacheType::kF32)
      open_block<CacheType::kF32>(a, b, more, block);
    else
      open_block<CacheType::kF16>(a, b, more, block);
    AttentionState* active[kMaxPairs];
    std::size_t n = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (states[i].first < base + kBlockSize && states[i].last >= base) active[n++] = states + i;
    }
    std::size_t i = 0;
    for (; i + Vec::kTilePairs <= n; i += Vec::kTilePairs) {
      attention_step<Vec::kTilePairs>(a, base, block, active + i);
    }
    attention_rest<Vec::kTilePairs - 1>(a, base, block, active + i, n - i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t d = 0; d < a.head_dim; ++d) {
      states[i].output[d] = states[i].values[d] / states[i].sum;
    }
  }
}

inline void attention(const AttentionArgs& a) {
  assert(a.head_dim <= kMaxHeadDim);
  AttentionState states[kMaxPairs];
  std::size_t count = 0;
  for (std::size_t row = 0; row < a.rows; ++row) {
    const std::size_t position = a.first_position + row;
    for (std::size_t head = 0; head < a.heads; ++head) {
      AttentionState& state = states[count++];
      state.query = a.query + row * a.query_stride + head * a.head_dim;
      state.output = a.output + row * a.output_stride + head * a.head_dim;
      state.last = position;
      state.first = a.window != 0 && position + 1 > a.window ? position + 1 - a.window : 0;
      state.maximum = kNoScore;
      state.sum = 0.0F;
      std::memset(state.values, 0, whole_vectors(a.head_dim) * sizeof(float));
      if (count == kMaxPairs || (row + 1 == a.rows && head + 1 == a.heads)) {
        attention_walk(a, states, count);
        count = 0;
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
