#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "load/gguf_builder.h"
#include "load/safetensors_builder.h"

namespace {

void write(const std::filesystem::path& path, const dovetail::load::Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

// The tests' pipeline files, and the schema of such files with one of them as its value.
void write_pipelines(const std::filesystem::path& folder) {
  const std::filesystem::path source = DOVETAIL_SOURCE_DIR;
  std::filesystem::create_directories(folder / "pipeline");
  for (const char* name : {"every_key.yaml", "target.yaml"}) {
    std::filesystem::copy_file(source / "tests/pipeline/config/files" / name,
                               folder / "pipeline" / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::filesystem::create_directories(folder / "json_schema");
  const std::pair<const char*, const char*> schemas[] = {
      {R"({"type":"object","required":["a"],"properties":{"a":{"minimum":1}}})", R"({"a":2})"},
      {R"({"$ref":"#/$defs/t","$defs":{"t":{"items":{"$ref":"#/$defs/t"}}}})", "[[],[[]]]"},
      {R"({"anyOf":[{"pattern":"^a+$"},{"not":{"enum":[1]}}],"uniqueItems":true})", R"("aab")"},
  };
  int number = 0;
  for (const auto& [schema, value] : schemas) {
    std::ofstream out(folder / "json_schema" / std::to_string(number++), std::ios::binary);
    out << schema << '\0' << value;
  }
}

}  // namespace

// Writes small valid models and pipelines for the fuzz targets to begin with.
int main(int argc, char** argv) {
  using namespace dovetail::load;
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder / "gguf");
  std::filesystem::create_directories(folder / "safetensors");
  write_pipelines(folder);
  struct Seed {
    std::string gguf;
    std::string hugging_face;
    std::uint32_t experts;
    bool split;
  };
  for (const auto& [gguf, hugging_face, experts, split] :
       {Seed{"llama", "llama", 0, false}, Seed{"mistral", "mistral", 0, false},
        Seed{"qwen2", "qwen2", 0, false}, Seed{"qwen3", "qwen3", 0, false},
        Seed{"llama", "mixtral", 3, true}, Seed{"qwen3moe", "qwen3_moe", 3, false}}) {
    TinyShape shape{.architecture = gguf,
                    .vocabulary = 8,
                    .hidden = 8,
                    .inner = 8,
                    .layers = 1,
                    .heads = 2,
                    .kv_heads = 1,
                    .head_dim = 4,
                    .experts = experts,
                    .split_experts = split};
    shape.attention_bias = shape.architecture == "qwen2";
    shape.qk_norm = shape.architecture.starts_with("qwen3");
    write(folder / "gguf" / hugging_face, tiny_gguf(shape).bytes());
    shape.architecture = hugging_face;
    const HfBuilder model = tiny_hf(shape);
    Bytes bytes;
    append_text(bytes, model.config.dump());
    bytes.push_back(std::byte{0});
    const Bytes weights = model.weights.bytes();
    append_raw(bytes, weights.data(), weights.size());
    write(folder / "safetensors" / hugging_face, bytes);
  }
}
