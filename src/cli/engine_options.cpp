#include "cli/engine_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/values.h"
#include "engine/option_table.h"
#include "engine/options.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "observe/perfetto.h"
#include "text/built_in_templates.h"

namespace dovetail::cli {

namespace {

constexpr std::size_t kLongestFile = std::size_t{16} << 20;

constexpr const char* title(engine::OptionGroup group) {
  return group == engine::OptionGroup::kScheduling ? "Scheduling" : "Engine";
}

// Reads a value of the row's kind that is no flag.
Status read_option(EngineOptions& options, const engine::OptionRow& row, const std::string& text) {
  using engine::OptionKind;
  const auto keep = [&](const auto& value) -> Status {
    if (!value) return fail(value.error());
    engine::set_option(options, row, static_cast<double>(*value));
    return {};
  };
  switch (row.kind()) {
    case OptionKind::kWhole:
      return keep(parse_integer(text, static_cast<std::int64_t>(row.least),
                                static_cast<std::int64_t>(row.most)));
    case OptionKind::kBytes:
      return keep(parse_bytes(text, static_cast<std::uint64_t>(row.most)));
    case OptionKind::kReal:
      return keep(parse_number(text, static_cast<float>(row.least), static_cast<float>(row.most)));
    case OptionKind::kName:
      if (std::find(row.names.begin(), row.names.end(), text) == row.names.end()) {
        return fail(ErrorKind::kInvalid, "'{}' is no {}, expected {}", text, row.noun,
                    engine::names_text(row));
      }
      break;
    case OptionKind::kText:
    case OptionKind::kFlag:
      break;
  }
  engine::set_option(options, row, std::string_view(text));
  return {};
}

std::string placeholder(const engine::OptionRow& row) {
  using engine::OptionKind;
  switch (row.kind()) {
    case OptionKind::kWhole:
      return kInteger;
    case OptionKind::kBytes:
      return kBytes;
    case OptionKind::kReal:
      return kNumber;
    case OptionKind::kName:
      return fmt::format("{}", fmt::join(row.names, "|"));
    case OptionKind::kText:
    case OptionKind::kFlag:
      break;
  }
  return kText;
}

}  // namespace

void add_model(CLI::App& app, std::string& model) {
  add_text(app, "-m,--model,MODEL", model, "A GGUF file or a Hugging Face folder", "PATH");
}

void add_engine_option(CLI::App& app, EngineOptions& options, const engine::OptionRow& row) {
  const std::string help = engine::option_help(row, options);
  std::string names = (engine::is_on(row) ? "--no-" : "--") + engine::option_name(row);
  if (!row.alias.empty()) names += fmt::format(",--{}", row.alias);
  CLI::Option* option =
      row.kind() == engine::OptionKind::kFlag
          // In a file a flag may also be false.
          ? check_switch(app.add_flag_function(
                names,
                [&options, &row](std::int64_t given) {
                  engine::set_option(options, row, (given > 0) != engine::is_on(row) ? 1.0 : 0.0);
                },
                help))
          : add_value(
                app, names, placeholder(row).c_str(),
                [&options, &row](const std::string& text) {
                  return read_option(options, row, text);
                },
                help);
  option->group(title(row.group));
}

void add_engine_options(CLI::App& app, EngineOptions& options,
                        std::initializer_list<engine::OptionGroup> groups) {
  for (const engine::OptionRow& row : engine::kOptionRows) {
    if (std::find(groups.begin(), groups.end(), row.group) != groups.end())
      add_engine_option(app, options, row);
  }
}

namespace {

void print_warning(const std::string& message) { notice("dovetail: warning: " + message); }

// A line a second while a large model's weights are packed; nothing of what takes less.
std::function<void(std::size_t, std::size_t)> pack_progress(const Say& say) {
  using Clock = std::chrono::steady_clock;
  return [say, last = Clock::now()](std::size_t done, std::size_t all) mutable {
    const Clock::time_point now = Clock::now();
    if (now - last < std::chrono::seconds(1)) return;
    last = now;
    say(fmt::format("packing weights: {} of {} MB", done >> 20U, all >> 20U));
  };
}

}  // namespace

void set_warnings(EngineOptions& options) {
  for (auto* told : {&options.on_stall, &options.on_unpacked}) {
    if (!*told) *told = print_warning;
  }
}

Result<std::unique_ptr<Engine>> start_engine(const std::string& model, const EngineOptions& options,
                                             const Say& say) {
  const Result<std::shared_ptr<const load::ModelSource>> source = families::open_model(model);
  if (!source) return fail(source.error());
  EngineOptions told = options;
  set_warnings(told);
  if (!told.on_pack) told.on_pack = pack_progress(say ? say : Say(notice));
  Result<std::unique_ptr<Engine>> engine = Engine::create(*source, told);
  if (!engine) return fail(engine::by_option_name(std::move(engine.error())));
  if (!say) return engine;
  const Result<engine::ResolvedOptions> resolved = engine::resolve(options, **source);
  if (!resolved) return fail(engine::by_option_name(resolved.error()));
  for (const std::string& line : engine::explain(options, *resolved, **source)) say(line);
  return engine;
}

Result<std::unique_ptr<Engine>> start_engine(const std::string& model, const EngineOptions& options,
                                             bool verbose) {
  return start_engine(model, options, verbose ? Say(notice) : Say());
}

Generator engine_generator(Engine& engine) {
  return {[&engine](Request request, EventSink sink) {
            return engine.submit(std::move(request), std::move(sink));
          },
          [&engine](RequestId id) { engine.cancel(id); }};
}

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  std::string text(kLongestFile + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  if (text.size() > kLongestFile) {
    return fail(ErrorKind::kInvalid, "{}: it is too long, expected at most {} bytes", path,
                kLongestFile);
  }
  return text;
}

CLI::Option* add_template_option(CLI::App& app, std::string& path) {
  return add_text(app, "--chat-template", path,
                  "A Jinja template in the place of the model's, or the name of one that is built "
                  "in (docs/models.md)",
                  kFile);
}

Result<std::string> read_template_file(const std::string& path) {
  if (path.empty()) return std::string();
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) {
    if (text::find_built_in_template(path) != nullptr) return path;
    return fail(ErrorKind::kIo,
                "--chat-template: {}: {}, expected a file with a Jinja template, or one of those "
                "that are built in: {}",
                path, std::filesystem::exists(status) ? "it is a folder" : "there is no such file",
                text::built_in_template_names());
  }
  Result<std::string> text = read_text_file(path);
  if (text && text->empty())
    return fail(ErrorKind::kInvalid, "--chat-template: {}: it is empty, expected a Jinja template",
                path);
  return text;
}

namespace {

constexpr std::size_t kEvents = std::size_t{1} << 20;  // of 32 bytes

}  // namespace

void add_trace_option(CLI::App& app, std::string& path) {
  add_text(app, "--trace", path,
           "Write the scheduler's last million events and what every lane did, at the end, for "
           "ui.perfetto.dev",
           kFile)
      ->group("Scheduling");
}

Result<TraceFile> TraceFile::open(const std::string& path, EngineOptions& options) {
  TraceFile trace;
  if (path.empty()) return trace;
  Result<OutputFile> file = OutputFile::open(path);
  if (!file) return fail(file.error());
  trace.file_.emplace(*std::move(file));
  options.trace_events = kEvents;
  return trace;
}

Status TraceFile::write(const Engine& engine) {
  if (!file_) return {};
  const EngineTrace trace = engine.trace();
  const std::string text = observe::perfetto_json(trace.events, trace.lanes);
  if (const Status ok = file_->write(text); !ok) return ok;
  return file_->close();
}

}  // namespace dovetail::cli
