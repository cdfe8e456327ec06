#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cores/admission.h"

namespace dovetail::laws {

// Who waits for lanes at a moment at which all has been given away that can be.
struct Waiting {
  struct Gang {
    cores::TaskShape shape;
    std::uint32_t blocks = 0;
  };
  std::optional<Gang> gang;               // the oldest
  std::optional<cores::TaskShape> mixed;  // the oldest mixed task
  std::vector<cores::TaskShape> shapes;   // of all others that wait, each once
};

// Whether these lanes (by group) may be idle although these wait. Lanes are reserved for the oldest
// gang (one place for each of its blocks) and for the oldest mixed task (one place); which ones
// is the scheduler's choice. So there has to be a choice with which no task can use what is left,
// the mixed task what is not the gang's, and the gang what is not the mixed task's.
bool may_be_idle(std::span<const cores::GroupSpec> groups, std::span<const cores::LaneMask> idle,
                 const Waiting& waiting);

}  // namespace dovetail::laws
