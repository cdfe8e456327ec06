// GGUF files whose matrices have scales beside them, as llama.cpp's converter writes those of
// NVFP4.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "load/expect_error.h"
#include "load/gguf_builder.h"

namespace dovetail::families {
namespace {

using namespace load;

using kernels::DataType;

const TinyShape kDense{.hidden = 64, .inner = 128, .head_dim = 16};
const TinyShape kExperts{.hidden = 64, .inner = 128, .head_dim = 16, .experts = 3};
const TinyShape kSplitExperts{
    .hidden = 64, .inner = 128, .head_dim = 16, .experts = 3, .split_experts = true};

Result<ModelSource> read_scaled(const Bytes& bytes) {
  return read_model(std::vector{NamedBytes{"m.gguf", bytes}});
}

TEST(GgufScales, AreFactors) {
  for (const DataType type : {DataType::kNVFP4, DataType::kQ8_0}) {
    GgufBuilder b = tiny_gguf(kDense, type);
    b.add_scales("blk.0.attn_q.scale", {0.25F});
    b.add_scales("blk.0.attn_q.input_scale", {3.0F});
    b.add_scales("blk.0.ffn_down.scale", {7.0F});
    b.add_scales("output.scale", {0.3F});
    const Bytes bytes = b.bytes();
    const auto model = read_scaled(bytes);
    ASSERT_TRUE(model) << model.error().message;
    for (const auto& [name, tensor] : model->tensors) {
      const float wanted = name == "blk.0.attn_q.weight"     ? 0.25F
                           : name == "blk.0.ffn_down.weight" ? 7.0F
                           : name == "output.weight"         ? 0.3F
                                                             : 1.0F;
      EXPECT_EQ(tensor.factor, wanted) << name;
      EXPECT_FALSE(name.ends_with("scale")) << name;
    }
  }
}

// One of each expert, in the order of experts; of old files in a tensor of its own.
TEST(GgufScales, AreOfEachExpert) {
  const std::vector<float> scales = {0.5F, 0.125F, 3.0F};
  GgufBuilder merged = tiny_gguf(kExperts, DataType::kNVFP4);
  merged.add_scales("blk.0.ffn_up_exps.scale", scales);
  merged.add_scales("blk.0.ffn_up_exps.input_scale", {9.0F, 9.0F, 9.0F});
  GgufBuilder split = tiny_gguf(kSplitExperts, DataType::kNVFP4);
  for (std::size_t i = 0; i < 3; ++i)
    split.add_scales(fmt::format("blk.0.ffn_up.{}.scale", i), {scales[i]});
  for (const GgufBuilder* b : {&merged, &split}) {
    const Bytes bytes = b->bytes();
    const auto model = read_scaled(bytes);
    ASSERT_TRUE(model) << model.error().message;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(model->tensors.at(fmt::format("blk.0.ffn_up.{}.weight", i)).factor, scales[i]);
      EXPECT_EQ(model->tensors.at(fmt::format("blk.0.ffn_gate.{}.weight", i)).factor, 1.0F);
    }
  }
}

// Queries, keys and values, or gates and ups, in one tensor: the scale is that of all of them.
TEST(GgufScales, AreOfAllThatIsOneTensor) {
  GgufBuilder b = tiny_gguf(kExperts, DataType::kNVFP4);
  const std::uint64_t query = std::uint64_t{kExperts.heads} * kExperts.head_dim;
  const std::uint64_t key = std::uint64_t{kExperts.kv_heads} * kExperts.head_dim;
  for (std::uint32_t layer = 0; layer < kExperts.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "ffn_gate_exps", "ffn_up_exps"})
      b.erase_tensor(block + name + ".weight");
    b.add_tensor(block + "attn_qkv.weight", DataType::kNVFP4, {query + 2 * key, kExperts.hidden});
    b.add_tensor(block + "ffn_gate_up_exps.weight", DataType::kNVFP4,
                 {kExperts.experts, 2 * kExperts.inner, kExperts.hidden});
    b.add_scales(block + "attn_qkv.scale", {0.75F});
    b.add_scales(block + "ffn_gate_up_exps.scale", {2.0F, 3.0F, 4.0F});
  }
  const Bytes bytes = b.bytes();
  const auto model = read_scaled(bytes);
  ASSERT_TRUE(model) << model.error().message;
  for (const char* name : {"attn_q", "attn_k", "attn_v"})
    EXPECT_EQ(model->tensors.at(fmt::format("blk.0.{}.weight", name)).factor, 0.75F) << name;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const char* name : {"ffn_gate", "ffn_up"}) {
      EXPECT_EQ(model->tensors.at(fmt::format("blk.0.{}.{}.weight", name, i)).factor,
                static_cast<float>(2 + i));
    }
  }
}

struct BadScales {
  const char* tensor;
  std::function<void(GgufBuilder&)> add;
  const char* message;
};

TEST(GgufScales, AreRefusedByName) {
  const BadScales rows[] = {
      {"blk.0.attn_k.scale",
       [](GgufBuilder& b) {
         b.add_scales("blk.0.attn_k.scale", {1.0F, 1.0F});
       },
       "shape [2]; valid: [1]"},
      {"blk.0.ffn_up_exps.scale",
       [](GgufBuilder& b) { b.add_scales("blk.0.ffn_up_exps.scale", {1.0F}); },
       "shape [1]; valid: [3]"},
      {"blk.0.attn_k.scale",
       [](GgufBuilder& b) { b.add_tensor("blk.0.attn_k.scale", DataType::kBF16, {1}); },
       "type 'BF16'; valid: F32"},
      {"blk.0.attn_k.scale", [](GgufBuilder& b) { b.add_scales("blk.0.attn_k.scale", {0.0F}); },
       "0 as number 0; valid: finite numbers above 0"},
      {"blk.0.attn_k.scale", [](GgufBuilder& b) { b.add_scales("blk.0.attn_k.scale", {NAN}); },
       "nan as number 0; valid: finite numbers above 0"},
      {"blk.0.ffn_down_exps.scale",
       [](GgufBuilder& b) {
         b.add_scales("blk.0.ffn_down_exps.scale", {1.0F, 2.0F, INFINITY});
       },
       "inf as number 2; valid: finite numbers above 0"},
      {"blk.0.ffn_down_exps.scale",
       [](GgufBuilder& b) {
         b.add_scales("blk.0.ffn_down_exps.scale", {1.0F, -2.0F, 1.0F});
       },
       "-2 as number 1; valid: finite numbers above 0"},
      // Of what no product reads, or of nothing.
      {"token_embd.scale", [](GgufBuilder& b) { b.add_scales("token_embd.scale", {2.0F}); },
       "not a part of the model"},
      {"blk.0.attn_norm.scale",
       [](GgufBuilder& b) { b.add_scales("blk.0.attn_norm.scale", {2.0F}); },
       "not a part of the model"},
      {"blk.9.attn_q.scale", [](GgufBuilder& b) { b.add_scales("blk.9.attn_q.scale", {2.0F}); },
       "not a part of the model"},
      {"blk.9.attn_q.input_scale",
       [](GgufBuilder& b) { b.add_scales("blk.9.attn_q.input_scale", {2.0F}); },
       "not a part of the model"},
  };
  for (const BadScales& row : rows) {
    SCOPED_TRACE(std::string(row.tensor) + ": " + row.message);
    GgufBuilder b = tiny_gguf(kExperts, DataType::kNVFP4);
    row.add(b);
    const Bytes bytes = b.bytes();
    expect_error(read_scaled(bytes), fmt::format("m.gguf: tensor '{}'", row.tensor), row.message);
  }
}

}  // namespace
}  // namespace dovetail::families
