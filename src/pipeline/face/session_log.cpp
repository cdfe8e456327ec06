#include "pipeline/face/session_log.h"

#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr const char* kElapsed = "elapsed_us";
constexpr const char* kActivity = "activity";

// `most`: the limit that the file sets; 0: none.
SlotCause cause_of(const ModelState& state, std::uint32_t most, bool is_ready,
                   bool window_is_full) {
  if (state.idle == IdleCause::kLimit && most > 0 && state.limit >= most) {
    return SlotCause::kMaxParallel;
  }
  if (state.idle != IdleCause::kNone) return static_cast<SlotCause>(state.idle);
  if (is_ready || state.in_flight >= state.limit) return SlotCause::kTaking;
  return window_is_full ? SlotCause::kWindow : SlotCause::kNothingReady;
}

std::uint32_t max_parallel_of(const ModelSpec& model) {
  const auto* remote = std::get_if<RemoteModel>(&model.where);
  return remote == nullptr ? 0 : remote->max_parallel;
}

Json part_of(const Json& log, const char* name) {
  if (!log.is_object()) return nullptr;
  const auto part = log.find(name);
  return part == log.end() ? Json() : *part;
}

}  // namespace

SessionLog::SessionLog(const PipelineJob& job, const Json& before)
    : job_(job), before_(elapsed_in(before)) {
  if (Json kept = part_of(before, kActivity); kept.is_object()) kept_ = std::move(kept);
  const auto states = job.model_states();
  for (std::size_t model = 0; model < states.size(); ++model) {
    for (const ModelState& state : states[model]) {
      Endpoint endpoint{state.name, model, Activity()};
      if (kept_.contains(key(endpoint))) {
        if (auto activity = Activity::from_json(kept_[key(endpoint)])) {
          endpoint.activity = *std::move(activity);
        }
      }
      endpoints_.push_back(std::move(endpoint));
    }
  }
}

std::string SessionLog::key(const Endpoint& endpoint) const {
  return fmt::format("{}/{}", job_.spec().models[endpoint.model].alias, endpoint.name);
}

void SessionLog::observe(const RunProgress& progress) {
  const auto states = job_.model_states();
  now_.clear();
  std::size_t next = 0;
  for (std::size_t model = 0; model < states.size(); ++model) {
    for (const ModelState& state : states[model]) {
      const SlotCause cause = cause_of(state, max_parallel_of(job_.spec().models[model]),
                                       progress.ready[model] > 0, progress.window_is_full);
      endpoints_[next++].activity.sample(time(), state.in_flight, state.limit, cause);
      now_.push_back({fmt::format("{} ({})", job_.spec().models[model].alias, state.name),
                      state.in_flight, state.limit, cause, state.failure});
    }
  }
}

void SessionLog::end() {
  end_ = Clock::now();
  for (Endpoint& endpoint : endpoints_) endpoint.activity.end(time());
}

std::chrono::microseconds SessionLog::elapsed() const {
  return before_ + std::chrono::duration_cast<std::chrono::microseconds>(
                       end_.value_or(Clock::now()) - begin_);
}

Json SessionLog::to_json() const {
  Json activity = kept_;
  for (const Endpoint& endpoint : endpoints_) {
    activity[key(endpoint)] = endpoint.activity.to_json();
  }
  return {{kElapsed, elapsed().count()}, {kActivity, std::move(activity)}};
}

std::chrono::microseconds elapsed_in(const Json& log) {
  const Json value = part_of(log, kElapsed);
  return std::chrono::microseconds(value.is_number_unsigned() ? value.get<std::int64_t>() : 0);
}

std::vector<EndpointReport> endpoints_in(const Json& log, const PipelineSpec& spec) {
  std::vector<EndpointReport> reports;
  const Json all = part_of(log, kActivity);
  if (!all.is_object()) return reports;
  for (const auto& [key, value] : all.items()) {
    auto activity = Activity::from_json(value);
    const std::size_t slash = key.find('/');
    if (!activity || slash == std::string::npos) continue;
    const std::string alias = key.substr(0, slash);
    const std::size_t model = spec.model(alias);
    reports.push_back({key.substr(slash + 1), alias, *std::move(activity),
                       model < spec.models.size() ? max_parallel_of(spec.models[model]) : 0});
  }
  return reports;
}

}  // namespace dovetail::pipeline
