#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

namespace dovetail::serve {

// Bytes that the request bodies of all connections may take together. Any thread.
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_(limit) {}

  // False, and nothing taken, where the limit would be passed.
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
};

// A request's body as it arrives. What it takes comes out of a budget, which must outlive it. For
// one thread at a time.
class RequestBody {
 public:
  explicit RequestBody(BodyBudget& budget) : budget_(&budget) {}
  ~RequestBody() { clear(); }
  RequestBody(RequestBody&& other) noexcept;
  RequestBody& operator=(RequestBody&& other) noexcept;

  // False, and nothing appended, where the budget is used up. Memory grows with what was appended,
  // by doubling, never beyond `most`, which the body does not exceed.
  bool append(std::string_view bytes, std::size_t most);
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }
  void clear();

 private:
  BodyBudget* budget_;
  std::size_t taken_ = 0;
  std::vector<char> bytes_;  // its reserve() is exact, unlike a string's
};

}  // namespace dovetail::serve
