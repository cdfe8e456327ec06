#include "pipeline/report/charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "pipeline/report/axis.h"
#include "pipeline/report/terminal_text.h"
#include "pipeline/report/xml_text.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMostBars = 32;
constexpr std::size_t kMostSteps = 256;
// Of the drawing's own coordinates.
constexpr double kWidth = 1000, kHeight = 100;

struct Column {
  double from = 0, to = 0;  // 0 to 1
  std::uint64_t count = 0;
  std::string range;
  bool muted = false;
};

std::string caption(const ChartText& text) {
  return fmt::format("<figcaption><b>{}</b>{}</figcaption>", escaped(text.title),
                     text.note.empty() ? "" : fmt::format(" <span>{}</span>", escaped(text.note)));
}

std::string y_labels(double end) {
  std::string out = "<div class=\"y\" aria-hidden=\"true\">";
  for (const double share : {0.0, 0.5, 1.0}) {
    out += fmt::format("<span style=\"bottom:{:.0f}%\">{}</span>", share * 100,
                       label_of(end * share, Unit::kCount));
  }
  return out + "</div>";
}

std::string x_labels(const std::vector<Tick>& ticks) {
  std::string out = "<div class=\"x\" aria-hidden=\"true\">";
  for (const Tick& tick : ticks) {
    const char* side = tick.place < 0.06 ? " class=\"l\"" : tick.place > 0.94 ? " class=\"r\"" : "";
    out += fmt::format("<span{} style=\"left:{:.2f}%\">{}</span>", side, tick.place * 100,
                       escaped(tick.label));
  }
  return out + "</div>";
}

std::string grid() {
  return fmt::format(
      "<path class=\"grid\" d=\"M0 0H{0:.0f}M0 {1:.0f}H{0:.0f}\"/>"
      "<path class=\"base\" d=\"M0 {2:.0f}H{0:.0f}\"/>",
      kWidth, kHeight / 2, kHeight);
}

std::string frame(const ChartText& text, double end, const std::string& drawing,
                  const std::vector<Tick>& ticks, std::string_view more = "") {
  return fmt::format(
      "<figure class=\"chart\">{}<p class=\"ylab\">{}</p><div class=\"plot\">{}"
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">{}{}</svg>{}{}</div><p class=\"xlab\">{}</p></figure>\n",
      caption(text), escaped(text.y_axis), y_labels(end), kWidth, kHeight, escaped(text.title),
      grid(), drawing, more, x_labels(ticks), escaped(text.x_axis));
}

std::string columns_chart(const std::vector<Column>& columns, const ChartText& text,
                          const std::vector<Tick>& ticks) {
  std::uint64_t greatest = 0, total = 0;
  for (const Column& column : columns) {
    greatest = std::max(greatest, column.count);
    total += column.count;
  }
  const auto end = static_cast<double>(axis_end(greatest));
  std::string drawing;
  for (const Column& column : columns) {
    if (column.count == 0) continue;
    const double wide = (column.to - column.from) * kWidth;
    // What is there can be seen, however rare it is.
    const double tall = std::max(static_cast<double>(column.count) / end * kHeight, 0.8);
    drawing += fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\">"
        "<title>{}: {} ({})</title></rect>",
        column.muted ? "bar rest" : "bar", column.from * kWidth + wide * 0.06, kHeight - tall,
        wide * 0.88, tall, escaped(column.range), grouped(column.count),
        percent_text(column.count, total));
  }
  return frame(text, end, drawing, ticks);
}

std::string range_text(double from, double to, Unit unit, bool whole) {
  if (whole && to - from <= 1) return label_of(from, unit);
  return fmt::format("{} to {}", label_of(from, unit), label_of(whole ? to - 1 : to, unit));
}

std::string_view class_of(std::size_t cause) { return name_of(static_cast<SlotCause>(cause)); }

// Buckets side by side, few enough to be drawn.
std::vector<Activity::Bucket> steps_of(const Activity& activity, std::size_t& merged) {
  const auto buckets = activity.buckets();
  merged = std::max<std::size_t>(1, (buckets.size() + kMostSteps - 1) / kMostSteps);
  std::vector<Activity::Bucket> steps((buckets.size() + merged - 1) / merged);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Activity::Bucket& step = steps[i / merged];
    step.in_flight += buckets[i].in_flight;
    step.limit += buckets[i].limit;
    for (std::size_t c = 0; c < kSlotCauses; ++c) step.by[c] += buckets[i].by[c];
  }
  return steps;
}

double mean(std::uint64_t sum, const Activity::Bucket& step) {
  const std::uint64_t time = step.covered();
  return time == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(time);
}

}  // namespace

std::string histogram_chart(const LogHistogram& histogram, Unit unit, const ChartText& text) {
  const Binning binning = bins_of(histogram, unit);
  if (binning.bins.empty()) return "";
  const std::vector<HistogramBin>& bins = binning.bins;
  // What is above has a bar of its own, apart from the others.
  const auto slots = static_cast<double>(bins.size()) + (binning.above > 0 ? 2.0 : 0.0);
  const double scale = static_cast<double>(bins.size()) / slots;
  const bool whole = unit == Unit::kCount && !binning.logarithmic;
  std::vector<Column> columns;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    columns.push_back({static_cast<double>(i) / slots, static_cast<double>(i + 1) / slots,
                       bins[i].count, range_text(bins[i].from, bins[i].to, unit, whole), false});
  }
  const double from = bins.front().from, to = bins.back().to;
  if (binning.above > 0) {
    columns.push_back({1 - 1 / slots, 1, binning.above, label_of(to, unit) + " and above", true});
  }
  std::vector<Tick> ticks =
      binning.logarithmic ? log_ticks(from, to, unit) : linear_ticks(from, to, unit, 5);
  const bool ones = whole && bins.front().to - bins.front().from == 1;
  for (Tick& tick : ticks) {
    if (ones) tick.place += 0.5 / static_cast<double>(bins.size());
    tick.place *= scale;
  }
  std::erase_if(ticks, [&](const Tick& tick) {
    return tick.place > scale || (binning.above > 0 && tick.place > 0.72);
  });
  if (binning.above > 0) ticks.push_back({1.0, "more"});
  return columns_chart(columns, text, ticks);
}

std::string number_chart(const NumberHistogram& histogram, const ChartText& text) {
  const std::vector<HistogramBin> bins = histogram.bins();
  if (bins.empty()) return "";
  const std::size_t merged = (bins.size() + kMostBars - 1) / kMostBars;
  std::vector<HistogramBin> bars;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (i % merged == 0) bars.push_back({bins[i].from, bins[i].to, 0});
    bars.back().to = bins[i].to;
    bars.back().count += bins[i].count;
  }
  const double from = bars.front().from, to = bars.back().to;
  std::vector<Column> columns;
  for (const HistogramBin& bar : bars) {
    columns.push_back({(bar.from - from) / (to - from), (bar.to - from) / (to - from), bar.count,
                       range_text(bar.from, bar.to, Unit::kNumber, histogram.whole()), false});
  }
  auto ticks = linear_ticks(from, to, Unit::kNumber, 5);
  if (histogram.whole() && to - from <= static_cast<double>(kMostBars)) {
    // A whole number's mark belongs below the middle of its bar.
    for (Tick& tick : ticks) tick.place += 0.5 / (to - from);
    std::erase_if(ticks, [](const Tick& tick) { return tick.place > 1; });
  }
  return columns_chart(columns, text, ticks);
}

std::string bar_chart(const std::vector<Bar>& bars, std::uint64_t total, const ChartText& text) {
  std::uint64_t greatest = 1;
  for (const Bar& bar : bars) greatest = std::max(greatest, bar.count);
  std::string out = "<figure class=\"chart bars\">" + caption(text) + "<table><tbody>";
  for (const Bar& bar : bars) {
    out += fmt::format(
        "<tr{}><th scope=\"row\">{}</th><td class=\"track\"><i style=\"width:{:.2f}%\"></i></td>"
        "<td class=\"n\">{}</td><td class=\"n share\">{}</td></tr>",
        bar.muted ? " class=\"muted\"" : "", escaped(bar.label),
        100.0 * static_cast<double>(bar.count) / static_cast<double>(greatest), grouped(bar.count),
        percent_text(bar.count, total));
  }
  return out + "</tbody></table></figure>\n";
}

std::string occupancy_chart(const Activity& activity, const ChartText& text) {
  std::size_t merged = 1;
  const std::vector<Activity::Bucket> steps = steps_of(activity, merged);
  if (steps.empty() || activity.last() == 0) return "";
  double highest = 1;
  for (const Activity::Bucket& step : steps) {
    highest = std::max({highest, mean(step.in_flight, step), mean(step.limit, step)});
  }
  const auto end = static_cast<double>(axis_end(static_cast<std::uint64_t>(std::ceil(highest))));
  const auto time = static_cast<double>(activity.last());
  const double width = static_cast<double>(activity.bucket_width() * merged) / time * kWidth;
  const auto x = [&](std::size_t step) {
    return std::min(static_cast<double>(step) * width, kWidth);
  };
  const auto y = [&](double value) { return kHeight - value / end * kHeight; };

  std::string area = fmt::format("M0 {:.0f}", kHeight), limit, ribbon;
  bool drawing_limit = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    area += fmt::format("V{:.2f}H{:.2f}", y(mean(steps[i].in_flight, steps[i])), x(i + 1));
    const bool known = steps[i].covered() > 0;
    if (known) {
      const double height = y(mean(steps[i].limit, steps[i]));
      limit += drawing_limit ? fmt::format("V{:.2f}", height)
                             : fmt::format("M{:.2f} {:.2f}", x(i), height);
      limit += fmt::format("H{:.2f}", x(i + 1));
    }
    drawing_limit = known;
  }
  const auto cause_of = [&](std::size_t i) {
    const auto& by = steps[i].by;
    return static_cast<std::size_t>(
        std::distance(by.begin(), std::max_element(by.begin(), by.end())));
  };
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t next = i + 1;
    const bool known = steps[i].covered() > 0;
    while (next < steps.size() && (steps[next].covered() > 0) == known &&
           cause_of(next) == cause_of(i)) {
      ++next;
    }
    if (known) {
      ribbon += fmt::format(
          "<rect class=\"c-{}\" x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" height=\"10\">"
          "<title>{}</title></rect>",
          class_of(cause_of(i)), x(i), x(next) - x(i),
          words_of(static_cast<SlotCause>(cause_of(i))));
    }
    i = next;
  }
  const std::string drawing =
      fmt::format("<path class=\"area\" d=\"{}V{:.0f}Z\"/><path class=\"limit\" d=\"{}\"/>", area,
                  kHeight, limit);
  const std::string below = fmt::format(
      "<svg class=\"ribbon\" viewBox=\"0 0 {:.0f} 10\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"state over time\">{}</svg>",
      kWidth, ribbon);
  return frame(text, end, drawing, linear_ticks(0, time, Unit::kMicros, 6), below);
}

std::string cause_bar(const Activity& activity) {
  const Activity::Bucket total = activity.total();
  const std::uint64_t time = total.covered();
  if (time == 0) return "";
  std::string out = "<div class=\"stack\" aria-hidden=\"true\">";
  for (std::size_t cause = 0; cause < kSlotCauses; ++cause) {
    if (total.by[cause] == 0) continue;
    out += fmt::format(
        "<i class=\"c-{}\" style=\"width:{:.3f}%\" title=\"{}: {}\"></i>", class_of(cause),
        100.0 * static_cast<double>(total.by[cause]) / static_cast<double>(time),
        words_of(static_cast<SlotCause>(cause)), percent_text(total.by[cause], time));
  }
  return out + "</div>\n";
}

}  // namespace dovetail::pipeline
