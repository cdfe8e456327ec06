#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// The small records that a run keeps beside its cells, as bytes; the same in every database.

// A named record with a checksum over its contents and its name.
std::string seal_meta(std::string_view name, std::string_view contents);
Result<std::string_view> unseal_meta(std::string_view name, std::string_view sealed);

// The name of the columns' record, and that of a property's.
inline constexpr std::string_view kColumnsMeta = "columns";
std::string property_name(std::string_view name);

std::string encode_columns(const std::vector<StoredColumn>& columns);
// Nothing where the bytes are not what encode_columns() made; so also below.
std::optional<std::vector<StoredColumn>> decode_columns(std::string_view contents);

// With a checksum.
std::string encode_origin(std::uint32_t id, const Origin& origin);
std::optional<Origin> decode_origin(std::uint64_t id, std::string_view sealed);

// A cached response: its key as an index orders it, its text with a checksum.
std::string response_key(const Hash128& key);
std::string seal_response(const Hash128& key, std::string_view json);
Result<std::string_view> unseal_response(const Hash128& key, std::string_view sealed);

}  // namespace dovetail::pipeline
