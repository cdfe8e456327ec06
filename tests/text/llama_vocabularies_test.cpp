#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "load/gguf.h"
#include "load/gguf_container.h"
#include "load/mapped_file.h"
#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"

namespace dovetail::text {
namespace {

using testing::read_file;

// The texts of NAME.gguf.inp and the ids of NAME.gguf.out, which the models' own tokenizers gave.
struct VocabularyCases {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
};

VocabularyCases read_cases(const std::string& path) {
  VocabularyCases out;
  const std::string inputs = read_file(path + ".inp");
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  for (std::size_t at = 0; at < inputs.size();) {
    const std::size_t end = std::min(inputs.find(kBetween, at), inputs.size());
    out.texts.push_back(inputs.substr(at, end - at));
    at = end + kBetween.size();
  }
  std::istringstream outputs(read_file(path + ".out"));
  for (std::string line; std::getline(outputs, line);) {
    std::istringstream numbers(line);
    auto& ids = out.ids.emplace_back();
    for (TokenId id = 0; numbers >> id;) ids.push_back(id);
  }
  return out;
}

Result<Tokenizer> open_vocabulary(const std::string& path) {
  const auto file = load::MappedFile::open(path);
  if (!file) return fail(file.error());
  const auto gguf = load::parse_gguf((*file)->bytes(), path);
  if (!gguf) return fail(gguf.error());
  constexpr std::uint32_t kAnySize = 0xFFFFFFFFU;
  const auto data = load::parse_gguf_tokenizer(*gguf, kAnySize, path);
  if (!data) return fail(data.error());
  if (!*data) return fail(ErrorKind::kNotFound, "{}: no tokenizer", path);
  return Tokenizer::from_gguf(**data);
}

// llama.cpp's test vocabularies, which are not ours to carry: tools/golden/check_vocabularies.py
// names the folder and reads the lines that are printed here.
TEST(LlamaVocabularies, GiveTheIdsOfTheModelsTokenizers) {
  const char* folder = std::getenv("DOVETAIL_LLAMA_VOCABULARIES");
  if (folder == nullptr) GTEST_SKIP() << "no DOVETAIL_LLAMA_VOCABULARIES";
  int compared = 0;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    const auto name = path.stem().string();
    const auto tokenizer = open_vocabulary(path);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    if (!tokenizer) continue;
    if (!std::filesystem::exists(path.string() + ".inp")) {
      fmt::print("vocabulary {}: loads, no cases\n", name);
      continue;
    }
    const VocabularyCases cases = read_cases(path);
    EXPECT_EQ(cases.texts.size(), cases.ids.size());
    std::size_t right = 0;
    for (std::size_t i = 0; i < cases.texts.size() && i < cases.ids.size(); ++i) {
      const auto ids = tokenizer->encode(cases.texts[i], {.add_special = false});
      EXPECT_EQ(ids, cases.ids[i]) << name << ", text " << i << ": " << cases.texts[i];
      if (ids == cases.ids[i]) ++right;
    }
    fmt::print("vocabulary {}: {} of {}\n", name, right, cases.texts.size());
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace dovetail::text
