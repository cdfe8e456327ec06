#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/report/progress_view.h"
#include "pipeline/report/report_data.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::pipeline {

// How long a run takes and what its endpoints do, over all of its sessions. One thread.
class SessionLog {
 public:
  // Its time begins now. `job` must outlive this; its models have been started. `before`: to_json()
  // of the session that is resumed; what cannot be read of it is left out. What it says of
  // endpoints that this session does not use is kept.
  explicit SessionLog(const PipelineJob& job, const Json& before = nullptr);

  void observe(const RunProgress& progress);
  // The time stands still from now on.
  void end();

  std::chrono::microseconds elapsed() const;
  // As of the last observe(), by model and endpoint.
  const std::vector<EndpointProgress>& endpoints() const { return now_; }
  Json to_json() const;  // {"elapsed_us": ..., "activity": ...}

 private:
  using Clock = std::chrono::steady_clock;

  struct Endpoint {
    std::string name;
    std::size_t model = 0;
    Activity activity;
  };

  std::uint64_t time() const { return static_cast<std::uint64_t>(elapsed().count()); }
  std::string key(const Endpoint& endpoint) const;

  const PipelineJob& job_;
  std::chrono::microseconds before_;
  Clock::time_point begin_ = Clock::now();
  std::optional<Clock::time_point> end_;
  Json kept_ = Json::object();  // of earlier sessions, by key()
  std::vector<Endpoint> endpoints_;
  std::vector<EndpointProgress> now_;
};

// What to_json() gave, for a report.
std::chrono::microseconds elapsed_in(const Json& log);
// `spec`: the file as it is now.
std::vector<EndpointReport> endpoints_in(const Json& log, const PipelineSpec& spec);

}  // namespace dovetail::pipeline
