// Embedders and rankers: what their folders and GGUF files say, and what is refused of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "load/gguf_builder.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;
using nlohmann::json;

const std::filesystem::path kGoldenFolder =
    std::filesystem::path(test::source_dir()) / "tests" / "golden";

std::filesystem::path embedder(const std::string& name) {
  return kGoldenFolder / "embedders" / name;
}

json config_of(const std::filesystem::path& folder) {
  return json::parse(std::ifstream(folder / "config.json"));
}

// A GGUF file of the same tensors, by their names in it.
struct Conversion {
  std::string folder;  // of tests/golden, two levels
  std::string architecture;
  std::function<void(GgufBuilder&, const std::string& prefix)> keys;
  std::vector<std::pair<std::string, std::string>> names = {};  // beginnings, where they differ
};

void PrintTo(const Conversion& conversion, std::ostream* out) { *out << conversion.folder; }

Bytes converted(const ModelSource& source, const Conversion& how) {
  const ModelConfig& config = source.config;
  const AttentionConfig& attention = *config.layers.front().attention();
  const std::string prefix = how.architecture + ".";
  GgufBuilder out;
  out.set_string("general.architecture", how.architecture);
  out.set_u32(prefix + "block_count", static_cast<std::uint32_t>(config.layers.size()));
  out.set_u32(prefix + "context_length", config.max_context);
  out.set_u32(prefix + "embedding_length", config.hidden_size);
  out.set_u32(prefix + "feed_forward_length", config.layers.front().dense()->size);
  out.set_u32(prefix + "attention.head_count", attention.heads);
  how.keys(out, prefix);
  for (const auto& [name, tensor] : source.tensors) {
    std::string stored = name;
    for (const auto& [from, to] : how.names) {
      if (stored.starts_with(from)) stored.replace(0, from.size(), to);
    }
    // The rows before position 0 are left out.
    const std::size_t skipped =
        name == "position_embd.weight" ? std::size_t{config.position_offset} : 0;
    std::vector<std::uint64_t> shape = {tensor.columns};
    if (tensor.rows > 1) shape.push_back(tensor.rows - skipped);
    const auto data = tensor.data.subspan(skipped * tensor.columns * sizeof(float));
    out.tensors.push_back(
        {stored, std::move(shape), ggml_number(tensor.type), Bytes(data.begin(), data.end()), {}});
  }
  return out.bytes();
}

// Without what the formats tell apart.
ModelConfig encoder_in_common(ModelConfig config) {
  config.family.clear();
  config.position_offset = 0;
  config.output_norm.offset = 0.0F;
  for (LayerConfig& layer : config.layers) {
    for (SublayerConfig* half : {&layer.mixer_norms, &layer.mlp_norms})
      half->before.offset = half->behind.offset = 0.0F;
    std::get<AttentionConfig>(layer.mixer).norm.offset = 0.0F;
  }
  // No function stands in a GGUF file, nor another score than the sigmoid.
  if (config.score == Score::kNone) {
    for (HeadConfig& part : config.head) part.function = HeadFunction::kNone;
  }
  return config;
}

class EmbeddersAsGguf : public testing::TestWithParam<Conversion> {};

TEST_P(EmbeddersAsGguf, DescribeTheModelsOfTheFolders) {
  const auto folder = open_model(kGoldenFolder / GetParam().folder);
  ASSERT_TRUE(folder) << folder.error().message;
  const Bytes bytes = converted(**folder, GetParam());
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig wanted = encoder_in_common((*folder)->config);
  const ModelConfig got = encoder_in_common(model->config);
  EXPECT_EQ(got.layers, wanted.layers);
  EXPECT_EQ(got.ropes, wanted.ropes);
  EXPECT_EQ(got.pooling, wanted.pooling);
  EXPECT_EQ(got.head, wanted.head);
  EXPECT_EQ(got.score, wanted.score);
  EXPECT_EQ(got.output_norm, wanted.output_norm);
  EXPECT_EQ(got.embedding_norm, wanted.embedding_norm);
  EXPECT_EQ(got.embedding_scale, wanted.embedding_scale);
  EXPECT_EQ(got.max_context, wanted.max_context);
  EXPECT_EQ(got.token_types, wanted.token_types);
  EXPECT_EQ(got.learned_positions, wanted.learned_positions);
  EXPECT_EQ(got.causal(), wanted.causal());
  EXPECT_EQ(model->tensors.size(), (*folder)->tensors.size());
}

void set_norm(GgufBuilder& out, const std::string& prefix, float epsilon) {
  out.set_f32(prefix + "attention.layer_norm_epsilon", epsilon);
  out.set_bool(prefix + "attention.causal", false);
}

const Conversion kConversions[] = {
    {"embedders/bert-tiny", "bert",
     [](GgufBuilder& b, const std::string& p) {
       set_norm(b, p, 1e-12F);
       b.set_u32(p + "pooling_type", 1);
     }},
    {"embedders/xlm-roberta-tiny", "bert",
     [](GgufBuilder& b, const std::string& p) { set_norm(b, p, 1e-5F); }},
    {"embedders/qwen3-embedding-tiny", "qwen3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.head_count_kv", 2);
       b.set_u32(p + "attention.key_length", 16);
       b.set_f32(p + "attention.layer_norm_rms_epsilon", 1e-6F);
       b.set_f32(p + "rope.freq_base", 1e6F);
       b.set_u32(p + "pooling_type", 3);
     }},
    {"embedders/nomic-bert-tiny", "nomic-bert",
     [](GgufBuilder& b, const std::string& p) {
       set_norm(b, p, 1e-12F);
       b.set_f32(p + "rope.freq_base", 1000.0F);
       b.set_u32(p + "pooling_type", 1);
     }},
    {"embedders/modern-bert-tiny", "modern-bert",
     [](GgufBuilder& b, const std::string& p) {
       set_norm(b, p, 1e-5F);
       b.set_f32(p + "rope.freq_base", 160000.0F);
       b.set_f32(p + "rope.freq_base_swa", 10000.0F);
       b.set_string(p + "rope.scaling.type", "none");
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_u32(p + "attention.sliding_window_pattern", 3);
       b.set_string(p + "hidden_activation", "gelu");
       b.set_u32(p + "pooling_type", 2);
     }},
    {"embedders/embedding-gemma-tiny",
     "gemma-embedding",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.head_count_kv", 1);
       b.set_u32(p + "attention.key_length", 16);
       b.set_f32(p + "attention.layer_norm_rms_epsilon", 1e-6F);
       b.set_f32(p + "attention.scale", 1.0F / std::sqrt(24.0F));
       b.set_f32(p + "rope.freq_base", 100000.0F);
       b.set_f32(p + "rope.freq_base_swa", 1000.0F);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
       b.set_u32(p + "pooling_type", 1);
     },
     {{"dense.0", "dense_2"}, {"dense.1", "dense_3"}}},
    {"rankers/bert-tiny", "bert",
     [](GgufBuilder& b, const std::string& p) {
       set_norm(b, p, 1e-12F);
       b.set_u32(p + "pooling_type", 4);
     }},
    {"rankers/xlm-roberta-tiny", "bert",
     [](GgufBuilder& b, const std::string& p) { set_norm(b, p, 1e-5F); }},
};

INSTANTIATE_TEST_SUITE_P(All, EmbeddersAsGguf, testing::ValuesIn(kConversions),
                         [](const auto& run) {
                           std::string name = run.param.folder;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

TEST(EmbeddersAsGguf, RankWithAHeadAlone) {
  const auto folder = open_model(embedder("bert-tiny"));
  ASSERT_TRUE(folder) << folder.error().message;
  Conversion how = kConversions[0];
  how.keys = [](GgufBuilder& b, const std::string& p) { b.set_u32(p + "pooling_type", 4); };
  const Bytes bytes = converted(**folder, how);
  expect_error(read_model(std::vector{NamedBytes{"m.gguf", bytes}}), "m.gguf: ",
               "'bert.pooling_type': 4; valid: 0 (none), 1 (mean), 2 (first), 3 (last), or 4 "
               "(rank) with cls.output.weight");
}

// Qwen3-Reranker as llama.cpp's converter writes it.
TEST(EmbeddersAsGguf, MayAskADecoder) {
  const auto folder = open_model(embedder("qwen3-embedding-tiny"));
  ASSERT_TRUE(folder) << folder.error().message;
  const Conversion& decoder = kConversions[2];
  ASSERT_EQ(decoder.architecture, "qwen3");
  const auto model = [&](std::uint64_t rows, const std::vector<std::string>& labels) {
    Conversion how = decoder;
    how.keys = [&](GgufBuilder& b, const std::string& p) {
      decoder.keys(b, p);
      b.set_u32(p + "pooling_type", 4);
      b.set_strings(p + "classifier.output_labels", labels);
      b.add_tensor("cls.output.weight", kernels::DataType::kF32, {rows, 48});
    };
    static Bytes bytes;
    bytes = converted(**folder, how);
    return read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  };
  const auto ranker = model(2, {"yes", "no"});
  ASSERT_TRUE(ranker) << ranker.error().message;
  EXPECT_EQ(ranker->config.score, Score::kShareOfTwo);
  EXPECT_EQ(ranker->config.pooling, Pooling::kLast);
  ASSERT_EQ(ranker->config.head.size(), 1U);
  EXPECT_EQ(ranker->config.head.front().name, "cls.output");
  EXPECT_EQ(ranker->config.head.front().size, 2U);
  expect_error(model(2, {"no", "yes"}), "m.gguf: ", "'qwen3.classifier.output_labels': 2 labels");
  expect_error(model(3, {"yes", "no"}), "m.gguf: ", "numbers that the head gives: 3; valid: 2");
}

struct BadEmbedder {
  std::string name;
  std::string folder;  // of tests/golden, two levels
  std::function<void(json&)> change;
  std::string message;
};

void PrintTo(const BadEmbedder& bad, std::ostream* out) { *out << bad.name; }

class EmbedderConfig : public testing::TestWithParam<BadEmbedder> {};

TEST_P(EmbedderConfig, IsRefusedByName) {
  json config = config_of(kGoldenFolder / GetParam().folder);
  GetParam().change(config);
  expect_error(read_hf_config(config.dump(), "config.json"), "config.json: ", GetParam().message);
}

const BadEmbedder kBadEmbedders[] = {
    {"BertPositions", "embedders/bert-tiny",
     [](json& c) { c["position_embedding_type"] = "relative_key"; },
     "position_embedding_type: 'relative_key'; valid: 'absolute'"},
    {"BertActivation", "embedders/bert-tiny", [](json& c) { c["hidden_act"] = "relu"; },
     "hidden_act: 'relu'; valid: 'gelu', "},
    {"BertClass", "embedders/bert-tiny",
     [](json& c) { c["architectures"] = {"BertForTokenClassification"}; },
     "architectures: 'BertForTokenClassification'; valid: [\"BertModel\"] or "
     "[\"BertForSequenceClassification\"]"},
    {"NomicExperts", "embedders/nomic-bert-tiny", [](json& c) { c["moe_every_n_layers"] = 2; },
     "moe_every_n_layers: 2; valid: 0: layers of experts (nomic-embed-text-v2-moe)"},
    {"NomicPrenorm", "embedders/nomic-bert-tiny", [](json& c) { c["prenorm"] = true; },
     "prenorm: true; valid: false"},
    {"NomicActivation", "embedders/nomic-bert-tiny",
     [](json& c) { c["activation_function"] = "gelu"; },
     "activation_function: 'gelu'; valid: 'swiglu'"},
    {"NomicScaledRotation", "embedders/nomic-bert-tiny",
     [](json& c) { c["rotary_emb_scale_base"] = 512; }, "rotary_emb_scale_base: 512; valid: null"},
    {"NomicBiases", "embedders/nomic-bert-tiny", [](json& c) { c["mlp_fc1_bias"] = true; },
     "mlp_fc2_bias: false; valid: true, as mlp_fc1_bias"},
    {"NomicSpelling", "embedders/nomic-bert-tiny", [](json& c) { c["n_layer"] = 0; },
     "n_layer: 0; valid: an integer from 1 to 1024"},
    {"ModernActivation", "embedders/modern-bert-tiny",
     [](json& c) { c["hidden_activation"] = "relu"; }, "hidden_activation: 'relu'; valid: 'gelu'"},
    {"ModernWindow", "embedders/modern-bert-tiny", [](json& c) { c["local_attention"] = 0; },
     "local_attention: 0; valid: an integer from 1"},
    {"RobertaPositions", "embedders/xlm-roberta-tiny", [](json& c) { c["pad_token_id"] = 65; },
     "max_position_embeddings: 66; valid: more than the 66 rows before position 0"},
    {"RankerOfTwo", "rankers/bert-tiny",
     [](json& c) {
       c["id2label"] = {{"0", "no"}, {"1", "yes"}};
     },
     "id2label: 2 labels; valid: one label"},
    {"RankerOfUnknown", "rankers/bert-tiny", [](json& c) { c.erase("id2label"); },
     "num_labels: 2 labels; valid: one label"},
    {"RankerFunction", "rankers/bert-number-tiny",
     [](json& c) { c["sentence_transformers"]["activation_fn"] = "torch.nn.ReLU"; },
     "sentence_transformers.activation_fn: 'torch.nn.ReLU'; valid: torch.nn.modules.linear."},
    {"RankerPooling", "rankers/modern-bert-tiny", [](json& c) { c["classifier_pooling"] = "max"; },
     "classifier_pooling: 'max'; valid: 'cls', 'mean'"},
};

INSTANTIATE_TEST_SUITE_P(Bad, EmbedderConfig, testing::ValuesIn(kBadEmbedders),
                         [](const auto& run) { return run.param.name; });

// The class without a head has no logits, whatever the tensors say.
TEST(Qwen3Embedding, MayHaveTheClassWithoutAHead) {
  json config = config_of(embedder("qwen3-embedding-tiny"));
  EXPECT_TRUE(read_hf_config(config.dump(), "config.json")->has_logits);
  config["architectures"] = {"Qwen3Model"};
  EXPECT_FALSE(read_hf_config(config.dump(), "config.json")->has_logits);
}

// What is behind the transformer, of sentence-transformers.
class SentenceModules : public testing::Test {
 protected:
  SentenceModules() {
    std::filesystem::copy(embedder("embedding-gemma-tiny"), folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    modules_ = json::parse(std::ifstream(folder_.path() / "modules.json"));
  }

  auto open() {
    std::ofstream(folder_.path() / "modules.json") << modules_;
    return open_model(folder_.path());
  }
  void change(const std::string& file, const std::function<void(json&)>& change) {
    json content = json::parse(std::ifstream(folder_.path() / file));
    change(content);
    std::ofstream(folder_.path() / file) << content;
  }

  test::TempFolder folder_;
  json modules_;
};

TEST_F(SentenceModules, AreHeeded) {
  const auto model = open();
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig& config = (*model)->config;
  EXPECT_EQ(config.pooling, Pooling::kMean);
  ASSERT_EQ(config.head.size(), 2U);
  EXPECT_EQ(config.head[0].size, 96U);
  EXPECT_EQ(config.head[0].function, HeadFunction::kNone);
  EXPECT_FALSE(config.head[0].bias);
  EXPECT_EQ(config.head[1].function, HeadFunction::kTanh);
  EXPECT_TRUE(config.head[1].bias);
  EXPECT_EQ(config.embedding_size(), 32U);
  // In the newer spelling of a pooling.
  std::ofstream(folder_.path() / "1_Pooling/config.json") << R"({"pooling_mode": "lasttoken"})";
  EXPECT_EQ((*open())->config.pooling, Pooling::kLast);
}

TEST_F(SentenceModules, OfOtherKindsAreRefused) {
  struct Case {
    std::function<void(json&)> change;
    std::string message;
  };
  const json good = modules_;
  for (const Case& each :
       {Case{[](json& m) { m[2]["type"] = "sentence_transformers.models.LSTM"; },
             "[2].type: 'sentence_transformers.models.LSTM'; valid: Transformer, Pooling"},
        Case{[](json& m) { std::swap(m[1], m[2]); }, "[1].type: 'sentence_transformers.models."},
        Case{[](json& m) { m[0]["path"] = "0_Transformer"; }, "[0].path: '0_Transformer'; valid: "},
        Case{[](json& m) { m[2]["path"] = "../2_Dense"; }, "[2].path: '../2_Dense'; valid: "},
        Case{[](json& m) { m[2] = 3; }, "[2]: 3; valid: an object"},
        Case{[](json& m) {
               m = {{"a", 1}};
             },
             "an object; valid: a JSON array"}}) {
    modules_ = good;
    each.change(modules_);
    const auto model = open();
    ASSERT_FALSE(model) << each.message;
    EXPECT_NE(model.error().message.find("modules.json: " + each.message), std::string::npos)
        << model.error().message;
  }
}

TEST_F(SentenceModules, WithBadConfigurationsAreRefused) {
  change("2_Dense/config.json", [](json& c) { c["activation_function"] = "torch.nn.ReLU"; });
  expect_error(open(), folder_.path().string(), "activation_function: 'torch.nn.ReLU'; valid: ");
  change("2_Dense/config.json", [](json& c) {
    c["activation_function"] = "torch.nn.modules.linear.Identity";
    c["out_features"] = 97;
  });
  expect_error(open(), folder_.path().string(), "'linear.weight': shape [96, 48]; valid: [97, 48]");
}

}  // namespace
}  // namespace dovetail::families
