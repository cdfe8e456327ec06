#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "dovetail/engine.h"

namespace dovetail::cli {

// Requests without an output (embeddings, scores), many of them under way at a time, and what they
// give in their order. One thread.
class PooledRun {
 public:
  // Takes what the `index`-th request gave, from 0 on; its error ends the run.
  using Take = std::function<Status(std::size_t index, const OutputEvent& event)>;

  // Takes, in the place of what it would have given, why the `index`-th request gave nothing; its
  // error ends the run.
  using TakeError = std::function<Status(std::size_t index, const Error& error)>;

  // `engine` must outlive it. `what` a request is of, for errors: "text" gives "text 3: ...".
  // Without a `take_error` the first request that gives nothing ends the run.
  PooledRun(Engine& engine, std::string what, Take take, TakeError take_error = {});

  // Waits where many are under way.
  Status add(Request request);
  // Waits for all.
  Status finish() { return take_until(0); }

 private:
  struct Entry {
    std::optional<OutputEvent> event;
    std::optional<Error> refused;  // it was no request that the engine takes: no event will come
    std::size_t index = 0;
  };
  struct Shared {
    std::mutex mutex;  // of the entries' events
    std::condition_variable arrived;
  };

  // Takes what has come, and waits until at most so many are under way.
  Status take_until(std::size_t most);
  // Of an entry that has ended.
  Status take(const Entry& entry) const;
  tl::unexpected<Error> named(std::size_t index, const Error& error) const;

  Engine& engine_;
  std::string what_;
  Take take_;
  TakeError take_error_;
  std::size_t most_;
  std::size_t next_ = 0;
  std::deque<std::shared_ptr<Entry>> entries_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace dovetail::cli
