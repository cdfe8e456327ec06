#pragma once

#include <memory>

#include "base/result.h"
#include "pipeline/run/model_client.h"

namespace dovetail::pipeline {

// A model in this process: cells go straight to the engine's queue, so that the engine always knows
// of more than it can run at the same time.
class LocalModelHost {
 public:
  // Loads the model; errors are for a person.
  static Result<std::unique_ptr<LocalModelHost>> create(const LocalModel& model,
                                                        const SamplingSpec& defaults);
  // Stops the engine; requests under way end as cancelled first.
  ~LocalModelHost();

  // Whether answers can be held to a JSON schema; an error names what in it cannot.
  Status check(const Json& schema);
  // The same for a pattern.
  Status check(const AnswerPattern& pattern);

  // Valid while the host lives. `submit` may be called from any thread.
  ModelClient client();

 private:
  struct Impl;
  explicit LocalModelHost(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What is absent in `column` is taken from `model`.
SamplingSpec merged(const SamplingSpec& column, const SamplingSpec& model);

}  // namespace dovetail::pipeline
