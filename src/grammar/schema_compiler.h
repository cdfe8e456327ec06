#pragma once

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/schema_reader.h"

namespace dovetail::grammar {

// The automaton of a schema's instances; errors as for Grammar::from_json_schema().
Result<Automaton> compile_schema(const Json& schema, const SchemaOptions& options,
                                 StopFlag stop = nullptr);

// Checks that no value can satisfy two branches of the given oneOf; an error that names them if
// that cannot be shown.
Status check_one_of(SchemaReader& reader, const SchemaRef& one_of, Work& work);

}  // namespace dovetail::grammar
