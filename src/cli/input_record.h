#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "dovetail/request.h"

namespace dovetail::cli {

// One line of an input file, ready to be submitted.
struct InputRecord {
  std::size_t index = 0;              // of the record in the file, from 0
  Json id;                            // a string or an integer; null: none
  Json metadata;                      // handed through; null: none
  std::optional<std::string> expect;  // the text that the answer should be
  Request request;
};

// What lines are read against.
struct RecordContext {
  Request defaults;  // for what a line leaves out; its seed, if any, is that of record 0
  // The tokens of a text, and of a chat.
  std::function<std::vector<TokenId>(const std::string& text)> encode;
  std::function<Result<std::vector<TokenId>>(const Json& messages)> encode_chat;
  // Sets what depends on a request's prompt: how long its answer may reason.
  std::function<void(Request&)> bound;
  std::string system;  // goes before a prompt as a system message, with `chat`
  bool chat = false;   // "prompt" is a user's message, not plain text
};

// Reads a line: an object with exactly one of "prompt" (a text, or an array of token ids) and
// "messages", and any of id, metadata, expect and the fields of Request in the API's names. null
// stands for "not given". The seed of record i is the default seed plus i. kInvalid names the
// field, its value and what would be valid; ranges that depend on the model are not checked.
Result<InputRecord> read_record(std::string_view line, std::size_t index,
                                const RecordContext& context);

// A prompt's tokens: those of the text, or with `chat` those of a chat with it.
Result<std::vector<TokenId>> encode_prompt(const std::string& prompt, const RecordContext& context);

}  // namespace dovetail::cli
