#include "pipeline/report/preview.h"

#include <fmt/core.h>

#include <algorithm>

namespace dovetail::pipeline {
namespace {

constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kRed = "\x1b[31m",
                           kCyan = "\x1b[36m", kNone;

struct Line {
  std::string text;
  std::string_view colour = kNone;
};

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_wrapped(std::string_view text, std::size_t width, std::string_view colour,
                 std::vector<Line>& out, std::size_t indent = 0) {
  const std::size_t room = width > indent ? width - indent : 1;
  for (std::string& line : wrap(printable(text, true), room)) {
    out.push_back({line.empty() ? "" : std::string(indent, ' ') + line, colour});
  }
}

void add_verdict(const Json& value, std::size_t width, std::vector<Line>& out) {
  std::size_t widest = 0;
  for (const auto& [rubric, verdict] : value.items()) {
    widest = std::max(widest, display_width(printable(rubric)));
  }
  widest = std::min(widest, width / 2);
  for (const auto& [rubric, verdict] : value.items()) {
    add_wrapped(pad_right(shorten(printable(rubric), widest), widest) + "  " +
                    printable(plain(verdict["score"])),
                width, kCyan, out);
    const auto reasoning = verdict.find("reasoning");
    if (reasoning != verdict.end() && !reasoning->is_null()) {
      add_wrapped(plain(*reasoning), width, kNone, out, 2);
    }
  }
}

std::vector<Line> lines_of(const PreviewCell& cell, std::size_t width) {
  std::vector<Line> lines;
  switch (cell.state) {
    case CellState::kValue:
      if (is_verdict(cell.value)) {
        add_verdict(cell.value, width, lines);
      } else if (cell.value.is_null()) {
        lines.push_back({"null", kDim});
      } else if (cell.value.is_structured()) {
        add_wrapped(cell.value.dump(2, ' ', false, Json::error_handler_t::replace), width, kNone,
                    lines);
      } else {
        add_wrapped(plain(cell.value), width, kNone, lines);
      }
      break;
    case CellState::kFailed:
      add_wrapped("failed: " + cell.reason, width, kRed, lines);
      break;
    case CellState::kForgotten:
      break;
    case CellState::kSkipped:
      lines.push_back({"skipped", kDim});
      break;
    case CellState::kDropped:
      add_wrapped("record dropped: " + cell.reason, width, kRed, lines);
      break;
  }
  return lines;
}

std::string coloured(std::string_view text, std::string_view colour, const TerminalStyle& style) {
  if (!style.colour || colour.empty() || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", colour, text);
}

}  // namespace

bool is_verdict(const Json& value) {
  return value.is_object() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& rubric) {
           return rubric.is_object() && rubric.contains("score");
         });
}

std::string preview(std::uint64_t record, const std::vector<PreviewCell>& cells,
                    const TerminalStyle& style, std::size_t most_lines) {
  const bool beside = style.width >= 40;
  std::size_t name_width = 0;
  for (const PreviewCell& cell : cells) {
    name_width = std::max(name_width, display_width(printable(cell.name)));
  }
  name_width = std::min(name_width, beside ? style.width / 4 : style.width);
  const std::size_t indent = beside ? name_width + 2 : 2;
  const std::size_t width = style.width > indent ? style.width - indent : 1;

  const std::string title = fmt::format("record {} ", record);
  std::string rule;
  for (std::size_t i = title.size(); i < std::min<std::size_t>(style.width, 100); ++i) {
    rule += style.unicode ? "─" : "-";
  }
  std::string out = coloured(title, kBold, style) + coloured(rule, kDim, style) + "\n";
  for (const PreviewCell& cell : cells) {
    const std::string name = shorten(printable(cell.name), name_width, style.unicode);
    std::vector<Line> lines = lines_of(cell, width);
    if (lines.size() > most_lines) {
      const std::size_t more = lines.size() - most_lines;
      lines.resize(most_lines);
      lines.push_back({fmt::format("({} more line{})", more, more == 1 ? "" : "s"), kDim});
    }
    if (!beside) out += coloured(name, kBold, style) + "\n";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string text = coloured(lines[i].text, lines[i].colour, style);
      if (beside && i == 0) {
        const bool alone = text.empty();
        out += coloured(name, kBold, style);
        if (!alone) out += std::string(indent - display_width(name), ' ') + text;
      } else if (!text.empty()) {
        out += std::string(indent, ' ') + text;
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace dovetail::pipeline
