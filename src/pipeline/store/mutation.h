#pragma once

#include "base/mutant.h"

namespace dovetail::pipeline {

// Faults of the store that tests build in (base/mutant.h).
enum class StoreMutant {
  kNone,
  kDoneBeforeCommit,  // cells count as finished before they are durable
  kForgetFailed,      // a batch whose commit failed is dropped instead of tried again
  kSyncSeldom,        // commits do not wait for the disk
  kUnfenced,          // a commit does not ask whether its leases are still held
  kLeaseUnlocked,     // a range is taken without a lock
  kLeaseForever,      // leases do not run out
  kCount
};

}  // namespace dovetail::pipeline
