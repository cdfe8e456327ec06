#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dovetail/engine.h"
#include "load/model_source.h"

namespace dovetail::cli {

// A model in a line: "NAME: llama, 134.52 million parameters, 93.8 MiB of Q4_1, context 8192".
Result<std::string> model_line(const load::ModelSource& source, const EngineOptions& options);

// What `serve` says of its model beside the engine's options: lines as "NAME VALUE: MORE".
// `chat_template`: that of --chat-template, or its name; empty where there is none.
Result<std::vector<std::string>> model_lines(const Engine& engine,
                                             const std::string& chat_template);

}  // namespace dovetail::cli
