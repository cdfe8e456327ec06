#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "dovetail/engine.h"
#include "engine/option_table.h"

namespace dovetail::cli {

// MODEL, also -m and --model.
void add_model(CLI::App& app, std::string& model);
inline constexpr const char* kModelMissing =
    "MODEL is missing, expected a GGUF file or a Hugging Face folder";

// The option of a row of the table of engine options. `options` must outlive the parsing.
void add_engine_option(CLI::App& app, EngineOptions& options, const engine::OptionRow& row);

// Those of all rows of the groups, which are all that a command has where none are named.
void add_engine_options(CLI::App& app, EngineOptions& options,
                        std::initializer_list<engine::OptionGroup> groups = {
                            engine::OptionGroup::kSize, engine::OptionGroup::kLanes,
                            engine::OptionGroup::kWatch, engine::OptionGroup::kScheduling});

// Where on_stall and on_unpacked are not set: they then say it on standard error.
void set_warnings(EngineOptions& options);

// Takes a line for a person.
using Say = std::function<void(const std::string& line)>;

// Opens the model and starts its engine. `say`: then told which options it has, and why, and how
// far packing weights is; empty: only that, on standard error. It has set_warnings().
Result<std::unique_ptr<Engine>> start_engine(const std::string& model, const EngineOptions& options,
                                             const Say& say);
// `verbose`: with all lines on standard error.
Result<std::unique_ptr<Engine>> start_engine(const std::string& model, const EngineOptions& options,
                                             bool verbose);

// `engine` must outlive it.
Generator engine_generator(Engine& engine);

// The whole of a small text file, 16 MiB at most.
Result<std::string> read_text_file(const std::string& path);

// --chat-template FILE. `path`, which must outlive the parsing, goes to read_template_file().
CLI::Option* add_template_option(CLI::App& app, std::string& path);

// The chat template in the file that --chat-template names, or the name itself where it is no file
// but that of a built-in template (text/built_in_templates.h); empty where `path` is. A file
// without text is an error: an empty template would stand for the model's own.
Result<std::string> read_template_file(const std::string& path);

// --trace FILE. `path` must outlive the parsing.
void add_trace_option(CLI::App& app, std::string& path);

// The file of --trace, where one was asked for: opened before the work, so that a path that cannot
// be written is an error at once, and written after it.
class TraceFile {
 public:
  // An empty `path`: no trace. Else turns the engine's event log on.
  static Result<TraceFile> open(const std::string& path, EngineOptions& options);

  // The engine's log as a trace for ui.perfetto.dev.
  Status write(const Engine& engine);

 private:
  std::optional<OutputFile> file_;
};

}  // namespace dovetail::cli
