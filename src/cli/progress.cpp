#include "cli/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace dovetail::cli {
namespace {

constexpr std::size_t kMany = 2;  // records that a progress line is worth drawing for

double rate(std::uint64_t tokens, double seconds) {
  return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

}  // namespace

std::string summary(const BatchTotals& totals, double seconds) {
  std::string text = fmt::format(
      "{} {}, {} prompt and {} generated tokens in {:.2f} s ({:.0f} tokens/s)", totals.records,
      totals.records == 1 ? "request" : "requests", totals.prompt_tokens, totals.generated_tokens,
      seconds, rate(totals.generated_tokens, seconds));
  if (totals.expecting > 0)
    text += fmt::format("; {} of {} as expected", totals.as_expected, totals.expecting);
  if (totals.failed > 0) text += fmt::format("; {} failed", totals.failed);
  if (totals.cancelled > 0) text += fmt::format("; {} cancelled", totals.cancelled);
  return text;
}

Progress::Progress(std::size_t records, bool wanted)
    : records_(records), wanted_(wanted && records >= kMany && isatty(STDERR_FILENO) == 1) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::update(const BatchTotals& totals) {
  constexpr auto kPause = std::chrono::milliseconds(200);
  const Clock::time_point now = Clock::now();
  if (!wanted_ || now - last_ < kPause) return;
  last_ = now;
  const double elapsed = seconds();
  std::string left;
  if (totals.records > 0 && totals.records < records_) {
    const double each = elapsed / static_cast<double>(totals.records);
    const auto rest = static_cast<std::uint64_t>(
        std::max(1.0, each * static_cast<double>(records_ - totals.records)));
    left = fmt::format(", {}:{:02} left", rest / 60, rest % 60);
  }
  fmt::print(stderr, "\r{} of {} done, {:.0f} tokens/s{}\x1b[K", totals.records, records_,
             rate(totals.generated_tokens, elapsed), left);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace dovetail::cli
