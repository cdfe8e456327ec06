#pragma once

#include <cstddef>

namespace dovetail::load {

// Watches what this thread asks of operator new, which this test binary replaces. One at a time.
class AllocationWatch {
 public:
  AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;
  ~AllocationWatch();

  std::size_t largest() const;  // bytes of the largest single request
  std::size_t total() const;    // bytes of all requests, freed or not
};

}  // namespace dovetail::load
