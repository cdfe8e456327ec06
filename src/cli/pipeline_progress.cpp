#include "cli/pipeline_progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace dovetail::cli {
namespace {

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

}  // namespace

void PipelineProgress::update(const pipeline::RunProgress& progress) {
  const auto now = Clock::now();
  if (style_ == ProgressStyle::kNone || now - shown_ < interval(style_)) return;
  shown_ = now;
  show(progress);
}

void PipelineProgress::finish(const pipeline::RunProgress& progress) {
  if (style_ != ProgressStyle::kNone) show(progress);
}

pipeline::ProgressView PipelineProgress::view(const pipeline::RunProgress& progress) {
  pipeline::ProgressView view;
  view.elapsed = log_.elapsed();
  view.endpoints = log_.endpoints();
  view.records_done = progress.finished;
  view.records_dropped = progress.dropped;
  view.records_total = progress.records;
  if (spec_.target) view.records_wanted = spec_.target->count;
  record_rate_.add(view.elapsed, progress.finished + progress.dropped);
  view.record_rate = record_rate_.rate();
  for (std::size_t i = 0; i < progress.columns.size(); ++i) {
    const pipeline::ColumnCounts& counts = progress.columns[i];
    column_rates_[i].add(view.elapsed, counts.values + counts.failed + counts.skipped);
    view.columns.push_back({spec_.columns[i].name, counts.values, counts.in_flight, counts.failed,
                            counts.skipped, progress.records, column_rates_[i].rate()});
    view.tokens_in += counts.prompt_tokens;
    view.tokens_out += counts.completion_tokens;
  }
  view.cost = static_cast<std::uint64_t>(progress.cost * 1e9);
  return view;
}

bool EndpointFailures::tell(const std::string& endpoint, const std::string& failure) {
  if (failure.empty()) return false;
  // How many milliseconds it took makes no other reason.
  std::string reason = failure;
  std::erase_if(reason, [](char c) { return c >= '0' && c <= '9'; });
  if (!told_.emplace(endpoint, std::move(reason)).second) return false;
  fmt::print(stderr, "failing, and tried again: {}: {}\n", endpoint, failure);
  return true;
}

void PipelineProgress::show(const pipeline::RunProgress& progress) {
  const pipeline::ProgressView now = view(progress);
  for (const pipeline::EndpointProgress& endpoint : now.endpoints) {
    // Bars go on below what was said.
    if (failures_.tell(endpoint.name, endpoint.failure)) lines_.clear();
  }
  switch (style_) {
    case ProgressStyle::kTerminal: {
      const pipeline::TerminalStyle style = terminal_style();
      auto lines = pipeline::progress_lines(now, style);
      fmt::print(stderr, "{}", pipeline::redraw(lines, pipeline::rows_of(lines_, style.width)));
      lines_ = std::move(lines);
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

}  // namespace dovetail::cli
