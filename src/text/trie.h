#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace dovetail::text {

// Byte strings with a number each, for finding all that a text begins with.
class Trie {
 public:
  // Keeps the first value where a key comes twice. Empty keys are ignored.
  void put(std::string_view key, std::int32_t value) {
    if (key.empty()) return;
    starts_[static_cast<std::uint8_t>(key.front())] = true;
    std::uint32_t node = 0;
    for (const char byte : key) {
      const auto [edge, is_new] = edges_.try_emplace(edge_key(node, byte), nodes_);
      if (is_new) ++nodes_;
      node = edge->second;
    }
    values_.try_emplace(node, value);
  }

  // Calls visit(bytes, value) for every key that `text` begins with, shortest first.
  template <class Visit>
  void visit_prefixes(std::string_view text, Visit&& visit) const {
    if (text.empty() || !starts_[static_cast<std::uint8_t>(text.front())]) return;
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto edge = edges_.find(edge_key(node, text[i]));
      if (edge == edges_.end()) return;
      node = edge->second;
      if (const auto value = values_.find(node); value != values_.end()) {
        visit(i + 1, value->second);
      }
    }
  }

 private:
  static std::uint64_t edge_key(std::uint32_t node, char byte) {
    return (std::uint64_t{node} << 8U) | static_cast<std::uint8_t>(byte);
  }

  std::array<bool, 256> starts_{};
  std::uint32_t nodes_ = 1;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::unordered_map<std::uint32_t, std::int32_t> values_;
};

}  // namespace dovetail::text
