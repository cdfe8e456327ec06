#include <functional>
#include <string>
#include <vector>

#include "families/expect_experts.h"
#include "families/numbers_of.h"
#include "families/open_model.h"
#include "load/expect_error.h"
#include "load/gguf_builder.h"

namespace dovetail::families {
namespace {

using namespace load;

const TinyShape kMixtralGguf{.architecture = "llama", .experts = 4};
const TinyShape kOldMixtralGguf{.architecture = "llama", .experts = 4, .split_experts = true};
const TinyShape kQwen3MoeGguf{
    .architecture = "qwen3moe", .inner = 96, .qk_norm = true, .experts = 5, .experts_used = 3};

Result<ModelSource> read_experts_of(const Bytes& bytes) {
  return read_model(std::vector{NamedBytes{"m.gguf", bytes}});
}

TEST(GgufExperts, OpenMergedOrOneByOne) {
  for (const TinyShape& shape : {kMixtralGguf, kOldMixtralGguf, kQwen3MoeGguf}) {
    for (const kernels::DataType type : {kernels::DataType::kF32, kernels::DataType::kQ8_0}) {
      SCOPED_TRACE(fmt::format("{} {}", shape.architecture, shape.split_experts));
      const Bytes bytes = tiny_gguf(shape, type).bytes();
      const auto model = read_experts_of(bytes);
      ASSERT_TRUE(model) << model.error().message;
      const bool mixtral = shape.architecture == "llama";
      EXPECT_EQ(model->config.family, mixtral ? "mixtral" : "qwen3_moe");
      EXPECT_EQ(numbers_of(model->config).rope.interleaved, mixtral);
      expect_experts(*model, shape);
    }
  }
}

// The views of a merged tensor follow each other without a gap, in the order of the experts.
TEST(GgufExperts, AreCutInOrder) {
  const GgufBuilder builder = tiny_gguf(kMixtralGguf, kernels::DataType::kQ8_0);
  const Bytes bytes = builder.bytes();
  const auto model = read_experts_of(bytes);
  ASSERT_TRUE(model) << model.error().message;
  for (const GgufBuilder::Tensor& tensor : builder.tensors) {
    const std::size_t end = tensor.name.find("_exps.weight");
    if (end == std::string::npos) continue;
    std::size_t at = 0;
    for (std::uint32_t expert = 0; expert < kMixtralGguf.experts; ++expert) {
      const TensorView& view =
          model->tensors.at(fmt::format("{}.{}.weight", tensor.name.substr(0, end), expert));
      EXPECT_EQ(ggml_number(view.type), tensor.type);
      ASSERT_LE(at + view.data.size(), tensor.data.size());
      EXPECT_TRUE(std::equal(view.data.begin(), view.data.end(),
                             tensor.data.begin() + static_cast<std::ptrdiff_t>(at)));
      at += view.data.size();
    }
    EXPECT_EQ(at, tensor.data.size());
  }
}

TEST(GgufExperts, AreReadInEverySpelling) {
  struct Row {
    std::string name;
    std::function<void(GgufBuilder&)> change;
    TinyShape shape = kMixtralGguf;
  };
  const Row rows[] = {
      {"what changes nothing",
       [](GgufBuilder& b) {
         b.set_u32("llama.expert_gating_func", 1);
         b.set_f32("llama.expert_weights_scale", 1.0F);
         b.set_bool("llama.expert_weights_norm", true);
         b.set_u32("llama.expert_shared_count", 0);
         b.set_u32("llama.expert_group_count", 1);
         b.set_u32("llama.leading_dense_block_count", 0);
       }},
      {"no scale", [](GgufBuilder& b) { b.set_f32("llama.expert_weights_scale", 0.0F); }},
      {"a size of the experts' own",
       [](GgufBuilder& b) {
         b.set_u32("llama.feed_forward_length", 1);
         b.set_u32("llama.expert_feed_forward_length", 64);
       }},
      {"no size of a dense layer", [](GgufBuilder& b) { b.erase("qwen3moe.feed_forward_length"); },
       kQwen3MoeGguf},
      {"one expert, whose dimension is left out",
       [](GgufBuilder& b) {
         for (GgufBuilder::Tensor& tensor : b.tensors) {
           if (tensor.name.ends_with("_exps.weight")) tensor.dimensions.pop_back();
         }
       },
       TinyShape{.experts = 1, .experts_used = 1}},
      {"one expert, whose router is quantised: a matrix of one row",
       [](GgufBuilder& b) {
         for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_gate_inp.weight"}) {
           b.erase_tensor(name);
           b.add_tensor(name, kernels::DataType::kQ8_0, {1, 32});
         }
       },
       TinyShape{.experts = 1, .experts_used = 1}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    GgufBuilder builder = tiny_gguf(row.shape);
    row.change(builder);
    const Bytes bytes = builder.bytes();
    const auto model = read_experts_of(bytes);
    ASSERT_TRUE(model) << model.error().message;
    expect_experts(*model, row.shape);
  }
}

TEST(GgufExperts, MayHaveWeightsThatAreNotNormalized) {
  GgufBuilder builder = tiny_gguf(kQwen3MoeGguf);
  builder.set_bool("qwen3moe.expert_weights_norm", false);
  const Bytes bytes = builder.bytes();
  const auto model = read_experts_of(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(numbers_of(model->config).experts.normalized);
}

struct BadExperts {
  std::string name;
  std::function<void(GgufBuilder&)> change;
  std::string message;
  TinyShape shape = kMixtralGguf;
  ErrorKind kind = ErrorKind::kInvalid;
};

class GgufExpertModel : public testing::TestWithParam<BadExperts> {};

TEST_P(GgufExpertModel, IsRefusedByName) {
  GgufBuilder builder = tiny_gguf(GetParam().shape);
  GetParam().change(builder);
  const Bytes bytes = builder.bytes();
  const auto model = read_experts_of(bytes);
  expect_error(model, "m.gguf: ", GetParam().message);
  EXPECT_EQ(model.error().kind, GetParam().kind);
}

BadExperts unsupported(std::string name, std::function<void(GgufBuilder&)> change,
                       std::string message, const TinyShape& shape = kMixtralGguf) {
  return {std::move(name), std::move(change), std::move(message), shape, ErrorKind::kUnsupported};
}

const BadExperts kBadExpertModels[] = {
    unsupported(
        "CountOfAnotherFamily", [](GgufBuilder& b) { b.set_u32("qwen2.expert_count", 8); },
        "'qwen2.expert_count': 8; valid: 0 for architecture qwen2",
        TinyShape{.architecture = "qwen2", .attention_bias = true}),
    {"NoCount", [](GgufBuilder& b) { b.erase("qwen3moe.expert_count"); },
     "'qwen3moe.expert_count': missing; valid: an integer from 1 to 1024", kQwen3MoeGguf},
    {"CountZero", [](GgufBuilder& b) { b.set_u32("qwen3moe.expert_count", 0); },
     "'qwen3moe.expert_count': 0; valid: an integer from 1 to 1024", kQwen3MoeGguf},
    {"CountHuge", [](GgufBuilder& b) { b.set_u32("llama.expert_count", 1025); },
     "'llama.expert_count': 1025; valid: an integer from 0 to 1024"},
    {"NotUsed", [](GgufBuilder& b) { b.erase("llama.expert_used_count"); },
     "'llama.expert_used_count': missing; valid: an integer from 1 to 64"},
    {"UsedZero", [](GgufBuilder& b) { b.set_u32("llama.expert_used_count", 0); },
     "'llama.expert_used_count': 0; valid: an integer from 1 to 64"},
    {"UsedHuge", [](GgufBuilder& b) { b.set_u32("llama.expert_used_count", 65); },
     "'llama.expert_used_count': 65; valid: an integer from 1 to 64"},
    {"MoreUsedThanThereAre", [](GgufBuilder& b) { b.set_u32("llama.expert_used_count", 5); },
     "experts used by a token: 5; valid: 1 to 4"},
    {"SizeMissing", [](GgufBuilder& b) { b.erase("qwen3moe.expert_feed_forward_length"); },
     "'qwen3moe.expert_feed_forward_length': missing; valid: an integer from 1", kQwen3MoeGguf},
    unsupported(
        "NotNormalized", [](GgufBuilder& b) { b.set_bool("llama.expert_weights_norm", false); },
        "'llama.expert_weights_norm': false; valid: true for architecture llama"),
    unsupported(
        "Shared", [](GgufBuilder& b) { b.set_u32("llama.expert_shared_count", 1); },
        "'llama.expert_shared_count': 1; valid: 0"),
    unsupported(
        "SharedSize",
        [](GgufBuilder& b) { b.set_u32("qwen3moe.expert_shared_feed_forward_length", 64); },
        "'qwen3moe.expert_shared_feed_forward_length': 64; valid: 0", kQwen3MoeGguf),
    unsupported(
        "ChunkSize",
        [](GgufBuilder& b) { b.set_u32("llama.expert_chunk_feed_forward_length", 64); },
        "'llama.expert_chunk_feed_forward_length': 64; valid: 0"),
    unsupported(
        "LeadingDenseLayers",
        [](GgufBuilder& b) { b.set_u32("qwen3moe.leading_dense_block_count", 1); },
        "'qwen3moe.leading_dense_block_count': 1; valid: 0", kQwen3MoeGguf),
    unsupported(
        "Groups", [](GgufBuilder& b) { b.set_u32("llama.expert_group_count", 2); },
        "'llama.expert_group_count': 2; valid: 0 or 1"),
    unsupported(
        "GroupsUsed", [](GgufBuilder& b) { b.set_u32("llama.expert_group_used_count", 2); },
        "'llama.expert_group_used_count': 2; valid: 0 or 1"),
    unsupported(
        "GroupSize", [](GgufBuilder& b) { b.set_u32("llama.experts_per_group", 2); },
        "'llama.experts_per_group': 2; valid: 0"),
    unsupported(
        "EveryOtherLayer", [](GgufBuilder& b) { b.set_u32("llama.moe_every_n_layers", 2); },
        "'llama.moe_every_n_layers': 2; valid: 0 or 1"),
    unsupported(
        "LayerStep", [](GgufBuilder& b) { b.set_u32("llama.interleave_moe_layer_step", 2); },
        "'llama.interleave_moe_layer_step': 2; valid: 0 or 1"),
    unsupported(
        "Latent", [](GgufBuilder& b) { b.set_u32("llama.moe_latent_size", 16); },
        "'llama.moe_latent_size': 16; valid: 0"),
    unsupported(
        "LayersThatPredict", [](GgufBuilder& b) { b.set_u32("llama.nextn_predict_layers", 1); },
        "'llama.nextn_predict_layers': 1; valid: 0"),
    unsupported(
        "Gating", [](GgufBuilder& b) { b.set_u32("qwen3moe.expert_gating_func", 2); },
        "'qwen3moe.expert_gating_func': 2; valid: 1, which is softmax", kQwen3MoeGguf),
    unsupported(
        "Scale", [](GgufBuilder& b) { b.set_f32("llama.expert_weights_scale", 2.5F); },
        "'llama.expert_weights_scale': 2.5; valid: 0 or 1"),
    unsupported(
        "GroupScale", [](GgufBuilder& b) { b.set_f32("llama.expert_group_scale", 0.5F); },
        "'llama.expert_group_scale': given; valid: absent"),
    unsupported(
        "SoftCap", [](GgufBuilder& b) { b.set_f32("llama.router_logit_softcapping", 30.0F); },
        "'llama.router_logit_softcapping': given; valid: absent"),
    unsupported(
        "Clamp",
        [](GgufBuilder& b) {
          b.set_numbers<float>("llama.swiglu_clamp_exp", GgufType::kFloat32, {7.0F, 7.0F});
        },
        "'llama.swiglu_clamp_exp': given; valid: absent"),
    {"RouterMissing", [](GgufBuilder& b) { b.erase_tensor("blk.1.ffn_gate_inp.weight"); },
     "tensor 'blk.1.ffn_gate_inp.weight': missing; valid: a tensor of shape [4, 32]"},
    {"RouterOfOneExpertMore",
     [](GgufBuilder& b) {
       b.erase_tensor("blk.1.ffn_gate_inp.weight");
       b.add_tensor("blk.1.ffn_gate_inp.weight", kernels::DataType::kF32, {5, 32});
     },
     "tensor 'blk.1.ffn_gate_inp.weight': shape [5, 32]; valid: [4, 32]"},
    {"MergedMissing", [](GgufBuilder& b) { b.erase_tensor("blk.1.ffn_up_exps.weight"); },
     "tensor 'blk.1.ffn_up.0.weight': missing; valid: a tensor of shape [64, 32]"},
    {"MergedOfOneExpertMore",
     [](GgufBuilder& b) {
       b.erase_tensor("blk.0.ffn_up_exps.weight");
       b.add_tensor("blk.0.ffn_up_exps.weight", kernels::DataType::kF32, {5, 64, 32});
     },
     "tensor 'blk.0.ffn_up_exps.weight': shape [5, 64, 32]; valid: [4, 64, 32]"},
    {"MergedTurned",
     [](GgufBuilder& b) {
       std::swap(b.tensor("blk.0.ffn_down_exps.weight").dimensions[0],
                 b.tensor("blk.0.ffn_down_exps.weight").dimensions[1]);
     },
     "tensor 'blk.0.ffn_down_exps.weight': shape [4, 64, 32]; valid: [4, 32, 64]"},
    {"MergedFlat",
     [](GgufBuilder& b) {
       b.tensor("blk.0.ffn_gate_exps.weight").dimensions = {32, 256};
     },
     "tensor 'blk.0.ffn_gate_exps.weight': shape [256, 32]; valid: [4, 64, 32]"},
    {"MergedOfOneAndWantedOfMore",
     [](GgufBuilder& b) {
       b.erase_tensor("blk.0.ffn_up_exps.weight");
       b.add_tensor("blk.0.ffn_up_exps.weight", kernels::DataType::kF32, {64, 32});
     },
     "tensor 'blk.0.ffn_up_exps.weight': shape [64, 32]; valid: [4, 64, 32]"},
    {"CountBeyondTheTensors", [](GgufBuilder& b) { b.set_u32("llama.expert_count", 1024); },
     "tensor 'blk.0.ffn_gate_inp.weight': shape [4, 32]; valid: [1024, 32]"},
    {"MergedAndOneByOne",
     [](GgufBuilder& b) {
       b.add_tensor("blk.1.ffn_up.3.weight", kernels::DataType::kF32, {64, 32});
     },
     "tensor 'blk.1.ffn_up.3.weight': given beside 'blk.1.ffn_up_exps.weight'; valid: one of the "
     "two"},
    unsupported(
        "Bias",
        [](GgufBuilder& b) {
          b.add_tensor("blk.0.ffn_up_exps.bias", kernels::DataType::kF32, {4, 64});
        },
        "tensor 'blk.0.ffn_up_exps.bias': not a part of the model"),
    unsupported(
        "SharedTensor",
        [](GgufBuilder& b) {
          b.add_tensor("blk.0.ffn_up_shexp.weight", kernels::DataType::kF32, {64, 32});
        },
        "tensor 'blk.0.ffn_up_shexp.weight': not a part of the model"),
    unsupported(
        "DenseToo",
        [](GgufBuilder& b) {
          b.add_tensor("blk.0.ffn_up.weight", kernels::DataType::kF32, {64, 32});
        },
        "tensor 'blk.0.ffn_up.weight': not a part of the model"),
    unsupported(
        "MergedOfADenseModel",
        [](GgufBuilder& b) {
          b.add_tensor("blk.0.ffn_up_exps.weight", kernels::DataType::kF32, {4, 64, 32});
        },
        "tensor 'blk.0.ffn_up_exps.weight': not a part of the model", TinyShape{}),
    {"OldExpertMissing", [](GgufBuilder& b) { b.erase_tensor("blk.1.ffn_down.3.weight"); },
     "tensor 'blk.1.ffn_down.3.weight': missing; valid: a tensor of shape [32, 64]",
     kOldMixtralGguf},
    unsupported(
        "OldExpertBeyondTheLast",
        [](GgufBuilder& b) {
          b.add_tensor("blk.1.ffn_up.4.weight", kernels::DataType::kF32, {64, 32});
        },
        "tensor 'blk.1.ffn_up.4.weight': not a part of the model", kOldMixtralGguf),
    unsupported(
        "OldExpertWithZeroBefore",
        [](GgufBuilder& b) {
          b.add_tensor("blk.1.ffn_up.03.weight", kernels::DataType::kF32, {64, 32});
        },
        "tensor 'blk.1.ffn_up.03.weight': not a part of the model", kOldMixtralGguf),
    {"OldExpertShape",
     [](GgufBuilder& b) {
       b.tensor("blk.1.ffn_up.2.weight").dimensions = {64, 32};
     },
     "tensor 'blk.1.ffn_up.2.weight': shape [32, 64]; valid: [64, 32]", kOldMixtralGguf},
    unsupported(
        "OldTypesMixed",
        [](GgufBuilder& b) {
          b.erase_tensor("blk.1.ffn_up.2.weight");
          b.add_tensor("blk.1.ffn_up.2.weight", kernels::DataType::kQ8_0, {64, 32});
        },
        "tensor 'blk.1.ffn_up.2.weight': type 'Q8_0'; valid: F32, as of expert 0", kOldMixtralGguf),
};

INSTANTIATE_TEST_SUITE_P(Bad, GgufExpertModel, testing::ValuesIn(kBadExpertModels),
                         [](const auto& run) { return run.param.name; });

// Types may differ from layer to layer and from projection to projection, as quantisers make them.
TEST(GgufExperts, MayDifferInTypeByLayer) {
  GgufBuilder builder = tiny_gguf(kMixtralGguf);
  builder.erase_tensor("blk.1.ffn_down_exps.weight");
  builder.add_tensor("blk.1.ffn_down_exps.weight", kernels::DataType::kQ8_0, {4, 32, 64});
  const Bytes bytes = builder.bytes();
  const auto model = read_experts_of(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.at("blk.0.ffn_down.3.weight").type, kernels::DataType::kF32);
  EXPECT_EQ(model->tensors.at("blk.1.ffn_down.3.weight").type, kernels::DataType::kQ8_0);
}

}  // namespace
}  // namespace dovetail::families
