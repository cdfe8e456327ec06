#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace dovetail::engine {

StopMatcher::Found StopMatcher::push(std::string_view piece) {
  if (stops_.empty()) return {std::string(piece), std::nullopt};
  std::size_t end = held_.size();
  held_ += piece;
  for (; end <= held_.size(); ++end) {
    const std::string_view seen = std::string_view(held_).substr(0, end);
    const std::string* longest = nullptr;
    for (const std::string& stop : stops_) {
      if (seen.ends_with(stop) && (longest == nullptr || stop.size() > longest->size()))
        longest = &stop;
    }
    if (longest != nullptr) {
      Found found{held_.substr(0, end - longest->size()), *longest};
      held_.clear();
      return found;
    }
  }
  // What ends like the beginning of a stop string waits.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) keep = size;
    }
  }
  Found found{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, held_.size() - keep);
  return found;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace dovetail::engine
