#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/sampling_options.h"
#include "cli/server_log.h"
#include "cli/signals.h"
#include "cli/startup_lines.h"
#include "cli/values.h"
#include "dovetail/server.h"
#include "load/model_source.h"

namespace dovetail::cli {
namespace {

constexpr const char* kServeName = "serve";
constexpr const char* kKeyVariable = "DOVETAIL_API_KEY";

struct ServeOptions {
  std::string model, chat_template, trace, key_file;
  LogOptions log;
  EngineOptions engine;
  ServerOptions server;
  // What goes with --unix-socket only, or not at all.
  const CLI::Option *host = nullptr, *port = nullptr, *socket_mode = nullptr;
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

// An empty path would be that of no socket, and is mostly a variable that was not set.
Status read_socket(const std::string& text, std::string& path) {
  if (text.empty()) return fail(ErrorKind::kInvalid, "the path is empty, expected one");
  path = text;
  return {};
}

Status read_socket_mode(const std::string& text, std::uint32_t& mode) {
  constexpr std::uint32_t kMost = 0777;
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data(), end, value, 8);
  if (failure != std::errc() || last != end || value > kMost) {
    return fail(ErrorKind::kInvalid, "'{}' is not valid, expected octal digits, 0 to {:o}", text,
                kMost);
  }
  mode = value;
  return {};
}

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr Named<LogRequests> kLogRequests[] = {
    {"none", LogRequests::kNone}, {"text", LogRequests::kPlain}, {"json", LogRequests::kJson}};
constexpr Named<spdlog::level::level_enum> kLogLevels[] = {{"error", spdlog::level::err},
                                                           {"warning", spdlog::level::warn},
                                                           {"info", spdlog::level::info},
                                                           {"debug", spdlog::level::debug}};

// An option whose values are the names of the rows.
template <class Value, std::size_t count>
CLI::Option* add_named(CLI::App& app, const std::string& name, const Named<Value> (&rows)[count],
                       Value& target, const std::string& description) {
  std::vector<std::string_view> names;
  for (const Named<Value>& row : rows) names.push_back(row.name);
  return add_value(
      app, name, fmt::format("{}", fmt::join(names, "|")).c_str(),
      [&rows, &target, names](const std::string& text) -> Status {
        for (const Named<Value>& row : rows) {
          if (row.name != text) continue;
          target = row.value;
          return {};
        }
        return fail(ErrorKind::kInvalid, "'{}' is not valid, expected {}", text,
                    fmt::join(names, ", "));
      },
      description);
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

Result<int> serve(ServeOptions& options) {
  survive_closed_pipes();
  if (options.model.empty()) return usage_error(kServeName, kModelMissing);
  const bool local = !options.server.unix_socket.empty();
  for (const CLI::Option* option : {options.host, options.port}) {
    if (local && option->count() > 0) {
      return usage_error(kServeName, option->get_name() +
                                         ": the server listens on one address; expected to leave "
                                         "it out beside --unix-socket");
    }
  }
  if (!local && options.socket_mode->count() > 0) {
    return usage_error(kServeName,
                       "--unix-socket-mode: there is no socket; expected --unix-socket");
  }
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
  const ServerLog log(options.log, error_sink());
  log.install();
  const Say say = [&log](const std::string& line) { log.info(line); };
  if (options.log.requests != LogRequests::kNone) {
    options.server.on_request = [&log](const RequestRecord& record) { log.request(record); };
    options.server.on_throughput = [&log](const ThroughputRecord& record) {
      log.throughput(record);
    };
  }
  options.engine.on_stall = [](const std::string& message) { spdlog::warn("{}", message); };
  options.engine.on_unpacked = options.engine.on_stall;
  // Before the model is loaded, which may take long.
  Result<BoundAddress> address = BoundAddress::bind(options.server);
  if (!address) return fail(address.error());
  if (!address->is_loopback() && !address->is_local() && !options.server.asks_for_key()) {
    spdlog::warn("other machines can reach {} and no key is asked for; expected --api-key or {}",
                 options.server.host, kKeyVariable);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Engine>> engine = start_engine(options.model, options.engine, say);
  if (!engine) return fail(engine.error());
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - begin;
  const Result<std::unique_ptr<Server>> server =
      Server::create(**engine, options.server, *std::move(address));
  if (!server) return fail(server.error());
  const Result<std::vector<std::string>> lines =
      model_lines(**engine, options.server.chat_template);
  if (!lines) return fail(lines.error());
  for (const std::string& line : *lines) log.info(line);
  if (const std::string dialog = (*server)->dialog(); !dialog.empty()) log.info("dialog " + dialog);
  log.info(load::explain_conversation_defaults((*engine)->source(), options.server.sampling));
  log.info(fmt::format("loaded in {:.1f} s", loading.count()));
  if (!local) log.info(fmt::format("page {}/", (*server)->url()));
  log.info(fmt::format("listening on {}", (*server)->url()));
  if (const Status ok = (*server)->run(); !ok) return fail(ok.error());
  if (const Status ok = trace->write(**engine); !ok) return fail(ok.error());
  if (const auto number = (*server)->stopped_by()) return 128 + *number;
  return kExitOk;
}

}  // namespace

Command serve_command() {
  Command command;
  command.name = kServeName;
  command.summary = "answer requests over HTTP, as OpenAI, Anthropic and Ollama define them";
  command.options = std::make_unique<CLI::App>(
      "Serves the HTTP APIs of OpenAI (/v1/chat/completions and others), Anthropic (/v1/messages) "
      "and\n"
      "Ollama (/api/chat and others), and a page at /, until SIGINT or SIGTERM: requests that "
      "have\n"
      "been accepted are finished first, a second signal stops at once (exit code 128 + its "
      "number).\n"
      "A GGUF file that recommends no sampling is drawn from with temperature 0.8, top-k 40,\n"
      "top-p 0.95 and min-p 0.05 where a request says nothing else.\n",
      "dovetail serve");
  const auto options = std::make_shared<ServeOptions>();
  CLI::App& app = *command.options;
  ServerOptions& server = options->server;
  add_model(app, options->model);
  const std::string group = "Server";
  options->host =
      add_text(app, "--host", server.host, "Address to listen on (127.0.0.1)")->group(group);
  options->port =
      add_integer(app, "--port", server.port, 0, 65535, "Port to listen on (8000; 0: any free one)")
          ->group(group);
  add_value(
      app, "--unix-socket", kFile,
      [&server](const std::string& text) { return read_socket(text, server.unix_socket); },
      "A socket to listen on in place of host and port, such as /run/dovetail/http.sock")
      ->group(group);
  options->socket_mode =
      add_value(
          app, "--unix-socket-mode", "MODE",
          [&server](const std::string& text) {
            return read_socket_mode(text, server.unix_socket_mode);
          },
          "Who may connect to it, in octal (600: the same user; 660: the file's group, too)")
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
  add_named(app, "--log-requests", kLogRequests, options->log.requests,
            "A line for each request, and every ten seconds while busy; json: so is the whole log "
            "(text)")
      ->group(group);
  add_named(app, "--log-level", kLogLevels, options->log.level,
            "Logs what failed; also what was refused; all requests; also those of monitors, "
            "such as /health (info)")
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
