#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/backend.h"

namespace dovetail::serve {

// Stands for an engine: a model of 256 tokens, one for each byte, that runs on a thread of its own.
// A script decides what becomes of each request.
class FakeEngine {
 public:
  struct Accepted {
    RequestId id = 0;
    Request request;
    EventSink sink;
  };
  // Runs on the engine's thread after a request was accepted.
  using Script = std::function<void(FakeEngine&, const Accepted&)>;

  explicit FakeEngine(Script script = counting) : script_(std::move(script)) {
    thread_ = std::thread([this] { loop(); });
  }

  ~FakeEngine() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Backend backend();

  // What a lone request answers: each choice says its number and the number of the token, up to
  // max_tokens: "0:0 ", "0:1 ", ...
  static void counting(FakeEngine& engine, const Accepted& accepted);
  // Accepts and then says nothing.
  static void silent(FakeEngine&, const Accepted&) {}

  // Sends one event of a request; not after its end. Ids of cancelled requests are ignored.
  void emit(RequestId id, OutputEvent event);
  void finish(RequestId id, std::int32_t choice, FinishReason reason);

  // Runs `task` on the engine's thread.
  void run(std::function<void()> task);

  // Wait for what the test expects; false after ten seconds.
  bool wait_submitted(std::size_t count);
  bool wait_cancelled(std::size_t count);
  std::size_t submitted() const;
  std::size_t cancelled() const;
  Request request(std::size_t index) const;
  RequestId last_id() const;

  // From now on submit() refuses.
  void refuse_with(Error error);
  void set_health(EngineHealth health);

 private:
  struct Running {
    Accepted accepted;
    std::int32_t open = 0;
    std::vector<std::uint32_t> completion;
    std::vector<bool> ended;
  };

  void loop();
  Result<std::vector<RequestId>> submit(const std::vector<Request>& requests,
                                        const GroupSink& sink);
  void cancel(RequestId id);
  bool drain(std::chrono::milliseconds limit);

  Script script_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::map<RequestId, Running> running_;
  std::vector<Request> requests_;
  std::optional<EngineHealth> health_;
  std::optional<Error> refusal_;
  RequestId next_ = 1;
  std::size_t cancelled_ = 0;
  bool draining_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// An event of one token with this text.
OutputEvent token(std::string text);

}  // namespace dovetail::serve
