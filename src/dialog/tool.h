#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace dovetail::dialog {

// A function that a model may call.
struct Tool {
  std::string name;
  std::string description;
  Json parameters;  // a JSON schema of an object; null: no parameters
  // Whether a keyword of the schema that cannot be kept is an error; else it is left out.
  bool strict = true;
  // Of the schema, as messages and what is left out name it; empty: unnamed.
  std::string place = {};
};

enum class ToolChoice : std::uint8_t {
  kNone,      // no call
  kAuto,      // content, calls, or content and then calls
  kRequired,  // calls alone
};

// What the content of an answer must be, as GrammarKind and its text are (dovetail/request.h).
struct ContentForm {
  enum class Kind : std::uint8_t { kJsonSchema, kRegex, kJsonObject };
  Kind kind = Kind::kJsonObject;
  std::string text;
  // As Tool's, of a schema.
  bool strict = true;
  std::string place = {};
};

// What one request asks of an answer.
struct AnswerRequest {
  std::vector<Tool> tools;  // that may be called: of a named choice, that one
  ToolChoice choice = ToolChoice::kNone;
  bool parallel = true;                // more than one call
  std::optional<ContentForm> content;  // not set: any text
  // Whether the prompt ends within the reasoning (the template opened it).
  bool reasoning_opened = false;
};

}  // namespace dovetail::dialog
