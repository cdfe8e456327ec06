#include "text/golden_tokenizers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/places.h"

namespace dovetail::text::testing {
namespace {

const std::string kFolder = test::source_dir() + "/tests/golden/tokenizers/";

}  // namespace

std::string decode_base64(std::string_view text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6U) | static_cast<unsigned>(kDigits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFFU));
    }
  }
  return out;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> golden_strings() {
  std::vector<std::string> strings;
  for (const auto& text : nlohmann::json::parse(read_file(kFolder + "strings.json"))) {
    strings.push_back(decode_base64(text.get<std::string>()));
  }
  return strings;
}

nlohmann::json golden_unigrams() {
  return nlohmann::json::parse(read_file(kFolder + "unigrams.json"));
}

nlohmann::json golden_pairs() { return nlohmann::json::parse(read_file(kFolder + "pairs.json")); }
nlohmann::json golden_splits() { return nlohmann::json::parse(read_file(kFolder + "splits.json")); }

std::string golden_json(std::string_view name) {
  return read_file(kFolder + std::string(name) + "/tokenizer.json");
}

GoldenTokenizer load_golden(std::string_view name) {
  std::string json = golden_json(name);
  auto tokenizer = Tokenizer::from_json(json, "");
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return {std::move(json),
          nlohmann::json::parse(read_file(kFolder + std::string(name) + "/cases.json")),
          std::move(*tokenizer)};
}

load::GgufTokenizer to_gguf(const nlohmann::json& tokenizer_json, std::string_view pre) {
  load::GgufTokenizer out;
  out.model = "gpt2";
  out.pre = pre;
  const auto put = [&](const std::string& token, std::size_t id, std::int32_t type) {
    if (id >= out.tokens.size()) {
      out.tokens.resize(id + 1);
      out.token_types.resize(id + 1, 5);
    }
    out.tokens[id] = token;
    out.token_types[id] = type;
  };
  const auto& model = tokenizer_json.at("model");
  for (const auto& [token, id] : model.at("vocab").items()) put(token, id.get<std::size_t>(), 1);
  for (const auto& token : tokenizer_json.at("added_tokens")) {
    put(token.at("content").get<std::string>(), token.at("id").get<std::size_t>(),
        token.at("special").get<bool>() ? 3 : 4);
  }
  for (const auto& merge : model.value("merges", nlohmann::json::array())) {
    out.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return out;
}

load::GgufTokenizer to_gguf_wordpiece(const nlohmann::json& tokenizer_json) {
  auto out = to_gguf(tokenizer_json, "bert-bge");
  out.model = "bert";
  const auto id = [&](const char* token) {
    return tokenizer_json.at("model").at("vocab").at(token).get<std::int32_t>();
  };
  out.unknown = id("[UNK]");
  out.cls = id("[CLS]");
  out.separator = id("[SEP]");
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    if (out.token_types[i] != 1) continue;
    std::string& token = out.tokens[i];
    token = token.starts_with("##") ? token.substr(2) : "\xE2\x96\x81" + token;
  }
  return out;
}

load::GgufTokenizer to_gguf_marked(const nlohmann::json& tokenizer_json) {
  auto out = to_gguf(tokenizer_json, "");
  out.model = "gemma4";
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const std::string& token = out.tokens[i];
    if (token.size() == 6 && token.starts_with("<0x")) out.token_types[i] = 6;
  }
  return out;
}

load::GgufTokenizer to_gguf_unigram(const nlohmann::json& model) {
  load::GgufTokenizer out;
  out.model = "t5";
  for (const auto& piece : model.at("pieces")) {
    out.tokens.push_back(piece[0].get<std::string>());
    out.scores.push_back(piece[1].get<float>());
    out.token_types.push_back(piece[2].get<std::int32_t>());
  }
  out.unknown = 0;
  out.bos = 1;
  out.eos = 2;
  out.charsmap = decode_base64(model.at("charsmap").get<std::string>());
  out.remove_extra_whitespaces = model.at("remove_extra_whitespaces").get<bool>();
  out.add_space_prefix = model.at("add_dummy_prefix").get<bool>();
  return out;
}

}  // namespace dovetail::text::testing
