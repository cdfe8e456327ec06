#include "cli/server_log.h"

#include <fmt/core.h>
#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "text/utf8.h"
#include "text/visible_text.h"

namespace dovetail::cli {
namespace {

constexpr const char* kFieldsLogger = "fields";
constexpr std::size_t kLongestPath = 200;
constexpr std::size_t kLongestMessage = 400;

// What monitors and load balancers ask.
constexpr std::string_view kProbes[] = {"/health", "/ready", "/load", "/metrics"};

// The beginning of a text that may be of any length and hold any bytes.
std::string shortened(std::string_view text, std::size_t most) {
  // A character that the cut breaks is left out.
  std::size_t end = std::min(text.size(), most);
  const auto continues = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
  if (end < text.size())
    for (int i = 0; i < 3 && end > 0 && continues(); ++i) --end;
  std::string begin = text::repair_utf8(text.substr(0, end));
  if (end < text.size()) begin += "…";
  return begin;
}

// A text in quotes, on one line.
std::string quoted(std::string_view text, std::size_t most) {
  return Json(shortened(text, most)).dump();
}

// In ASCII: a terminal obeys nothing of it.
std::string json_text(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// The message of a line, as visible text.
class VisibleMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string line =
        text::visible_text(std::string_view(message.payload.data(), message.payload.size()));
    for (std::size_t at = 0; (at = line.find('\n', at)) != std::string::npos;)
      line.replace(at, 1, "␊");
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<VisibleMessage>();
  }
};

std::unique_ptr<spdlog::formatter> text_lines() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<VisibleMessage>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %*");
  return formatter;
}

// "2026-03-01T12:00:00.250Z"
std::string rfc3339(spdlog::log_clock::time_point time) {
  const std::time_t seconds =
      spdlog::log_clock::to_time_t(std::chrono::time_point_cast<spdlog::log_clock::duration>(
          std::chrono::floor<std::chrono::seconds>(time)));
  const auto milliseconds =
      std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm utc = {};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     milliseconds);
}

class JsonLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string_view name(message.logger_name.data(), message.logger_name.size());
    std::string line = fmt::format(R"({{"time":"{}","level":"{}",)", rfc3339(message.time),
                                   std::string_view(level.data(), level.size()));
    line +=
        name == kFieldsLogger ? std::string(payload) : R"("message":)" + json_text(Json(payload));
    line += "}\n";
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonLines>(); }
};

Json fields_of(const RequestRecord& record) {
  Json fields = {{"id", record.id},
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
  if (!record.path.empty()) fields["path"] = shortened(record.path, kLongestPath);
  if (!record.ignored.empty()) fields["ignored"] = shortened(record.ignored, kLongestMessage);
  if (record.error_status != 0) {
    fields["error"] = {{"status", record.error_status},
                       {"code", record.error_code},
                       {"message", shortened(record.error_message, kLongestMessage)}};
  }
  return fields;
}

std::string text_of(const RequestRecord& record) {
  const std::string path =
      record.path.empty() ? std::string(record.route) : quoted(record.path, kLongestPath);
  std::string line = fmt::format("{} {} {} {} in {:.1f} ms", record.id,
                                 record.method.empty() ? "?" : record.method, path, record.status,
                                 1e3 * record.seconds);
  if (!record.key.empty()) line += fmt::format(", key {}", record.key);
  if (!record.ignored.empty())
    line += fmt::format(", ignored {}", quoted(record.ignored, kLongestMessage));
  if (!record.finish.empty()) {
    line +=
        fmt::format(": {} tokens in ({} cached), {} out, queue {:.1f} ms, first {:.1f} ms, {}",
                    record.prompt_tokens, record.cached_tokens, record.completion_tokens,
                    1e3 * record.queue_seconds, 1e3 * record.first_token_seconds, record.finish);
  }
  if (record.error_status != 0) {
    line +=
        fmt::format("; {}: {}", record.error_code, quoted(record.error_message, kLongestMessage));
  }
  return line;
}

Json fields_of(const ThroughputRecord& record) {
  return {{"throughput_seconds", record.seconds},
          {"prompt_tokens_per_second", record.prompt_tokens},
          {"generated_tokens_per_second", record.generated_tokens},
          {"running", record.running},
          {"waiting", record.waiting},
          {"cache_used", record.cache_used},
          {"prefix_hits", record.prefix_hits}};
}

std::string text_of(const ThroughputRecord& record) {
  return fmt::format(
      "prompts {:.1f} tokens/s, generated {:.1f} tokens/s, {} running, {} waiting, "
      "cache {:.1f} %, prefix hits {:.1f} %",
      record.prompt_tokens, record.generated_tokens, record.running, record.waiting,
      100 * record.cache_used, 100 * record.prefix_hits);
}

}  // namespace

ServerLog::ServerLog(const LogOptions& options, const spdlog::sink_ptr& sink)
    : requests_(options.requests),
      lines_(std::make_shared<spdlog::logger>("", sink)),
      fields_(std::make_shared<spdlog::logger>(kFieldsLogger, sink)) {
  sink->set_formatter(requests_ == LogRequests::kJson ? std::make_unique<JsonLines>()
                                                      : text_lines());
  for (const auto& logger : {lines_, fields_}) {
    logger->set_level(options.level);
    logger->flush_on(spdlog::level::trace);
  }
}

void ServerLog::install() const { spdlog::set_default_logger(lines_); }

template <class Record>
void ServerLog::write(spdlog::level::level_enum level, const Record& record) const {
  if (requests_ == LogRequests::kNone || !lines_->should_log(level)) return;
  if (requests_ == LogRequests::kPlain) return lines_->log(level, "{}", text_of(record));
  const std::string object = json_text(fields_of(record));
  // Without its braces: what all lines begin with comes before its members.
  fields_->log(level, "{}", std::string_view(object).substr(1, object.size() - 2));
}

void ServerLog::request(const RequestRecord& record) const { write(level_of(record), record); }

void ServerLog::throughput(const ThroughputRecord& record) const {
  write(spdlog::level::info, record);
}

spdlog::sink_ptr error_sink() { return std::make_shared<spdlog::sinks::stderr_color_sink_mt>(); }

spdlog::level::level_enum level_of(const RequestRecord& record) {
  const int status = std::max(record.status, record.error_status);
  if (status >= 500) return spdlog::level::err;
  if (status >= 400 && status != RequestRecord::kClientLeft) return spdlog::level::warn;
  const bool probe =
      std::find(std::begin(kProbes), std::end(kProbes), record.route) != std::end(kProbes);
  return probe ? spdlog::level::debug : spdlog::level::info;
}

}  // namespace dovetail::cli
