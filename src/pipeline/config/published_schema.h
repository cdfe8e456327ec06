#pragma once

#include <string_view>

namespace dovetail::pipeline {

// The JSON schema of pipeline files, for editors: docs/pipeline.schema.json, byte for byte, as it
// was when the program was built.
std::string_view published_schema();

}  // namespace dovetail::pipeline
