#include "cli/markdown_colours.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace dovetail::cli {
namespace {

std::string colour(const std::vector<std::string>& pieces) {
  MarkdownColours colours;
  std::string out;
  for (const std::string& piece : pieces) colours.push(piece, out);
  colours.finish(out);
  return out;
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Escapes as <b> (bold), <c> (code), <bc> (both), <m> (marker) and <> (none).
std::string named(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
      continue;
    }
    const std::size_t end = text.find('m', i);
    const std::string_view code = text.substr(i + 2, end - i - 2);
    out += code == "0"        ? "<>"
           : code == "0;1"    ? "<b>"
           : code == "0;36"   ? "<c>"
           : code == "0;1;36" ? "<bc>"
           : code == "0;2"    ? "<m>"
                              : "<?>";
    i = end;
  }
  return out;
}

struct MarkdownCase {
  std::string text, coloured;
};

TEST(MarkdownColours, Marks) {
  const MarkdownCase cases[] = {
      {"plain text, 2 * 3 ** 4\n", "plain text, 2 * 3 ** 4\n"},
      {"# Title\ntext\n", "<b># Title<>\ntext\n"},
      {"####### seven\n#hash\n", "####### seven\n#hash\n"},
      {"a `b*c*` d", "a <c>`b*c*`<> d"},
      {"``a ` b`` c", "<c>``a ` b``<> c"},
      {"never `closed\nnext", "never <c>`closed<>\nnext"},
      {"**bold** and *not*", "<b>**bold**<> and *not*"},
      {"**a `b` c** d", "<b>**a <bc>`b`<b> c**<> d"},
      {"\\*\\*no\\*\\* \\`no\\`", "\\*\\*no\\*\\* \\`no\\`"},
      {"* item\n* **x**: y", "* item\n* <b>**x**<>: y"},
      {"```py\nx = 1\n```\nend", "<m>```py<>\n<c>x = 1<>\n<m>```<>\nend"},
      {"```\na\n```", "<m>```<>\n<c>a<>\n<m>```<>"},
      {"1. x\n   ```sh\n   ls\n   ```\nend", "1. x\n<m>   ```sh<>\n<c>   ls<>\n<m>   ```<>\nend"},
      {"````\n```\n````\nend", "<m>````<>\n<c>```<>\n<m>````<>\nend"},
      {"~~~\n# no title\n\n**x**\n~~~\n", "<m>~~~<>\n<c># no title<>\n\n<c>**x**<>\n<m>~~~<>\n"},
      {"```inline``` code", "<c>```inline```<> code"},
      {"```unfinished", "<c>```unfinished<>"},
      {"***\n---\n", "***\n---\n"},
      {"__init__ and é `ü`", "__init__ and é <c>`ü`<>"},
  };
  for (const MarkdownCase& one : cases)
    EXPECT_EQ(named(colour({one.text})), one.coloured) << one.text;
}

TEST(MarkdownColours, WritesWhatIsCertainAtOnce) {
  MarkdownColours colours;
  std::string out;
  colours.push("Hello wor", out);
  EXPECT_EQ(out, "Hello wor");
  colours.push("ld\n```\nint x", out);
  EXPECT_EQ(without_escapes(out), "Hello world\n```\nint x");
}

// Text of what has a meaning, in all orders.
rc::Gen<std::string> markdown() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "`", "``", "```", "```\n", "~~~", "\n", "\n", "# ", "*", "**", " ",
                          "    ", "a", "b c", "\\", "é", "\t", "\r\n")),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& part : parts) text += part;
                        return text;
                      });
}

RC_GTEST_PROP(MarkdownColours, NeverChangesTheText, ()) {
  const std::string text = *markdown();
  RC_ASSERT(without_escapes(colour({text})) == text);
}

RC_GTEST_PROP(MarkdownColours, IsTheSameHoweverTheTextIsCut, ()) {
  const std::string text = *markdown();
  const std::string whole = colour({text});
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    RC_ASSERT(colour({text.substr(0, cut), text.substr(cut)}) == whole);
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  RC_ASSERT(colour(bytes) == whole);
}

RC_GTEST_PROP(MarkdownColours, HoldsBackNoMoreThanALine, ()) {
  const std::string text = *markdown();
  MarkdownColours colours;
  std::string out;
  for (std::size_t end = 1; end <= text.size(); ++end) {
    colours.push(text.substr(end - 1, 1), out);
    const std::size_t written = without_escapes(out).size();
    RC_ASSERT(text.substr(0, end).find('\n', written) == std::string::npos);
  }
}

RC_GTEST_PROP(MarkdownColours, LeavesNoColourOn, ()) {
  const std::string out = named(colour({*markdown()}));
  const std::size_t last = out.rfind('<');
  const bool off = last == std::string::npos || out.substr(last, 2) == "<>";
  RC_ASSERT(off);
}

}  // namespace
}  // namespace dovetail::cli
