// libFuzzer target: whatever a client sends as a request, in pieces of any size, its head and body
// are found within their limits and the same as in one piece, or refused. The first byte chooses
// the size of the pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/http_framing.h"

namespace {

using namespace dovetail::serve;

constexpr std::size_t kMaxPayload = 256;

void require(bool holds) {
  if (!holds) std::abort();
}

// What became of a request: its error's status or its body, and how many bytes it took.
struct Seen {
  int status = 0;
  std::string payload;
  std::size_t taken = 0;
  bool operator==(const Seen&) const = default;
};

void require_refusal(const ApiError& error) {
  require(error.status == 400 || error.status == 413 || error.status == 431 || error.status == 501);
  require(!error.message.empty());
}

Seen read(std::string_view text, std::size_t piece) {
  Seen seen;
  HeadScanner scanner;
  for (std::size_t size = 0; !scanner.done() && size < text.size();) {
    size = std::min(size + piece, text.size());
    if (const auto problem = scanner.scan(text.substr(0, size))) {
      require_refusal(*problem);
      seen.status = problem->status;
      return seen;
    }
  }
  if (!scanner.done()) return seen;
  require(scanner.end() <= kMaxHeadBytes && scanner.begin() < scanner.end());
  seen.taken = scanner.end();
  const auto head = parse_head(text.substr(scanner.begin(), scanner.end() - scanner.begin()));
  if (!head) {
    require_refusal(head.error());
    seen.status = head.error().status;
    return seen;
  }
  require(!head->chunked || !head->content_length);
  BodyDecoder decoder = head->chunked ? BodyDecoder::of_chunks(kMaxPayload)
                                      : BodyDecoder::of_length(head->content_length.value_or(0));
  while (!decoder.done() && seen.taken < text.size()) {
    const auto step = decoder.next(text.substr(seen.taken, piece));
    if (!step) {
      require_refusal(step.error());
      seen.status = step.error().status;
      seen.taken = 0;  // how far a refused body was read depends on the pieces
      break;
    }
    require(step->taken > 0 && step->payload.size() <= step->taken);
    seen.taken += step->taken;
    seen.payload += step->payload;
  }
  if (head->chunked) require(seen.payload.size() <= kMaxPayload);
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = read(text, std::max<std::size_t>(text.size(), 1));
  require(read(text, 1 + data[0] % 64) == whole);
  return 0;
}
