// Logits of tiny models of quantised safetensors (tools/golden/make_quantised.py), in rows and
// packed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/pack_weights.h"
#include "model/cpu/weight_bytes.h"
#include "support/places.h"

namespace dovetail::model {
namespace {

namespace fs = std::filesystem;

const fs::path kFolders = fs::path(test::source_dir()) / "tests/golden/quantised";

std::vector<std::string> folder_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolders)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> last_logits(ModelWeights weights, const kernels::Kernels& kernels,
                               std::span<const std::int32_t> tokens) {
  cores::Executor executor(cores::Topology::of_lanes(2), {});
  ModelRunner model(std::make_shared<const ModelWeights>(std::move(weights)), kernels, executor);
  const Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF32), 8);
  std::vector<std::uint32_t> table(8);
  std::iota(table.begin(), table.end(), 0U);
  std::vector<float> logits(model.config().vocab_size);
  const Segment segment{tokens, 0, table, true};
  model.forward(std::span(&segment, 1), cache, logits);
  return logits;
}

// What latent attention holds beside its weights: the keys' matrices of heads, turned, in floats,
// and panels of heads.
std::size_t bytes_of_heads(const load::ModelSource& source, const kernels::Kernels& kernels,
                           bool pack) {
  std::size_t bytes = 0;
  for (const load::LayerConfig& layer : source.config.layers) {
    const load::LatentConfig* latent = layer.latent();
    if (latent == nullptr) continue;
    bytes += latent->heads * latent->latent_dim * latent->key_dim * sizeof(float);
    const kernels::DataType type = source.tensors.at("blk.0.attn_kv_b.weight").type;
    for (const std::size_t rows : {latent->key_dim, latent->value_dim}) {
      if (pack) bytes += latent->heads * packed_bytes(kernels, type, rows, latent->latent_dim);
    }
  }
  return bytes;
}

class QuantisedFolders : public testing::TestWithParam<std::string> {};

TEST_P(QuantisedFolders, LogitsAgreeWithNumpyInRowsAndPacked) {
  const auto source = families::open_model(kFolders / GetParam());
  ASSERT_TRUE(source.has_value()) << source.error().message;
  nlohmann::json golden;
  std::ifstream(kFolders / GetParam() / "golden.json") >> golden;
  const auto tokens = golden["prompt"].get<std::vector<std::int32_t>>();
  const auto wanted = golden["logits"].get<std::vector<float>>();
  // Products of whole numbers round activations to 8 bits; those of BF16 may round them, too.
  constexpr const char* kProduct = "blk.0.attn_output.weight";
  const bool whole = !is_float((*source)->tensors.at(kProduct).type);
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    std::vector<float> results[2];
    for (const bool pack : {false, true}) {
      ModelWeights weights = bind_weights(*source, *kernels);
      PackOptions options;
      options.threads = 2;
      if (!pack) options.types = {};
      std::size_t made = 0;
      options.progress = [&](std::size_t, std::size_t all) { made = all; };
      ASSERT_TRUE(pack_weights(weights, *kernels, options).has_value());
      const WeightBytes bytes = weight_bytes(**source, *kernels, true);
      EXPECT_EQ(held_bytes(bytes, options.types).own,
                made + bytes_of_heads(**source, *kernels, pack));
      EXPECT_NE(weights.matrix(kProduct).data, nullptr);
      EXPECT_EQ(weights.matrix(kProduct).packed, pack && whole);
      results[pack ? 1 : 0] = last_logits(std::move(weights), *kernels, tokens);
    }
    EXPECT_EQ(results[0], results[1]) << kernels->name;
    double largest = 0.0;
    double difference = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::fabs(double{wanted[i]}));
      difference = std::max(difference, std::fabs(double{results[1][i]} - wanted[i]));
    }
    const double tolerance = whole ? 7e-2 : kernels->rounds_bf16 ? 2e-2 : 1e-5;
    EXPECT_LT(difference / largest, tolerance) << kernels->name;
    RecordProperty(std::string(kernels->name), std::to_string(difference / largest));
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedFolders, testing::ValuesIn(folder_names()),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dovetail::model
