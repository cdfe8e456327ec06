#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace dovetail {

// Bytes at an address that is a multiple of 64, a cache line and the widest vector. Growing loses
// the contents.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }

  // Makes at least so many bytes available.
  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.reset();
    size_ = 0;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (bytes_ == nullptr) throw std::bad_alloc();
    size_ = rounded;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace dovetail
