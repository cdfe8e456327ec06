#include "cli/pooled_run.h"

#include <algorithm>

namespace dovetail::cli {
namespace {

// Requests that are under way beyond those that a step takes.
constexpr std::size_t kAhead = 64;

}  // namespace

PooledRun::PooledRun(Engine& engine, std::string what, Take take, TakeError take_error)
    : engine_(engine),
      what_(std::move(what)),
      take_(std::move(take)),
      take_error_(std::move(take_error)),
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
  if (!sent) {
    // What is wrong with this request is its own matter; a queue or an engine that has no more
    // room or life is the run's.
    if (!take_error_ || sent.error().kind != ErrorKind::kInvalid)
      return named(entry->index, sent.error());
    entry->refused = sent.error();
  }
  entries_.push_back(std::move(entry));
  return {};
}

tl::unexpected<Error> PooledRun::named(std::size_t index, const Error& error) const {
  return fail(error.kind, "{} {}: {}", what_, index + 1, error.message);
}

Status PooledRun::take_until(std::size_t most) {
  while (entries_.size() > most) {
    const std::shared_ptr<Entry> first = entries_.front();
    {
      std::unique_lock lock(shared_->mutex);
      shared_->arrived.wait(lock, [&] { return first->refused || first->event; });
    }
    entries_.pop_front();
    if (const Status taken = take(*first); !taken) return taken;
  }
  return {};
}

Status PooledRun::take(const Entry& entry) const {
  if (entry.refused) return take_error_(entry.index, *entry.refused);
  const OutputEvent& event = *entry.event;
  if (event.finish == FinishReason::kStop) return take_(entry.index, event);
  if (event.finish == FinishReason::kError && take_error_)
    return take_error_(entry.index, event.error);
  return named(entry.index, event.error.message.empty()
                                ? make_error(event.error.kind, "cancelled", {})
                                : event.error);
}

}  // namespace dovetail::cli
