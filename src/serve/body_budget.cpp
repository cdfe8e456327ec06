#include "serve/body_budget.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dovetail::serve {
namespace {

constexpr std::size_t kFirstBodyBytes = 4096;

}  // namespace

bool BodyBudget::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (used > limit_ || bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

RequestBody::RequestBody(RequestBody&& other) noexcept
    : budget_(other.budget_),
      taken_(std::exchange(other.taken_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

RequestBody& RequestBody::operator=(RequestBody&& other) noexcept {
  if (this == &other) return *this;
  clear();
  budget_ = other.budget_;
  taken_ = std::exchange(other.taken_, 0);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

bool RequestBody::append(std::string_view bytes, std::size_t most) {
  const std::size_t size = bytes_.size() + bytes.size();
  assert(size <= most);
  if (size > taken_) {
    const std::size_t capacity =
        std::max(size, std::min(most, std::max(2 * taken_, kFirstBodyBytes)));
    if (!budget_->take(capacity - taken_)) return false;
    taken_ = capacity;
    bytes_.reserve(capacity);
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return true;
}

void RequestBody::clear() {
  std::vector<char>().swap(bytes_);
  budget_->give_back(std::exchange(taken_, 0));
}

}  // namespace dovetail::serve
