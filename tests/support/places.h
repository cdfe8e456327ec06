#pragma once

#include <string>

namespace dovetail::test {

// Where the checkout lies, and the folder with models from elsewhere. Functions, so that the
// sources that look at files compile to the same object wherever they lie, and with their
// neighbours.
std::string source_dir();
std::string shared_dir();

}  // namespace dovetail::test
