#pragma once

#include <string>

namespace dovetail::cli {

// What `--version` says: version, commit, compiler, kind of build, instruction sets. Lines.
std::string version_text();

}  // namespace dovetail::cli
