#include "pipeline/sample/code_fence.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "load/quote.h"

namespace dovetail::pipeline {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Leading spaces of a line; a tab goes to the next multiple of four.
struct Indent {
  std::size_t columns = 0;
  std::size_t bytes = 0;
};

Indent indent_of(std::string_view line) {
  Indent indent;
  while (indent.bytes < line.size()) {
    if (line[indent.bytes] == ' ') {
      ++indent.columns;
    } else if (line[indent.bytes] == '\t') {
      indent.columns += 4 - indent.columns % 4;
    } else {
      break;
    }
    ++indent.bytes;
  }
  return indent;
}

std::size_t run_of(std::string_view text, char c) {
  return std::min(text.find_first_not_of(c), text.size());
}

struct Fence {
  char mark = '`';
  std::size_t length = 0;
  std::size_t indent = 0;
  std::string_view info;
};

// `text` is a line without its indentation and line end.
std::optional<Fence> opening_fence(std::string_view text, std::size_t indent) {
  if (text.empty() || (text.front() != '`' && text.front() != '~')) return std::nullopt;
  Fence fence;
  fence.mark = text.front();
  fence.length = run_of(text, fence.mark);
  fence.indent = indent;
  fence.info = trimmed(text.substr(fence.length));
  if (fence.length < 3) return std::nullopt;
  // Else "```code``` in a line" would open a block.
  if (fence.mark == '`' && fence.info.find('`') != std::string_view::npos) return std::nullopt;
  return fence;
}

bool closes(std::string_view line, const Fence& fence, std::size_t most_indent) {
  const Indent indent = indent_of(line);
  if (indent.columns > most_indent) return false;
  const std::string_view text = line.substr(indent.bytes);
  const std::size_t length = run_of(text, fence.mark);
  return length >= fence.length && trimmed(text.substr(length)).empty();
}

// The bytes of a list marker and the spaces behind it ("- ", "12. "), or 0.
std::size_t list_marker(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && at < 9 && text[at] >= '0' && text[at] <= '9') ++at;
  if (at > 0) {
    if (at == text.size() || (text[at] != '.' && text[at] != ')')) return 0;
  } else if (text.empty() || std::string_view("-+*").find(text.front()) == std::string_view::npos) {
    return 0;
  }
  ++at;
  const std::size_t spaces = at < text.size() ? run_of(text.substr(at), ' ') : 0;
  // Five or more spaces are one, and indented code behind it.
  if (spaces == 0 || spaces > 4) return 0;
  return at + spaces;
}

// Removes up to `columns` of indentation.
std::string_view outdent(std::string_view line, std::size_t columns) {
  std::size_t at = 0;
  while (at < line.size() && at < columns && line[at] == ' ') ++at;
  return line.substr(at);
}

std::string language_of(std::string_view info) {
  while (!info.empty() && (info.front() == '{' || info.front() == '.')) info.remove_prefix(1);
  const auto end = info.find_first_of(" \t,:;{}=(");
  std::string name(info.substr(0, end));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

}  // namespace

std::vector<CodeBlock> find_code_blocks(std::string_view text) {
  std::vector<CodeBlock> blocks;
  std::optional<Fence> open;
  std::size_t list_indent = 0;   // where the text of the latest list item starts
  std::size_t block_indent = 0;  // that of the item which the open block is in
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    std::string_view line = text.substr(at, end - at);
    at = end == std::string_view::npos ? text.size() : end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (open) {
      CodeBlock& block = blocks.back();
      if (closes(line, *open, block_indent + 3)) {
        block.closed = true;
        open.reset();
      } else {
        block.code += outdent(line, open->indent);
        block.code += '\n';
      }
      continue;
    }
    Indent indent = indent_of(line);
    std::string_view rest = line.substr(indent.bytes);
    if (rest.empty()) continue;
    if (indent.columns < list_indent && list_marker(rest) == 0) list_indent = 0;
    // A fence may follow the marker, and so may another marker.
    while (indent.columns <= list_indent + 3) {
      const std::size_t marker = list_marker(rest);
      if (marker == 0) break;
      indent.columns += marker;
      list_indent = indent.columns;
      rest = rest.substr(marker);
    }
    if (indent.columns > list_indent + 3) continue;  // indented code
    open = opening_fence(rest, indent.columns);
    if (!open) continue;
    block_indent = list_indent;
    blocks.push_back({std::string(open->info), language_of(open->info), {}, false});
  }
  return blocks;
}

std::string canonical_language(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 29> kAliases = {{
      {"py", "python"},       {"python3", "python"}, {"py3", "python"},     {"js", "javascript"},
      {"node", "javascript"}, {"mjs", "javascript"}, {"jsx", "javascript"}, {"ts", "typescript"},
      {"tsx", "typescript"},  {"c++", "cpp"},        {"cxx", "cpp"},        {"cc", "cpp"},
      {"c#", "csharp"},       {"cs", "csharp"},      {"sh", "bash"},        {"shell", "bash"},
      {"zsh", "bash"},        {"golang", "go"},      {"rs", "rust"},        {"rb", "ruby"},
      {"kt", "kotlin"},       {"yml", "yaml"},       {"md", "markdown"},    {"postgres", "sql"},
      {"postgresql", "sql"},  {"mysql", "sql"},      {"sqlite", "sql"},     {"tsql", "sql"},
      {"json5", "json"},
  }};
  std::string language = language_of(name);
  // "sql:postgres" and the like name a dialect behind the language, which language_of() cuts.
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const auto& entry) { return entry.first == language; });
  return alias == kAliases.end() ? language : std::string(alias->second);
}

Result<std::string> extract_code(std::string_view answer, const CodeFenceOptions& options) {
  const auto blocks = find_code_blocks(answer);
  const std::string wanted = canonical_language(options.language);
  const CodeBlock* named = nullptr;
  const CodeBlock* unnamed = nullptr;
  bool cut = false;
  std::string found;
  for (const CodeBlock& block : blocks) {
    if (!found.empty()) found += ", ";
    found += block.language.empty() ? "no language" : block.language;
    if (!block.closed && !options.unclosed) {
      cut = true;
      continue;
    }
    const CodeBlock*& place = block.language.empty() && !wanted.empty() ? unnamed : named;
    const bool fits =
        wanted.empty() || block.language.empty() || canonical_language(block.language) == wanted;
    if (fits && (place == nullptr || options.last)) place = &block;
  }
  if (named != nullptr) return named->code;
  if (unnamed != nullptr) return unnamed->code;
  if (blocks.empty() && options.whole_text && !trimmed(answer).empty()) {
    return std::string(trimmed(answer)) + "\n";
  }
  const std::string valid =
      wanted.empty() ? std::string("a fenced code block") : "a code block in " + options.language;
  if (blocks.empty()) {
    return fail(ErrorKind::kInvalid, "answer {}: no fenced code block; valid: {}",
                load::quote(answer), valid);
  }
  if (found.size() > 200) found = found.substr(0, 200) + "...";
  return fail(ErrorKind::kInvalid, "answer with code blocks in {}{}; valid: {}", load::quote(found),
              cut ? ", one of them cut off" : "", valid);
}

}  // namespace dovetail::pipeline
