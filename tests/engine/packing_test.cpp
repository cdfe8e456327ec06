#include "engine/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "support/random_model.h"

namespace dovetail::engine {
namespace {

using kernels::DataType;
using testing::AllOf;
using testing::HasSubstr;

class PlanPacking : public testing::Test {
 protected:
  PlanPacking() {
    test::RandomModelOptions model;
    model.type = DataType::kIQ1_S;
    model.hidden_size = model.intermediate_size = 256;
    model.head_dim = 256 / model.heads;
    source_ = test::random_model(model);
  }

  Packing plan(std::uint64_t cache, std::optional<std::uint64_t> available) const {
    const auto resolved = resolve(options_, *source_);
    return plan_packing(*source_, *resolved, cache, available);
  }
  // That all weights take when they are packed; no more than is left of `available`.
  std::uint64_t packed() const {
    const Packing all = plan(0, std::nullopt);
    return model::held_bytes(all.bytes, all.types).all();
  }
  // Of which a sixteenth is left for all else.
  static std::uint64_t enough(std::uint64_t bytes) { return (bytes * 16 + 14) / 15; }

  std::shared_ptr<load::ModelSource> source_;
  EngineOptions options_;
};

TEST_F(PlanPacking, PacksWhatFitsBesideTheCache) {
  constexpr std::uint64_t kCache = 1 << 20;
  const std::uint64_t least = enough(packed() + kCache);
  const Packing fits = plan(kCache, least);
  EXPECT_TRUE(fits.left.empty());
  EXPECT_EQ(fits.notice, "");
  const Packing not_all = plan(kCache, least - 2);
  EXPECT_EQ(not_all.left, std::vector{DataType::kIQ1_S});
  EXPECT_TRUE(not_all.types.has(DataType::kQ8_0));
  EXPECT_FALSE(not_all.types.has(DataType::kIQ1_S));
  EXPECT_THAT(
      not_all.notice,
      AllOf(HasSubstr("IQ1_S stays in the mapped file"), HasSubstr("beside the cache (1.0 "),
            HasSubstr("a cache of at most 1.0 MiB (--kv-memory) or --always-pack")));
  // Without the cache there would be room.
  EXPECT_TRUE(plan(0, least - 2).left.empty());
}

TEST_F(PlanPacking, SaysWhatIsMissingWhereNoCacheIsInTheWay) {
  const Packing none = plan(0, 16);
  EXPECT_EQ(none.left.size(), none.bytes.types.size());
  EXPECT_THAT(none.notice, HasSubstr("MiB more memory or --always-pack packs them"));
}

TEST_F(PlanPacking, DoesWhatOptionsSay) {
  options_.always_pack = true;
  EXPECT_TRUE(plan(0, 0).left.empty());
  EXPECT_EQ(plan(0, 0).notice, "");
  options_.always_pack = false;
  options_.pack_weights = false;
  EXPECT_TRUE(plan(0, 1U << 30).types.empty());
  EXPECT_EQ(plan(0, 0).notice, "");
  options_.always_pack = true;
  const auto refused = resolve(options_, *source_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("always_pack: on while pack_weights is off"));
}

// The remedy's figure is enough: a cache of no more than that.
TEST_F(PlanPacking, NamesARemedyThatHelps) {
  const std::uint64_t wanted = packed();
  const std::uint64_t least = wanted + (1U << 20);
  const Packing too_large = plan(32U << 20, enough(least));
  EXPECT_THAT(too_large.notice, HasSubstr("a cache of at most 1.0 MiB (--kv-memory)"));
  EXPECT_TRUE(plan(1U << 20, enough(least)).left.empty());
  EXPECT_FALSE(plan((1U << 20) + 2, enough(least)).left.empty());
}

// Where the system does not say what is free, weights are packed as they always were.
TEST_F(PlanPacking, PacksWhereNothingIsKnown) { EXPECT_TRUE(plan(0, std::nullopt).left.empty()); }

// A cache whose size was asked for counts in full, an automatic one by a quarter.
TEST_F(PlanPacking, CountsTheCacheThatWasAskedFor) {
  const auto automatic = resolve(options_, *source_);
  const std::uint64_t all =
      std::uint64_t{automatic->options.kv_blocks} * automatic->cache_shape.block_bytes();
  EXPECT_EQ(expected_cache(*automatic), all / 4);
  options_.kv_blocks = automatic->options.kv_blocks;
  EXPECT_EQ(expected_cache(*resolve(options_, *source_)), all);
  options_.kv_blocks = 0;
  options_.kv_memory = all;
  EXPECT_EQ(expected_cache(*resolve(options_, *source_)), all);
}

}  // namespace
}  // namespace dovetail::engine
