#include "cli/batch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <unordered_map>
#include <utility>

#include "cli/output.h"

namespace dovetail::cli {

namespace {

struct Flight {
  InputRecord record;
  std::vector<Answer> answers;
  std::size_t open = 0;  // answers that have not ended
};

class Batch {
 public:
  Batch(const Generator& generator, const BatchHooks& hooks, std::size_t window)
      : generator_(generator), hooks_(hooks), window_(window), writer_(hooks.write) {}

  Result<BatchTotals> run() {
    while (!at_end_ || pending_ || !flights_.empty()) {
      if (!stopping_ && hooks_.stop()) stop();
      if (!stopping_) submit_more();
      receive();
      hooks_.progress(totals_);
    }
    if (const Status ok = writer_.finish(); !ok && !error_) error_ = ok.error();
    if (error_) return fail(*error_);
    return totals_;
  }

 private:
  void stop() {
    stopping_ = true;
    at_end_ = true;
    pending_.reset();
    for (const auto& [id, flight] : flights_) generator_.cancel(id);
  }

  void stop(const Error& error) {
    if (!error_) error_ = error;
    if (!stopping_) stop();
  }

  void submit_more() {
    while (!stopping_) {
      if (!pending_ && !read_next()) return;
      const Result<RequestId> id = generator_.submit(
          pending_->request, [inbox = inbox_](OutputEvent event) { inbox->put(std::move(event)); });
      if (!id && id.error().kind == ErrorKind::kExhausted) return;
      if (!id) return stop(id.error());
      Flight flight;
      flight.open = static_cast<std::size_t>(pending_->request.n);
      flight.answers.resize(flight.open);
      flight.record = *std::move(pending_);
      flights_.emplace(*id, std::move(flight));
      pending_.reset();
    }
  }

  bool read_next() {
    if (at_end_ || taken_ - writer_.written() >= window_) return false;
    Result<std::optional<InputRecord>> next = hooks_.next();
    if (!next) {
      stop(next.error());
      return false;
    }
    if (!*next) {
      at_end_ = true;
      return false;
    }
    pending_ = **std::move(next);
    pending_->index = taken_++;
    return true;
  }

  void receive() {
    // While a full queue refuses and nothing is under way, no event will tell when it is free.
    const bool retry = pending_ && flights_.empty();
    const auto patience = retry ? std::chrono::milliseconds(1) : hooks_.patience;
    if (flights_.empty() && !retry) return;
    for (OutputEvent& event : inbox_->take(patience)) {
      const auto found = flights_.find(event.request);
      if (found == flights_.end()) continue;
      Flight& flight = found->second;
      Answer& answer = flight.answers.at(static_cast<std::size_t>(event.choice));
      totals_.generated_tokens += event.usage.completion_tokens - answer.usage.completion_tokens;
      answer.add(std::move(event), flight.record.request.logprobs >= 0);
      if (!answer.ended || --flight.open > 0) continue;
      end(flight);
      flights_.erase(found);
    }
  }

  void end(const Flight& flight) {
    ++totals_.records;
    totals_.prompt_tokens += flight.record.request.prompt.size();
    bool whole = true;
    for (const Answer& answer : flight.answers) {
      if (answer.finish == FinishReason::kCancelled) {
        ++totals_.cancelled;
        whole = false;
        continue;
      }
      ++totals_.answers;
      if (answer.finish == FinishReason::kError) ++totals_.failed;
      if (flight.record.expect) {
        ++totals_.expecting;
        if (answer.finish != FinishReason::kError && answer.text == *flight.record.expect)
          ++totals_.as_expected;
      }
    }
    if (!whole) return;
    const Status ok =
        writer_.put(flight.record.index, hooks_.format(flight.record, flight.answers));
    if (!ok) stop(ok.error());
  }

  const Generator& generator_;
  const BatchHooks& hooks_;
  std::size_t window_;
  OrderedWriter writer_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unordered_map<RequestId, Flight> flights_;
  std::optional<InputRecord> pending_;  // read, but not accepted yet
  std::size_t taken_ = 0;
  bool at_end_ = false;
  bool stopping_ = false;
  std::optional<Error> error_;
  BatchTotals totals_;
};

}  // namespace

Result<BatchTotals> run_batch(const Generator& generator, const BatchHooks& hooks,
                              std::size_t window) {
  return Batch(generator, hooks, window).run();
}

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
