#include "observe/event_log.h"

#include <algorithm>
#include <bit>

namespace dovetail::observe {

EventLog::EventLog(std::size_t capacity)
    : ring_(std::bit_ceil(std::max<std::size_t>(capacity, 1))) {
  mask_ = ring_.size() - 1;
}

std::vector<Event> EventLog::events() const {
  std::vector<Event> result;
  result.reserve(static_cast<std::size_t>(written_ - oldest()));
  for (std::uint64_t number = oldest(); number < written_; ++number) result.push_back(at(number));
  return result;
}

}  // namespace dovetail::observe
