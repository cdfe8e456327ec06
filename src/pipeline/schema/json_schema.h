#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::pipeline {

struct SchemaProgram;

// A JSON schema (2020-12) that values are checked against. All that it says is checked: a keyword
// that is unknown or cannot be, and a schema that nothing can fit, are errors. Immutable; copies
// share; may be used from several threads at once.
//
// Checked: type, enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf,
// minLength, maxLength, pattern, format (see format.h), minItems, maxItems, uniqueItems, items,
// prefixItems, contains, minContains, maxContains, properties, patternProperties,
// additionalProperties, propertyNames, required, minProperties, maxProperties, dependentRequired,
// dependentSchemas, allOf, anyOf, oneOf, not, if, then, else, and $ref within the schema. Read
// over: title, description, default, examples, deprecated, readOnly, writeOnly, $comment, $schema,
// $defs and definitions, and $id at the top.
class JsonSchema {
 public:
  // `pointer` is the schema's place in its document. An error has a line for each mistake, which
  // begins with the pointer of the keyword, "POINTER: "; it is kInvalid (kUnsupported where the
  // first one is a keyword that nothing here checks). What nothing can fit is looked for where all
  // keywords are right.
  static Result<JsonSchema> compile(const nlohmann::ordered_json& schema, std::string_view pointer);

  // kInvalid: where in the value something does not fit, what it is and what would; one line, for
  // whoever made the value. kExhausted: the value takes too many steps, or nests too deep.
  Status check(const nlohmann::ordered_json& value) const;

  const nlohmann::ordered_json& source() const;

 private:
  JsonSchema() = default;
  std::shared_ptr<const SchemaProgram> program_;
};

}  // namespace dovetail::pipeline
