#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cores/trace.h"

namespace dovetail::study {

struct SwimlaneOptions {
  std::string title;  // in UTF-8
  unsigned width = 1400;
  std::size_t lanes = 256;  // the first that are drawn
};

// Draws what lanes were at as an SVG picture that needs nothing beside it: a row for each lane, by
// groups; parts of blocks as boxes, coloured by the first word of the task's name; below a box what
// the lane had pending, and hatched where it was reserved. `out` gets the text piece by piece.
void write_swimlanes(const cores::Topology& topology, const cores::LaneTrace& trace,
                     const SwimlaneOptions& options,
                     const std::function<void(std::string_view)>& out);

}  // namespace dovetail::study
