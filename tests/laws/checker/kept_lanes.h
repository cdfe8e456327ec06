#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cores/admission.h"

namespace dovetail::laws {

// Who waits for lanes at a moment at which all has been given away that can be.
struct Waiting {
  struct Cohort {
    cores::TaskShape shape;
    std::uint32_t blocks = 0;
  };
  std::optional<Cohort> cohort;           // the oldest
  std::optional<cores::TaskShape> mixed;  // the oldest mixed task
  std::vector<cores::TaskShape> shapes;   // of all others that wait, each once
};

// Whether these lanes (by group) may be idle although these wait. Lanes are kept for the oldest
// cohort (one place for each of its blocks) and for the oldest mixed task (one place); which ones
// is the scheduler's choice. So there has to be a choice with which nobody can use what is left,
// the mixed task what is not the cohort's, and the cohort what is not the mixed task's.
bool may_be_idle(std::span<const cores::GroupSpec> groups, std::span<const cores::LaneMask> idle,
                 const Waiting& waiting);

}  // namespace dovetail::laws
