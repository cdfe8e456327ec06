#include "grammar/formats.h"

namespace dovetail::grammar {
namespace {

// RFC 3339: full-date with real days, full-time without leap seconds.
#define DOVETAIL_DATE                                                                            \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
  "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468]"  \
  "[048]|[13579][26])00)-02-29)"
#define DOVETAIL_HOUR "(?:[01][0-9]|2[0-3])"
#define DOVETAIL_TIME \
  DOVETAIL_HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" DOVETAIL_HOUR ":[0-5][0-9])"

constexpr std::string_view kDate = DOVETAIL_DATE;
constexpr std::string_view kTime = DOVETAIL_TIME;
constexpr std::string_view kDateTime = DOVETAIL_DATE "T" DOVETAIL_TIME;

#undef DOVETAIL_TIME
#undef DOVETAIL_HOUR
#undef DOVETAIL_DATE

constexpr std::string_view kUuid = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
constexpr std::string_view kIpv4 =
    "(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
    "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
// A part of RFC 5321's mailboxes: a dot-atom of common characters and a name with two labels or
// more.
constexpr std::string_view kEmail =
    "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@"
    "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,24}";

}  // namespace

std::string_view format_pattern(std::string_view name) {
  if (name == "date") return kDate;
  if (name == "time") return kTime;
  if (name == "date-time") return kDateTime;
  if (name == "uuid") return kUuid;
  if (name == "ipv4") return kIpv4;
  if (name == "email") return kEmail;
  return {};
}

}  // namespace dovetail::grammar
