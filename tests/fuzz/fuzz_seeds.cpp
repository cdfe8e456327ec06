#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "families/converted_models.h"
#include "families/open_model.h"
#include "fuzz/dialog_seeds.h"
#include "load/gguf_builder.h"
#include "load/quantised_builder.h"
#include "load/safetensors_builder.h"
#include "support/places.h"

namespace {

void write(const std::filesystem::path& path, const dovetail::load::Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

// config.json, a zero byte, model.safetensors: what fuzz_safetensors takes.
void write_folder(const std::filesystem::path& path, const dovetail::load::HfBuilder& model) {
  using namespace dovetail::load;
  Bytes bytes;
  append_text(bytes, model.config.dump());
  bytes.push_back(std::byte{0});
  const Bytes weights = model.weights.bytes();
  append_raw(bytes, weights.data(), weights.size());
  write(path, bytes);
}

// The golden models of families that have no builder, as folders and as GGUF files.
void write_goldens(const std::filesystem::path& folder) {
  using namespace dovetail;
  const std::filesystem::path goldens =
      std::filesystem::path(test::source_dir()) / "tests/golden/models";
  for (const families::Converted& how : families::kConverted) {
    const auto model = families::open_model(goldens / how.folder);
    if (!model) continue;  // the tests say so
    write(folder / "gguf" / how.folder, families::Converter(**model, how).convert().bytes());
    load::Bytes bytes;
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::ifstream in(goldens / how.folder / name, std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(in), {});
      if (!bytes.empty()) bytes.push_back(std::byte{0});
      load::append_text(bytes, text);
    }
    write(folder / "safetensors" / how.folder, bytes);
  }
}

// The tests' pipeline files, and the schema of such files with one of them as its value.
void write_pipelines(const std::filesystem::path& folder) {
  const std::filesystem::path source = dovetail::test::source_dir();
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

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_text(const std::filesystem::path& folder, std::string_view name, std::string_view text) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << text;
}

// The goldens' templates and small tokenizers.
void write_texts(const std::filesystem::path& folder) {
  const std::filesystem::path source = dovetail::test::source_dir();
  for (const auto& file : std::filesystem::directory_iterator(source / "tools/golden/templates")) {
    write_text(folder / "chat_template", file.path().filename().string(),
               text_of_file(file.path()));
  }
  constexpr std::size_t kLargest = 20000;
  constexpr std::string_view kText = "Hé, 12 wörds\n";
  for (const auto& entry :
       std::filesystem::directory_iterator(source / "tests/golden/tokenizers")) {
    const std::string text = text_of_file(entry.path() / "tokenizer.json");
    if (text.empty() || text.size() > kLargest) continue;
    write_text(folder / "tokenizer", entry.path().filename().string(),
               static_cast<char>(kText.size()) + text + std::string(kText));
  }
}

// One body for each route, one grammar of each kind (the first byte chooses), structures of all
// parts, histories of the scheduler of a few operations.
void write_bytes(const std::filesystem::path& folder) {
  using namespace std::string_view_literals;
  constexpr std::string_view kBodies[] = {
      "\0{\"prompt\":[\"ab\",[1,2]],\"max_tokens\":4,\"n\":2,\"stop\":[\"x\"],\"logprobs\":2,"
      "\"temperature\":0.5,\"seed\":-1,\"stream\":true,\"logit_bias\":{\"7\":-100}}"sv,
      "\1{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],"
      "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\","
      "\"schema\":{\"type\":\"object\"}}},\"timeout\":2,\"chat_template_kwargs\":{\"a\":1}}"sv,
      "\1{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\\\\\\ud83d\\ude00\"}]}"sv,
      "\2{\"input\":[\"ab\",\"c\"],\"encoding_format\":\"base64\",\"dimensions\":null}"sv,
      "\3{\"query\":\"ab\",\"documents\":[\"c\",{\"text\":\"de\"}],\"top_n\":1}"sv,
      "\4{\"content\":\"caf\\u00e9\",\"add_special\":true,\"parse_special\":false}"sv,
      "\5{\"tokens\":[1,2,255],\"skip_special\":true}"sv,
      "\12{\"prompt\":[[97,\"b\"],\"c\",{\"prompt_string\":\"d\"}],\"n_predict\":-1,"
      "\"logit_bias\":[[97,1],[\"b\",false]],\"samplers\":[\"top_k\"],\"n_probs\":2,"
      "\"repeat_last_n\":0,\"json_schema\":{},\"response_fields\":[\"a/b\"],\"n_indent\":1}"sv,
      "\13{\"input_prefix\":\"ab\",\"input_suffix\":[99],\"prompt\":\"d\",\"n_predict\":0,"
      "\"input_extra\":[{\"filename\":\"f\",\"text\":\"t\",\"time\":[1]}]}"sv};
  constexpr std::string_view kGrammars[] = {
      "\0(a|bc){2,3}[^x-z\\d]*\\w+(?:é|\\u0041)?"sv,
      "\1{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-3},"
      "\"b\":{\"enum\":[1,\"x\",null]}},\"required\":[\"a\"],\"additionalProperties\":false}"sv,
      "\1{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"},\"maxItems\":3,"
      "\"$defs\":{\"t\":{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":5}}}"sv,
      "\1{\"uniqueItems\":true,\"items\":{\"enum\":[1,true,\"a\"]},\"minItems\":1}"sv,
      "\2{\"minProperties\":1,\"propertyNames\":{\"maxLength\":2},\"if\":{},\"multipleOf\":0.25}"sv};
  constexpr std::string_view kGbnf[] = {
      R"(root ::= v # any
v ::= "<" [a-c^\n]{1,3} (v | w)* ">"
w ::= " " w?)",
      R"(root ::= ("a" | b)+ "=" [^\x00-\x1f\u00e9]{2,}
b ::= "[" (b ("," b)*)? "]" | "\""
)"};
  constexpr std::string_view kStructures[] = {
      R"({"sequence":[{"free":[{"literal":"<t>"}]},{"optional":{"sequence":[{"literal":"<t>"},
          {"schema":{"type":"object","properties":{"a":{"type":"integer"}}}},
          {"literal":"</t>"}]}}]})",
      R"({"repeat":{"sequence":[{"token":"<|a|>"},{"regex":"[a-z]{1,4}"},{"token":"<|b|>"}]},
          "min":1,"max":3})",
      R"({"choice":[{"schema":{"$defs":{"x":{"enum":[true,null]}},"items":{"$ref":"#/$defs/x"}},
          "at":"/items","spelling":"python"},
          {"raw":{"type":"string","maxLength":9},"without":[{"literal":"</v>"}]}]})",
      R"({"schema":{"type":"array","items":{"type":"number","multipleOf":0.5},"contains":1},
          "lenient":true})"};
  int number = 0;
  for (const auto body : kBodies)
    write_text(folder / "http_request", std::to_string(number++), body);
  for (const auto grammar : kGrammars)
    write_text(folder / "grammar", std::to_string(number++), grammar);
  for (const auto text : kGbnf) write_text(folder / "gbnf", std::to_string(number++), text);
  for (const auto structure : kStructures)
    write_text(folder / "structure", std::to_string(number++), structure);
  for (const auto& seed : dovetail::fuzz::dialog_seeds())
    write_text(folder / "dialog", std::to_string(number++), seed);
  for (const auto& seed : dovetail::fuzz::dialog_plan_seeds())
    write_text(folder / "dialog_plan", std::to_string(number++), seed);
  for (unsigned char seed = 1; seed <= 4; ++seed) {
    std::string history;
    for (unsigned i = 0; i < 120; ++i) history += static_cast<char>(i * (2 * seed + 1) + i * i / 7);
    write_text(folder / "schedule", std::to_string(number++), history);
  }
}

}  // namespace

// Writes small valid inputs of every fuzz target, for them to begin with.
int main(int argc, char** argv) {
  using namespace dovetail::load;
  // No option is known, `--help` included: a folder is not made for one.
  if (argc != 2 || argv[1][0] == '-') {
    std::fputs("usage: fuzz_seeds FOLDER (./-x for one that begins with a dash)\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder / "gguf");
  std::filesystem::create_directories(folder / "safetensors");
  int quantised = 0;
  write_goldens(folder);
  write_pipelines(folder);
  write_texts(folder);
  write_bytes(folder);
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
    write_folder(folder / "safetensors" / hugging_face, tiny_hf(shape));
  }
  for (const std::uint32_t experts : {0U, 2U}) {
    GgufBuilder scaled = tiny_gguf({.vocabulary = 8,
                                    .hidden = 64,
                                    .inner = 64,
                                    .layers = 1,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .head_dim = 32,
                                    .experts = experts},
                                   dovetail::kernels::DataType::kNVFP4);
    scaled.add_scales("blk.0.attn_q.scale", {0.5F});
    scaled.add_scales("blk.0.attn_q.input_scale", {2.0F});
    if (experts > 0) scaled.add_scales("blk.0.ffn_up_exps.scale", {0.5F, 0.25F});
    write(folder / "gguf" / fmt::format("scaled{}", experts), scaled.bytes());
  }
  for (const HfBuilder& model : quantised_models()) {
    write_folder(folder / "safetensors" / fmt::format("quantised{}", ++quantised), model);
  }
}
