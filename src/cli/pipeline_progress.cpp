#include "cli/pipeline_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace dovetail::cli {
namespace {

using pipeline::SlotCause;

std::chrono::milliseconds interval(ProgressStyle style) {
  switch (style) {
    case ProgressStyle::kTerminal:
      return std::chrono::milliseconds(200);
    case ProgressStyle::kEvents:
      return std::chrono::milliseconds(1000);
    case ProgressStyle::kLog:
    case ProgressStyle::kNone:
      break;
  }
  return std::chrono::milliseconds(5000);
}

pipeline::TerminalStyle terminal_style() {
  pipeline::TerminalStyle style;
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  style.colour = std::getenv("NO_COLOR") == nullptr;
  return style;
}

SlotCause cause_of(const pipeline::ModelState& state, bool is_ready, bool window_is_full) {
  if (state.idle != pipeline::IdleCause::kNone) return static_cast<SlotCause>(state.idle);
  if (is_ready || state.in_flight >= state.limit) return SlotCause::kTaking;
  return window_is_full ? SlotCause::kWindow : SlotCause::kNothingReady;
}

}  // namespace

PipelineProgress::PipelineProgress(const pipeline::PipelineJob& job, ProgressStyle style,
                                   std::chrono::microseconds before, const pipeline::Json& activity)
    : job_(job), style_(style), before_(before), column_rates_(job.spec().columns.size()) {
  const auto states = job.model_states();
  for (std::size_t model = 0; model < states.size(); ++model) {
    for (const pipeline::ModelState& state : states[model]) {
      Endpoint endpoint{state.name, model, pipeline::Activity()};
      // What cannot be read is no reason not to run.
      const std::string key = fmt::format("{}/{}", job.spec().models[model].alias, state.name);
      if (activity.is_object() && activity.contains(key)) {
        if (auto kept = pipeline::Activity::from_json(activity[key])) {
          endpoint.activity = *std::move(kept);
        }
      }
      endpoints_.push_back(std::move(endpoint));
    }
  }
}

std::chrono::microseconds PipelineProgress::elapsed() const {
  return before_ + std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_);
}

void PipelineProgress::update(const pipeline::RunProgress& progress) {
  observe(progress);
  const auto now = Clock::now();
  if (style_ == ProgressStyle::kNone || now - shown_ < interval(style_)) return;
  shown_ = now;
  show(progress);
}

void PipelineProgress::finish(const pipeline::RunProgress& progress) {
  observe(progress);
  const auto end = static_cast<std::uint64_t>(elapsed().count());
  for (Endpoint& endpoint : endpoints_) endpoint.activity.end(end);
  if (style_ != ProgressStyle::kNone) show(progress);
}

void PipelineProgress::observe(const pipeline::RunProgress& progress) {
  const auto time = static_cast<std::uint64_t>(elapsed().count());
  const auto states = job_.model_states();
  endpoint_views_.clear();
  std::size_t next = 0;
  for (std::size_t model = 0; model < states.size(); ++model) {
    for (const pipeline::ModelState& state : states[model]) {
      const SlotCause cause = cause_of(state, progress.ready[model] > 0, progress.window_is_full);
      endpoints_[next++].activity.sample(time, state.in_flight, state.limit, cause);
      endpoint_views_.push_back(
          {fmt::format("{} ({})", job_.spec().models[model].alias, state.name), state.in_flight,
           state.limit, cause});
    }
  }
}

pipeline::ProgressView PipelineProgress::view(const pipeline::RunProgress& progress) {
  pipeline::ProgressView view;
  view.elapsed = elapsed();
  view.endpoints = endpoint_views_;
  view.records_done = progress.finished;
  view.records_dropped = progress.dropped;
  view.records_total = progress.records;
  record_rate_.add(view.elapsed, progress.finished + progress.dropped);
  view.record_rate = record_rate_.rate();
  for (std::size_t i = 0; i < progress.columns.size(); ++i) {
    const pipeline::ColumnCounts& counts = progress.columns[i];
    column_rates_[i].add(view.elapsed, counts.values + counts.failed + counts.skipped);
    view.columns.push_back({job_.spec().columns[i].name, counts.values, counts.in_flight,
                            counts.failed, counts.skipped, progress.records,
                            column_rates_[i].rate()});
    view.tokens_in += counts.prompt_tokens;
    view.tokens_out += counts.completion_tokens;
  }
  view.cost = static_cast<std::uint64_t>(progress.cost * 1e9);
  return view;
}

void PipelineProgress::show(const pipeline::RunProgress& progress) {
  const pipeline::ProgressView now = view(progress);
  switch (style_) {
    case ProgressStyle::kTerminal: {
      const auto lines = pipeline::progress_lines(now, terminal_style());
      fmt::print(stderr, "{}", pipeline::redraw(lines, lines_));
      lines_ = lines.size();
      break;
    }
    case ProgressStyle::kLog:
      fmt::print(stderr, "{}\n", pipeline::progress_line(now));
      break;
    case ProgressStyle::kEvents:
      fmt::print("{}\n", pipeline::progress_event(now));
      std::fflush(stdout);
      break;
    case ProgressStyle::kNone:
      break;
  }
}

std::vector<pipeline::EndpointReport> PipelineProgress::endpoints() const {
  std::vector<pipeline::EndpointReport> reports;
  for (const Endpoint& endpoint : endpoints_) {
    reports.push_back({endpoint.name, job_.spec().models[endpoint.model].alias, endpoint.activity});
  }
  return reports;
}

pipeline::Json PipelineProgress::activity() const {
  pipeline::Json all = pipeline::Json::object();
  for (const Endpoint& endpoint : endpoints_) {
    const std::string& alias = job_.spec().models[endpoint.model].alias;
    all[fmt::format("{}/{}", alias, endpoint.name)] = endpoint.activity.to_json();
  }
  return all;
}

}  // namespace dovetail::cli
