#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/face/session_log.h"
#include "pipeline/report/progress_view.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::cli {

// How a run of a pipeline shows where it is.
enum class ProgressStyle : std::uint8_t {
  kNone,
  kTerminal,  // bars on standard error, drawn over again
  kLog,       // a line on standard error every few seconds
  kEvents,    // a JSON line on standard output every second
};

// Says on standard error why endpoints fail, each reason once: until something succeeds, or the
// run gives up, that is all that a person can do something about. One thread.
class EndpointFailures {
 public:
  // Whether it has said anything.
  bool tell(const std::string& endpoint, const std::string& failure);

 private:
  std::set<std::pair<std::string, std::string>> told_;
};

// Shows a run while it goes on. One thread.
class PipelineProgress {
 public:
  // Both must outlive this. The log has observed what is shown.
  PipelineProgress(const pipeline::PipelineSpec& spec, const pipeline::SessionLog& log,
                   ProgressStyle style)
      : spec_(spec), log_(log), style_(style), column_rates_(spec.columns.size()) {}

  void update(const pipeline::RunProgress& progress);
  // Takes the bars away, or shows the last state.
  void finish(const pipeline::RunProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  pipeline::ProgressView view(const pipeline::RunProgress& progress);
  void show(const pipeline::RunProgress& progress);

  const pipeline::PipelineSpec& spec_;
  const pipeline::SessionLog& log_;
  ProgressStyle style_;
  Clock::time_point shown_;
  std::vector<std::string> lines_;  // on the terminal
  EndpointFailures failures_;
  pipeline::RateMeter record_rate_;
  std::vector<pipeline::RateMeter> column_rates_;
};

}  // namespace dovetail::cli
