#pragma once

#include <span>

#include "text/jinja_builtins.h"

namespace dovetail::text::jinja {

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

// Filters of one value, and those that work on the elements of one.
std::span<const NamedFilter> scalar_filters();
std::span<const NamedFilter> sequence_filters();

}  // namespace dovetail::text::jinja
