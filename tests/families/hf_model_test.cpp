#include <sys/stat.h>

#include <array>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "families/numbers_of.h"
#include "families/open_model.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "load/hf_container.h"
#include "load/json_fields.h"
#include "load/safetensors_builder.h"
#include "support/sampling_samples.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

using nlohmann::json;

struct BadConfig {
  std::string name;
  std::function<void(json&)> change;
  std::string message;
  std::string architecture = "llama";
};

class HfConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(HfConfig, IsRefusedByName) {
  json config = tiny_hf({.architecture = GetParam().architecture}).config;
  GetParam().change(config);
  expect_error(read_hf_config(config.dump(), "config.json"), "config.json: ", GetParam().message);
}

const BadConfig kBadConfigs[] = {
    {"Family", [](json& c) { c["model_type"] = "gemma5"; }, "model_type: 'gemma5'; valid: afmoe, "},
    {"NoFamily", [](json& c) { c.erase("model_type"); }, "model_type: missing; valid: afmoe, "},
    {"Class",
     [](json& c) {
       c["architectures"] = {"LlamaForSequenceClassification", 1};
     },
     "architectures: an array of 2; valid: [\"LlamaForCausalLM\"]"},
    {"ClassOfAnother", [](json& c) { c["architectures"] = json::array({"Qwen2ForCausalLM"}); },
     "architectures: 'Qwen2ForCausalLM'; valid: [\"LlamaForCausalLM\"]"},
    {"Activation", [](json& c) { c["hidden_act"] = "gelu"; }, "hidden_act: 'gelu'; valid: 'silu'"},
    {"MlpBias", [](json& c) { c["mlp_bias"] = true; }, "mlp_bias: true; valid: false", "mistral"},
    {"AttentionBias", [](json& c) { c["attention_bias"] = true; },
     "attention_bias: true; valid: false", "mistral"},
    {"AttentionBiasOfQwen3", [](json& c) { c["attention_bias"] = true; },
     "attention_bias: true; valid: false", "qwen3"},
    {"RotaryPart", [](json& c) { c["partial_rotary_factor"] = 0.5; },
     "partial_rotary_factor: 0.5; valid: 1"},
    {"RotaryPartInside",
     [](json& c) {
       c["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}};
     },
     "rope_parameters.partial_rotary_factor: 0.25; valid: 1"},
    {"NoVocabulary", [](json& c) { c.erase("vocab_size"); },
     "vocab_size: missing; valid: an integer from 1"},
    {"SizeAsText", [](json& c) { c["hidden_size"] = "32"; },
     "hidden_size: '32'; valid: an integer from 1"},
    {"SizeAsFraction", [](json& c) { c["hidden_size"] = 32.5; },
     "hidden_size: 32.5; valid: an integer from 1"},
    {"SizeNegative", [](json& c) { c["hidden_size"] = -32; },
     "hidden_size: -32; valid: an integer"},
    {"SizeHuge", [](json& c) { c["hidden_size"] = ~std::uint64_t{0}; },
     "hidden_size: 18446744073709551615; valid: an integer"},
    {"LayersZero", [](json& c) { c["num_hidden_layers"] = 0; },
     "num_hidden_layers: 0; valid: an integer from 1 to 1024"},
    {"HeadSizeNotWhole",
     [](json& c) {
       c["head_dim"] = nullptr;
       c["num_attention_heads"] = 6;
     },
     "num_attention_heads: 6; valid: a divisor of hidden_size 32"},
    {"HeadSizeHuge", [](json& c) { c["head_dim"] = 514; },
     "head_dim: 514; valid: an integer from 1 to 512"},
    {"Groups", [](json& c) { c["num_key_value_heads"] = 3; },
     "number of key-value heads: 3; valid: a divisor of the 4 heads"},
    {"Epsilon", [](json& c) { c["rms_norm_eps"] = -1; },
     "rms_norm_eps: -1; valid: a number from 0"},
    {"Tied", [](json& c) { c["tie_word_embeddings"] = 1; },
     "tie_word_embeddings: 1; valid: true or false"},
    {"Theta", [](json& c) { c["rope_theta"] = 0; }, "rope_theta: 0; valid: a number from 1"},
    {"RopeProportional",
     [](json& c) {
       c["rope_scaling"] = {{"type", "proportional"}, {"factor", 2}};
     },
     "rope_scaling.type: 'proportional'; valid: default, dynamic, linear, llama3, yarn, longrope"},
    {"RopeLongWithoutContext",
     [](json& c) {
       c["rope_parameters"] = {{"rope_type", "longrope"}};
     },
     "rope_parameters.original_max_position_embeddings: missing; valid: an integer from 1"},
    {"RopeWithoutType",
     [](json& c) {
       c["rope_scaling"] = {{"factor", 2}};
     },
     "rope_scaling.rope_type: missing; valid: default, dynamic, linear, llama3, yarn, longrope"},
    {"RopeTypesDiffer",
     [](json& c) {
       c["rope_scaling"] = {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}};
     },
     "rope_scaling.type: 'linear'; valid: the same as rope_type 'yarn'"},
    {"RopeIsANumber", [](json& c) { c["rope_scaling"] = 2; },
     "rope_scaling: 2; valid: an object or null"},
    {"RopePerKindOfLayer",
     [](json& c) {
       c["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}}}};
     },
     "rope_parameters: different for kinds of layers"},
    {"RopeInBothSpellings",
     [](json& c) {
       c["rope_parameters"] = {{"rope_type", "default"}};
       c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
     },
     "rope_scaling: given beside a different rope_parameters"},
    {"LinearWithoutFactor",
     [](json& c) {
       c["rope_scaling"] = {{"type", "linear"}};
     },
     "rope_scaling.factor: missing; valid: a number from 1"},
    {"LinearFactor",
     [](json& c) {
       c["rope_scaling"] = {{"type", "linear"}, {"factor", 0}};
     },
     "rope_scaling.factor: 0; valid: a number from 1"},
    {"Llama3Factors",
     [](json& c) {
       c["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 4},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 64}};
     },
     "rope_scaling.high_freq_factor: 4; valid: more than low_freq_factor 4"},
    {"Llama3WithoutContext",
     [](json& c) {
       c["rope_scaling"] = {
           {"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
     },
     "rope_scaling.original_max_position_embeddings: missing"},
    {"YarnBetas",
     [](json& c) {
       c["rope_scaling"] = {
           {"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 2}};
     },
     "rope_scaling.beta_fast: 1; valid: at least beta_slow 2"},
    {"YarnTheta",
     [](json& c) {
       c["rope_theta"] = 1.0;
       c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
     },
     "base of the rotary embedding: 1; valid: above 1"},
    {"WindowOfLlama", [](json& c) { c["sliding_window"] = 16; },
     "sliding_window: 16; valid: null for model_type llama"},
    {"WindowZero", [](json& c) { c["sliding_window"] = 0; },
     "sliding_window: 0; valid: an integer from 1", "mistral"},
    {"LayersSlideSwitchedOff",
     [](json& c) {
       c["use_sliding_window"] = false;
       c["sliding_window"] = 16;
       c["layer_types"] = {"full_attention", "sliding_attention"};
     },
     "sliding_window: switched off by use_sliding_window; valid: a number of positions", "qwen3"},
    {"LayersMixed",
     [](json& c) {
       c["sliding_window"] = 16;
       c["layer_types"] = {"full_attention", "sliding_attention"};
     },
     "layer_types: full and sliding layers mixed; valid: one of", "mistral"},
    {"LayersOfAnotherKind",
     [](json& c) {
       c["layer_types"] = {"linear_attention", "linear_attention"};
     },
     "layer_types: 'linear_attention'; valid: full_attention, sliding_attention", "qwen3"},
    {"LayersMiscounted", [](json& c) { c["layer_types"] = json::array({"full_attention"}); },
     "layer_types: an array of 1; valid: a list of 2 names", "qwen3"},
    {"LayersSlideWithoutWindow",
     [](json& c) {
       c["sliding_window"] = nullptr;
       c["layer_types"] = {"sliding_attention", "sliding_attention"};
     },
     "sliding_window: missing; valid: a number of positions", "mistral"},
    {"EosBeyondTheVocabulary",
     [](json& c) {
       c["eos_token_id"] = {2, 16};
     },
     "eos_token_id: 16; valid: an integer from 0 to 15"},
    {"EosAsText", [](json& c) { c["eos_token_id"] = "</s>"; },
     "eos_token_id: '</s>'; valid: an integer from 0 to 15"},
};

INSTANTIATE_TEST_SUITE_P(Bad, HfConfig, testing::ValuesIn(kBadConfigs),
                         [](const auto& run) { return run.param.name; });

TEST(HfConfigText, MustBeJson) {
  for (const auto& [text, message] :
       {std::pair<std::string, std::string>{"", "not JSON from byte 1 on"},
        {"{", "not JSON from byte 2 on"},
        {"[]", "an array of 0; valid: a JSON object"},
        {"{\"a\": 1e999}", "not JSON: "},
        {"{\"a\": \"\xff\"}", "not JSON from byte 8 on"},
        {"{\"model_type\": \"llama\", \"model_type\": \"qwen2\"}",
         "'model_type': given twice; valid: once"},
        {std::string(100, '['), "JSON nested more than 64 deep; valid: at most 64"},
        {std::string(kLargestConfig + 1, ' '),
         "16777217 bytes of JSON; valid: at most 16777216"}}) {
    expect_error(read_hf_config(text, "config.json"), "config.json: ", message);
  }
}

TEST(HfConfigText, IsReadInEverySpelling) {
  struct Row {
    std::string name;
    std::string architecture;
    std::function<void(json&)> change;
    std::function<void(const DecoderNumbers&)> check;
  };
  const Row rows[] = {
      {"head size from the hidden size", "llama", [](json& c) { c["head_dim"] = nullptr; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.head_dim, 8U); }},
      {"head size of Qwen3 where not given", "qwen3", [](json& c) { c.erase("head_dim"); },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.head_dim, 128U); }},
      {"head size of Qwen3 where null", "qwen3", [](json& c) { c["head_dim"] = nullptr; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.head_dim, 8U); }},
      {"one group for each head", "llama", [](json& c) { c.erase("num_key_value_heads"); },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.kv_heads, 4U); }},
      {"theta inside", "qwen3",
       [](json& c) {
         c.erase("rope_theta");
         c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e6}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.theta, 5e6F);
         EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
         EXPECT_FALSE(config.rope.interleaved);
       }},
      {"linear, old", "llama",
       [](json& c) {
         c["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
         EXPECT_EQ(config.rope.factor, 4.0F);
       }},
      {"llama3", "llama",
       [](json& c) {
         c["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 8},
                              {"low_freq_factor", 1},
                              {"high_freq_factor", 4},
                              {"original_max_position_embeddings", 64}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kLlama3);
         EXPECT_EQ(config.rope.factor, 8.0F);
         EXPECT_EQ(config.rope.low_freq_factor, 1.0F);
         EXPECT_EQ(config.rope.high_freq_factor, 4.0F);
         EXPECT_EQ(config.rope.original_context, 64U);
         EXPECT_EQ(config.max_context, 128U);
       }},
      {"yarn", "qwen2",
       [](json& c) {
         c["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.scaling, RopeScaling::kYarn);
         EXPECT_EQ(config.rope.original_context, 128U);
         EXPECT_EQ(config.max_context, 512U);
         EXPECT_FLOAT_EQ(config.rope.attention_factor, 0.1F * std::log(4.0F) + 1.0F);
       }},
      {"yarn with an attention factor", "qwen2",
       [](json& c) {
         c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}, {"attention_factor", 1.25}};
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.rope.attention_factor, 1.25F); }},
      {"yarn between whole dimensions", "qwen2",
       [](json& c) {
         c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}, {"truncate", false}};
       },
       [](const DecoderNumbers& config) { EXPECT_FALSE(config.rope.truncate); }},
      {"yarn with two scales", "llama",
       [](json& c) {
         c["rope_scaling"] = {
             {"rope_type", "yarn"}, {"factor", 4}, {"mscale", 2.0}, {"mscale_all_dim", 0.5}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_FLOAT_EQ(config.rope.attention_factor,
                         (0.2F * std::log(4.0F) + 1.0F) / (0.05F * std::log(4.0F) + 1.0F));
       }},
      {"yarn's factor from the contexts", "llama",
       [](json& c) {
         c["rope_parameters"] = {{"rope_type", "yarn"}, {"original_max_position_embeddings", 32}};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.rope.factor, 4.0F);
         EXPECT_EQ(config.max_context, 128U);
       }},
      {"window of Mistral", "mistral", [](json& c) { c["sliding_window"] = 16; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 16U); }},
      {"no window of Mistral", "mistral", [](json& c) { c["sliding_window"] = nullptr; },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 0U); }},
      {"window switched off", "qwen2",
       [](json& c) {
         c["use_sliding_window"] = false;
         c["sliding_window"] = 16;
         c["max_window_layers"] = 1;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 0U); }},
      {"window behind the last layer", "qwen2",
       [](json& c) {
         c["use_sliding_window"] = true;
         c["sliding_window"] = 16;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 0U); }},
      {"window in all layers", "qwen2",
       [](json& c) {
         c["use_sliding_window"] = true;
         c["sliding_window"] = 16;
         c["max_window_layers"] = 0;
       },
       [](const DecoderNumbers& config) { EXPECT_EQ(config.sliding_window, 16U); }},
      {"full layers by name", "qwen3",
       [](json& c) {
         c["layer_types"] = {"full_attention", "full_attention"};
       },
       [](const DecoderNumbers& config) {
         EXPECT_EQ(config.sliding_window, 0U);
         EXPECT_TRUE(config.qk_norm);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    json config = tiny_hf({.architecture = row.architecture}).config;
    row.change(config);
    const auto parsed = read_hf_config(config.dump(), "config.json");
    ASSERT_TRUE(parsed) << parsed.error().message;
    row.check(numbers_of(*parsed));
  }
}

// The window of each layer of a Qwen2 or Qwen3 with two of them.
TEST(HfConfigWindows, AreThoseOfTheLayersThatSlide) {
  struct Row {
    std::string name;
    std::function<void(json&)> change;
    std::vector<std::uint32_t> windows;
  };
  const Row rows[] = {
      {"from a layer on", [](json& c) { c["max_window_layers"] = 1; }, {0, 16}},
      {"from the first on", [](json& c) { c["max_window_layers"] = 0; }, {16, 16}},
      {"behind the last", [](json& c) { c["max_window_layers"] = 5; }, {0, 0}},
      {"as listed, whatever the number says",
       [](json& c) {
         c["max_window_layers"] = 1;
         c["layer_types"] = {"sliding_attention", "full_attention"};
       },
       {16, 0}},
  };
  for (const char* architecture : {"qwen2", "qwen3"}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      json config = tiny_hf({.architecture = architecture}).config;
      config["use_sliding_window"] = true;
      config["sliding_window"] = 16;
      row.change(config);
      const auto parsed = read_hf_config(config.dump(), "config.json");
      ASSERT_TRUE(parsed) << parsed.error().message;
      std::vector<std::uint32_t> windows;
      for (const LayerConfig& layer : parsed->layers) windows.push_back(layer.attention()->window);
      EXPECT_EQ(windows, row.windows);
    }
  }
}

struct BadTensors {
  std::string name;
  std::function<void(HfBuilder&)> change;
  std::string message;
  TinyShape shape = {};
};

class HfTensors : public testing::TestWithParam<BadTensors> {};

TEST_P(HfTensors, AreRefusedByName) {
  HfBuilder builder = tiny_hf(GetParam().shape);
  GetParam().change(builder);
  test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  expect_error(open_model(folder.path()), "model.safetensors: tensor ", GetParam().message);
}

const BadTensors kBadTensors[] = {
    {"Missing", [](HfBuilder& b) { b.weights.erase("model.layers.1.mlp.up_proj.weight"); },
     "'blk.1.ffn_up.weight': missing; valid: a tensor of shape [64, 32]"},
    {"HeadMissing", [](HfBuilder& b) { b.weights.erase("lm_head.weight"); },
     "'output.weight': missing"},
    {"Shape",
     [](HfBuilder& b) {
       b.weights.tensor("model.layers.1.mlp.up_proj.weight").shape = {32, 64};
     },
     "'model.layers.1.mlp.up_proj.weight': shape [32, 64]; valid: [64, 32]"},
    {"Vocabulary", [](HfBuilder& b) { b.config["vocab_size"] = 17; },
     "'model.embed_tokens.weight': shape [16, 32]; valid: [17, 32]"},
    {"Type",
     [](HfBuilder& b) {
       auto& norm = b.weights.tensor("model.norm.weight");
       norm.dtype = "I32";
     },
     "'model.norm.weight': type 'I32'; valid: F32, F16 or BF16"},
    {"OutputBias",
     [](HfBuilder& b) { b.weights.add("model.layers.0.self_attn.o_proj.bias", {32}); },
     "'model.layers.0.self_attn.o_proj.bias': not a part of the model"},
    {"NameOfGguf", [](HfBuilder& b) { b.weights.tensor("lm_head.weight").name = "output.weight"; },
     "'output.weight': missing"},
    {"Experts",
     [](HfBuilder& b) {
       b.weights.add("model.layers.0.block_sparse_moe.gate.weight", {4, 32});
     },
     "'model.layers.0.block_sparse_moe.gate.weight': not a part of the model"},
    {"LayerWithZeroBefore",
     [](HfBuilder& b) {
       b.weights.add("model.layers.00.mlp.up_proj.weight", {64, 32});
     },
     "'model.layers.00.mlp.up_proj.weight': not a part of the model"},
    {"LayerBeyondTheLast",
     [](HfBuilder& b) {
       b.weights.add("model.layers.2.mlp.up_proj.weight", {64, 32});
     },
     "'model.layers.2.mlp.up_proj.weight': not a part of the model"},
    {"Qwen2WithoutBias", [](HfBuilder&) {}, "'blk.0.attn_q.bias': missing",
     TinyShape{.architecture = "qwen2"}},
    {"Qwen3WithoutNorms", [](HfBuilder&) {}, "'blk.0.attn_q_norm.weight': missing",
     TinyShape{.architecture = "qwen3"}},
};

INSTANTIATE_TEST_SUITE_P(Bad, HfTensors, testing::ValuesIn(kBadTensors),
                         [](const auto& run) { return run.param.name; });

TEST(HfFolder, TakesTensorsThatChangeNothing) {
  HfBuilder builder = tiny_hf({.tied = true});
  builder.weights.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4});
  builder.weights.add("lm_head.weight", {16, 32});
  test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE((*model)->tensors.contains("output.weight"));
  EXPECT_EQ((*model)->tensors.size(), 20U);
  EXPECT_EQ((*model)->name, folder.path().filename());
  EXPECT_EQ((*model)->generation.eos_ids, std::vector<std::int32_t>{2});
}

TEST(HfFolder, ReadsWhatLiesBeside) {
  test::TempFolder folder{test::kInMemory};
  tiny_hf().write(folder);
  folder.write("generation_config.json",
               R"({"eos_token_id": [3, 4], "temperature": 0.6, "top_p": 0.9, "top_k": 20,
                   "min_p": null, "repetition_penalty": 1.05})");
  folder.write("tokenizer.json", R"({"model": {}})");
  folder.write("tokenizer_config.json", R"({"chat_template": "old"})");
  auto model = open_model(folder.path() / "");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->name, folder.path().filename());
  const GenerationDefaults& defaults = (*model)->generation;
  EXPECT_EQ(defaults.eos_ids, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(defaults.sampling[sampling_row("temperature")], 0.6F);
  EXPECT_EQ(defaults.sampling[sampling_row("top_p")], 0.9F);
  EXPECT_EQ(defaults.sampling[sampling_row("top_k")], 20);
  EXPECT_FALSE(defaults.sampling[sampling_row("min_p")]);
  EXPECT_EQ(defaults.sampling[sampling_row("repetition_penalty")], 1.05F);
  EXPECT_EQ((*model)->chat_template, "old");
  EXPECT_EQ(std::get<HuggingFaceTokenizer>((*model)->tokenizer).tokenizer_json, R"({"model": {}})");

  folder.write("generation_config.json", R"({"top_k": -1})");
  model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->generation.sampling[sampling_row("top_k")], 0);  // what a request calls "all"

  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "no"},
                                     {"name": "default", "template": "yes"}]})");
  model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->chat_template, "yes");

  folder.write("chat_template.jinja", "newest");
  model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->chat_template, "newest");
}

TEST(HfFolder, RefusesBadFilesBeside) {
  for (const auto& [name, text, message] :
       {std::tuple{"generation_config.json", R"({"temperature": "hot"})",
                   "temperature: 'hot'; valid: a number from 0 to 100"},
        std::tuple{"generation_config.json", R"({"top_p": 1.5})",
                   "top_p: 1.5; valid: a number from 0 to 1"},
        std::tuple{"generation_config.json", R"({"top_p": 0.0})",
                   "top_p: 0; valid: a number above 0 and at most 1"},
        std::tuple{"generation_config.json", R"({"eos_token_id": [99]})",
                   "eos_token_id: 99; valid: an integer from 0 to 15"},
        std::tuple{"generation_config.json", "{", "not JSON from byte 2 on"},
        std::tuple{"tokenizer_config.json", R"({"chat_template": 5})",
                   "chat_template: 5; valid: a string, or a list"},
        std::tuple{"tokenizer_config.json", R"({"chat_template": [5]})",
                   "chat_template: 5; valid: a string, or a list"}}) {
    test::TempFolder folder{test::kInMemory};
    tiny_hf().write(folder);
    folder.write(name, text);
    expect_error(open_model(folder.path()), name, message);
  }
}

// A model in two files and an index.
class HfIndex : public testing::Test {
 protected:
  HfIndex() {
    const HfBuilder whole = tiny_hf();
    folder_.write("config.json", whole.config.dump());
    for (std::size_t i = 0; i < whole.weights.tensors.size(); ++i) {
      parts_[i % 2].tensors.push_back(whole.weights.tensors[i]);
      map_[whole.weights.tensors[i].name] = kNames[i % 2];
    }
    for (std::size_t i = 0; i < 2; ++i) folder_.write(kNames[i], parts_[i].bytes());
  }
  auto open() const {
    folder_.write("model.safetensors.index.json", json{{"weight_map", map_}}.dump());
    return open_model(folder_.path());
  }

  static constexpr const char* kNames[] = {"model-00001-of-00002.safetensors",
                                           "model-00002-of-00002.safetensors"};
  static constexpr const char* kNorm = "model.norm.weight";
  test::TempFolder folder_{test::kInMemory};
  SafetensorsBuilder parts_[2];
  json map_;
};

TEST_F(HfIndex, NamesTheFiles) {
  const auto model = open();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->tensors.size(), 21U);
  EXPECT_EQ((*model)->mappings.size(), 2U);
}

TEST_F(HfIndex, MayBeMissing) {
  folder_.write("consolidated.safetensors", "the same weights in another layout");
  const auto model = open_model(folder_.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->tensors.size(), 21U);
}

TEST_F(HfIndex, NeedsEveryFile) {
  std::filesystem::remove(folder_.path() / kNames[1]);
  expect_error(open(), kNames[1], "cannot open the file");
}

TEST_F(HfIndex, NamesNoFileOutsideTheFolder) {
  for (const char* name : {"../secret.safetensors", "/etc/passwd", "a/b.safetensors", ""}) {
    map_[kNorm] = name;
    expect_error(open(), "model.safetensors.index.json: weight_map: ",
                 "for tensor 'model.norm.weight'; valid: the name of a .safetensors file");
  }
}

TEST_F(HfIndex, NamesTheFileThatHasTheTensor) {
  map_[kNorm] = map_[kNorm] == kNames[0] ? kNames[1] : kNames[0];
  expect_error(open(), "weight_map: ", "for tensor 'model.norm.weight'; valid: 'model-0000");
}

TEST_F(HfIndex, NamesEveryTensor) {
  map_.erase(kNorm);
  expect_error(open(), "weight_map: missing", "for tensor 'model.norm.weight'");
}

TEST_F(HfIndex, NamesNoTensorThatIsNowhere) {
  map_["model.more.weight"] = kNames[0];
  expect_error(open(), "weight_map: ", "for tensor 'model.more.weight'; valid: a file that holds");
}

TEST_F(HfIndex, NeedsAWeightMap) {
  for (const json& map : {json(nullptr), json(5), json::object(), json::array({1})}) {
    map_ = map;
    expect_error(open(), "model.safetensors.index.json: weight_map: ", "valid: an object");
  }
}

TEST(OpenModel, SaysWhatAPathMustBe) {
  test::TempFolder folder{test::kInMemory};
  const auto missing = open_model(folder.path() / "nothing");
  expect_error(missing, "nothing: no such file or folder", "valid: a .gguf file or a Hugging Face");
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  expect_error(open_model(folder.path()), folder.path().string(), "no config.json; valid: ");
  folder.write("config.json", tiny_hf().config.dump());
  expect_error(open_model(folder.path()), folder.path().string(),
               "no weights; valid: model.safetensors");
  expect_error(open_model(folder.path() / "config.json"), "config.json",
               "valid: the folder that holds it");
  expect_error(open_model(folder.write("empty.gguf", "")), "empty.gguf", "'magic' at byte 0");
  expect_error(open_model(folder.write("text", "hello, world")), "text: magic: 'hell'",
               "valid: 'GGUF'");
  expect_error(open_model("/dev/null"), "/dev/null", "not a regular file");
}

TEST(OpenModel, ServesManyThreadsAtOnce) {
  test::TempFolder folder{test::kInMemory};
  tiny_hf().write(folder);
  std::vector<std::thread> threads;
  std::array<bool, 4> opened{};
  for (std::size_t i = 0; i < opened.size(); ++i) {
    threads.emplace_back([&, i] { opened[i] = open_model(folder.path()).has_value(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(opened, testing::Each(true));
}

TEST(OpenModel, DoesNotWaitForAPipe) {
  test::TempFolder folder{test::kInMemory};
  const auto pipe = folder.path() / "pipe.gguf";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(open_model(pipe), "pipe.gguf", "not a regular file");
}

TEST(HfFolder, ReadsTheTableOfSamplingParameters) {
  for (const SamplingRow& row : kSamplingRows) {
    const auto parse = [&](double value) {
      nlohmann::json config = {{row.name, value}};
      if (row.whole()) config[std::string(row.name)] = static_cast<std::int64_t>(value);
      return parse_generation_config(config.dump(), "f", 5);
    };
    const auto defaults = parse(test::sample_of(row));
    ASSERT_TRUE(defaults) << defaults.error().message;
    if (!row.recommended()) {
      EXPECT_FALSE(defaults->sampling.any()) << row.name;
      continue;
    }
    EXPECT_EQ(defaults->sampling[row], test::sample_of(row)) << row.name;
    for (const double value : {test::too_little(row), test::too_much(row)}) {
      const auto refused = parse(value);
      ASSERT_FALSE(refused) << row.name;
      EXPECT_TRUE(refused.error().message.starts_with(fmt::format("f: {}: ", row.name)))
          << refused.error().message;
    }
  }
}

}  // namespace
}  // namespace dovetail::families
