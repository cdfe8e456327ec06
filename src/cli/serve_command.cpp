#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/values.h"
#include "dovetail/server.h"
#include "load/model_source.h"

namespace dovetail::cli {
namespace {

constexpr const char* kServeName = "serve";
constexpr const char* kKeyVariable = "DOVETAIL_API_KEY";

struct ServeOptions {
  std::string model, chat_template, trace;
  EngineOptions engine;
  ServerOptions server;
};

CLI::Option* add_seconds(CLI::App& app, const std::string& name, std::chrono::milliseconds& target,
                         const std::string& description) {
  constexpr std::int64_t kMost = 24 * 3600;
  return add_value(
      app, name, kInteger,
      [&target](const std::string& text) -> Status {
        const Result<std::int64_t> seconds = parse_integer(text, 1, kMost);
        if (!seconds) return fail(seconds.error());
        target = std::chrono::seconds(*seconds);
        return {};
      },
      description);
}

// An empty key would let everyone in, and is mostly a variable that was not set.
Status read_key(const std::string& text, std::string& key) {
  if (text.empty()) {
    return fail(ErrorKind::kInvalid, "the key is empty, expected a key, or to leave it out");
  }
  key = text;
  return {};
}

Status read_origins(const std::string& text, std::vector<std::string>& origins) {
  origins.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string origin = text.substr(begin, end - begin);
    const std::size_t scheme = origin.find("://");
    const bool valid = scheme != std::string::npos && scheme > 0 &&
                       origin.find('/', scheme + 3) == std::string::npos &&
                       origin.size() > scheme + 3;
    if (origin != "*" && !valid) {
      return fail(ErrorKind::kInvalid,
                  "'{}' is not valid, expected * or origins such as https://example.org", origin);
    }
    origins.push_back(origin);
    begin = end + 1;
  }
  return {};
}

Result<int> serve(ServeOptions& options) {
  survive_closed_pipes();
  if (options.model.empty()) return usage_error(kServeName, kModelMissing);
  const char* key = std::getenv(kKeyVariable);
  if (key != nullptr && *key == '\0' && options.server.api_key.empty()) {
    return fail(ErrorKind::kInvalid, "{} is set but empty, expected a key, or to leave it unset",
                kKeyVariable);
  }
  Result<std::string> chat_template = read_template_file(options.chat_template);
  if (!chat_template) return fail(chat_template.error());
  options.server.chat_template = *std::move(chat_template);
  Result<TraceFile> trace = TraceFile::open(options.trace, options.engine);
  if (!trace) return fail(trace.error());
  options.engine.on_stall = [](const std::string& message) { spdlog::warn("{}", message); };
  // Before the model is loaded, which may take long.
  Result<BoundAddress> address = BoundAddress::bind(options.server);
  if (!address) return fail(address.error());
  if (!address->is_loopback() && options.server.api_key.empty()) {
    notice(
        fmt::format("dovetail serve: warning: other machines can reach {} and no key is asked "
                    "for; expected --api-key or {}",
                    options.server.host, kKeyVariable));
  }
  const Result<std::unique_ptr<Engine>> engine = start_engine(options.model, options.engine, true);
  if (!engine) return fail(engine.error());
  const Result<std::unique_ptr<Server>> server =
      Server::create(**engine, options.server, *std::move(address));
  if (!server) return fail(server.error());
  notice(load::explain_conversation_defaults((*engine)->source()));
  notice(fmt::format("listening on {}", (*server)->url()));
  if (const Status ok = (*server)->run(); !ok) return fail(ok.error());
  if (const Status ok = trace->write(**engine); !ok) return fail(ok.error());
  if (const auto number = (*server)->stopped_by()) return 128 + *number;
  return kExitOk;
}

}  // namespace

Command serve_command() {
  Command command;
  command.name = kServeName;
  command.summary = "answer requests over HTTP, as OpenAI's API defines them";
  command.options = std::make_unique<CLI::App>(
      "Serves the OpenAI-compatible HTTP API until SIGINT or SIGTERM: requests that have been\n"
      "accepted are finished first, a second signal stops at once (exit code 128 + its number).\n"
      "A GGUF file that recommends no sampling is drawn from with temperature 0.8, top-k 40,\n"
      "top-p 0.95 and min-p 0.05 where a request says nothing else.\n",
      "dovetail serve");
  const auto options = std::make_shared<ServeOptions>();
  CLI::App& app = *command.options;
  ServerOptions& server = options->server;
  add_model(app, options->model);
  const std::string group = "Server";
  add_text(app, "--host", server.host, "Address to listen on (127.0.0.1)")->group(group);
  add_integer(app, "--port", server.port, 0, 65535, "Port to listen on (8000; 0: any free one)")
      ->group(group);
  add_value(
      app, "--api-key", "TEXT",
      [&server](const std::string& text) { return read_key(text, server.api_key); },
      "Asked for as \"Authorization: Bearer KEY\" (none)")
      ->envname(kKeyVariable)
      ->group(group);
  add_text(app, "--served-model-name", server.served_model_name,
           "The model's name in requests (the file's)")
      ->group(group);
  add_text(app, "--chat-template", options->chat_template,
           "A Jinja template in the place of the model's", kFile)
      ->group(group);
  add_value(
      app, "--cors-origins", "LIST",
      [&server](const std::string& text) { return read_origins(text, server.cors_origins); },
      "Origins of web pages that may use the server, separated by commas; * is all (none)")
      ->group(group);
  app.add_flag("--strict-fields", server.strict_fields,
               "Refuse fields of requests that are not known, instead of ignoring them")
      ->group(group);
  add_integer(app, "--max-connections", server.max_connections, 1, 1 << 20,
              "Connections at a time (1024)")
      ->group(group);
  add_seconds(app, "--drain-limit", server.drain_limit,
              "Seconds that accepted requests get after a signal (300)")
      ->group(group);
  add_engine_options(app, options->engine);
  add_trace_option(app, options->trace);
  command.action = [options] { return serve(*options); };
  return command;
}

}  // namespace dovetail::cli
