#include "engine/draft_proposer.h"

#include <algorithm>
#include <cstddef>

namespace dovetail::engine {

void propose(std::span<const TokenId> tokens, std::uint32_t max_drafts,
             std::vector<TokenId>& drafts) {
  drafts.clear();
  const std::span<const TokenId> seen =
      tokens.last(std::min<std::size_t>(tokens.size(), kLookBack));
  if (max_drafts == 0 || seen.size() <= kMinRepeat) return;

  const std::size_t end = seen.size() - 1;
  const TokenId last = seen[end];
  std::size_t longest = kMinRepeat - 1;
  std::size_t next = 0;  // behind the best occurrence
  for (std::size_t at = end; at-- >= kMinRepeat && longest < kMaxRepeat;) {
    if (seen[at] != last) continue;
    std::size_t length = 1;
    while (length < kMaxRepeat && length <= at && seen[at - length] == seen[end - length]) ++length;
    if (length > longest) {
      longest = length;
      next = at + 1;
    }
  }
  if (next == 0) return;
  for (std::size_t i = next; i < next + max_drafts; ++i)
    drafts.push_back(i < seen.size() ? seen[i] : drafts[i - seen.size()]);
}

}  // namespace dovetail::engine
