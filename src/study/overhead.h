#pragma once

#include <span>

#include "study/virtual_machine.h"

namespace dovetail::study {

// How much of the time was lost between tasks and lanes. A moment is lost for a kind of lane if one
// of the kind is idle while a task that needs such lanes is ready and has not started; a mixed task
// counts for both kinds. Shares of the time from the first task's being ready to the last end.
struct Overhead {
  double matrix = 0.0, vector = 0.0;
  double any = 0.0;  // lost for one kind or the other
  double all = 0.0;  // lost for each kind for which anything is ready
};

// `waits`: of every block, from being ready to its start. A lane for both kinds counts for each.
Overhead overhead_of(const cores::Topology& topology, std::span<const cores::Span> spans,
                     std::span<const Wait> waits);

}  // namespace dovetail::study
