#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "pipeline/remote/background.h"
#include "pipeline/remote/http_client.h"
#include "pipeline/remote/remote_scheduler.h"
#include "pipeline/run/model_client.h"

namespace dovetail::pipeline {

// What all remote models of a run share: a thread that moves bytes, and one that reads answers and
// keeps time.
class RemoteThreads {
 public:
  static Result<std::shared_ptr<RemoteThreads>> create(HttpClientOptions options = {});

  HttpClient& http() { return *http_; }
  Background& background() { return *background_; }

 private:
  RemoteThreads() = default;

  std::unique_ptr<Background> background_;  // outlives the client, whose callbacks use it
  std::unique_ptr<HttpClient> http_;
};

// What the file does not say. Of `limit`, max_parallel comes from the model.
struct RemoteHostOptions {
  LimitOptions limit;
  BreakerOptions breaker;
  RetryOptions retry;
  GroupOptions group;
  // Absent: ten minutes, or twice the model's timeout where that is longer.
  std::optional<Micros> stall_bound;
  std::size_t most_off_wire = 0;  // see RemoteSchedulerOptions
};

// A model behind OpenAI-compatible endpoints. Requests with messages are chats, others completions.
// A request is tried again until it is answered, refused for good or out of tries; meanwhile it has
// no slot. A schema is sent as response_format to endpoints that take it: one that complains about
// it is asked again without, and not sent it any more. Whether the answer is an instance is for the
// caller to see, either way.
class RemoteModelHost {
 public:
  // kInvalid where an endpoint's URL, the variable of its key or the extra body is wrong. `alias`
  // is for messages.
  static Result<std::unique_ptr<RemoteModelHost>> create(std::shared_ptr<RemoteThreads> threads,
                                                         const std::string& alias,
                                                         const RemoteModel& model,
                                                         const SamplingSpec& defaults,
                                                         const RemoteHostOptions& options = {});
  // Ends what is under way with kUnavailable and waits for the sinks. Not from a sink. Nothing of
  // it is called afterwards.
  ~RemoteModelHost();

  // Valid while the host lives. Sinks and `wake` are called on the threads' background thread.
  // After check() has failed, everything under way ends with its error, too.
  ModelClient client();

 private:
  class Impl;
  RemoteModelHost(std::shared_ptr<RemoteThreads> threads, std::shared_ptr<Impl> impl);

  std::shared_ptr<RemoteThreads> threads_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace dovetail::pipeline
