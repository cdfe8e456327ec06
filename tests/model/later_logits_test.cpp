// Logits of hidden rows that an earlier pass gave: the bits that the pass would have given itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "cores/executor.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

TEST(LaterLogits, HaveTheBitsOfThePassOwn) {
  constexpr std::uint32_t kTokens = 33;
  std::vector<std::int32_t> tokens(kTokens);
  for (std::uint32_t i = 0; i < kTokens; ++i) tokens[i] = static_cast<std::int32_t>(i * i % 97);
  std::vector<std::uint32_t> table(3);
  std::iota(table.begin(), table.end(), 0U);
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    for (const kernels::DataType type :
         {kernels::DataType::kF32, kernels::DataType::kBF16, kernels::DataType::kQ8_0}) {
      for (const float cap : {0.0F, 2.0F}) {
        test::RandomModelOptions options;
        options.type = type;
        options.change = [cap](load::ModelConfig& config) { config.logit_softcap = cap; };
        const auto source = test::random_model(options);
        const std::size_t vocab = source->config.vocab_size, width = source->config.hidden_size;
        for (const std::uint32_t lanes : {1U, 3U}) {
          cores::Executor executor(cores::Topology::of_lanes(lanes), {});
          ModelRunner model(source, *kernels, executor);
          const Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF32), 3);
          Segment segment{tokens, 0, table};
          segment.logit_rows = kTokens;
          std::vector<float> own(kTokens * vocab), hidden(kTokens * width);
          model.forward({{segment}}, cache, own);
          // The last row has logits at once, as where a prompt ends.
          segment.logit_rows = 1;
          segment.hidden_rows = {0, kTokens - 1};
          std::vector<float> last(vocab);
          hidden.resize((kTokens - 1) * width);
          model.forward({{segment}}, cache, last, hidden);
          EXPECT_TRUE(std::equal(last.begin(), last.end(), own.end() - vocab));
          // In parts of several sizes, in an order of its own.
          for (const std::uint32_t part : {1U, 5U, kTokens - 1}) {
            std::vector<const float*> rows;
            std::vector<float> expected;
            for (std::uint32_t i = 0; i < part; ++i) {
              const std::uint32_t row = kTokens - 2 - i;
              rows.push_back(hidden.data() + row * width);
              expected.insert(expected.end(), own.begin() + row * vocab,
                              own.begin() + (row + 1) * vocab);
            }
            std::vector<float> later(part * vocab);
            model.logits(rows, later);
            ASSERT_EQ(later, expected) << kernels->name << ", " << lanes << " lanes, " << part;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::model
