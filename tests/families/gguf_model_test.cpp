#include <cmath>
#include <functional>

#include "families/numbers_of.h"
#include "families/open_model.h"
#include "load/expect_error.h"
#include "load/gguf_builder.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

Result<ModelSource> read(const Bytes& bytes) {
  return read_model(std::vector{NamedBytes{"m.gguf", bytes}});
}

struct BadModel {
  std::string name;
  std::function<void(GgufBuilder&)> change;
  std::string message;
  TinyShape shape = {};
};

class GgufModel : public testing::TestWithParam<BadModel> {};

TEST_P(GgufModel, IsRefusedByName) {
  GgufBuilder builder = tiny_gguf(GetParam().shape);
  GetParam().change(builder);
  const Bytes bytes = builder.bytes();
  expect_error(read(bytes), "m.gguf: ", GetParam().message);
}

const BadModel kBadModels[] = {
    {"NoArchitecture", [](GgufBuilder& b) { b.erase("general.architecture"); },
     "'general.architecture': missing; valid: afmoe, "},
    {"Architecture", [](GgufBuilder& b) { b.set_string("general.architecture", "gemma5"); },
     "'general.architecture': 'gemma5'; valid: afmoe, "},
    {"ArchitectureOfWrongType", [](GgufBuilder& b) { b.set_u32("general.architecture", 1); },
     "'general.architecture': a uint32; valid: a string"},
    {"Adapter", [](GgufBuilder& b) { b.set_string("general.type", "adapter"); },
     "'general.type': 'adapter'; valid: 'model'"},
    {"NotCausal", [](GgufBuilder& b) { b.set_bool("llama.attention.causal", false); },
     "'llama.attention.causal': false; valid: true"},
    {"AttentionScale", [](GgufBuilder& b) { b.set_f32("llama.attention.scale", 0.5F); },
     "'llama.attention.scale': given; valid: absent"},
    {"NoLayers", [](GgufBuilder& b) { b.erase("llama.block_count"); },
     "'llama.block_count': missing; valid: an integer from 1 to 1024"},
    {"LayersZero", [](GgufBuilder& b) { b.set_u32("llama.block_count", 0); },
     "'llama.block_count': 0; valid: an integer from 1 to 1024"},
    {"LayersHuge", [](GgufBuilder& b) { b.set_u32("llama.block_count", 0xFFFFFFFFU); },
     "'llama.block_count': 4294967295; valid: an integer from 1 to 1024"},
    {"LayersNegative",
     [](GgufBuilder& b) { b.set_number("llama.block_count", GgufType::kInt64, std::int64_t{-2}); },
     "'llama.block_count': -2; valid: an integer"},
    {"LayersAsText", [](GgufBuilder& b) { b.set_string("llama.block_count", "2"); },
     "'llama.block_count': a string; valid: an integer"},
    {"OneLayerMore", [](GgufBuilder& b) { b.set_u32("llama.block_count", 3); },
     "tensor 'blk.2.attn_norm.weight': missing; valid: a tensor of shape [32]"},
    {"OneLayerLess", [](GgufBuilder& b) { b.set_u32("llama.block_count", 1); },
     "tensor 'blk.1.attn_k.weight': not a part of the model"},
    {"HiddenSize", [](GgufBuilder& b) { b.set_u32("llama.embedding_length", 64); },
     "tensor 'token_embd.weight': shape [16, 32]; valid: [16, 64]"},
    {"InnerSize", [](GgufBuilder& b) { b.set_u32("llama.feed_forward_length", 65); },
     "tensor 'blk.0.ffn_gate.weight': shape [64, 32]; valid: [65, 32]"},
    {"HeadsZero", [](GgufBuilder& b) { b.set_u32("llama.attention.head_count", 0); },
     "'llama.attention.head_count': 0; valid: an integer from 1"},
    {"HeadsNotOfGroups", [](GgufBuilder& b) { b.set_u32("llama.attention.head_count_kv", 3); },
     "number of key-value heads: 3; valid: a divisor of the 4 heads"},
    {"HeadsDifferByLayer",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("llama.attention.head_count_kv", GgufType::kInt32, {2, 4});
     },
     "'llama.attention.head_count_kv': 2 in one layer, 4 in another; valid: the same"},
    {"HeadsAsEmptyArray",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("llama.attention.head_count_kv", GgufType::kInt32, {});
     },
     "'llama.attention.head_count_kv': an array of 0 elements"},
    {"HeadSizeHuge", [](GgufBuilder& b) { b.set_u32("llama.attention.key_length", 514); },
     "'llama.attention.key_length': 514; valid: an integer from 1 to 512"},
    {"HeadSizeOdd", [](GgufBuilder& b) { b.set_u32("llama.attention.key_length", 7); },
     "head size: 7; valid: an even number"},
    {"HeadSizeNotWhole",
     [](GgufBuilder& b) {
       b.erase("llama.attention.key_length");
       b.set_u32("llama.attention.head_count", 5);
     },
     "'llama.attention.head_count': 5; valid: a divisor of embedding_length 32"},
    {"ValueSize", [](GgufBuilder& b) { b.set_u32("llama.attention.value_length", 16); },
     "'llama.attention.value_length': 16; valid: the head size 8"},
    {"RotaryPart", [](GgufBuilder& b) { b.set_u32("llama.rope.dimension_count", 4); },
     "'llama.rope.dimension_count': 4; valid: the head size 8"},
    {"EpsilonMissing", [](GgufBuilder& b) { b.erase("llama.attention.layer_norm_rms_epsilon"); },
     "'llama.attention.layer_norm_rms_epsilon': missing"},
    {"EpsilonNotANumber",
     [](GgufBuilder& b) { b.set_f32("llama.attention.layer_norm_rms_epsilon", NAN); },
     "'llama.attention.layer_norm_rms_epsilon': nan; valid: a float from 0 to 1"},
    {"Theta", [](GgufBuilder& b) { b.set_f32("llama.rope.freq_base", -1.0F); },
     "'llama.rope.freq_base': -1; valid: a float from 1"},
    {"RopeType", [](GgufBuilder& b) { b.set_string("llama.rope.scaling.type", "longrope"); },
     "tensor 'rope_factors_long.weight': missing; valid: both kinds of LongRoPE's factors"},
    {"RopeTypeUnknown", [](GgufBuilder& b) { b.set_string("llama.rope.scaling.type", "dynamic"); },
     "'llama.rope.scaling.type': 'dynamic'; valid: none, linear, yarn, longrope"},
    {"LongRopeOfTwoTypes",
     [](GgufBuilder& b) {
       b.set_string("llama.rope.scaling.type", "yarn");
       b.add_tensor("rope_factors_long.weight", kernels::DataType::kF32, {4});
     },
     "'llama.rope.scaling.type': 'yarn'; valid: 'longrope' beside LongRoPE's factors"},
    {"LongRopeOfOneKind",
     [](GgufBuilder& b) {
       b.add_tensor("rope_factors_long.weight", kernels::DataType::kF32, {4});
       Bytes raw;
       for (int i = 0; i < 4; ++i) append_number(raw, 2.0F);
       b.tensor("rope_factors_long.weight").data = raw;
     },
     "tensor 'rope_factors_short.weight': missing"},
    {"LongRopeOfWrongSize",
     [](GgufBuilder& b) { b.add_tensor("rope_factors_long.weight", kernels::DataType::kF32, {8}); },
     "tensor 'rope_factors_long.weight': type F32, shape [8]; valid: F32, [4]"},
    {"YarnWithoutFactor", [](GgufBuilder& b) { b.set_string("llama.rope.scaling.type", "yarn"); },
     "missing; valid: a float of at least 1"},
    {"YarnTheta",
     [](GgufBuilder& b) {
       b.set_f32("llama.rope.freq_base", 1.0F);
       b.set_string("llama.rope.scaling.type", "yarn");
       b.set_f32("llama.rope.scaling.factor", 4.0F);
     },
     "base of the rotary embedding: 1; valid: above 1"},
    {"RopeFactor", [](GgufBuilder& b) { b.set_f32("llama.rope.scaling.factor", 0.5F); },
     "'llama.rope.scaling.factor': 0.5; valid: 0, or at least 1"},
    {"VocabularySize", [](GgufBuilder& b) { b.set_u32("llama.vocab_size", 17); },
     "'llama.vocab_size': 17; valid: the 16 rows of token_embd.weight"},
    {"MoreTokensThanRows",
     [](GgufBuilder& b) { b.set_strings("tokenizer.ggml.tokens", std::vector<std::string>(17)); },
     "'tokenizer.ggml.tokens': 17 tokens; valid: 1 to 16, the rows of the embedding"},
    {"TokensOfWrongType",
     [](GgufBuilder& b) {
       b.set_numbers<std::uint32_t>("tokenizer.ggml.tokens", GgufType::kUint32, {1, 2});
     },
     "'tokenizer.ggml.tokens': an array of type uint32; valid: an array of strings"},
    {"Scores",
     [](GgufBuilder& b) {
       b.set_numbers<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0.0F, 1.0F});
     },
     "'tokenizer.ggml.scores': 2 scores; valid: one for each of the 16 tokens"},
    {"TokenTypes",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {1});
     },
     "'tokenizer.ggml.token_type': 1 types; valid: one for each of the 16 tokens"},
    {"TokenTypeUnknown",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32,
                                   std::vector<std::int32_t>(16, 7));
     },
     "'tokenizer.ggml.token_type': type 7; valid: 0 to 6"},
    {"EosBeyondTheTokens", [](GgufBuilder& b) { b.set_u32("tokenizer.ggml.eos_token_id", 16); },
     "'tokenizer.ggml.eos_token_id': 16; valid: below the 16 tokens"},
    {"TokenizerModel", [](GgufBuilder& b) { b.set_string("tokenizer.ggml.model", "rwkv"); },
     "'tokenizer.ggml.model': 'rwkv'; valid: llama, gpt2, gemma4, bert, t5, none"},
    {"CharacterMapOfWords",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("tokenizer.ggml.precompiled_charsmap", GgufType::kInt32, {1});
     },
     "'tokenizer.ggml.precompiled_charsmap': an array of type int32; valid: an array of int8 or "
     "uint8"},
    {"SeparatorBeyondTheTokens",
     [](GgufBuilder& b) { b.set_u32("tokenizer.ggml.seperator_token_id", 99); },
     "'tokenizer.ggml.seperator_token_id': 99; valid: below the 16 tokens"},
    {"BoolOfTwo",
     [](GgufBuilder& b) {
       b.set_number("tokenizer.ggml.add_bos_token", GgufType::kBool, std::uint8_t{2});
     },
     "'tokenizer.ggml.add_bos_token': a bool stored as 2; valid: 0 or 1"},
    {"ChatTemplate", [](GgufBuilder& b) { b.set_u32("tokenizer.chat_template", 1); },
     "'tokenizer.chat_template': a uint32; valid: a string"},
    {"SamplingTopP", [](GgufBuilder& b) { b.set_f32("general.sampling.top_p", 0.0F); },
     "'general.sampling.top_p': 0; valid: a number above 0 and at most 1"},
    {"SamplingTopK",
     [](GgufBuilder& b) {
       b.set_number("general.sampling.top_k", GgufType::kInt32, std::int32_t{-2});
     },
     "'general.sampling.top_k': -2; valid: an integer from -1 to 2147483647"},
    {"SamplingTopKWide",
     [](GgufBuilder& b) {
       b.set_number("general.sampling.top_k", GgufType::kUint64, ~std::uint64_t{0});
     },
     "'general.sampling.top_k': 18446744073709551615; valid: an integer from -1 to 2147483647"},
    {"SamplingTemperature", [](GgufBuilder& b) { b.set_u32("general.sampling.temp", 1); },
     "'general.sampling.temp': a uint32; valid: a float from 0 to 100"},
    {"TensorMissing", [](GgufBuilder& b) { b.erase_tensor("blk.1.ffn_up.weight"); },
     "tensor 'blk.1.ffn_up.weight': missing; valid: a tensor of shape [64, 32]"},
    {"EmbeddingMissing", [](GgufBuilder& b) { b.erase_tensor("token_embd.weight"); },
     "tensor 'token_embd.weight': missing"},
    {"ShapeTurned",
     [](GgufBuilder& b) {
       std::swap(b.tensor("blk.0.ffn_up.weight").dimensions[0],
                 b.tensor("blk.0.ffn_up.weight").dimensions[1]);
     },
     "tensor 'blk.0.ffn_up.weight': shape [32, 64]; valid: [64, 32]"},
    {"ThreeDimensions",
     [](GgufBuilder& b) {
       b.tensor("blk.0.ffn_up.weight").dimensions = {32, 32, 2};
     },
     "tensor 'blk.0.ffn_up.weight': shape [2, 32, 32]; valid: [64, 32]"},
    {"QuantisedNorm",
     [](GgufBuilder& b) {
       b.erase_tensor("output_norm.weight");
       b.add_tensor("output_norm.weight", kernels::DataType::kQ8_0, {32});
     },
     "tensor 'output_norm.weight': type 'Q8_0'; valid: F32, F16 or BF16 for a norm or a bias"},
    {"OutputBias",
     [](GgufBuilder& b) { b.add_tensor("blk.0.attn_output.bias", kernels::DataType::kF32, {32}); },
     "tensor 'blk.1.attn_output.bias': missing"},
    {"Router",
     [](GgufBuilder& b) {
       b.add_tensor("blk.0.ffn_gate_inp.weight", kernels::DataType::kF32, {4, 32});
     },
     "tensor 'blk.0.ffn_gate_inp.weight': not a part of the model"},
    {"Qwen2WithoutBias", [](GgufBuilder&) {}, "tensor 'blk.0.attn_q.bias': missing",
     TinyShape{.architecture = "qwen2"}},
    {"Qwen3WithoutNorms", [](GgufBuilder&) {}, "tensor 'blk.0.attn_q_norm.weight': missing",
     TinyShape{.architecture = "qwen3"}},
    {"BiasInOneLayerOnly", [](GgufBuilder& b) { b.erase_tensor("blk.1.attn_k.bias"); },
     "tensor 'blk.1.attn_k.bias': missing", TinyShape{.attention_bias = true}},
    {"FrequenciesOfWrongSize",
     [](GgufBuilder& b) { b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {8}); },
     "tensor 'rope_freqs.weight': type F32, shape [8]; valid: F32, [4]"},
    {"FrequenciesOfZero",
     [](GgufBuilder& b) {
       b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {4});
       b.tensor("rope_freqs.weight").data.assign(16, std::byte{0});
     },
     "tensor 'rope_freqs.weight': a divisor of 0; valid: finite and above 0"},
    {"ShardAlone",
     [](GgufBuilder& b) {
       b.set_number("split.count", GgufType::kUint16, std::uint16_t{3});
       b.set_number("split.no", GgufType::kUint16, std::uint16_t{0});
     },
     "'split.count': 3; valid: the 1 shards"},
    {"ShardNumber",
     [](GgufBuilder& b) {
       b.set_number("split.count", GgufType::kUint16, std::uint16_t{1});
       b.set_number("split.no", GgufType::kUint16, std::uint16_t{1});
     },
     "'split.no': 1; valid: an integer from 0 to 0"},
};

INSTANTIATE_TEST_SUITE_P(Bad, GgufModel, testing::ValuesIn(kBadModels),
                         [](const auto& run) { return run.param.name; });

class GgufTypes : public testing::TestWithParam<kernels::DataType> {};

TEST_P(GgufTypes, KeepTheirBytes) {
  const TinyShape shape{.hidden = 256, .inner = 512, .heads = 4, .kv_heads = 2, .head_dim = 64};
  const GgufBuilder builder = tiny_gguf(shape, GetParam());
  const Bytes bytes = builder.bytes();
  const auto model = read(bytes);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->tensors.size(), builder.tensors.size());
  for (const GgufBuilder::Tensor& tensor : builder.tensors) {
    const TensorView& view = model->tensors.at(tensor.name);
    EXPECT_EQ(ggml_number(view.type), tensor.type);
    EXPECT_EQ(view.columns, tensor.dimensions[0]);
    EXPECT_EQ(view.rows, tensor.dimensions.size() == 1 ? 1 : tensor.dimensions[1]);
    EXPECT_TRUE(
        std::equal(view.data.begin(), view.data.end(), tensor.data.begin(), tensor.data.end()));
  }
}

#define DOVETAIL_TYPE(name) kernels::DataType::k##name,
INSTANTIATE_TEST_SUITE_P(All, GgufTypes, testing::ValuesIn({DOVETAIL_GGUF_TYPES(DOVETAIL_TYPE)}),
                         [](const auto& run) {
                           return std::string(kernels::info(run.param).name);
                         });
#undef DOVETAIL_TYPE

TEST(GgufFamilies, OpenWithTheirParts) {
  struct Row {
    TinyShape shape;
    std::string family;
    bool interleaved;
  };
  for (const Row& row :
       {Row{{.architecture = "llama"}, "llama", true},
        Row{{.architecture = "llama", .tied = true}, "llama", true},
        Row{{.architecture = "mistral"}, "mistral", true},
        Row{{.architecture = "qwen2", .tied = true, .attention_bias = true}, "qwen2", false},
        Row{{.architecture = "qwen3", .head_dim = 16, .qk_norm = true}, "qwen3", false}}) {
    SCOPED_TRACE(row.shape.architecture);
    const Bytes bytes = tiny_gguf(row.shape).bytes();
    const auto model = read(bytes);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->format, "GGUF v3");
    EXPECT_EQ(model->config.family, row.family);
    EXPECT_EQ(numbers_of(model->config).rope.interleaved, row.interleaved);
    EXPECT_EQ(model->config.tied_embeddings, row.shape.tied);
    EXPECT_EQ(numbers_of(model->config).attention_bias, row.shape.attention_bias);
    EXPECT_EQ(numbers_of(model->config).qk_norm, row.shape.qk_norm);
    EXPECT_EQ(model->config.vocab_size, row.shape.vocabulary);
    EXPECT_EQ(numbers_of(model->config).head_dim, row.shape.head_dim);
    EXPECT_EQ(numbers_of(model->config).kv_heads, row.shape.kv_heads);
    EXPECT_EQ(model->generation.eos_ids, std::vector<std::int32_t>{2});
    EXPECT_EQ(model->chat_template, "{{ messages }}");
    EXPECT_EQ(std::get<GgufTokenizer>(model->tokenizer).tokens.size(), 16U);
  }
}

TEST(GgufTokenizers, AreReadWithAllThatTheirKindNeeds) {
  GgufBuilder builder = tiny_gguf({});
  builder.set_string("tokenizer.ggml.model", "bert");
  builder.set_u32("tokenizer.ggml.cls_token_id", 4);
  builder.set_u32("tokenizer.ggml.seperator_token_id", 5);
  builder.set_bool("tokenizer.ggml.normalizer.lowercase", false);
  builder.set_bool("tokenizer.ggml.normalizer.strip_accents", true);
  builder.set_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  for (const auto type : {GgufType::kInt8, GgufType::kUint8}) {
    builder.set_numbers<std::uint8_t>("tokenizer.ggml.precompiled_charsmap", type, {1, 0, 255});
    const Bytes bytes = builder.bytes();
    const auto model = read(bytes);
    ASSERT_TRUE(model) << model.error().message;
    const auto& tokenizer = std::get<GgufTokenizer>(model->tokenizer);
    EXPECT_EQ(tokenizer.model, "bert");
    EXPECT_EQ(tokenizer.cls, 4);
    EXPECT_EQ(tokenizer.separator, 5);
    EXPECT_EQ(tokenizer.lowercase, false);
    EXPECT_EQ(tokenizer.strip_accents, true);
    EXPECT_EQ(tokenizer.remove_extra_whitespaces, true);
    EXPECT_EQ(tokenizer.charsmap, std::string("\1\0\xFF", 3));
  }
}

TEST(GgufRope, IsReadInEverySpelling) {
  struct Row {
    std::string name;
    std::function<void(GgufBuilder&)> change;
    std::function<void(const DecoderNumbers&)> check;
  };
  const Row rows[] = {
      {"plain", [](GgufBuilder& b) { b.set_f32("llama.rope.freq_base", 5e5F); },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
         EXPECT_EQ(config.rope.theta, 5e5F);
       }},
      {"linear",
       [](GgufBuilder& b) {
         b.set_string("llama.rope.scaling.type", "linear");
         b.set_f32("llama.rope.scaling.factor", 4.0F);
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
         EXPECT_EQ(config.rope.factor, 4.0F);
       }},
      {"linear by the old key", [](GgufBuilder& b) { b.set_f32("llama.rope.scale_linear", 2.0F); },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
         EXPECT_EQ(config.rope.factor, 2.0F);
       }},
      {"none",
       [](GgufBuilder& b) {
         b.set_string("llama.rope.scaling.type", "none");
         b.set_f32("llama.rope.scaling.factor", 4.0F);
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.rope.scaling, RopeScaling::kNone); }},
      {"yarn",
       [](GgufBuilder& b) {
         b.set_string("llama.rope.scaling.type", "yarn");
         b.set_f32("llama.rope.scaling.factor", 4.0F);
         b.set_f32("llama.rope.scaling.attn_factor", 0.5F);
         b.set_f32("llama.rope.scaling.yarn_beta_fast", 16.0F);
         b.set_u32("llama.rope.scaling.original_context_length", 64);
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kYarn);
         EXPECT_EQ(config.rope.original_context, 64U);
         EXPECT_EQ(config.rope.beta_fast, 16.0F);
         EXPECT_EQ(config.rope.beta_slow, 1.0F);
         EXPECT_FLOAT_EQ(config.rope.attention_factor, 0.5F * (1.0F + 0.1F * std::log(4.0F)));
         EXPECT_EQ(config.max_context, 256U);
       }},
      {"divisors in the file",
       [](GgufBuilder& b) {
         b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {4});
         Bytes raw;
         for (const float value : {1.0F, 2.0F, 4.0F, 8.0F}) append_number(raw, value);
         b.tensor("rope_freqs.weight").data = raw;
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.frequency_divisors, (std::vector<float>{1, 2, 4, 8}));
       }},
      {"sliding window", [](GgufBuilder& b) { b.set_u32("llama.attention.sliding_window", 16); },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 16U); }},
      {"the same number for every layer",
       [](GgufBuilder& b) {
         b.set_numbers<std::int32_t>("llama.attention.head_count_kv", GgufType::kInt32, {2, 2});
         b.set_numbers<std::uint64_t>("llama.feed_forward_length", GgufType::kUint64, {64, 64});
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.kv_heads, 2U);
         EXPECT_EQ(config.intermediate_size, 64U);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    GgufBuilder builder = tiny_gguf();
    row.change(builder);
    const Bytes bytes = builder.bytes();
    const auto model = read(bytes);
    ASSERT_TRUE(model) << model.error().message;
    row.check(numbers_of(model->config));
  }
}

TEST(GgufTokenizerOf, IsAbsentWhereTheFileHasNone) {
  GgufBuilder builder = tiny_gguf();
  builder.erase("tokenizer.ggml.model");
  const Bytes bytes = builder.bytes();
  const auto model = read(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(model->tokenizer));
}

TEST(GgufTokenizerOf, TakesAllOnesForNoId) {
  GgufBuilder builder = tiny_gguf();
  builder.set_u32("tokenizer.ggml.padding_token_id", 0xFFFFFFFFU);
  builder.set_u32("tokenizer.ggml.eot_token_id", 5);
  builder.set_u32("tokenizer.ggml.eom_token_id", 2);
  const Bytes bytes = builder.bytes();
  const auto model = read(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(std::get<GgufTokenizer>(model->tokenizer).padding);
  EXPECT_EQ(model->generation.eos_ids, (std::vector<std::int32_t>{2, 5}));
}

TEST(GgufModel, SaysItsMixOfTypes) {
  const std::pair<std::optional<std::uint32_t>, const char*> cases[] = {
      {std::nullopt, ""}, {0, "F32"}, {15, "Q4_K_M"}, {32, "BF16"}, {200, ""}};
  for (const auto& [number, name] : cases) {
    GgufBuilder builder = tiny_gguf();
    if (number) builder.set_u32("general.file_type", *number);
    const Bytes bytes = builder.bytes();
    const auto model = read(bytes);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->quantization, name);
  }
}

TEST(GgufSampling, IsWhatTheFileRecommends) {
  GgufBuilder builder = tiny_gguf();
  builder.set_f32("general.sampling.temp", 0.5F);
  builder.set_f32("general.sampling.top_p", 0.75F);
  builder.set_f32("general.sampling.min_p", 0.125F);
  builder.set_f32("general.sampling.penalty_repeat", 1.25F);
  builder.set_number("general.sampling.top_k", GgufType::kInt32, std::int32_t{-1});
  const Bytes bytes = builder.bytes();
  const auto model = read(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->generation.sampling[sampling_row("temperature")], 0.5F);
  EXPECT_EQ(model->generation.sampling[sampling_row("top_p")], 0.75F);
  EXPECT_EQ(model->generation.sampling[sampling_row("min_p")], 0.125F);
  EXPECT_EQ(model->generation.sampling[sampling_row("repetition_penalty")], 1.25F);
  EXPECT_EQ(model->generation.sampling[sampling_row("top_k")], 0);
  EXPECT_EQ(conversation_defaults(*model).sampling[sampling_row("temperature")], 0.5F);
  EXPECT_EQ(explain_conversation_defaults(*model, {}),
            "sampling: temperature 0.5, top-k 0, top-p 0.75, min-p 0.125, repetition-penalty 1.25, "
            "unless asked otherwise (recommended by the model's makers)");
}

TEST(GgufSampling, OfAConversationIsModerateWhereTheFileRecommendsNone) {
  GgufBuilder builder = tiny_gguf();
  const Bytes bytes = builder.bytes();
  const auto model = read(bytes);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->generation.sampling.any());
  const GenerationDefaults defaults = conversation_defaults(*model);
  EXPECT_EQ(defaults.sampling[sampling_row("temperature")], 0.8F);
  EXPECT_EQ(defaults.sampling[sampling_row("top_k")], 40);
  EXPECT_EQ(defaults.sampling[sampling_row("top_p")], 0.95F);
  EXPECT_EQ(defaults.sampling[sampling_row("min_p")], 0.05F);
  EXPECT_EQ(defaults.eos_ids, model->generation.eos_ids);
  EXPECT_EQ(explain_conversation_defaults(*model, {}),
            "sampling: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, unless asked otherwise "
            "(the GGUF file recommends none)");
  SamplingValues given;
  given[sampling_row("temperature")] = 0.0F;
  EXPECT_EQ(explain_conversation_defaults(*model, given),
            "sampling: temperature 0, top-k 40, top-p 0.95, min-p 0.05, unless asked otherwise "
            "(by options; the GGUF file recommends none)");

  // One recommendation is one: the makers left the others at what they are without.
  builder.set_f32("general.sampling.temp", 0.6F);
  const Bytes partial = builder.bytes();
  const auto other = read(partial);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(conversation_defaults(*other).sampling[sampling_row("temperature")], 0.6F);
  EXPECT_FALSE(conversation_defaults(*other).sampling[sampling_row("top_k")]);
  EXPECT_FALSE(conversation_defaults(*other).sampling[sampling_row("min_p")]);
}

TEST(GgufSampling, IsNotInventedForAFolder) {
  ModelSource folder;
  folder.format = "Hugging Face safetensors";
  EXPECT_FALSE(conversation_defaults(folder).sampling.any());
  EXPECT_EQ(explain_conversation_defaults(folder, {}),
            "sampling: temperature 1, unless asked otherwise (the model's folder recommends none)");
}

// A model in three files; the first has the metadata.
class GgufSplit : public testing::Test {
 protected:
  GgufSplit() {
    const GgufBuilder whole = tiny_gguf();
    total_ = whole.tensors.size();
    for (std::size_t i = 0; i < 3; ++i) {
      GgufBuilder shard = i == 0 ? whole : GgufBuilder();
      shard.tensors.clear();
      shard.set_number("split.no", GgufType::kUint16, static_cast<std::uint16_t>(i));
      shard.set_number("split.count", GgufType::kUint16, std::uint16_t{3});
      shard.set_number("split.tensors.count", GgufType::kInt32, static_cast<std::int32_t>(total_));
      for (std::size_t j = i; j < total_; j += 3) shard.tensors.push_back(whole.tensors[j]);
      shards_.push_back(shard);
    }
  }

  static std::string name_of(std::size_t shard) {
    return fmt::format("model-{:05}-of-00003.gguf", shard + 1);
  }
  void write() const {
    for (std::size_t i = 0; i < 3; ++i) folder_.write(name_of(i), shards_[i].bytes());
  }
  auto open(std::size_t shard) const { return open_model(folder_.path() / name_of(shard)); }

  test::TempFolder folder_{test::kInMemory};
  std::vector<GgufBuilder> shards_;
  std::size_t total_ = 0;
};

TEST_F(GgufSplit, OpensFromAnyShard) {
  write();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto model = open(i);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->name, "model");
    EXPECT_EQ((*model)->tensors.size(), total_);
    EXPECT_EQ((*model)->mappings.size(), 3U);
  }
}

TEST_F(GgufSplit, NeedsEveryShard) {
  write();
  std::filesystem::remove(folder_.path() / name_of(1));
  const auto model = open(2);
  expect_error(model, name_of(1), "cannot open the file");
  EXPECT_EQ(model.error().kind, ErrorKind::kNotFound);
}

TEST_F(GgufSplit, NeedsTheNamesThatShowTheOthers) {
  write();
  const Bytes bytes = shards_[0].bytes();
  expect_error(open_model(folder_.write("part.gguf", bytes)), "part.gguf",
               "file name of shard 1 of 3; valid: a name that ends in -00001-of-00003.gguf");
  expect_error(open_model(folder_.write("model-00002-of-00003.gguf", bytes)), name_of(1),
               "file name of shard 1 of 3");
}

TEST_F(GgufSplit, NeedsShardsOfOneSplit) {
  shards_[2].set_number("split.count", GgufType::kUint16, std::uint16_t{4});
  write();
  expect_error(open(0), name_of(2), "'split.count': 4; valid: 3, as in shard 1");
}

TEST_F(GgufSplit, NeedsShardsInOrder) {
  shards_[2].set_number("split.no", GgufType::kUint16, std::uint16_t{1});
  write();
  expect_error(open(0), name_of(2), "'split.no': 1; valid: 2, as the name says");
}

TEST_F(GgufSplit, NeedsTheTensorsPromised) {
  shards_[0].set_number("split.tensors.count", GgufType::kInt32, std::int32_t{99});
  write();
  expect_error(open(0), name_of(0), "'split.tensors.count': 99; valid: the 21 tensors");
}

TEST_F(GgufSplit, TakesNoTensorTwice) {
  shards_[1].tensors.push_back(shards_[0].tensors[0]);
  write();
  expect_error(open(0), name_of(1), "tensor 'token_embd.weight': given in another shard too");
}

}  // namespace
}  // namespace dovetail::families
