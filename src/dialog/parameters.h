#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "dialog/tool.h"

namespace dovetail::dialog {

// Whether the instances of a schema are strings.
enum class Strings : std::uint8_t { kNone, kOnly, kSome };

// A parameter of a tool, where parameters are written one by one.
struct Parameter {
  std::string name;
  std::string at;  // a JSON pointer into the tool's schema
  Strings strings = Strings::kSome;
  bool required = false;
};

// Types in capitals, as in Gemini's API, become those of JSON schemas: in lenient schemas grammars
// read both.
void lower_types(Json& schema);

// Whether all of a "type" are types (in small letters).
bool are_types(const Json& type);

// Whether a tool's schema has no parameters, so that the arguments are an empty object.
bool takes_nothing(const Json& parameters);

// The parameters in the order of `properties`. Errors: kUnsupported, for a schema that says more
// than which properties there are and which are required.
Result<std::vector<Parameter>> list_parameters(const Tool& tool);

Strings strings_of(const Json& document, const Json& schema);

// Whether all strings are instances; false where that is not clear.
bool takes_any_string(const Json& document, const Json& schema);

// The values of a parameter that are no strings, as a schema.
Json without_strings(const Json& schema);

// Whether a text is the JSON of an instance that is no string. Of the keywords, those that a
// grammar knows count.
bool is_other_value(const Json& document, const Json& schema, std::string_view text);

// What stands in a document at a pointer that does; null: nothing.
const Json* value_at(const Json& document, std::string_view pointer);

// A name as a part of a JSON pointer.
std::string pointer_part(std::string_view name);

// A small document that holds the schema at `at` and all that it may refer to.
Json document_of(const Json& document, const std::string& at);

}  // namespace dovetail::dialog
