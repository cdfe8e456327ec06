#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "families/expect_experts.h"
#include "families/numbers_of.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "load/limits.h"
#include "load/safetensors_builder.h"
#include "load/stored_parts.h"
#include "load/tensor_binding.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

using nlohmann::json;

const TinyShape kMixtralHf{.architecture = "mixtral", .experts = 4};
const TinyShape kQwen3MoeHf{
    .architecture = "qwen3_moe", .inner = 96, .qk_norm = true, .experts = 5, .experts_used = 3};

TEST(HfExperts, Open) {
  for (const TinyShape& shape : {kMixtralHf, kQwen3MoeHf}) {
    SCOPED_TRACE(shape.architecture);
    const test::TempFolder folder{test::kInMemory};
    tiny_hf(shape).write(folder);
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->config.family, shape.architecture == "mixtral" ? "mixtral" : "qwen3_moe");
    EXPECT_FALSE(numbers_of((*model)->config).rope.interleaved);
    expect_experts(**model, shape);
  }
}

TEST(HfExperts, HaveTheirOwnBytes) {
  const test::TempFolder folder{test::kInMemory};
  HfBuilder builder = tiny_hf(kMixtralHf);
  const auto fill = [&](const char* name, int value) {
    SafetensorsBuilder::Tensor& tensor = builder.weights.tensor(name);
    tensor.data.assign(tensor.data.size(), static_cast<std::byte>(value));
  };
  fill("model.layers.1.block_sparse_moe.gate.weight", 1);
  fill("model.layers.1.block_sparse_moe.experts.3.w1.weight", 2);
  fill("model.layers.1.block_sparse_moe.experts.3.w2.weight", 3);
  fill("model.layers.1.block_sparse_moe.experts.3.w3.weight", 4);
  builder.write(folder);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  const auto first = [&](const char* name) { return (*model)->tensors.at(name).data.front(); };
  EXPECT_EQ(first("blk.1.ffn_gate_inp.weight"), std::byte{1});
  EXPECT_EQ(first("blk.1.ffn_gate.3.weight"), std::byte{2});
  EXPECT_EQ(first("blk.1.ffn_down.3.weight"), std::byte{3});
  EXPECT_EQ(first("blk.1.ffn_up.3.weight"), std::byte{4});
}

// Qwen3.5's checkpoints have all gates and ups of a layer in one tensor, expert by expert.
class FusedExperts : public testing::Test {
 protected:
  FusedExperts() : builder_(tiny_hf(kQwen3MoeHf)) {
    std::erase_if(builder_.weights.tensors, [](const SafetensorsBuilder::Tensor& tensor) {
      return tensor.name.find(".experts.") != std::string::npos;
    });
    for (const char* layer : {"model.layers.0.mlp.experts.", "model.layers.1.mlp.experts."}) {
      builder_.weights.add(std::string(layer) + "gate_up_proj", {5, 192, 32});
      builder_.weights.add(std::string(layer) + "down_proj", {5, 32, 96});
    }
    // Each gate, up and down has a byte of its own.
    number(builder_.weights.tensor("model.layers.1.mlp.experts.gate_up_proj"), 10, 1);
    number(builder_.weights.tensor("model.layers.1.mlp.experts.down_proj"), 5, 101);
  }
  static void number(SafetensorsBuilder::Tensor& tensor, std::size_t parts, std::size_t first) {
    const std::size_t size = tensor.data.size() / parts;
    for (std::size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = static_cast<std::byte>(first + i / size);
  }
  auto open() {
    builder_.write(folder_);
    return open_model(folder_.path());
  }

  HfBuilder builder_;
  const test::TempFolder folder_{test::kInMemory};
};

TEST_F(FusedExperts, AreThoseOfTheLayer) {
  const auto model = open();
  ASSERT_TRUE(model) << model.error().message;
  expect_experts(**model, kQwen3MoeHf);
  for (std::size_t expert = 0; expert < 5; ++expert) {
    for (const auto& [stem, first] :
         {std::pair{"gate", 1 + 2 * expert}, std::pair{"up", 2 + 2 * expert},
          std::pair{"down", 101 + expert}}) {
      const TensorView& view = (*model)->tensors.at("blk.1.ffn_" + std::string(stem) + "." +
                                                    std::to_string(expert) + ".weight");
      EXPECT_EQ(view.data.front(), static_cast<std::byte>(first)) << stem << expert;
      EXPECT_EQ(view.data.back(), static_cast<std::byte>(first)) << stem << expert;
    }
  }
}

TEST_F(FusedExperts, AreRefusedByName) {
  builder_.weights.tensor("model.layers.1.mlp.experts.gate_up_proj").shape = {5, 32, 192};
  expect_error(open(), "model.safetensors: tensor 'model.layers.1.mlp.experts.gate_up_proj': ",
               "shape [5, 32, 192]; valid: [5, 192, 32]");
  builder_.weights.tensor("model.layers.1.mlp.experts.gate_up_proj").shape = {5, 192, 32};
  builder_.weights.add("model.layers.0.mlp.experts.2.up_proj.weight", {96, 32});
  expect_error(open(), "'model.layers.0.mlp.experts.2.up_proj.weight': ",
               "given beside 'model.layers.0.mlp.experts.gate_up_proj'");
}

// Experts of gpt-oss that are not quantised: of [experts][columns][rows] some rows of one expert.
TEST(ColumnsOfExperts, BecomeRows) {
  constexpr std::size_t kExperts = 3, kColumns = 37, kRows = 300;
  std::vector<float> stored(kExperts * kColumns * kRows);
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<float>(i);
  StoredParts parts;
  parts.columns = kColumns;
  parts.codes = StoredParts::Codes::kColumns;
  parts.bytes = std::as_bytes(std::span(stored));
  parts.column_rows = kRows;
  for (const std::size_t step : {1U, 2U}) {
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      parts.row_step = step;
      parts.first_row = expert * kRows + step - 1;
      parts.rows = kRows / step;
      std::vector<float> rows(parts.rows * kColumns);
      for (std::size_t row = 0; row < parts.rows; row += 131) {
        const std::size_t some = std::min<std::size_t>(131, parts.rows - row);
        write_rows(parts, row, some, reinterpret_cast<std::byte*>(rows.data() + row * kColumns));
      }
      for (std::size_t row = 0; row < parts.rows; ++row) {
        for (std::size_t column = 0; column < kColumns; ++column) {
          const std::size_t at = (expert * kColumns + column) * kRows + row * step + step - 1;
          ASSERT_EQ(rows[row * kColumns + column], static_cast<float>(at)) << row << " " << column;
        }
      }
    }
  }
}

TEST(HfExperts, AreReadInEverySpelling) {
  struct Row {
    std::string name;
    TinyShape shape;
    std::function<void(json&)> change;
    std::function<void(const DecoderNumbers&)> check;
  };
  const Row rows[] = {
      {"weights as they are", kQwen3MoeHf, [](json& c) { c["norm_topk_prob"] = false; },
       [](const DecoderNumbers& config) { EXPECT_FALSE(config.experts.normalized); }},
      {"weights where nothing is said", kQwen3MoeHf, [](json& c) { c.erase("norm_topk_prob"); },
       [](const DecoderNumbers& config) { EXPECT_FALSE(config.experts.normalized); }},
      {"the count as newer versions write it", kQwen3MoeHf,
       [](json& c) {
         c.erase("num_experts");
         c["num_local_experts"] = 7;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.experts.count, 7U); }},
      {"the count twice", kMixtralHf, [](json& c) { c["num_experts"] = 4; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.experts.count, 4U); }},
      {"every layer with experts where nothing is said", kQwen3MoeHf,
       [](json& c) {
         c.erase("decoder_sparse_step");
         c["mlp_only_layers"] = nullptr;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.experts.used, 3U); }},
      {"head size from the hidden size", kQwen3MoeHf, [](json& c) { c.erase("head_dim"); },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.head_dim, 8U); }},
      {"theta and epsilon of Mixtral", kMixtralHf,
       [](json& c) {
         c.erase("rope_theta");
         c.erase("rms_norm_eps");
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.theta, 1e6F);
         EXPECT_EQ(config.rms_norm_epsilon, 1e-5F);
       }},
      {"theta and epsilon of Qwen3 MoE", kQwen3MoeHf,
       [](json& c) {
         c.erase("rope_theta");
         c.erase("rms_norm_eps");
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.theta, 1e4F);
         EXPECT_EQ(config.rms_norm_epsilon, 1e-6F);
       }},
      {"window of Mixtral", kMixtralHf, [](json& c) { c["sliding_window"] = 16; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 16U); }},
      {"window switched off", kQwen3MoeHf,
       [](json& c) {
         c["use_sliding_window"] = false;
         c["sliding_window"] = 16;
         c["max_window_layers"] = 48;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 0U); }},
      {"window in all layers", kQwen3MoeHf,
       [](json& c) {
         c["use_sliding_window"] = true;
         c["sliding_window"] = 16;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 16U); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    json config = tiny_hf(row.shape).config;
    row.change(config);
    const auto parsed = read_hf_config(config.dump(), "config.json");
    ASSERT_TRUE(parsed) << parsed.error().message;
    row.check(numbers_of(*parsed));
  }
}

struct BadExpertConfig {
  std::string name;
  std::function<void(json&)> change;
  std::string message;
  ErrorKind kind = ErrorKind::kInvalid;
  TinyShape shape = kQwen3MoeHf;
};

class HfExpertConfig : public testing::TestWithParam<BadExpertConfig> {};

TEST_P(HfExpertConfig, IsRefusedByName) {
  json config = tiny_hf(GetParam().shape).config;
  GetParam().change(config);
  const auto parsed = read_hf_config(config.dump(), "config.json");
  expect_error(parsed, "config.json: ", GetParam().message);
  EXPECT_EQ(parsed.error().kind, GetParam().kind);
}

const BadExpertConfig kBadExpertConfigs[] = {
    {"ClassOfDense", [](json& c) { c["architectures"] = json::array({"Qwen3ForCausalLM"}); },
     "architectures: 'Qwen3ForCausalLM'; valid: [\"Qwen3MoeForCausalLM\"]",
     ErrorKind::kUnsupported},
    {"SomeLayersDenseByStep", [](json& c) { c["decoder_sparse_step"] = 2; },
     "decoder_sparse_step: 2; valid: 1, so that every layer has experts", ErrorKind::kUnsupported},
    {"SomeLayersDenseByName", [](json& c) { c["mlp_only_layers"] = json::array({0}); },
     "mlp_only_layers: an array of 1; valid: [], so that every layer has experts",
     ErrorKind::kUnsupported},
    {"LayersOfNoList", [](json& c) { c["mlp_only_layers"] = 0; }, "mlp_only_layers: 0; valid: []",
     ErrorKind::kUnsupported},
    {"AttentionBias", [](json& c) { c["attention_bias"] = true; },
     "attention_bias: true; valid: false", ErrorKind::kUnsupported},
    {"NoCount", [](json& c) { c.erase("num_experts"); },
     "num_experts: missing; valid: an integer from 1 to 1024"},
    {"NoCountOfMixtral", [](json& c) { c.erase("num_local_experts"); },
     "num_local_experts: missing; valid: an integer from 1 to 1024", ErrorKind::kInvalid,
     kMixtralHf},
    {"CountZero", [](json& c) { c["num_experts"] = 0; },
     "num_experts: 0; valid: an integer from 1 to 1024"},
    {"CountHuge", [](json& c) { c["num_experts"] = 1025; },
     "num_experts: 1025; valid: an integer from 1 to 1024"},
    {"CountsDiffer", [](json& c) { c["num_local_experts"] = 6; },
     "num_local_experts: 6; valid: the same as num_experts 5"},
    {"NotUsed", [](json& c) { c.erase("num_experts_per_tok"); },
     "num_experts_per_tok: missing; valid: an integer from 1 to 64"},
    {"UsedZero", [](json& c) { c["num_experts_per_tok"] = 0; },
     "num_experts_per_tok: 0; valid: an integer from 1 to 64"},
    {"MoreUsedThanThereAre", [](json& c) { c["num_experts_per_tok"] = 6; },
     "experts used by a token: 6; valid: 1 to 5"},
    {"NoSize", [](json& c) { c.erase("moe_intermediate_size"); },
     "moe_intermediate_size: missing; valid: an integer from 1"},
    {"Normalized", [](json& c) { c["norm_topk_prob"] = 1; },
     "norm_topk_prob: 1; valid: true or false"},
    {"WindowInSomeLayers",
     [](json& c) {
       c["use_sliding_window"] = true;
       c["sliding_window"] = 16;
       c["max_window_layers"] = 1;
     },
     "max_window_layers: 1; valid: 0 or absent where use_sliding_window is true",
     ErrorKind::kUnsupported},
};

INSTANTIATE_TEST_SUITE_P(Bad, HfExpertConfig, testing::ValuesIn(kBadExpertConfigs),
                         [](const auto& run) { return run.param.name; });

struct BadExpertTensors {
  std::string name;
  std::function<void(HfBuilder&)> change;
  std::string message;
  TinyShape shape = kQwen3MoeHf;
};

class HfExpertTensors : public testing::TestWithParam<BadExpertTensors> {};

TEST_P(HfExpertTensors, AreRefusedByName) {
  HfBuilder builder = tiny_hf(GetParam().shape);
  GetParam().change(builder);
  const test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  expect_error(open_model(folder.path()), "model.safetensors: tensor ", GetParam().message);
}

const BadExpertTensors kBadExpertTensors[] = {
    {"RouterMissing", [](HfBuilder& b) { b.weights.erase("model.layers.0.mlp.gate.weight"); },
     "'blk.0.ffn_gate_inp.weight': missing; valid: a tensor of shape [5, 32]"},
    {"Missing",
     [](HfBuilder& b) { b.weights.erase("model.layers.1.mlp.experts.4.up_proj.weight"); },
     "'blk.1.ffn_up.4.weight': missing; valid: a tensor of shape [96, 32]"},
    {"MissingOfMixtral",
     [](HfBuilder& b) { b.weights.erase("model.layers.1.block_sparse_moe.experts.3.w2.weight"); },
     "'blk.1.ffn_down.3.weight': missing; valid: a tensor of shape [32, 64]", kMixtralHf},
    {"Shape",
     [](HfBuilder& b) {
       b.weights.tensor("model.layers.1.mlp.experts.2.down_proj.weight").shape = {96, 32};
     },
     "'model.layers.1.mlp.experts.2.down_proj.weight': shape [96, 32]; valid: [32, 96]"},
    {"TypesMixed",
     [](HfBuilder& b) {
       auto& tensor = b.weights.tensor("model.layers.1.mlp.experts.2.gate_proj.weight");
       tensor.dtype = "BF16";
       tensor.data.resize(tensor.data.size() / 2);
     },
     "'model.layers.1.mlp.experts.2.gate_proj.weight': type 'BF16'; valid: F32, as of expert 0"},
    {"BeyondTheLast",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.experts.5.up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.experts.5.up_proj.weight': not a part of the model"},
    {"NumberWithZeroBefore",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.experts.04.up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.experts.04.up_proj.weight': not a part of the model"},
    {"NoNumber",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.experts..up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.experts..up_proj.weight': not a part of the model"},
    {"NumberOfSomethingElse",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.experts.4_.up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.experts.4_.up_proj.weight': not a part of the model"},
    {"Bias", [](HfBuilder& b) { b.weights.add("model.layers.0.mlp.experts.4.up_proj.bias", {96}); },
     "'model.layers.0.mlp.experts.4.up_proj.bias': not a part of the model"},
    {"Shared",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.shared_expert.up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.shared_expert.up_proj.weight': not a part of the model"},
    {"DenseToo",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.mlp.up_proj.weight", {96, 32});
     },
     "'model.layers.0.mlp.up_proj.weight': not a part of the model"},
    {"NameOfTheOtherFamily",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.block_sparse_moe.experts.4.w3.weight", {96, 32});
     },
     "'model.layers.0.block_sparse_moe.experts.4.w3.weight': not a part of the model"},
};

INSTANTIATE_TEST_SUITE_P(Bad, HfExpertTensors, testing::ValuesIn(kBadExpertTensors),
                         [](const auto& run) { return run.param.name; });

// The readers refuse such numbers before; a configuration may come from elsewhere.
TEST(ExpertsOfAConfig, AreChecked) {
  const auto parsed = read_hf_config(tiny_hf(kQwen3MoeHf).config.dump(), "config.json");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto check = [&](std::uint32_t count, std::uint32_t used) {
    ModelConfig config = *parsed;
    auto& experts = std::get<ExpertsConfig>(config.layers.front().mlp);
    experts.count = count;
    experts.used = used;
    return check_config(config, "m");
  };
  EXPECT_TRUE(check(1, 1));
  EXPECT_TRUE(check(kMostExperts, kMostUsedExperts));
  expect_error(check(kMostExperts + 1, 1), "m: number of experts: 1025", "valid: 0 to 1024");
  expect_error(check(8, 0), "m: experts used by a token: 0", "valid: 1 to 8");
  expect_error(check(8, 9), "m: experts used by a token: 9", "valid: 1 to 8");
  expect_error(check(128, 65), "m: experts used by a token: 65", "valid: 1 to 64");
}

}  // namespace
}  // namespace dovetail::families
