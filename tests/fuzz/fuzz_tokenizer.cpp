// Any bytes as tokenizer.json: an error or a tokenizer that works. The first byte tells how many of
// the last bytes are the text to encode.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dovetail::text;
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t text_size = data[0] < input.size() ? data[0] : input.size();
  const std::string_view text = input.substr(input.size() - text_size);
  input.remove_suffix(text_size);
  const auto tokenizer = Tokenizer::from_json(input, "");
  if (!tokenizer) {
    if (tokenizer.error().message.empty()) std::abort();
    return 0;
  }
  const auto ids = tokenizer->encode(text);
  for (const TokenId id : ids) {
    if (tokenizer->token_text(id).empty()) std::abort();
  }
  StreamDecoder stream(*tokenizer);
  std::string streamed;
  for (const TokenId id : ids) streamed += stream.push(id);
  streamed += stream.finish();
  if (!is_valid_utf8(streamed) || streamed != tokenizer->decode(ids)) std::abort();
  return 0;
}
