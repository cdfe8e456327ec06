#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace dovetail::kernels {
namespace {

class Attention : public EachKernels {};

// A sequence of keys and values in cache blocks. Blocks and positions that no row may see hold NaN.
struct Context {
  Context(const Kernels& kernels, CacheType type, std::size_t positions, std::size_t dim,
          std::mt19937& random)
      : cache_type(type), head_dim(dim), count(positions) {
    keys = reference::random_floats(positions * dim, random);
    values = reference::random_floats(positions * dim, random);
    const std::size_t blocks = positions / kBlockSize + 1;
    block_bytes = cache_tile_bytes(type, dim);
    key_bytes.resize(blocks * block_bytes);
    value_bytes.resize(blocks * block_bytes);
    const std::vector<float> nothing(dim, NAN);
    for (std::size_t p = 0; p < blocks * kBlockSize; ++p) {
      const bool there = p < positions;
      store(kernels, p, there ? keys.data() + p * dim : nothing.data(),
            there ? values.data() + p * dim : nothing.data());
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      key_blocks.push_back(key_bytes.data() + b * block_bytes);
      value_blocks.push_back(value_bytes.data() + b * block_bytes);
    }
  }

  void store(const Kernels& kernels, std::size_t p, const float* key, const float* value) {
    const std::size_t tile = p / kBlockSize * block_bytes;
    kernels.store_key(cache_type, key, head_dim, p % kBlockSize, key_bytes.data() + tile);
    kernels.store_value(cache_type, value, head_dim, p % kBlockSize, value_bytes.data() + tile);
  }
  double key(std::size_t p, std::size_t d) const {
    return reference::cached(cache_type, reference::Tile::kKeys, key_blocks[p / kBlockSize],
                             head_dim, p % kBlockSize, d);
  }
  double value(std::size_t p, std::size_t d) const {
    return reference::cached(cache_type, reference::Tile::kValues, value_blocks[p / kBlockSize],
                             head_dim, p % kBlockSize, d);
  }

  CacheType cache_type;
  std::size_t head_dim, count, block_bytes;
  std::vector<float> keys, values;
  reference::Bytes key_bytes, value_bytes;
  std::vector<const std::byte*> key_blocks, value_blocks;
};

struct Case {
  std::size_t first, rows, heads, head_dim, window;
  CacheType type;
  float softcap = 0.0F;
  bool sinks = false;
  bool causal = true;
  std::size_t behind = 0;  // positions behind the last row that others of the sequence have

  // The first position that the sequence does not have.
  std::size_t end() const { return first + rows + behind; }
  // What a row sees: from the first on, before the second.
  std::size_t seen_from(std::size_t row) const {
    const std::size_t position = first + row;
    return window != 0 && position + 1 > window ? position + 1 - window : 0;
  }
  std::size_t seen_to(std::size_t row) const {
    if (causal) return first + row + 1;
    return window != 0 ? std::min(end(), first + row + window) : end();
  }
};

// Of each head: below all scores, among them, above them.
constexpr float kSinks[] = {0.5F, -30.0F, 4.0F, 30.0F, -1.0F, 2.5F, 0.0F, -INFINITY};

AttentionArgs arguments(const Context& context, const Case& c, const std::vector<float>& query,
                        std::vector<float>& output) {
  return {.cache_type = c.type,
          .key_blocks = context.key_blocks.data(),
          .value_blocks = context.value_blocks.data(),
          .query = query.data(),
          .query_stride = c.heads * c.head_dim,
          .output = output.data(),
          .output_stride = c.heads * c.head_dim,
          .rows = c.rows,
          .heads = c.heads,
          .head_dim = c.head_dim,
          .first_position = c.first,
          .window = c.window,
          .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim)),
          .causal = c.causal,
          .end = c.end(),
          .softcap = c.softcap,
          .sinks = c.sinks ? kSinks : nullptr};
}

TEST_P(Attention, IsNearTheSoftmaxInDouble) {
  const Case cases[] = {{0, 1, 1, 8, 0, CacheType::kF32},
                        {0, 20, 2, 12, 0, CacheType::kF32},
                        {15, 3, 3, 64, 0, CacheType::kF32},
                        {16, 1, 4, 64, 0, CacheType::kF16},
                        {0, 70, 1, 128, 0, CacheType::kF32},
                        {5, 50, 5, 33, 7, CacheType::kF32},
                        {100, 9, 8, 80, 16, CacheType::kF16},
                        {31, 2, 1, 256, 1, CacheType::kF32},
                        {1000, 40, 2, 512, 0, CacheType::kF32},
                        {20, 3, 5, 400, 9, CacheType::kQ8_0},
                        {63, 33, 2, 96, 48, CacheType::kF16},
                        {4000, 2, 3, 64, 0, CacheType::kF32},
                        {9000, 1, 1, 128, 0, CacheType::kF16},
                        {2, 1, 1, 1, 0, CacheType::kF32},
                        {40, 3, 2, 128, 0, CacheType::kBF16},
                        {1, 30, 7, 72, 9, CacheType::kBF16},
                        {1020, 9, 6, 64, 0, CacheType::kQ8_0},
                        {3, 20, 5, 80, 30, CacheType::kQ8_0},
                        {8, 3, 1, 33, 0, CacheType::kQ8_0},
                        {1020, 9, 6, 64, 0, CacheType::kFP8},
                        {3, 20, 5, 80, 30, CacheType::kFP8},
                        {8, 3, 2, 200, 0, CacheType::kFP8},
                        {0, 20, 8, 64, 0, CacheType::kF32, 3.0F},
                        {70, 5, 3, 80, 30, CacheType::kF16, 50.0F},
                        {0, 20, 8, 64, 0, CacheType::kF32, 0.0F, true},
                        {2050, 2, 8, 32, 0, CacheType::kQ8_0, 0.0F, true},
                        {1500, 9, 3, 64, 128, CacheType::kBF16, 0.0F, true},
                        {0, 33, 5, 64, 0, CacheType::kF32, 0.0F, false, false},
                        {0, 1, 5, 64, 0, CacheType::kF32, 0.0F, false, false},
                        {1000, 70, 2, 24, 0, CacheType::kF16, 0.0F, false, false},
                        {30, 20, 8, 40, 0, CacheType::kF16, 2.0F, true, false},
                        {0, 90, 3, 40, 13, CacheType::kF32, 0.0F, false, false},
                        {20, 70, 2, 64, 65, CacheType::kF16, 0.0F, false, false, 100},
                        {1010, 30, 1, 24, 20, CacheType::kBF16, 0.0F, true, false, 7},
                        {5, 9, 2, 32, 1, CacheType::kF32, 0.0F, false, false, 40},
                        {5, 9, 2, 32, 0, CacheType::kF32, 0.0F, false, false, 40}};
  std::mt19937 random(3);
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format(
        "first={} rows={} heads={} dim={} window={} {} softcap={} sinks={} causal={} behind={}",
        c.first, c.rows, c.heads, c.head_dim, c.window, info(c.type).name, c.softcap, c.sinks,
        c.causal, c.behind));
    const Context context(kernels(), c.type, c.end(), c.head_dim, random);
    const auto query = reference::random_floats(c.rows * c.heads * c.head_dim, random, 2);
    std::vector<float> output(query.size(), NAN);
    const AttentionArgs args = arguments(context, c, query, output);
    kernels().attention(args);
    for (std::size_t i = 0; i < c.rows * c.heads; ++i) {
      const std::size_t first = c.seen_from(i / c.heads);
      const std::size_t last = c.seen_to(i / c.heads) - 1;
      std::vector<double> weights;
      double top = -INFINITY;
      for (std::size_t p = first; p <= last; ++p) {
        double score = 0;
        for (std::size_t d = 0; d < c.head_dim; ++d) {
          score += double{query[i * c.head_dim + d]} * context.key(p, d);
        }
        score *= double{args.scale};
        if (c.softcap != 0.0F) score = c.softcap * std::tanh(score / c.softcap);
        weights.push_back(score);
        top = std::max(top, weights.back());
      }
      const double sink = c.sinks ? kSinks[i % c.heads] : -INFINITY;
      double sum = std::exp(sink - top);
      for (double& w : weights) sum += w = std::exp(w - top);
      for (std::size_t d = 0; d < c.head_dim; ++d) {
        double expected = 0;
        for (std::size_t p = first; p <= last; ++p) {
          expected += weights[p - first] / sum * context.value(p, d);
        }
        ASSERT_NEAR(output[i * c.head_dim + d], expected, 1e-5) << "pair " << i << " dim " << d;
      }
    }
  }
}

// The law: a row has the same bits alone, in a chunk and in the whole prompt, and whatever lies in
// positions that it may not see: later ones, those outside its window, the rest of its last block.
TEST_P(Attention, HasTheSameBitsInEveryCompany) {
  EXPECT_TRUE(rc::check([&] {
    Case c{};
    c.type = kCacheTypes[*rc::gen::inRange<std::size_t>(0, std::size(kCacheTypes))].type;
    c.head_dim = *rc::gen::element<std::size_t>(8, 12, 17, 64, 80, 128, 264, 512);
    c.heads = *rc::gen::inRange<std::size_t>(1, 9);
    c.causal = *rc::gen::inRange(0, 4) > 0;
    c.window = *rc::gen::element<std::size_t>(0, 0, 1, 5, 16, 40);
    c.softcap = *rc::gen::element(0.0F, 4.0F);
    c.sinks = *rc::gen::arbitrary<bool>();
    c.first = *rc::gen::inRange<std::size_t>(0, 90);
    c.rows = *rc::gen::inRange<std::size_t>(1, 80);
    std::mt19937 random(*rc::gen::arbitrary<unsigned>());
    const std::size_t end = c.end();
    const Context context(kernels(), c.type, end, c.head_dim, random);
    const std::size_t width = c.heads * c.head_dim;
    const auto query = reference::random_floats(c.rows * width, random, 2);
    std::vector<float> whole(query.size(), NAN);
    kernels().attention(arguments(context, c, query, whole));

    const std::size_t from = *rc::gen::inRange<std::size_t>(0, c.rows);
    const std::size_t to = *rc::gen::inRange<std::size_t>(from + 1, c.rows + 1);
    Case part = c;
    part.rows = to - from;
    part.first = c.first + from;
    part.behind = end - part.first - part.rows;
    Context narrow = context;
    const std::size_t seen = part.seen_from(0);
    const std::size_t seen_to = part.seen_to(part.rows - 1);
    const std::vector<float> nothing(c.head_dim, NAN);
    for (std::size_t p = 0; p < end; ++p) {
      if (p >= seen && p < seen_to) continue;
      narrow.store(kernels(), p, nothing.data(), nothing.data());
    }
    for (std::size_t b = 0; b < narrow.key_blocks.size(); ++b) {
      // Blocks that no row sees may not even be there.
      const bool there = (b + 1) * kBlockSize > seen && b * kBlockSize < seen_to;
      narrow.key_blocks[b] = there ? narrow.key_bytes.data() + b * narrow.block_bytes : nullptr;
      narrow.value_blocks[b] = there ? narrow.value_bytes.data() + b * narrow.block_bytes : nullptr;
    }
    const std::vector<float> some(query.begin() + static_cast<std::ptrdiff_t>(from * width),
                                  query.begin() + static_cast<std::ptrdiff_t>(to * width));
    std::vector<float> output(some.size(), NAN);
    kernels().attention(arguments(narrow, part, some, output));
    for (std::size_t i = 0; i < output.size(); ++i) {
      RC_ASSERT(output[i] == whole[from * width + i]);
    }
    // One head alone.
    const std::size_t head = *rc::gen::inRange<std::size_t>(0, c.heads);
    const std::size_t offset = head * c.head_dim;
    Case single = c;
    single.heads = 1;
    std::vector<float> one(query.size(), NAN);
    AttentionArgs args = arguments(context, single, query, one);
    args.query += offset;
    args.output += offset;
    args.query_stride = args.output_stride = width;
    if (args.sinks != nullptr) args.sinks += head;
    kernels().attention(args);
    for (std::size_t row = 0; row < c.rows; ++row) {
      for (std::size_t d = offset; d < offset + c.head_dim; ++d) {
        RC_ASSERT(one[row * width + d] == whole[row * width + d]);
      }
    }
  }));
}

// Rows on either side of the borders between segments, alone, together, and merged from the parts
// of one segment each, which may hold none of the others' blocks.
TEST_P(Attention, MergesSegmentsToTheSameBits) {
  std::mt19937 random(6);
  for (const CacheTypeInfo& type : kCacheTypes) {
    for (const int variant : {0, 1, 2, 3, 4, 5, 6}) {
      constexpr std::size_t kWindows[] = {0, 7, 1100, 0, 7, 0, 4};
      const Case c{.first = 2 * kAttentionSegment - 5,
                   .rows = 9,
                   .heads = 3,
                   .head_dim = 24,
                   .window = kWindows[variant],
                   .type = type.type,
                   .softcap = variant == 3 ? 4.0F : 0.0F,
                   .sinks = variant >= 3,
                   .causal = variant < 5};
      SCOPED_TRACE(fmt::format("{} variant {}", type.name, variant));
      const Context context(kernels(), c.type, c.first + c.rows, c.head_dim, random);
      const std::size_t width = c.heads * c.head_dim;
      const auto query = reference::random_floats(c.rows * width, random, 2);
      std::vector<float> whole(query.size(), NAN);
      kernels().attention(arguments(context, c, query, whole));
      for (std::size_t row = 0; row < c.rows; ++row) {
        Case single = c;
        single.first += row;
        single.rows = 1;
        single.behind = c.rows - 1 - row;
        const std::vector<float> some(
            query.begin() + static_cast<std::ptrdiff_t>(row * width),
            query.begin() + static_cast<std::ptrdiff_t>(row * width + width));
        std::vector<float> output(width, NAN);
        kernels().attention(arguments(context, single, some, output));
        for (std::size_t i = 0; i < width; ++i) ASSERT_EQ(output[i], whole[row * width + i]);
      }
      constexpr std::size_t kSegments = 3;
      const std::size_t floats = attention_part_floats(c.head_dim);
      std::vector<float> parts(kSegments * c.rows * c.heads * floats, NAN);
      for (std::size_t segment = 0; segment < kSegments; ++segment) {
        Context narrow = context;
        for (std::size_t b = 0; b < narrow.key_blocks.size(); ++b) {
          if (b * kBlockSize / kAttentionSegment == segment) continue;
          narrow.key_blocks[b] = narrow.value_blocks[b] = nullptr;
        }
        std::vector<float> nowhere;
        AttentionArgs args = arguments(narrow, c, query, nowhere);
        args.segment = segment;
        args.output = parts.data() + segment * floats;
        args.output_stride = kSegments * c.heads * floats;
        // A head alone, so that its parts lie side by side.
        args.heads = 1;
        for (std::size_t head = 0; head < c.heads; ++head) {
          kernels().attention(args);
          args.query += c.head_dim;
          args.output += kSegments * floats;
        }
      }
      for (std::size_t i = 0; i < c.rows * c.heads; ++i) {
        std::vector<float> output(c.head_dim, NAN);
        kernels().merge_attention(parts.data() + i * kSegments * floats, kSegments, floats,
                                  c.head_dim, c.sinks ? kSinks + i % c.heads : nullptr,
                                  output.data());
        for (std::size_t d = 0; d < c.head_dim; ++d)
          ASSERT_EQ(output[d], whole[i * c.head_dim + d]) << i << " dim " << d;
      }
    }
  }
}

// Parts as segments leave them: { maximum, sum, and from float 16 on the sums of values }.
TEST_P(Attention, MergesStatesOfNothing) {
  constexpr std::size_t kDim = 3;
  constexpr std::size_t kValues = 16;
  const std::size_t floats = attention_part_floats(kDim);
  struct Part {
    float maximum, sum, value;
  };
  struct Row {
    const char* name;
    std::vector<Part> parts;
    float expected;
  };
  const float three = std::log(3.0F);
  const std::vector<Row> rows = {
      {"nothing", {{-INFINITY, 0, 0}}, 0},
      {"nothing twice", {{-INFINITY, 0, 0}, {-INFINITY, 0, 0}}, 0},
      {"nothing, its maximum said the other way", {{INFINITY, 0, 0}, {-INFINITY, 0, 0}}, 0},
      {"nothing before", {{-INFINITY, 0, 0}, {2, 4, 6}}, 1.5F},
      {"nothing behind", {{2, 4, 6}, {-INFINITY, 0, 0}}, 1.5F},
      {"nothing behind, said the other way", {{2, 4, 6}, {INFINITY, 0, 0}}, 1.5F},
      {"a quarter and three", {{0, 1, 1}, {three, 1, 3}}, 2.5F},
      {"three quarters and one", {{three, 1, 3}, {0, 1, 1}}, 2.5F},
      {"by sums rather than maxima", {{0, 1, 1}, {0, 3, 9}}, 2.5F},
      {"far apart", {{-1000, 1, 5}, {1000, 2, 6}}, 3},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<float> parts(row.parts.size() * floats, 0.0F);
    for (std::size_t i = 0; i < row.parts.size(); ++i) {
      parts[i * floats] = row.parts[i].maximum;
      parts[i * floats + 1] = row.parts[i].sum;
      for (std::size_t d = 0; d < kDim; ++d) parts[i * floats + kValues + d] = row.parts[i].value;
    }
    std::vector<float> output(kDim, NAN);
    kernels().merge_attention(parts.data(), row.parts.size(), floats, kDim, nullptr, output.data());
    for (const float each : output) EXPECT_NEAR(each, row.expected, 1e-6F);
    // A sink has no value: of nothing it leaves nothing, and one far below takes nothing.
    const float below = -1e30F;
    kernels().merge_attention(parts.data(), row.parts.size(), floats, kDim, &below, output.data());
    for (const float each : output) EXPECT_NEAR(each, row.expected, 1e-6F);
  }
}

// Two keys with score 0, values 3 and 6, and a sink of 0: a third of each.
TEST_P(Attention, ASinkTakesItsShareOnce) {
  const std::size_t floats = attention_part_floats(1);
  std::vector<float> parts(2 * floats, 0.0F);
  for (const std::size_t i : {0, 1}) {
    parts[i * floats + 1] = 1;
    parts[i * floats + 16] = i == 0 ? 3 : 6;
  }
  const float sink = 0;
  float output = NAN;
  kernels().merge_attention(parts.data(), 2, floats, 1, &sink, &output);
  EXPECT_NEAR(output, 3.0F, 1e-6F);
}

// A sink that nothing reaches takes nothing, to the bit; one above everything takes all.
TEST_P(Attention, SinksTakeTheirShare) {
  std::mt19937 random(8);
  Case c{.first = 40, .rows = 3, .heads = 2, .head_dim = 20, .window = 0, .type = CacheType::kF32};
  const Context context(kernels(), c.type, 43, c.head_dim, random);
  const auto query = reference::random_floats(c.rows * c.heads * c.head_dim, random);
  std::vector<float> without(query.size(), NAN);
  kernels().attention(arguments(context, c, query, without));
  std::vector<float> output(query.size(), NAN);
  AttentionArgs args = arguments(context, c, query, output);
  const float sinks[] = {-INFINITY, 1e30F};
  args.sinks = sinks;
  kernels().attention(args);
  for (std::size_t i = 0; i < output.size(); ++i)
    EXPECT_EQ(output[i], i / c.head_dim % 2 == 0 ? without[i] : 0.0F) << i;
}

// Scores far apart: the running maximum moves late and far, early weights vanish without NaN.
TEST_P(Attention, SurvivesLargeScores) {
  std::mt19937 random(5);
  const Case c{
      .first = 200, .rows = 1, .heads = 1, .head_dim = 16, .window = 0, .type = CacheType::kF32};
  Context context(kernels(), c.type, 201, 16, random);
  const std::vector<float> query(16, 100.0F);
  std::vector<float> key(16);
  for (std::size_t p = 0; p <= 200; ++p) {
    for (float& k : key) k = static_cast<float>(p) * 0.5F - 50.0F;
    context.store(kernels(), p, key.data(), context.values.data() + p * 16);
  }
  std::vector<float> output(16, NAN);
  kernels().attention(arguments(context, c, query, output));
  for (std::size_t d = 0; d < 16; ++d) EXPECT_FLOAT_EQ(output[d], context.values[200 * 16 + d]);
}

// A position's bytes in tiles whose other positions hold something: those stay as they are.
TEST_P(Attention, StoresOnePositionAlone) {
  std::mt19937 random(7);
  for (const CacheTypeInfo& type : kCacheTypes) {
    for (const std::size_t dim : {1, 16, 33, 64, 80, 256, 512}) {
      SCOPED_TRACE(fmt::format("{} dim={}", type.name, dim));
      Context context(kernels(), type.type, kBlockSize, dim, random);
      const Context before = context;
      const std::size_t changed = random() % kBlockSize;
      const auto key = reference::random_floats(dim, random);
      const auto value = reference::random_floats(dim, random);
      context.store(kernels(), changed, key.data(), value.data());
      Context alone(kernels(), type.type, 0, dim, random);
      alone.store(kernels(), changed, key.data(), value.data());
      for (std::size_t p = 0; p < kBlockSize; ++p) {
        const Context& expected = p == changed ? alone : before;
        for (std::size_t d = 0; d < dim; ++d) {
          const auto at = [&](const Context& of, reference::Tile which) {
            const auto& bytes = which == reference::Tile::kKeys ? of.key_bytes : of.value_bytes;
            return reference::cached(type.type, which, bytes.data(), dim, p, d);
          };
          for (const auto which : {reference::Tile::kKeys, reference::Tile::kValues})
            ASSERT_EQ(at(context, which), at(expected, which)) << "position " << p << " dim " << d;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Attention,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
