#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dovetail::serve {

// Values by id, in memory, within bounds: the last used stay. Any thread; a T is copied under a
// lock.
template <class T>
class RecentStore {
 public:
  RecentStore(std::size_t most_values, std::size_t most_bytes)
      : most_values_(most_values), most_bytes_(most_bytes) {}

  // `bytes`: what the value takes; one beyond the bound alone is not kept. Replaces what the id
  // had.
  void put(const std::string& id, T value, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto before = kept_.find(id); before != kept_.end()) drop(before);
    if (bytes > most_bytes_) return;
    order_.push_front(id);
    kept_.emplace(id, Kept{std::move(value), bytes, order_.begin()});
    bytes_ += bytes;
    while (order_.size() > most_values_ || bytes_ > most_bytes_) drop(kept_.find(order_.back()));
  }

  std::optional<T> find(std::string_view id) {
    const std::lock_guard lock(mutex_);
    const auto at = kept_.find(id);
    if (at == kept_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, at->second.place);
    return at->second.value;
  }

  // False: it is not there.
  bool erase(std::string_view id) {
    const std::lock_guard lock(mutex_);
    const auto at = kept_.find(id);
    if (at == kept_.end()) return false;
    drop(at);
    return true;
  }

 private:
  struct Kept {
    T value;
    std::size_t bytes;
    std::list<std::string>::iterator place;
  };
  using Map = std::map<std::string, Kept, std::less<>>;

  void drop(typename Map::iterator at) {
    bytes_ -= at->second.bytes;
    order_.erase(at->second.place);
    kept_.erase(at);
  }

  const std::size_t most_values_;
  const std::size_t most_bytes_;
  std::mutex mutex_;
  Map kept_;
  std::list<std::string> order_;  // ids, the last used first
  std::size_t bytes_ = 0;
};

}  // namespace dovetail::serve
