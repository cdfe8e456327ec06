#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "dovetail/engine.h"

namespace dovetail::serve {

// Counts of the HTTP side. For the event loop's thread only.
class HttpCounts {
 public:
  // `route` is one of a fixed set of names and lives for ever.
  void count_response(std::string_view route, int status) { ++responses_[{route, status}]; }
  const std::map<std::pair<std::string_view, int>, std::uint64_t>& responses() const {
    return responses_;
  }

  std::uint32_t connections = 0;
  std::uint64_t disconnects = 0;   // clients that went away before their response was complete
  std::uint64_t slow_readers = 0;  // streams cut because their client did not read

 private:
  std::map<std::pair<std::string_view, int>, std::uint64_t> responses_;
};

// Everything in Prometheus's text format, version 0.0.4.
std::string metrics_text(const EngineStats& stats, const HttpCounts& http);

}  // namespace dovetail::serve
