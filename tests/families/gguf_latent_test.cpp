// Models of latent attention as GGUF files: as converters write them now, with the matrices of
// heads apart and those for keys transposed, and as they wrote them before.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "families/gguf_converter.h"
#include "families/open_model.h"
#include "load/expect_error.h"
#include "support/places.h"

namespace dovetail::families {
namespace {

const std::filesystem::path kLatentModels =
    std::filesystem::path(test::source_dir()) / "tests" / "golden" / "models";

void add_tensor(GgufBuilder& out, const std::string& name, std::vector<std::uint64_t> dimensions,
                kernels::DataType type, Bytes data) {
  out.tensors.push_back({name, std::move(dimensions), ggml_number(type), std::move(data), {}});
}

// attn_kv_b in two.
void add_heads(GgufBuilder& out, const std::string& prefix, const LatentConfig& latent,
               const TensorView& both) {
  const std::size_t element = kernels::row_bytes(both.type, 1);
  const std::size_t row = both.columns * element;
  Bytes keys, values;
  for (std::size_t head = 0; head < latent.heads; ++head) {
    const std::byte* rows = both.data.data() + head * (latent.key_dim + latent.value_dim) * row;
    for (std::size_t column = 0; column < both.columns; ++column) {
      for (std::size_t key = 0; key < latent.key_dim; ++key)
        append_raw(keys, rows + key * row + column * element, element);
    }
    append_raw(values, rows + latent.key_dim * row, latent.value_dim * row);
  }
  add_tensor(out, prefix + "attn_k_b.weight", {latent.key_dim, latent.latent_dim, latent.heads},
             both.type, std::move(keys));
  add_tensor(out, prefix + "attn_v_b.weight", {latent.latent_dim, latent.value_dim, latent.heads},
             both.type, std::move(values));
}

// What of Kimi Delta Attention converters change: rates as they are rather than their logarithms,
// and another dimension for taps.
void add_delta(GgufBuilder& out, const std::string& prefix, const ModelSource& source,
               std::set<std::string>& done) {
  const TensorView& logs = source.tensors.at(prefix + "ssm_a_log");
  Bytes rates;
  for (const float log : floats_of(logs)) append_number(rates, -std::exp(log));
  add_tensor(out, prefix + "ssm_a", {1, logs.columns}, kernels::DataType::kF32, std::move(rates));
  done.insert(prefix + "ssm_a_log");
  for (const char* part : {"q", "k", "v"}) {
    const std::string name = prefix + "ssm_conv1d_" + part + ".weight";
    const TensorView& taps = source.tensors.at(name);
    add_tensor(out, name, {taps.columns, 1, taps.rows}, taps.type, data_of(taps));
    done.insert(name);
  }
}

// A folder of tests/golden/models, and how the file has its matrices of heads.
struct Latents {
  const char* folder;
  const char* architecture;
  bool apart;
  bool fused = false;  // gates and ups of all experts are one tensor
};

void PrintTo(const Latents& model, std::ostream* out) { *out << model.folder; }

GgufBuilder converted(const ModelSource& source, const Latents& how) {
  const bool apart = how.apart;
  const std::string architecture = std::string(how.architecture) + ".";
  const ModelConfig& config = source.config;
  const auto attends = [](const LayerConfig& layer) { return layer.latent() != nullptr; };
  const LatentConfig& latent =
      *std::find_if(config.layers.begin(), config.layers.end(), attends)->latent();
  const ExpertsConfig& experts = *config.layers.back().experts();
  const KimiDeltaConfig* delta = config.layers.front().kimi_delta();
  GgufBuilder out;
  const auto count = [&](const char* key, std::uint32_t value) {
    out.set_u32(architecture + key, value);
  };
  const auto number = [&](const char* key, float value) { out.set_f32(architecture + key, value); };
  out.set_string("general.architecture", how.architecture);
  // The layer that drafts is counted and is the last.
  const std::size_t drafts = config.draft_layer ? 1 : 0;
  const std::size_t layers = config.layers.size() + drafts;
  const MlpConfig* dense = config.layers.front().dense();
  count("block_count", static_cast<std::uint32_t>(layers));
  if (drafts > 0) count("nextn_predict_layers", 1);
  count("context_length", 256);
  count("embedding_length", config.hidden_size);
  count("feed_forward_length", dense != nullptr ? dense->size : 48);
  count("vocab_size", config.vocab_size);
  count("attention.head_count", latent.heads);
  if (delta != nullptr) {
    std::vector<std::int32_t> heads;
    for (const LayerConfig& layer : config.layers) heads.push_back(attends(layer) ? 1 : 0);
    out.set_numbers(architecture + "attention.head_count_kv", GgufType::kInt32, heads);
    count("kda.head_dim", delta->head_dim);
    count("ssm.conv_kernel", delta->convolution);
  } else {
    count("attention.head_count_kv", apart ? 1 : latent.heads);
  }
  count("attention.kv_lora_rank", latent.latent_dim);
  if (latent.query_rank > 0) count("attention.q_lora_rank", latent.query_rank);
  count("attention.key_length", apart ? latent.cached_dim() : latent.head_dim());
  count("attention.value_length", apart ? latent.latent_dim : latent.value_dim);
  if (apart) {
    count("attention.key_length_mla", latent.head_dim());
    count("attention.value_length_mla", latent.value_dim);
  }
  number("attention.layer_norm_rms_epsilon", config.output_norm.epsilon);
  count("rope.dimension_count", latent.rope_dim);
  for (const RopeConfig& rope : config.ropes) {
    number("rope.freq_base", rope.theta);
    if (rope.scaling != RopeScaling::kYarn) continue;
    out.set_string(architecture + "rope.scaling.type", "yarn");
    number("rope.scaling.factor", rope.factor);
    count("rope.scaling.original_context_length", rope.original_context);
    number("rope.scaling.yarn_beta_fast", rope.beta_fast);
    number("rope.scaling.yarn_beta_slow", rope.beta_slow);
    number("rope.scaling.yarn_log_multiplier", 0.1F);
  }
  if (latent.temperature != 0.0F) number("attention.temperature_scale", latent.temperature);
  count("leading_dense_block_count", dense != nullptr ? 1 : 0);
  count("expert_count", experts.count);
  count("expert_used_count", experts.used);
  count("expert_shared_count", experts.shared_size / experts.size);
  count("expert_feed_forward_length", experts.size);
  // Files of softmax do not say so.
  if (experts.gate == ExpertGate::kSigmoid) count("expert_gating_func", 2);
  if (delta == nullptr) {
    count("expert_group_count", experts.groups);
    count("expert_group_used_count", experts.groups_used);
  }
  number("expert_weights_scale", experts.scale);
  if (delta == nullptr) out.set_bool(architecture + "expert_weights_norm", experts.normalized);
  if (latent.index_heads > 0) {
    count("attention.indexer.head_count", latent.index_heads);
    count("attention.indexer.key_length", latent.index_dim);
    count("attention.indexer.top_k", latent.index_top);
  }
  std::set<std::string> done;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("blk.{}.", i);
    if (i < config.layers.size() && config.layers[i].kimi_delta() != nullptr) {
      add_delta(out, prefix, source, done);
    } else if (apart) {
      const std::string both = prefix + "attn_kv_b.weight";
      add_heads(out, prefix, latent, source.tensors.at(both));
      done.insert(both);
    }
    if (i == 0 && dense != nullptr) continue;
    using Stems = std::vector<const char*>;
    const auto merge = [&](const Stems& stems, const char* as) {
      Bytes all;
      const TensorView* one = nullptr;
      for (std::uint32_t e = 0; e < experts.count; ++e) {
        for (const char* stem : stems) {
          const std::string name = fmt::format("{}{}.{}.weight", prefix, stem, e);
          one = &source.tensors.at(name);
          append_raw(all, one->data.data(), one->data.size());
          done.insert(name);
        }
      }
      add_tensor(out, prefix + as, {one->columns, one->rows * stems.size(), experts.count},
                 one->type, std::move(all));
    };
    if (how.fused) {
      merge({"ffn_gate", "ffn_up"}, "ffn_gate_up_exps.weight");
    } else {
      merge({"ffn_gate"}, "ffn_gate_exps.weight");
      merge({"ffn_up"}, "ffn_up_exps.weight");
    }
    merge({"ffn_down"}, "ffn_down_exps.weight");
  }
  for (const auto& [name, tensor] : source.tensors) {
    if (done.contains(name)) continue;
    std::vector<std::uint64_t> dimensions = {tensor.columns};
    if (tensor.rows > 1) dimensions.push_back(tensor.rows);
    add_tensor(out, name, std::move(dimensions), tensor.type,
               Bytes(tensor.data.begin(), tensor.data.end()));
  }
  return out;
}

class GgufLatents : public testing::TestWithParam<Latents> {};

TEST_P(GgufLatents, DescribeTheModelOfTheFolder) {
  const auto folder = open_model(kLatentModels / GetParam().folder);
  ASSERT_TRUE(folder) << folder.error().message;
  const Bytes bytes = converted(**folder, GetParam()).bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  // By its architecture, or as folders of the same have it.
  std::string family = GetParam().architecture;
  std::replace(family.begin(), family.end(), '-', '_');
  EXPECT_EQ(model->config.family, family);
  EXPECT_EQ(model->config.layers.size(), (*folder)->config.layers.size());
  EXPECT_EQ(model->config.ropes, (*folder)->config.ropes);
  EXPECT_EQ(model->config.draft_layer.has_value(), (*folder)->config.draft_layer.has_value());
  for (std::size_t i = 0; i < model->config.layers.size(); ++i) {
    LayerConfig got = model->config.layers[i];
    if (auto* latent = std::get_if<LatentConfig>(&got.mixer)) {
      EXPECT_EQ(latent->split, GetParam().apart);
      latent->split = false;
    } else {
      std::get<KimiDeltaConfig>(got.mixer).log_rates = true;
    }
    EXPECT_EQ(got, (*folder)->config.layers[i]);
  }
  for (const auto& [name, wanted] : (*folder)->tensors) {
    const auto tensor = model->tensors.find(name);
    if (tensor == model->tensors.end()) {
      const bool in_parts = GetParam().apart && name.ends_with("attn_kv_b.weight");
      EXPECT_TRUE(in_parts || name.ends_with("ssm_a_log")) << name;
      continue;
    }
    EXPECT_TRUE(std::ranges::equal(tensor->second.data, wanted.data)) << name;
  }
}

TEST_P(GgufLatents, RefuseWhatDoesNotFit) {
  const auto folder = open_model(kLatentModels / GetParam().folder);
  ASSERT_TRUE(folder) << folder.error().message;
  struct Row {
    const char* key;
    std::uint32_t value;
    const char* words;
  };
  const ExpertsConfig& experts = *(*folder)->config.layers.back().experts();
  const bool sigmoids = experts.gate == ExpertGate::kSigmoid;
  const std::string divisor = GetParam().folder == std::string("mistral4-tiny")
                                  ? "5; valid: 1"
                                  : fmt::format("a divisor of the {} experts", experts.count);
  const Row rows[] = {
      {"attention.kv_lora_rank", 600, "1 to 576"},
      {"rope.dimension_count", 7, "an even number"},
      {"expert_group_count", 5, divisor.c_str()},
      {"expert_group_used_count", 5, experts.groups > 1 ? "1 to 4" : ""},
      {"expert_gating_func", 3, sigmoids ? "2, which is sigmoids" : "1, which is softmax"},
      {"attention.head_count", 3, "shape"},
  };
  for (const Row& row : rows) {
    if (*row.words == '\0') continue;  // without groups nothing uses them
    GgufBuilder builder = converted(**folder, GetParam());
    builder.set_u32(fmt::format("{}.{}", GetParam().architecture, row.key), row.value);
    const Bytes bytes = builder.bytes();
    const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
    ASSERT_FALSE(model) << row.key;
    EXPECT_NE(model.error().message.find(row.words), std::string::npos) << model.error().message;
  }
}

const Latents kLatents[] = {{"deepseek-v3-tiny", "deepseek2", false},
                            {"deepseek-v3-tiny", "deepseek2", true},
                            {"deepseek-v32-tiny", "deepseek32", true},
                            {"mistral4-tiny", "mistral4", true, true},
                            {"kimi-linear-tiny", "kimi-linear", false},
                            {"kimi-linear-tiny", "kimi-linear", true},
                            {"glm5-tiny", "glm-dsa", true}};

INSTANTIATE_TEST_SUITE_P(All, GgufLatents, testing::ValuesIn(kLatents), [](const auto& run) {
  std::string name = run.param.architecture;
  std::erase(name, '-');
  return name + (run.param.apart ? "Apart" : "Together");
});

// llama.cpp's converter leaves the key out for Mistral 4, and then queries do not grow: nothing is
// made up. Files of Mistral's own format have a length beside it.
TEST(GgufTemperature, IsWhatTheFileSays) {
  const auto folder = *open_model(kLatentModels / "mistral4-tiny");
  const LatentConfig& wanted = *folder->config.layers.front().latent();
  ASSERT_EQ(wanted.temperature, 0.1F);
  const auto read = [&](const GgufBuilder& builder) {
    const Bytes bytes = builder.bytes();
    return *read_model(std::vector{NamedBytes{"m.gguf", bytes}})->config.layers.front().latent();
  };
  GgufBuilder builder = converted(*folder, kLatents[3]);
  EXPECT_EQ(read(builder).temperature_context, wanted.temperature_context);
  builder.set_u32("mistral4.attention.temperature_length", 64);
  EXPECT_EQ(read(builder).temperature_context, 64U);
  EXPECT_EQ(read(builder).temperature, 0.1F);
  builder.erase("mistral4.attention.temperature_scale");
  EXPECT_EQ(read(builder).temperature, 0.0F);
}

// In GLM-5.2, which llama.cpp tells by its context where a file does not say it, some layers have
// no indexer.
TEST(GgufPicks, AreMadeInEveryLayer) {
  const auto folder = *open_model(kLatentModels / "glm5-tiny");
  const auto message = [&](void (*change)(GgufBuilder & builder)) {
    GgufBuilder builder = converted(*folder, kLatents[6]);
    change(builder);
    const Bytes bytes = builder.bytes();
    const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
    return model ? std::string() : model.error().message;
  };
  constexpr const char* kTypes = "glm-dsa.attention.indexer.types";
  EXPECT_EQ(message([](GgufBuilder& b) {
              b.set_numbers<std::uint8_t>(kTypes, GgufType::kBool, {1, 1});
              b.set_u32("glm-dsa.context_length", 1U << 20U);
            }),
            "");
  EXPECT_NE(message([](GgufBuilder& b) {
              b.set_numbers<std::uint8_t>(kTypes, GgufType::kBool, {1, 0});
            }).find("indexer.types': false in some layers; valid: an indexer in every layer"),
            std::string::npos);
  EXPECT_NE(message([](GgufBuilder& b) {
              b.set_u32("glm-dsa.context_length", 1U << 20U);
            }).find("indexer.types': missing"),
            std::string::npos);
}

// What the indexer is, and that only V3.2 and GLM-5 have one.
TEST(GgufPicks, AreRefusedWhereTheyDoNotFit) {
  const auto with = *open_model(kLatentModels / "deepseek-v32-tiny");
  struct Row {
    const char* key;
    std::uint32_t value;
    const char* words;
  };
  const Row rows[] = {
      {"attention.indexer.head_count", 5, "shape"},
      {"attention.indexer.key_length", 12, "at least the 16 elements that turn"},
      {"attention.indexer.top_k", 0, "1 to"},
  };
  for (const Row& row : rows) {
    GgufBuilder builder = converted(*with, kLatents[2]);
    builder.set_u32(fmt::format("deepseek32.{}", row.key), row.value);
    const Bytes bytes = builder.bytes();
    const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
    ASSERT_FALSE(model) << row.key;
    EXPECT_NE(model.error().message.find(row.words), std::string::npos) << model.error().message;
  }
  const auto without = *open_model(kLatentModels / "deepseek-v3-tiny");
  GgufBuilder builder = converted(*without, kLatents[1]);
  builder.set_u32("deepseek2.attention.indexer.top_k", 8);
  const Bytes bytes = builder.bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("indexer.top_k': given; valid: absent"), std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace dovetail::families
