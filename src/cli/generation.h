#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dovetail/request.h"

namespace dovetail::cli {

// What the commands need of an engine.
struct Generator {
  std::function<Result<RequestId>(Request, EventSink)> submit;  // as Engine::submit
  std::function<void(RequestId)> cancel;                        // as Engine::cancel
};

// Hands events from the engine's thread to the command's. It holds at most what the accepted
// requests produce.
class Inbox {
 public:
  void put(OutputEvent event);
  // Everything that came since the last call; waits for at most `limit` for the first.
  std::vector<OutputEvent> take(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<OutputEvent> events_;
};

// What came of one choice of a request.
struct Answer {
  std::string text;
  std::vector<OutputToken> tokens;  // kept where log-probabilities were asked for
  FinishReason finish = FinishReason::kCancelled;
  bool ended = false;
  Usage usage;
  Error error;  // with FinishReason::kError

  void add(OutputEvent event, bool keep_tokens);
};

// Generates one choice and passes its text on as it comes. When `on_text` returns false or `stop`
// true, the request is cancelled; what came until then is returned as FinishReason::kCancelled.
Result<Answer> stream_answer(const Generator& generator, Request request,
                             const std::function<bool(std::string_view)>& on_text,
                             const std::function<bool()>& stop);

}  // namespace dovetail::cli
