#pragma once

#include "base/result.h"
#include "text/decoder.h"
#include "text/json_node.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace dovetail::text {

// The members of tokenizer.json of these names; null gives a stage that does nothing (for the
// decoder: tokens with spaces between). A type that is not supported is an error with its path.
Result<Normalizer> read_normalizer(const JsonNode& node);
Result<PreTokenizer> read_pre_tokenizer(const JsonNode& node);
Result<Decoder> read_decoder(const JsonNode& node);

}  // namespace dovetail::text
