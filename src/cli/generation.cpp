#include "cli/generation.h"

#include <memory>
#include <utility>

namespace dovetail::cli {

void Inbox::put(OutputEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  filled_.notify_one();
}

std::vector<OutputEvent> Inbox::take(std::chrono::milliseconds limit) {
  std::vector<OutputEvent> taken;
  std::unique_lock lock(mutex_);
  filled_.wait_for(lock, limit, [&] { return !events_.empty(); });
  taken.swap(events_);
  return taken;
}

void Answer::add(OutputEvent event, bool keep_tokens) {
  text += event.text;
  usage = event.usage;
  if (keep_tokens) {
    tokens.insert(tokens.end(), std::make_move_iterator(event.tokens.begin()),
                  std::make_move_iterator(event.tokens.end()));
  }
  if (event.finish) {
    finish = *event.finish;
    ended = true;
    error = std::move(event.error);
  }
}

Result<Answer> stream_answer(const Generator& generator, Request request,
                             const std::function<bool(std::string_view)>& on_text,
                             const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kPatience(50);  // until `stop` is asked again
  const auto inbox = std::make_shared<Inbox>();
  const Result<RequestId> id = generator.submit(
      std::move(request), [inbox](OutputEvent event) { inbox->put(std::move(event)); });
  if (!id) return fail(id.error());
  Answer answer;
  bool cancelled = false;
  while (!answer.ended) {
    bool wanted = !stop();
    for (OutputEvent& event : inbox->take(kPatience)) {
      if (!cancelled && wanted && !event.text.empty()) wanted = on_text(event.text);
      answer.add(std::move(event), false);
    }
    if (!wanted && !cancelled && !answer.ended) {
      generator.cancel(*id);
      cancelled = true;
    }
  }
  return answer;
}

}  // namespace dovetail::cli
