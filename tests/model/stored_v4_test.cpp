// DeepSeek-V4 as its makers store it, in FP8 and FP4 (tools/golden/make_v4.py --stored): beside
// NumPy, and beside the same numbers in compressed-tensors' storage.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "load/mapped_file.h"
#include "load/model_source.h"
#include "load/safetensors.h"
#include "load/safetensors_builder.h"
#include "load/stored_parts.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/golden_rows.h"
#include "model/unpacked.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::model::stored_v4 {
namespace {

namespace fs = std::filesystem;

using kernels::DataType;
using nlohmann::json;
using Source = std::shared_ptr<const load::ModelSource>;

const fs::path kPublished =
    fs::path(test::source_dir()) / "tests/golden/models/deepseek-v4-fp4-tiny";

json read_json(const fs::path& path) { return json::parse(std::ifstream(path)); }

// Of every position.
std::vector<float> logits_of(const Source& source, const kernels::Kernels& kernels,
                             const std::vector<std::int32_t>& tokens) {
  cores::Executor executor(cores::Topology::of_lanes(2), {});
  ModelRunner model(source, kernels, executor);
  const Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF32), 16);
  std::vector<std::uint32_t> table(16);
  std::iota(table.begin(), table.end(), 0U);
  const auto rows = static_cast<std::uint32_t>(tokens.size());
  std::vector<float> logits(std::size_t{rows} * model.config().vocab_size);
  const Segment segment{tokens, 0, table, rows};
  model.forward(std::span(&segment, 1), cache, logits);
  return logits;
}

TEST(StoredV4, TypesAreThoseOfTheFiles) {
  const Source source = *families::open_model(kPublished);
  ASSERT_TRUE(source->config.draft_layer);
  std::map<DataType, std::size_t> counts;
  for (const auto& [name, tensor] : source->tensors) ++counts[tensor.type];
  // Of 3 layers: 4 experts of 3 matrices; 8 others and 2 for the streams, and the indexer's.
  EXPECT_EQ(counts[DataType::kMXFP4], 3U * 4 * 3);
  EXPECT_EQ(counts[DataType::kFP8_E4M3], 3U * 8 + 2 + 1);
  EXPECT_EQ(source->tensors.at("blk.1.ffn_up.3.weight").type, DataType::kMXFP4);
  EXPECT_EQ(source->tensors.at("blk.2.nextn.h_proj.weight").type, DataType::kFP8_E4M3);
  EXPECT_EQ(source->tensors.at("blk.1.compress_kv.weight").type, DataType::kBF16);
  EXPECT_EQ(source->tensors.at("blk.0.hc_attn.fn").type, DataType::kF32);
}

// Products with FP4 round activations to 8 bits, those with FP8 do not: the first are floats here.
TEST(StoredV4, LogitsAgreeWithNumpy) {
  const Source source = unpacked(*families::open_model(kPublished),
                                 [](DataType type) { return type == DataType::kMXFP4; });
  ASSERT_EQ(source->tensors.at("blk.1.attn_q_a.weight").type, DataType::kFP8_E4M3);
  const std::size_t vocabulary = source->config.vocab_size;
  const json golden = read_json(kPublished / "golden.json");
  std::vector<std::vector<float>> of_prompts;
  for (const json& prompt : golden["prompts"]) {
    of_prompts.push_back(logits_of(source, *kernels::find_kernels("portable"),
                                   prompt.get<std::vector<std::int32_t>>()));
  }
  test::expect_golden_rows(golden, vocabulary, of_prompts);
}

// The same codes and scales, by the names and dtypes of compressed-tensors.
void write_as_compressed(const test::TempFolder& folder) {
  const auto file = *load::MappedFile::open(kPublished / "model.safetensors");
  const auto tensors = *load::parse_safetensors(file->bytes(), "model.safetensors");
  std::set<std::string> of_fp4;
  for (const load::SafetensorsTensor& tensor : tensors) {
    if (tensor.stored_type == "I8")
      of_fp4.insert(tensor.name.substr(0, tensor.name.size() - std::string(".weight").size()));
  }
  load::HfBuilder out;
  for (const load::SafetensorsTensor& tensor : tensors) {
    load::SafetensorsBuilder::Tensor to = {tensor.name, std::string(tensor.stored_type),
                                           tensor.shape,
                                           load::Bytes(tensor.data.begin(), tensor.data.end())};
    if (tensor.stored_type == "I8") {
      to.name += "_packed";
      to.dtype = "U8";
    } else if (tensor.stored_type == "F8_E8M0") {
      const std::string stem = to.name.substr(0, to.name.size() - std::string(".scale").size());
      to.name = stem + ".weight_scale";
      to.dtype = "U8";
      if (!of_fp4.contains(stem)) {
        to.dtype = "F32";
        to.data.clear();
        for (const std::byte exponent : tensor.data)
          load::append_number(to.data, std::ldexp(1.0F, std::to_integer<int>(exponent) - 127));
      }
    }
    out.weights.tensors.push_back(std::move(to));
  }
  out.config = read_json(kPublished / "config.json");
  out.config.erase("expert_dtype");
  out.config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "mixed-precision"},
      {"config_groups",
       {{"group_0",
         {{"weights",
           {{"num_bits", 8},
            {"type", "float"},
            {"strategy", "block"},
            {"block_structure", {128, 128}}}}}},
        {"group_1", {{"weights", {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}}}}}}}};
  out.write(folder);
}

std::vector<std::byte> rows_of(const load::TensorView& tensor) {
  std::vector<std::byte> rows(tensor.data.begin(), tensor.data.end());
  if (!tensor.parts) return rows;
  rows.resize(tensor.bytes());
  load::write_rows(*tensor.parts, 0, tensor.rows, rows.data());
  return rows;
}

TEST(StoredV4, IsTheSameInAnotherStorage) {
  const Source source = *families::open_model(kPublished);
  test::TempFolder folder{test::kInMemory};
  write_as_compressed(folder);
  const auto opened = families::open_model(folder.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const Source other = *opened;
  EXPECT_EQ(other->config.layers, source->config.layers);
  ASSERT_EQ(other->tensors.size(), source->tensors.size());
  for (const auto& [name, tensor] : source->tensors) {
    const load::TensorView& same = other->tensors.at(name);
    EXPECT_EQ(same.type, tensor.type) << name;
    EXPECT_TRUE(rows_of(same) == rows_of(tensor)) << name;
  }
  const json golden = read_json(kPublished / "golden.json");
  const auto prompt = golden["prompts"].back().get<std::vector<std::int32_t>>();
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    EXPECT_EQ(logits_of(source, *kernels, prompt), logits_of(other, *kernels, prompt))
        << kernels->name;
  }
}

}  // namespace
}  // namespace dovetail::model::stored_v4
