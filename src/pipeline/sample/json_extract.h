#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

enum class JsonWanted { kAny, kObject, kArray };

struct JsonExtractOptions {
  JsonWanted wanted = JsonWanted::kAny;
  bool repair = true;  // whether the mistakes below are mended, or refused
};

struct ExtractedJson {
  nlohmann::ordered_json value;
  // What was mended, each kind once, in words: "trailing comma", "single quotes", ... Empty where
  // the text was JSON (RFC 8259) already.
  std::vector<std::string> repairs;
};

// The first JSON value in an answer: the content of a fenced code block labelled json (or not
// labelled), else the first object or array in the text, else the whole text where it is one value.
// Mends trailing and missing commas, single and typographic quotes, unquoted keys, line ends and
// tabs within strings, invalid escapes, Python's True, False and None, NaN and infinities (as
// null), comments, numbers such as .5, +1 and 1., and brackets and quotes that are missing at the
// end of the text. Values nested more than 64 deep are refused; time is linear in the text but for
// a bounded number of fresh starts. kInvalid with the reason, and its place in the text, where
// there is nothing.
Result<ExtractedJson> extract_json(std::string_view answer, const JsonExtractOptions& options = {});

}  // namespace dovetail::pipeline
