#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dovetail/server.h"

// The log of `serve`: lines of text, or JSON objects, a line each. Whatever clients, models and
// files put into a line, it stays one line and steers no terminal.
namespace dovetail::cli {

// What is written for each request, and so how all lines are written.
enum class LogRequests : std::uint8_t { kNone, kPlain, kJson };

struct LogOptions {
  LogRequests requests = LogRequests::kPlain;
  spdlog::level::level_enum level = spdlog::level::info;  // the least that is written
};

class ServerLog {
 public:
  // Writes to `sink`, whose format it sets.
  ServerLog(const LogOptions& options, const spdlog::sink_ptr& sink);

  // Makes this the program's log: what the engine and the server say of themselves goes there, too.
  void install() const;

  // A line of its own. Any thread.
  void info(const std::string& text) const { lines_->info("{}", text); }
  // A line for a request, and one now and then on how busy the server is; none where requests are
  // not written.
  void request(const RequestRecord& record) const;
  void throughput(const ThroughputRecord& record) const;

 private:
  template <class Record>
  void write(spdlog::level::level_enum level, const Record& record) const;

  LogRequests requests_;
  std::shared_ptr<spdlog::logger> lines_;   // a message each
  std::shared_ptr<spdlog::logger> fields_;  // where lines are JSON: the members of an object each
};

// The standard error, in colours where that is a terminal. Where it has lost its reader, lines are
// lost and nothing else.
spdlog::sink_ptr error_sink();

// How much a request matters: what the server failed at is an error, what it refused a warning,
// what monitors ask every few seconds is for debugging.
spdlog::level::level_enum level_of(const RequestRecord& record);

}  // namespace dovetail::cli
