#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/report/activity.h"
#include "pipeline/report/progress_view.h"
#include "pipeline/report/rate_meter.h"
#include "pipeline/report/report_data.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::cli {

// How a run of a pipeline shows where it is.
enum class ProgressStyle : std::uint8_t {
  kNone,
  kTerminal,  // bars on standard error, drawn over again
  kLog,       // a line on standard error every few seconds
  kEvents,    // a JSON line on standard output every second
};

// Shows a run while it goes on, and keeps what its endpoints did for the report. One thread.
class PipelineProgress {
 public:
  // `job` must outlive this; its models have been started. `before`: how long earlier sessions of
  // the run took, and `activity` what their endpoints did.
  PipelineProgress(const pipeline::PipelineJob& job, ProgressStyle style,
                   std::chrono::microseconds before, const pipeline::Json& activity);

  void update(const pipeline::RunProgress& progress);
  // Takes the bars away, or shows the last state.
  void finish(const pipeline::RunProgress& progress);

  std::chrono::microseconds elapsed() const;  // earlier sessions included
  std::vector<pipeline::EndpointReport> endpoints() const;
  pipeline::Json activity() const;  // for the next session

 private:
  using Clock = std::chrono::steady_clock;

  struct Endpoint {
    std::string name;
    std::size_t model = 0;
    pipeline::Activity activity;
  };

  void observe(const pipeline::RunProgress& progress);
  pipeline::ProgressView view(const pipeline::RunProgress& progress);
  void show(const pipeline::RunProgress& progress);

  const pipeline::PipelineJob& job_;
  ProgressStyle style_;
  std::chrono::microseconds before_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
  std::size_t lines_ = 0;  // on the terminal
  std::vector<Endpoint> endpoints_;
  pipeline::RateMeter record_rate_;
  std::vector<pipeline::RateMeter> column_rates_;
  std::vector<pipeline::EndpointProgress> endpoint_views_;
};

}  // namespace dovetail::cli
