#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "laws/streams.h"
#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::laws {

// A random history: options of every kind, pools that are too small, arrivals, cancellations.
struct DemoHistory {
  EngineOptions options;
  std::vector<Arrival> arrivals;
  std::vector<std::size_t> requests;  // of the model's, by arrival
};

// Plays histories with a bundled model, and knows what each request gets when it is alone. Its
// requests are drawn once: worksheets that begin alike, some of which repeat themselves, greedy and
// sampled, with stops, penalties and budgets of reasoning, some with their prompt's
// log-probabilities or with nothing else.
class DemoModel {
 public:
  // Of models/; throws when it cannot be read.
  explicit DemoModel(const std::string& name = "demo-arith");

  // A function of the number alone.
  DemoHistory history(std::uint32_t number) const;

  Outcome play(const DemoHistory& history, engine::StepHooks hooks = {}) const;

  // What is wrong with an outcome; empty if nothing is. Streams are those of lone runs, bit for
  // bit; the events obey the laws; no block is left in use.
  std::string judge(const DemoHistory& history, const Outcome& outcome);

 private:
  std::shared_ptr<const load::ModelSource> model_;
  text::Tokenizer tokenizer_;
  std::vector<Request> requests_;
  std::vector<std::optional<Stream>> alone_;  // by request
};

}  // namespace dovetail::laws
