#include "cli/pooled_run.h"

#include <algorithm>

namespace dovetail::cli {
namespace {

// Requests that are under way beyond those that a step takes.
constexpr std::size_t kAhead = 64;

}  // namespace

PooledRun::PooledRun(Engine& engine, std::string what, Take take)
    : engine_(engine),
      what_(std::move(what)),
      take_(std::move(take)),
      // As many as the queue takes, if those are fewer.
      most_(engine.options().max_num_seqs +
            std::min<std::size_t>(kAhead, engine.options().max_waiting)) {}

Status PooledRun::add(Request request) {
  if (const Status ok = take_until(most_ - 1); !ok) return ok;
  auto entry = std::make_shared<Entry>();
  entry->index = next_++;
  // The engine may outlive this run, whose state its events use.
  const Result<RequestId> sent =
      engine_.submit(std::move(request), [shared = shared_, entry](OutputEvent event) {
        const std::lock_guard lock(shared->mutex);
        entry->event = std::move(event);
        shared->arrived.notify_one();
      });
  if (!sent)
    return fail(sent.error().kind, "{} {}: {}", what_, entry->index + 1, sent.error().message);
  entries_.push_back(std::move(entry));
  return {};
}

Status PooledRun::take_until(std::size_t most) {
  while (entries_.size() > most) {
    const std::shared_ptr<Entry> first = entries_.front();
    {
      std::unique_lock lock(shared_->mutex);
      shared_->arrived.wait(lock, [&] { return first->event.has_value(); });
    }
    entries_.pop_front();
    const OutputEvent& event = *first->event;
    if (event.finish != FinishReason::kStop) {
      return fail(event.error.kind, "{} {}: {}", what_, first->index + 1,
                  event.error.message.empty() ? "cancelled" : event.error.message);
    }
    if (const Status taken = take_(first->index, event); !taken) return taken;
  }
  return {};
}

}  // namespace dovetail::cli
