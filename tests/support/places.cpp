#include "support/places.h"

namespace dovetail::test {

std::string source_dir() { return DOVETAIL_SOURCE_DIR; }
std::string shared_dir() { return DOVETAIL_SHARED_DIR; }

}  // namespace dovetail::test
