#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/generation.h"
#include "cli/input_record.h"

namespace dovetail::cli {

// Counts over a batch so far. A record with several choices has several answers.
struct BatchTotals {
  std::size_t records = 0;  // all of whose answers have ended, however
  std::size_t answers = 0;  // ended by themselves
  std::size_t failed = 0;   // answers that ended with an error
  std::size_t cancelled = 0;
  std::size_t expecting = 0;    // answers whose record says what is expected
  std::size_t as_expected = 0;  // of them
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
};

// What a batch asks of the world around it; all called on the thread of run_batch().
struct BatchHooks {
  std::function<Result<std::optional<InputRecord>>()> next;  // nothing: the end
  std::function<std::string(const InputRecord&, const std::vector<Answer>&)> format;
  std::function<Status(std::string_view)> write;     // in the order of the records
  std::function<void(const BatchTotals&)> progress;  // several times a second
  std::function<bool()> stop;                        // true: cancel what is left
  // How long to wait for the generator before the above are called again.
  std::chrono::milliseconds patience{50};
};

// Feeds all records to the generator, as many at a time as it accepts, and writes the results in
// the records' order. At most `window` records are held: those submitted and those that wait for an
// earlier one. After a stop, what had ended is written, with gaps. An error of next() or write()
// cancels the rest and is returned.
Result<BatchTotals> run_batch(const Generator& generator, const BatchHooks& hooks,
                              std::size_t window);

// "1000 requests, 12345 prompt and 23456 generated tokens in 4.5 s (5144 tokens/s)", and how many
// answers were as expected, failed or were cancelled, where that says anything.
std::string summary(const BatchTotals& totals, double seconds);

// The progress line on a terminal's standard error; draws nothing elsewhere. One thread.
class Progress {
 public:
  Progress(std::size_t records, bool wanted);

  void update(const BatchTotals& totals);
  void clear();  // takes the line away
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t records_;
  bool drawn_ = false;
  bool wanted_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace dovetail::cli
