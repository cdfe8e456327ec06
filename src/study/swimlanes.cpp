#include "study/swimlanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cores/names.h"

namespace dovetail::study {
namespace {

constexpr double kLeft = 130.0, kRight = 16.0, kRow = 13.0, kBox = 11.0, kGroupGap = 5.0;
constexpr double kLetter = 5.4;  // about the width of one
constexpr double kLegendEntry = 150.0, kLegendRow = 18.0;

// Told apart also by those who see few colours.
constexpr std::array kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
                                 "#ee8866", "#44bb99", "#99ddff", "#bbcc33", "#7a5195", "#999933"};

std::string escaped(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        // XML has no other control characters.
        escaped += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return escaped;
}

std::string_view first_word(std::string_view name) { return name.substr(0, name.find(' ')); }

// As much of a text as fits a width, in whole characters; nothing where that says nothing.
std::string_view fitting(std::string_view text, double width) {
  std::size_t most = width > kLetter ? static_cast<std::size_t>(width / kLetter) : 0;
  if (most >= text.size()) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return most < 3 ? std::string_view() : text.substr(0, most);
}

class Picture {
 public:
  Picture(const cores::Topology& topology, const cores::LaneTrace& trace,
          const SwimlaneOptions& options, const std::function<void(std::string_view)>& out)
      : topology_(topology), trace_(trace), options_(options), out_(out) {
    for (const cores::Span& span : trace.running) end_ = std::max(end_, span.end);
    for (const cores::Span& span : trace.running) {
      const std::string name = trace.name(span.task);
      colours_.try_emplace(std::string(first_word(name)), "");
    }
    std::size_t next = 0;
    for (auto& [word, colour] : colours_) colour = kColours[next++ % kColours.size()];
    place_rows();
  }

  void draw() {
    const double height = top_ + rows_height_ + 34.0;
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1:.0f}" )"
        R"(viewBox="0 0 {0} {1:.0f}" font-family="sans-serif" font-size="10">)"
        "\n",
        options_.width, height);
    put("<defs><pattern id=\"kept\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f4f4f4\"/><line "
        "x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" stroke=\"#aaa\" "
        "stroke-width=\"2\"/></pattern></defs>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    put("<text x=\"8\" y=\"18\" font-size=\"13\">{}</text>\n", escaped(options_.title));
    draw_legend();
    draw_axis();
    draw_rows();
    for (const cores::ReservedSpan& reserved : trace_.reserved) draw_reserved(reserved);
    for (const cores::Span& span : trace_.running) draw_running(span);
    for (const cores::Span& span : trace_.pending) draw_pending(span);
    put("</svg>\n");
  }

 private:
  struct Row {
    std::string name;
    double y = 0.0;
  };

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    text_.clear();
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    out_(text_);
  }

  void place_rows() {
    const double width = options_.width;
    per_row_ = std::max<std::size_t>(1, static_cast<std::size_t>((width - 8.0) / kLegendEntry));
    // Two more: what is pending, and what is reserved.
    const std::size_t legend_rows = (colours_.size() + 2 + per_row_ - 1) / per_row_;
    top_ = 34.0 + kLegendRow * static_cast<double>(legend_rows);
    double y = 0.0;
    for (cores::GroupId group = 0; group < topology_.groups().size(); ++group) {
      const cores::GroupSpec& spec = topology_.groups()[group];
      for (cores::LaneMask lanes = spec.all(); lanes != 0; lanes &= lanes - 1) {
        if (rows_.size() == options_.lanes) break;
        const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
        rows_[{group, lane}] = {cores::lane_name(spec, group, lane), top_ + y};
        y += kRow;
      }
      if (rows_.size() == options_.lanes) break;
      y += kGroupGap;
    }
    rows_height_ = y;
  }

  double x(cores::Ticks time) const {
    const double share = end_ == 0 ? 0.0 : static_cast<double>(time) / static_cast<double>(end_);
    return kLeft + share * (options_.width - kLeft - kRight);
  }

  std::optional<double> y_of(cores::GroupId group, unsigned lane) const {
    const auto row = rows_.find({group, lane});
    return row == rows_.end() ? std::nullopt : std::optional(row->second.y);
  }

  void draw_legend() {
    std::size_t index = 0;
    const auto entry = [&](std::string_view name, std::string_view fill, double height) {
      const std::size_t column = index % per_row_, row = index / per_row_;
      const double left = 8.0 + kLegendEntry * static_cast<double>(column);
      const double y = 30.0 + kLegendRow * static_cast<double>(row);
      ++index;
      put("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"14\" height=\"{:.0f}\" fill=\"{}\"/>"
          "<text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n",
          left, y + kBox - height, height, fill, left + 19.0, y + 9.0,
          escaped(fitting(name, kLegendEntry - 24.0)));
    };
    for (const auto& [word, colour] : colours_) entry(word, colour, kBox);
    entry("parked behind what runs", "#333", 3.0);
    entry("kept for a mixed task", "url(#kept)", kBox);
  }

  // Marks at 1, 2 or 5 times a power of ten microseconds, about ten of them.
  void draw_axis() {
    const double us = static_cast<double>(end_) / 1000.0;
    const double bottom = top_ + rows_height_;
    if (us <= 0.0) return;
    double step = std::pow(10.0, std::floor(std::log10(us / 10.0)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (us / step > 12.0) step *= factor;
    }
    for (int mark = 0; mark * step <= us; ++mark) {
      const double at = x(static_cast<cores::Ticks>(mark * step * 1000.0));
      put("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g} us</text>\n",
          at, top_, bottom, bottom + 14.0, mark * step);
    }
    if (rows_.size() < topology_.lanes()) {
      put("<text x=\"8\" y=\"{:.1f}\">the first {} of {} lanes</text>\n", bottom + 28.0,
          rows_.size(), topology_.lanes());
    }
  }

  void draw_rows() {
    for (const auto& [key, row] : rows_) {
      put("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"#f4f4f4\"/>\n",
          kLeft - 6.0, row.y + 9.0, row.name, kLeft, row.y, x(end_) - kLeft, kBox);
    }
  }

  void draw_running(const cores::Span& span) {
    const auto y = y_of(span.group, span.lane);
    if (!y) return;
    const std::string name = trace_.name(span.task);
    const double left = x(span.start), width = std::max(x(span.end) - left, 0.3);
    put("<g><title>{}, block {}, {:.3f} to {:.3f} us</title><rect x=\"{:.2f}\" y=\"{:.1f}\" "
        "width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.4\"/>",
        escaped(name), span.block, us(span.start), us(span.end), left, *y, width, kBox,
        colours_.at(std::string(first_word(name))));
    const std::string_view label = fitting(name, width - 4.0);
    if (!label.empty()) {
      put("<text x=\"{:.2f}\" y=\"{:.1f}\" font-size=\"8\" fill=\"white\">{}</text>", left + 2.0,
          *y + 8.0, escaped(label));
    }
    put("</g>\n");
  }

  void draw_pending(const cores::Span& span) {
    const auto y = y_of(span.group, span.lane);
    if (!y) return;
    put("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"3\" fill=\"#333\"><title>{}, "
        "block {}, parked</title></rect>\n",
        x(span.start), *y + kBox - 3.0, x(span.end) - x(span.start),
        escaped(trace_.name(span.task)), span.block);
  }

  void draw_reserved(const cores::ReservedSpan& span) {
    const auto y = y_of(span.group, span.lane);
    if (!y) return;
    put("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"url(#kept)\"/>\n",
        x(span.start), *y, x(span.end) - x(span.start), kBox);
  }

  static double us(cores::Ticks time) { return static_cast<double>(time) / 1000.0; }

  const cores::Topology& topology_;
  const cores::LaneTrace& trace_;
  const SwimlaneOptions& options_;
  const std::function<void(std::string_view)>& out_;
  std::map<std::string, std::string> colours_;  // by the first word of names
  std::map<std::pair<cores::GroupId, unsigned>, Row> rows_;
  std::size_t per_row_ = 1;  // entries of the legend
  double top_ = 0.0, rows_height_ = 0.0;
  cores::Ticks end_ = 0;
  std::string text_;
};

}  // namespace

void write_swimlanes(const cores::Topology& topology, const cores::LaneTrace& trace,
                     const SwimlaneOptions& options,
                     const std::function<void(std::string_view)>& out) {
  Picture(topology, trace, options, out).draw();
}

}  // namespace dovetail::study
