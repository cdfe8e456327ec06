#include "laws/checker/lane_events.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dovetail::laws {

std::vector<LaneEvent> in_order(std::span<const LaneEvent> ready,
                                std::span<const cores::Span> spans) {
  enum Rank { kEnds, kBecomesReady, kStarts };
  // Time, rank, and for starts the end and the number of the span, so that its end comes next.
  using Place = std::tuple<cores::Ticks, Rank, cores::Ticks, std::size_t>;
  std::vector<std::pair<Place, LaneEvent>> placed;
  for (const LaneEvent& event : ready)
    placed.push_back({{event.at, kBecomesReady, 0, placed.size()}, event});
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const cores::Span& span = spans[i];
    const Place start = {span.start, kStarts, span.end, i};
    const bool at_once = span.end == span.start;
    placed.push_back({start, LaneEvent::start(span)});
    placed.push_back({at_once ? start : Place{span.end, kEnds, 0, i}, LaneEvent::end(span)});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LaneEvent> events;
  for (const auto& [place, event] : placed) events.push_back(event);
  return events;
}

}  // namespace dovetail::laws
