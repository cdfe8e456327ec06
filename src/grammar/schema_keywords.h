#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_reader.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// Whether a keyword says something of the instance by itself. Annotations, definitions and what
// SchemaReader follows do not, nor does a keyword that is not known.
bool asserts(std::string_view keyword);

// One keyword of a schema by itself: kInvalid if its value is not of the form that it must have,
// kUnsupported if it cannot be kept. Messages begin with its pointer. `lenient`: what says nothing
// though it has the wrong form (null, an empty list, a type that is unknown, "required": true)
// cannot be kept, rather than being wrong, and so are counts beyond what the work keeps; types may
// be in capitals.
Status check_keyword(const SchemaRef& schema, std::string_view name, bool lenient, Work& work);

}  // namespace dovetail::grammar
