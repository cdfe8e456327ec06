#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/startup_lines.h"
#include "cli/values.h"
#include "dovetail/server.h"
#include "load/model_source.h"

namespace dovetail::cli {
namespace {

constexpr const char* kServeName = "serve";
constexpr const char* kKeyVariable = "DOVETAIL_API_KEY";

// What is written for each request.
enum class Log : std::uint8_t { kNone, kText, kJson };

struct ServeOptions {
  std::string model, chat_template, trace, key_file;
  Log log = Log::kText;
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

Status read_log(const std::string& text, Log& log) {
  constexpr std::pair<std::string_view, Log> kLogs[] = {
      {"none", Log::kNone}, {"text", Log::kText}, {"json", Log::kJson}};
  for (const auto& [name, value] : kLogs) {
    if (text != name) continue;
    log = value;
    return {};
  }
  return fail(ErrorKind::kInvalid, "'{}' is not valid, expected none, text or json", text);
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

// "A,B": none is empty or there twice.
Status read_names(const std::string& text, std::vector<std::string>& names) {
  names.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name(trimmed(std::string_view(text).substr(begin, end - begin)));
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) {
      return fail(ErrorKind::kInvalid,
                  "'{}' is not valid, expected names that differ, separated by commas", text);
    }
    names.push_back(name);
    begin = end + 1;
  }
  return {};
}

// Lines of a name and a key; empty ones and those that begin with # do not count.
Status read_key_file(const std::string& path, std::vector<NamedKey>& keys) {
  Result<std::string> text = read_text_file(path);
  if (!text) return fail(text.error());
  std::istringstream lines(*text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    NamedKey key;
    std::string more;
    words >> key.name;
    if (key.name.empty() || key.name.front() == '#') continue;
    if (!(words >> key.key) || words >> more)
      return fail(ErrorKind::kInvalid, "{}:{}: expected a name and a key", path, number);
    const bool twice = std::any_of(keys.begin(), keys.end(), [&](const NamedKey& known) {
      return known.name == key.name || known.key == key.key;
    });
    if (twice) {
      return fail(ErrorKind::kInvalid, "{}:{}: the name or key of {} is given twice", path, number,
                  key.name);
    }
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return fail(ErrorKind::kInvalid, "{}: no keys, expected one at least", path);
  return {};
}

// A line for each request.
void log_request(const RequestRecord& record, bool json) {
  if (json) {
    const Json line = {{"id", record.id},
                       {"key", record.key},
                       {"method", record.method},
                       {"route", record.route},
                       {"status", record.status},
                       {"prompt_tokens", record.prompt_tokens},
                       {"cached_tokens", record.cached_tokens},
                       {"completion_tokens", record.completion_tokens},
                       {"queue_seconds", record.queue_seconds},
                       {"first_token_seconds", record.first_token_seconds},
                       {"seconds", record.seconds},
                       {"finish", record.finish}};
    return notice(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::string line = fmt::format("{} {} {} {} in {:.1f} ms", record.id,
                                 record.method.empty() ? "?" : record.method, record.route,
                                 record.status, 1e3 * record.seconds);
  if (!record.key.empty()) line += fmt::format(", key {}", record.key);
  if (!record.finish.empty()) {
    line +=
        fmt::format(": {} tokens in ({} cached), {} out, queue {:.1f} ms, first {:.1f} ms, {}",
                    record.prompt_tokens, record.cached_tokens, record.completion_tokens,
                    1e3 * record.queue_seconds, 1e3 * record.first_token_seconds, record.finish);
  }
  notice(line);
}

// A line now and then while the server is busy.
void log_throughput(const ThroughputRecord& record, bool json) {
  if (json) {
    const Json line = {{"throughput_seconds", record.seconds},
                       {"prompt_tokens_per_second", record.prompt_tokens},
                       {"generated_tokens_per_second", record.generated_tokens},
                       {"running", record.running},
                       {"waiting", record.waiting},
                       {"cache_used", record.cache_used},
                       {"prefix_hits", record.prefix_hits}};
    return notice(line.dump());
  }
  notice(
      fmt::format("prompts {:.1f} tokens/s, generated {:.1f} tokens/s, {} running, {} waiting, "
                  "cache {:.1f} %, prefix hits {:.1f} %",
                  record.prompt_tokens, record.generated_tokens, record.running, record.waiting,
                  100 * record.cache_used, 100 * record.prefix_hits));
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
  if (!options.key_file.empty()) {
    if (const Status read = read_key_file(options.key_file, options.server.named_keys); !read)
      return fail(read.error());
  }
  if (options.log != Log::kNone) {
    options.server.on_request = [json = options.log == Log::kJson](const RequestRecord& record) {
      log_request(record, json);
    };
    options.server.on_throughput = [json =
                                        options.log == Log::kJson](const ThroughputRecord& record) {
      log_throughput(record, json);
    };
  }
  options.engine.on_stall = [](const std::string& message) { spdlog::warn("{}", message); };
  // Before the model is loaded, which may take long.
  Result<BoundAddress> address = BoundAddress::bind(options.server);
  if (!address) return fail(address.error());
  if (!address->is_loopback() && !options.server.asks_for_key()) {
    notice(
        fmt::format("dovetail serve: warning: other machines can reach {} and no key is asked "
                    "for; expected --api-key or {}",
                    options.server.host, kKeyVariable));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Engine>> engine = start_engine(options.model, options.engine, true);
  if (!engine) return fail(engine.error());
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - begin;
  const Result<std::unique_ptr<Server>> server =
      Server::create(**engine, options.server, *std::move(address));
  if (!server) return fail(server.error());
  const Result<std::vector<std::string>> lines =
      model_lines(**engine, options.server.chat_template);
  if (!lines) return fail(lines.error());
  for (const std::string& line : *lines) notice(line);
  if (const std::string dialog = (*server)->dialog(); !dialog.empty()) notice("dialog " + dialog);
  notice(load::explain_conversation_defaults((*engine)->source(), options.server.sampling));
  notice(fmt::format("loaded in {:.1f} s", loading.count()));
  notice(fmt::format("page {}/", (*server)->url()));
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
  add_text(app, "--api-key-file", options->key_file,
           "Lines of a name and a key: who asks, in the log and as a tenant (none)", kFile)
      ->group(group);
  add_value(
      app, "--log-requests", "none|text|json",
      [options](const std::string& text) { return read_log(text, options->log); },
      "A line on standard error for each request, and every ten seconds while busy (text)")
      ->group(group);
  add_value(
      app, "--served-model-name", "LIST",
      [&server](const std::string& text) { return read_names(text, server.served_model_names); },
      "The model's names in requests, separated by commas; answers show the first (the file's)")
      ->group(group);
  add_template_option(app, options->chat_template)->group(group);
  add_value(
      app, "--cors-origins", "LIST",
      [&server](const std::string& text) { return read_origins(text, server.cors_origins); },
      "Origins of web pages that may use the server, separated by commas; * is all (none)")
      ->group(group);
  app.add_flag("--strict-fields", server.strict_fields,
               "Refuse fields of requests that are not known, instead of ignoring them")
      ->group(group);
  add_integer(app, "--reasoning-budget", server.reasoning_budget, -1, kMostInt32,
              "Most tokens of reasoning where a request does not say (-1: any number; 0: none)")
      ->group(group);
  add_reasoning_message(app, server.reasoning_budget_message)->group(group);
  add_sampling_rows(app, server.sampling,
                    "Sampling where a request does not say (defaults: what the model's makers "
                    "recommend, else off)",
                    kConversationTemperature);
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
