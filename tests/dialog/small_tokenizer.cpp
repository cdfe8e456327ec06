#include "dialog/small_tokenizer.h"

#include <nlohmann/json.hpp>

namespace dovetail::dialog::test {

text::Tokenizer characters_and(const std::vector<std::string>& control_tokens) {
  nlohmann::json json = nlohmann::json::parse(R"({"added_tokens":[],"normalizer":null,
      "pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Fuse"},
      "model":{"type":"BPE","vocab":{},"merges":[]}})");
  int id = 0;
  for (char c = ' '; c <= '~'; ++c) json["model"]["vocab"][std::string(1, c)] = id++;
  json["model"]["vocab"]["\n"] = id++;
  for (const std::string& token : control_tokens) {
    json["added_tokens"].push_back(
        {{"id", id++}, {"content", token}, {"special", true}, {"normalized", false}});
  }
  return text::Tokenizer::from_json(json.dump(), "").value();
}

}  // namespace dovetail::dialog::test
