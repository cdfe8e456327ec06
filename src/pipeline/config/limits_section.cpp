#include "pipeline/config/limits_section.h"

namespace dovetail::pipeline {

LimitsSpec read_limits(const Document& document, Fields& top) {
  LimitsSpec limits;
  const Json* section = top.object("limits");
  if (section == nullptr) return limits;
  Fields fields(document, *section, top.at("limits"));
  limits.cost = fields.real("cost", 0.0, 1e9);
  if (const Json* errors = fields.object("errors")) {
    Fields inner(document, *errors, fields.at("errors"));
    limits.error_share = inner.real("share", 0.0, 1.0).value_or(limits.error_share);
    limits.error_window = static_cast<std::uint32_t>(
        inner.integer("window", 1, 1'000'000).value_or(limits.error_window));
    fields.take(inner.finish());
  }
  if (const auto stall = fields.real("stall", 0.001, 1e7)) {
    limits.stall = std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * *stall));
  }
  top.take(fields.finish());
  return limits;
}

}  // namespace dovetail::pipeline
