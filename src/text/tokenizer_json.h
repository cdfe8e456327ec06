#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace dovetail::text {

// A tokenizer from the texts of tokenizer.json and tokenizer_config.json (may be empty).
Result<std::shared_ptr<const Tokenizer::Impl>> read_json_tokenizer(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json);

}  // namespace dovetail::text
