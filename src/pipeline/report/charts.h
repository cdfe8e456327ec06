#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/report/activity.h"
#include "pipeline/report/axis.h"
#include "pipeline/report/histogram.h"

namespace dovetail::pipeline {

// Charts as XHTML with SVG inside, for the style of html_report. The drawing stretches with the
// page; labels are text beside it, so that they stay readable on any width. Texts given in are
// escaped here.

struct ChartText {
  std::string_view title;
  std::string note;         // beside the title: "median 12, 95%: 40"
  std::string_view x_axis;  // "tokens"
  std::string_view y_axis;  // "cells"
};

// On the axis that bins_of() chooses. Empty without values.
std::string histogram_chart(const LogHistogram& histogram, Unit unit, const ChartText& text);

std::string number_chart(const NumberHistogram& histogram, const ChartText& text);

struct Bar {
  std::string label;
  std::uint64_t count = 0;
  bool muted = false;  // what is left over
};
// A bar per label, with its count and its share of `total`.
std::string bar_chart(const std::vector<Bar>& bars, std::uint64_t total, const ChartText& text);

// Requests in flight over time as an area, the limit as a line, below it the cause that prevailed
// as a ribbon.
std::string occupancy_chart(const Activity& activity, const ChartText& text);

// The causes' shares of the time as one bar. Empty where nothing is known.
std::string cause_bar(const Activity& activity);

}  // namespace dovetail::pipeline
