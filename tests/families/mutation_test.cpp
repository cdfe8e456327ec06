#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "families/converted_models.h"
#include "families/gguf_v4.h"
#include "families/golden_folder.h"
#include "families/mutator.h"
#include "families/open_model.h"
#include "load/allocation_watch.h"
#include "load/model_source.h"
#include "load/quantised_builder.h"
#include "load/safetensors_builder.h"
#include "load/stored_parts.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

const TinyShape kSmall{.vocabulary = 8,
                       .hidden = 8,
                       .inner = 8,
                       .layers = 1,
                       .heads = 2,
                       .kv_heads = 1,
                       .head_dim = 4};

TinyShape small(std::string architecture) {
  TinyShape shape = kSmall;
  shape.attention_bias = architecture == "qwen2";
  shape.qk_norm = architecture.starts_with("qwen3");
  shape.tied = architecture == "qwen2";
  shape.architecture = std::move(architecture);
  return shape;
}

TinyShape with_experts(std::string architecture) {
  TinyShape shape = small(std::move(architecture));
  shape.experts = 3;
  return shape;
}

// Wide enough for blocks of NVFP4.
TinyShape with_scales(std::uint32_t experts) {
  TinyShape shape = small("llama");
  shape.hidden = 64;
  shape.inner = 64;
  shape.head_dim = 32;
  shape.experts = experts;
  return shape;
}

// Opens what was written and counts how that ended. No outcome may be a crash, an error without the
// file's name, or an allocation far beyond what lies on disk.
class Outcomes {
 public:
  // `factor`: how many times what lies on disk a single allocation may have.
  explicit Outcomes(std::size_t factor = 2) : factor_(factor) {}

  void open(const test::TempFolder& folder, const std::filesystem::path& path) {
    std::size_t on_disk = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      on_disk += file.file_size();
    }
    const AllocationWatch watch;
    const auto model = open_model(path);
    // The constants are for messages, paths and tables.
    EXPECT_LE(watch.largest(), factor_ * on_disk + 4096);
    EXPECT_LE(watch.total(), 4 * factor_ * on_disk + 65536);
    largest_ = std::max(largest_, watch.largest());
    total_ = std::max(total_, watch.total());
    disk_ = std::max(disk_, on_disk);
    if (model) {
      ++good_;
      for (const auto& [name, tensor] : (*model)->tensors) {
        if (tensor.parts) {
          std::vector<std::byte> row(row_bytes(tensor.type, tensor.columns));
          for (std::size_t i = 0; i < tensor.rows; ++i) write_rows(*tensor.parts, i, 1, row.data());
          sum_ += std::to_integer<std::uint64_t>(row.back());
          continue;
        }
        ASSERT_EQ(tensor.data.size(), tensor.rows * row_bytes(tensor.type, tensor.columns));
        for (const std::byte byte : tensor.data) sum_ += std::to_integer<std::uint64_t>(byte);
      }
      return;
    }
    ++bad_;
    const Error& error = model.error();
    ASSERT_NE(error.message.find(folder.path().string()), std::string::npos) << error.message;
    ASSERT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    ASSERT_LT(error.message.size(), 1000U) << error.message;
    ASSERT_NE(error.kind, ErrorKind::kInternal) << error.message;
  }

  // Both must happen often, or the mutations test nothing.
  void expect_mixed() const {
    testing::Test::RecordProperty("good", static_cast<int>(good_));
    testing::Test::RecordProperty("bad", static_cast<int>(bad_));
    testing::Test::RecordProperty("largest_allocation", std::to_string(largest_));
    testing::Test::RecordProperty("all_allocations_of_an_open", std::to_string(total_));
    testing::Test::RecordProperty("largest_on_disk", std::to_string(disk_));
    testing::Test::RecordProperty("sum", std::to_string(sum_));
    EXPECT_GT(bad_, (good_ + bad_) / 4);
    EXPECT_GT(good_, (good_ + bad_) / 25);
  }

 private:
  std::size_t factor_;
  std::size_t good_ = 0;
  std::size_t bad_ = 0;
  std::size_t largest_ = 0;
  std::size_t total_ = 0;
  std::size_t disk_ = 0;
  std::uint64_t sum_ = 0;  // read so that every byte is touched
};

std::size_t bytes_of_data(const GgufBuilder& builder) {
  std::size_t size = 0;
  for (const auto& tensor : builder.tensors) size += tensor.data.size();
  return size;
}

TEST(Mutation, GgufFilesOpenOrFailCleanly) {
  constexpr int kRuns = 4000;
  std::vector<GgufBuilder> bases;
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3"}) {
    bases.push_back(tiny_gguf(small(name)));
  }
  bases.push_back(tiny_gguf(with_experts("qwen3moe")));
  TinyShape old = with_experts("llama");
  old.split_experts = true;
  bases.push_back(tiny_gguf(old));
  bases[0].set_string("llama.rope.scaling.type", "yarn");
  bases[0].set_f32("llama.rope.scaling.factor", 4.0F);
  bases[1].add_tensor("rope_freqs.weight", kernels::DataType::kBF16, {2});
  bases[1].tensors.back() = {"rope_freqs.weight", {2}, 0, Bytes(8, std::byte{0x40}), {}};
  TinyShape wide = small("llama");
  wide.hidden = 32;
  wide.inner = 32;
  wide.head_dim = 16;
  bases.push_back(tiny_gguf(wide, kernels::DataType::kQ8_0));
  for (const std::uint32_t experts : {0U, 3U}) {
    bases.push_back(tiny_gguf(with_scales(experts), kernels::DataType::kNVFP4));
    bases.back().add_scales("blk.0.attn_q.scale", {0.5F});
    bases.back().add_scales("blk.0.attn_q.input_scale", {2.0F});
    if (experts > 0) bases.back().add_scales("blk.0.ffn_up_exps.scale", {0.5F, 0.25F, 2.0F});
  }

  for (const Converted& how : kConverted) {
    const auto golden = open_model(kFoldersOfGoldens / how.folder);
    ASSERT_TRUE(golden) << golden.error().message;
    bases.push_back(Converter(**golden, how).convert());
  }

  const test::TempFolder folder{test::kInMemory};
  Mutator mutator(20240501);
  Outcomes outcomes;
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    const GgufBuilder& base = bases[mutator.below(bases.size())];
    const Bytes bytes = base.bytes();
    const Bytes bad = mutator.mutate(bytes, bytes.size() - bytes_of_data(base));
    outcomes.open(folder, folder.write("m.gguf", bad));
  }
  outcomes.expect_mixed();
}

TEST(Mutation, SplitGgufFilesOpenOrFailCleanly) {
  constexpr int kRuns = 1000;
  GgufBuilder shards[2] = {tiny_gguf(small("llama")), {}};
  const std::size_t total = shards[0].tensors.size();
  for (std::size_t i = 0; i < total / 2; ++i) {
    shards[1].tensors.push_back(shards[0].tensors.back());
    shards[0].tensors.pop_back();
  }
  for (std::size_t i = 0; i < 2; ++i) {
    shards[i].set_number("split.no", GgufType::kUint16, static_cast<std::uint16_t>(i));
    shards[i].set_number("split.count", GgufType::kUint16, std::uint16_t{2});
    shards[i].set_number("split.tensors.count", GgufType::kInt32, static_cast<std::int32_t>(total));
  }
  const test::TempFolder folder{test::kInMemory};
  Mutator mutator(20240502);
  Outcomes outcomes;
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    const std::size_t which = mutator.below(2);
    std::filesystem::path paths[2];
    for (std::size_t i = 0; i < 2; ++i) {
      Bytes bytes = shards[i].bytes();
      if (i == which) bytes = mutator.mutate(bytes, bytes.size() - bytes_of_data(shards[i]));
      paths[i] = folder.write(i == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf", bytes);
    }
    outcomes.open(folder, paths[mutator.below(2)]);
  }
  outcomes.expect_mixed();
}

// Of a model's file and one of the layer that drafts.
TEST(Mutation, FilesOfDraftsOpenOrFailCleanly) {
  constexpr int kRuns = 300;
  const auto golden = open_model(kFoldersOfGoldens / "deepseek-v4-tiny");
  ASSERT_TRUE(golden) << golden.error().message;
  const GgufBuilder drafts = v4_as_gguf(**golden, true);
  const Bytes bytes = drafts.bytes();
  const test::TempFolder folder{test::kInMemory};
  const auto model = folder.write("m.gguf", v4_as_gguf(**golden).bytes());
  Mutator mutator(20240505);
  Outcomes outcomes;
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    folder.write("mtp-m.gguf", mutator.mutate(bytes, bytes.size() - bytes_of_data(drafts)));
    outcomes.open(folder, model);
  }
  outcomes.expect_mixed();
}

TEST(Mutation, SafetensorsFilesOpenOrFailCleanly) {
  constexpr int kRuns = 2500;
  const test::TempFolder folder{test::kInMemory};
  Mutator mutator(20240503);
  Outcomes outcomes;
  const std::vector<HfBuilder> quantised = quantised_models();
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    const HfBuilder model =
        mutator.one_in(3)
            ? quantised[mutator.below(quantised.size())]
            : tiny_hf(mutator.one_in(3) ? with_experts(mutator.one_in(2) ? "mixtral" : "qwen3_moe")
                      : mutator.one_in(2) ? small("llama")
                                          : small("qwen2"));
    const std::string header = model.weights.header().dump();
    // Half of the headers keep a right length, so that what lies behind it is reached.
    const Bytes bytes = mutator.one_in(2)
                            ? model.weights.bytes(mutator.mutate_json(header))
                            : mutator.mutate(model.weights.bytes(header), header.size() + 8);
    folder.write("config.json", model.config.dump());
    folder.write("model.safetensors", bytes);
    outcomes.open(folder, folder.path());
  }
  outcomes.expect_mixed();
}

TEST(Mutation, JsonFilesOpenOrFailCleanly) {
  constexpr int kRuns = 2500;
  std::vector<HfBuilder> bases = {tiny_hf(small("llama")),
                                  tiny_hf(small("mistral")),
                                  tiny_hf(small("qwen2")),
                                  tiny_hf(small("qwen3")),
                                  tiny_hf(with_experts("mixtral")),
                                  tiny_hf(with_experts("qwen3_moe")),
                                  packed_model(),
                                  gptq_model(),
                                  fp8_model(),
                                  nvfp4_model(),
                                  modelopt_model()};
  bases[0].config["rope_scaling"] = {{"rope_type", "llama3"},
                                     {"factor", 8.0},
                                     {"low_freq_factor", 1.0},
                                     {"high_freq_factor", 4.0},
                                     {"original_max_position_embeddings", 64}};
  bases[1].config["sliding_window"] = 16;
  bases[2].config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  bases[3].config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000000.0}};
  bases[3].config["layer_types"] = nlohmann::json::array({"full_attention"});
  for (const Converted& how : kConverted) bases.push_back(golden_folder(how.folder));
  const std::string generation =
      R"({"eos_token_id": [1, 2], "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1})";
  const std::string tokenizer =
      R"({"chat_template": [{"name": "default", "template": "{{ messages }}"}], "eos": "x"})";

  const test::TempFolder folder{test::kInMemory};
  Mutator mutator(20240504);
  Outcomes outcomes;
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    const HfBuilder& base = bases[mutator.below(bases.size())];
    const std::string shard = "model-00001-of-00001.safetensors";
    nlohmann::json map;
    for (const auto& tensor : base.weights.tensors) map[tensor.name] = shard;
    std::string texts[] = {base.config.dump(), nlohmann::json{{"weight_map", map}}.dump(),
                           generation, tokenizer};
    std::string& text = texts[mutator.one_in(2) ? 0 : mutator.below(4)];
    text = mutator.mutate_json(text);
    folder.write("config.json", texts[0]);
    folder.write("model.safetensors.index.json", texts[1]);
    folder.write("generation_config.json", texts[2]);
    folder.write("tokenizer_config.json", texts[3]);
    folder.write(shard, base.weights.bytes());
    outcomes.open(folder, folder.path());
  }
  outcomes.expect_mixed();
}

// A configuration alone bounds little: it may speak of 1,024 layers, whose tensors have names.
TEST(Mutation, DescriptionsOpenOrFailCleanly) {
  constexpr int kRuns = 2500;
  constexpr std::size_t kMost = std::size_t{32} << 20U;
  const char* const folders[] = {"deepseek-v4-fp4-tiny", "deepseek-v32-tiny", "gpt-oss-tiny",
                                 "mistral4-tiny",        "qwen3-5-moe-tiny",  "lfm2-moe-tiny"};
  std::vector<std::string> bases = {packed_model().config.dump(), fp8_expert_model().config.dump()};
  for (const char* name : folders) bases.push_back(golden_folder(name).config.dump());
  const test::TempFolder folder{test::kInMemory};
  const std::filesystem::path file = folder.path() / "config.json";
  Mutator mutator(20240506);
  int good = 0;
  for (int run = 0; run < kRuns && !testing::Test::HasFatalFailure(); ++run) {
    folder.write("config.json", mutator.mutate_json(bases[mutator.below(bases.size())]));
    const AllocationWatch watch;
    const auto model = describe_model(run % 2 == 0 ? file : folder.path());
    EXPECT_LE(watch.total(), kMost);
    if (model) {
      ++good;
      continue;
    }
    const Error& error = model.error();
    ASSERT_NE(error.message.find("config.json"), std::string::npos) << error.message;
    ASSERT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    ASSERT_NE(error.kind, ErrorKind::kInternal) << error.message;
  }
  EXPECT_GT(good, kRuns / 25);
  EXPECT_LT(good, kRuns * 3 / 4);
}

// A vector of JSON numbers takes 16 bytes for two in the text, and doubles while it grows; a string
// takes 32 bytes for eight in the file.
TEST(Mutation, DensestFilesCostASmallMultiple) {
  std::string numbers = "[0";
  for (int i = 0; i < 100000; ++i) numbers += ",0";
  numbers += "]";
  {
    const test::TempFolder folder{test::kInMemory};
    HfBuilder model = tiny_hf(kSmall);
    model.write(folder);
    std::string config = model.config.dump();
    config.insert(1, "\"numbers\":" + numbers + ",");
    folder.write("config.json", config);
    Outcomes(16).open(folder, folder.path());
  }
  {
    const test::TempFolder folder{test::kInMemory};
    GgufBuilder model = tiny_gguf(kSmall);
    model.set_strings("tokenizer.ggml.tokens", std::vector<std::string>(100000));
    Outcomes(5).open(folder, folder.write("m.gguf", model.bytes()));
  }
  {
    // Two bytes of an expert give a view and its name.
    const test::TempFolder folder{test::kInMemory};
    TinyShape thin = with_experts("qwen3moe");
    thin.hidden = 1;
    thin.inner = 1;
    thin.experts = 1024;
    const auto path = folder.write("m.gguf", tiny_gguf(thin, kernels::DataType::kF16).bytes());
    Outcomes(20).open(folder, path);
    EXPECT_TRUE(open_model(path));
  }
}

TEST(AllocationWatchOf, SeesWhatIsAllocated) {
  const AllocationWatch watch;
  // Called by name, since a compiler may leave out allocations of new expressions.
  for (const std::size_t size : {800, 12345}) ::operator delete(::operator new(size));
  EXPECT_EQ(watch.largest(), 12345U);
  EXPECT_EQ(watch.total(), 13145U);
}

// What the file claims is never what is allocated.
TEST(Mutation, ClaimsOfTerabytesCostNothing) {
  const test::TempFolder folder{test::kInMemory};
  Outcomes outcomes;
  for (const GgufType element : {GgufType::kUint8, GgufType::kFloat32, GgufType::kString,
                                 GgufType::kArray, GgufType::kFloat64}) {
    for (const std::uint64_t count :
         {std::uint64_t{1} << 31U, std::uint64_t{1} << 40U, std::uint64_t{1} << 61U}) {
      GgufBuilder builder = tiny_gguf(kSmall);
      builder.set_raw("tokenizer.ggml.tokens", GgufType::kArray,
                      GgufBuilder::array_header(element, count));
      outcomes.open(folder, folder.write("m.gguf", builder.bytes()));
    }
  }
  for (const std::uint64_t count : {std::uint64_t{1} << 31U, std::uint64_t{1} << 60U}) {
    GgufBuilder builder = tiny_gguf(kSmall);
    builder.tensor_count = count;
    outcomes.open(folder, folder.write("m.gguf", builder.bytes()));
    builder.tensor_count.reset();
    builder.pair_count = count;
    outcomes.open(folder, folder.write("m.gguf", builder.bytes()));
  }
}

}  // namespace
}  // namespace dovetail::families
