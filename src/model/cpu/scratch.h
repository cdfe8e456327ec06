#pragma once

#include <cstddef>
#include <vector>

namespace dovetail::model {

// Room for at least so many elements in a buffer that passes use again; it never shrinks.
template <class T>
void grow(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace dovetail::model
