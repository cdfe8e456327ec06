#pragma once

namespace dovetail::pipeline {

// Ways to break the store on purpose, to see that tests notice. A build with the compile definition
// DOVETAIL_STORE_MUTANT=N has the N-th; the product has none of them, and pays nothing.
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

#ifdef DOVETAIL_STORE_MUTANT
inline constexpr StoreMutant kStoreMutant = static_cast<StoreMutant>(DOVETAIL_STORE_MUTANT);
#else
inline constexpr StoreMutant kStoreMutant = StoreMutant::kNone;
#endif

}  // namespace dovetail::pipeline
