#pragma once

#include <string_view>

namespace dovetail::load {

// What a model does with matrices other than to multiply rows by them, told by their names.

// A matrix of which single rows are looked up.
bool is_embedding(std::string_view name);

// One of which rows are read from any on, so that it stays as its file has it: an embedding, and
// those that are multiplied a head at a time.
bool is_read_by_rows(std::string_view name);

}  // namespace dovetail::load
