#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::text::testing {

// The folders of tests/golden/tokenizers, made by tools/golden/make_tokenizers.py.
struct GoldenTokenizer {
  std::string json;      // tokenizer.json
  nlohmann::json cases;  // what the library makes of golden_strings() and of random ids
  Tokenizer tokenizer;
};

std::vector<std::string> golden_names();
std::vector<std::string> golden_strings();
std::string decode_base64(std::string_view text);
nlohmann::json golden_unigrams();  // of tools/golden/make_unigrams.py
nlohmann::json golden_splits();    // of tools/golden/make_splits.py
nlohmann::json golden_pairs();     // of tools/golden/make_pairs.py
std::string read_file(const std::string& path);
std::string golden_json(std::string_view name);
GoldenTokenizer load_golden(std::string_view name);

// The GGUF metadata that a converter would write for a byte-level tokenizer.json.
load::GgufTokenizer to_gguf(const nlohmann::json& tokenizer_json, std::string_view pre);
// The same of a tokenizer.json with WordPiece: U+2581 before tokens that begin a word, others bare.
load::GgufTokenizer to_gguf_wordpiece(const nlohmann::json& tokenizer_json);
// The same of one with BPE over text with marks for spaces: the tokens <0xNN> are bytes.
load::GgufTokenizer to_gguf_marked(const nlohmann::json& tokenizer_json);
// The metadata of one of golden_unigrams().
load::GgufTokenizer to_gguf_unigram(const nlohmann::json& model);

}  // namespace dovetail::text::testing
