#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/schema_reader.h"

namespace dovetail::grammar {

// A member that is named by the schema.
struct NamedMember {
  std::string name;
  bool required = false;
  std::vector<SchemaRef> value;  // all must hold
};

// Members by the language of their names.
struct OtherMembers {
  std::optional<Automaton> names;  // whole JSON strings; none: any string
  std::vector<SchemaRef> value;
};

// The members that objects of a bundle may have.
struct Members {
  std::vector<NamedMember> named;  // in order: as first named in "properties", then in "required"
  std::vector<OtherMembers> others;
};

// Errors: names that two patterns of patternProperties may match; patterns that are not supported.
Result<Members> read_members(const Bundle& bundle, const SchemaOptions& options, Work& work);

}  // namespace dovetail::grammar
