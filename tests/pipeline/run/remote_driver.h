#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/remote/endpoint/test_endpoint.h"
#include "pipeline/run/remote_model.h"

namespace dovetail::pipeline {

// A model of these endpoints, with times that suit a test.
RemoteModel remote_model(const std::vector<const TestEndpoint*>& endpoints,
                         std::uint32_t max_parallel);
RemoteHostOptions quick_options();

ModelRequest question(std::string text, std::uint64_t seed = 1);

// Asks a model so many questions, as a run does: as many as it has room for, and sleeps until an
// answer comes or it is woken.
class Driver {
 public:
  explicit Driver(ModelClient client);

  struct Outcome {
    std::vector<std::optional<Result<ModelAnswer>>> answers;  // by question
    int twice = 0;                                            // sinks that were called again
    Status check;                                             // where it ended the run
    std::vector<std::vector<ModelState>> states;              // with each answer, oldest first
    std::size_t good() const;
    std::uint64_t attempts() const;  // of the good ones
  };
  using Questions = std::function<ModelRequest(std::size_t)>;

  // Until all are answered, check() fails, or the time is up (that is a failure of the test).
  Outcome ask(std::size_t count, const Questions& questions,
              std::chrono::seconds patience = std::chrono::seconds(120));
  // One question and its answer.
  Result<ModelAnswer> ask(const ModelRequest& request);

  std::int64_t wakes() const;

 private:
  // Outlives the driver where sinks do.
  struct Shared {
    std::mutex mutex;
    std::condition_variable news;
    Outcome outcome;
    std::size_t ended = 0;
    std::int64_t wakes = 0;
    std::uint64_t changes = 0;
  };

  ModelClient client_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dovetail::pipeline
