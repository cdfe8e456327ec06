#include "support/byte_tokenizer.h"

#include <string>

namespace dovetail::test {
namespace {

std::string utf8(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0U | (code_point >> 6)),
          static_cast<char>(0x80U | (code_point & 0x3fU))};
}

}  // namespace

load::GgufTokenizer byte_tokenizer() {
  load::GgufTokenizer data;
  data.model = "gpt2";
  data.pre = "default";
  // GPT-2 spells a byte that prints as itself, and each of the others as the next code point from
  // 256 on.
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    data.tokens.push_back(utf8(prints ? byte : next++));
    data.token_types.push_back(1);
  }
  for (const char* control : {"<s>", "</s>", "<unused>"}) {
    data.tokens.emplace_back(control);
    data.token_types.push_back(3);
  }
  data.bos = 256;
  data.eos = 257;
  data.add_bos = false;
  return data;
}

}  // namespace dovetail::test
