#include "grammar/formats.h"

#include <algorithm>
#include <array>

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

// RFC 3339, appendix A, with up to nine digits to a number.
#define DOVETAIL_COUNT "[0-9]{1,9}"
#define DOVETAIL_CLOCK                                                                      \
  "T(?:" DOVETAIL_COUNT "H(?:" DOVETAIL_COUNT "M(?:" DOVETAIL_COUNT "S)?)?|" DOVETAIL_COUNT \
  "M(?:" DOVETAIL_COUNT "S)?|" DOVETAIL_COUNT "S)"
#define DOVETAIL_MONTHS DOVETAIL_COUNT "M(?:" DOVETAIL_COUNT "D)?"
#define DOVETAIL_DURATION                                                                 \
  "P(?:(?:" DOVETAIL_COUNT "D|" DOVETAIL_MONTHS "|" DOVETAIL_COUNT "Y(?:" DOVETAIL_MONTHS \
  ")?)(?:" DOVETAIL_CLOCK ")?|" DOVETAIL_CLOCK "|" DOVETAIL_COUNT "W)"

#define DOVETAIL_IPV4                                       \
  "(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}" \
  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

// RFC 4291, without the form that ends as IPv4 addresses do.
#define DOVETAIL_H16 "[0-9a-fA-F]{1,4}"
#define DOVETAIL_IPV6                                                                            \
  "(?:(?:" DOVETAIL_H16 ":){7}" DOVETAIL_H16 "|(?:" DOVETAIL_H16 ":){1,7}:|(?:" DOVETAIL_H16     \
  ":){1,6}:" DOVETAIL_H16 "|(?:" DOVETAIL_H16 ":){1,5}(?::" DOVETAIL_H16 "){2}|(?:" DOVETAIL_H16 \
  ":){1,4}(?::" DOVETAIL_H16 "){3}|(?:" DOVETAIL_H16 ":){1,3}(?::" DOVETAIL_H16                  \
  "){4}|(?:" DOVETAIL_H16 ":){1,2}(?::" DOVETAIL_H16 "){5}|" DOVETAIL_H16 ":(?::" DOVETAIL_H16   \
  "){6}|:(?:(?::" DOVETAIL_H16 "){1,7}|:))"

// A part of RFC 1123: up to eight labels, together shorter than 253 characters.
#define DOVETAIL_LABEL "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,14}"
#define DOVETAIL_HOSTNAME "(?:" DOVETAIL_LABEL "\\.){0,7}" DOVETAIL_LABEL

// A part of RFC 5321's mailboxes: a dot-atom of common characters and a name with two labels or
// more.
#define DOVETAIL_EMAIL                      \
  "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@" \
  "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,24}"

// RFC 3986, but for authorities without a host; `file:///` has none.
#define DOVETAIL_CODED "%[0-9A-Fa-f]{2}"
#define DOVETAIL_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" DOVETAIL_CODED ")"
#define DOVETAIL_SEGMENTS "(?:/" DOVETAIL_PCHAR "*)*"
#define DOVETAIL_AUTHORITY                                                       \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" DOVETAIL_CODED                            \
  ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|" DOVETAIL_CODED ")+|\\[" DOVETAIL_IPV6 \
  "\\])(?::[0-"                                                                  \
  "9]{1,5})?"
#define DOVETAIL_FROM_ROOT "/(?:" DOVETAIL_PCHAR "+" DOVETAIL_SEGMENTS ")?"
#define DOVETAIL_TAIL "(?:\\?(?:[/?]|" DOVETAIL_PCHAR ")*)?(?:#(?:[/?]|" DOVETAIL_PCHAR ")*)?"
#define DOVETAIL_URI                                                                            \
  "[A-Za-z][A-Za-z0-9+.-]*:(?://" DOVETAIL_AUTHORITY DOVETAIL_SEGMENTS "|//" DOVETAIL_FROM_ROOT \
  "|" DOVETAIL_FROM_ROOT "|" DOVETAIL_PCHAR "+" DOVETAIL_SEGMENTS ")" DOVETAIL_TAIL
#define DOVETAIL_RELATIVE                                             \
  "(?://" DOVETAIL_AUTHORITY DOVETAIL_SEGMENTS "|" DOVETAIL_FROM_ROOT \
  "|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" DOVETAIL_CODED ")+" DOVETAIL_SEGMENTS ")?" DOVETAIL_TAIL

constexpr std::array<Format, 19> kFormats = {{
    {"date", DOVETAIL_DATE, "", ""},
    {"time", DOVETAIL_TIME, "", ""},
    {"date-time", DOVETAIL_DATE "T" DOVETAIL_TIME, "", ""},
    {"duration", DOVETAIL_DURATION, "", ""},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "", ""},
    {"ipv4", DOVETAIL_IPV4, "", ""},
    {"ipv6", DOVETAIL_IPV6, "", ""},
    {"hostname", DOVETAIL_HOSTNAME, "", ""},
    {"email", DOVETAIL_EMAIL, "", ""},
    {"uri", DOVETAIL_URI, "", ""},
    {"uri-reference", DOVETAIL_URI "|" DOVETAIL_RELATIVE, "", ""},
    {"int8", "", "-128", "127"},
    {"int16", "", "-32768", "32767"},
    {"int32", "", "-2147483648", "2147483647"},
    {"int64", "", "-9223372036854775808", "9223372036854775807"},
    {"uint8", "", "0", "255"},
    {"uint16", "", "0", "65535"},
    {"uint32", "", "0", "4294967295"},
    {"uint64", "", "0", "18446744073709551615"},
}};

#undef DOVETAIL_RELATIVE
#undef DOVETAIL_URI
#undef DOVETAIL_TAIL
#undef DOVETAIL_FROM_ROOT
#undef DOVETAIL_AUTHORITY
#undef DOVETAIL_SEGMENTS
#undef DOVETAIL_PCHAR
#undef DOVETAIL_CODED
#undef DOVETAIL_EMAIL
#undef DOVETAIL_HOSTNAME
#undef DOVETAIL_LABEL
#undef DOVETAIL_IPV6
#undef DOVETAIL_H16
#undef DOVETAIL_IPV4
#undef DOVETAIL_DURATION
#undef DOVETAIL_MONTHS
#undef DOVETAIL_CLOCK
#undef DOVETAIL_COUNT
#undef DOVETAIL_TIME
#undef DOVETAIL_HOUR
#undef DOVETAIL_DATE

}  // namespace

const Format* find_format(std::string_view name) {
  const auto* known = std::find_if(kFormats.begin(), kFormats.end(),
                                   [&](const Format& format) { return format.name == name; });
  return known == kFormats.end() ? nullptr : known;
}

}  // namespace dovetail::grammar
