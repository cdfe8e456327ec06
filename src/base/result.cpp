#include "base/result.h"

namespace dovetail {

Error make_error(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  return Error{kind, fmt::vformat(format, args)};
}

}  // namespace dovetail
