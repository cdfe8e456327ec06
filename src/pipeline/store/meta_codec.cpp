#include "pipeline/store/meta_codec.h"

#include <xxhash.h>

#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {
namespace {

std::uint64_t seed(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out.append(text);
}

bool take_text(std::string_view& in, std::string& text) {
  std::uint64_t size = 0;
  if (!take_number(in, size) || size > in.size()) return false;
  text = in.substr(0, static_cast<std::size_t>(size));
  in.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

void append_hash(std::string& out, const Hash128& hash) {
  append_number(out, hash.high);
  append_number(out, hash.low);
}

bool take_hash(std::string_view& in, Hash128& hash) {
  return take_number(in, hash.high) && take_number(in, hash.low);
}

bool take_column(std::string_view& in, StoredColumn& column) {
  std::uint64_t slot = 0;
  std::uint64_t small = 0;
  if (!take_text(in, column.spec.name) || !take_hash(in, column.spec.fingerprint) ||
      !take_number(in, small) || !take_number(in, slot) || small > 1 || slot == kSharedSlot ||
      slot > kMaxSlot) {
    return false;
  }
  column.spec.small = small == 1;
  column.slot = static_cast<std::uint32_t>(slot);
  return true;
}

}  // namespace

std::string seal_meta(std::string_view name, std::string_view contents) {
  std::string sealed;
  open_row(sealed);
  sealed.append(contents);
  seal_row(sealed, 0, seed(name));
  return sealed;
}

Result<std::string_view> unseal_meta(std::string_view name, std::string_view sealed) {
  return unseal(sealed, seed(name));
}

std::string property_name(std::string_view name) { return fmt::format("property:{}", name); }

std::string encode_columns(const std::vector<StoredColumn>& columns) {
  std::string contents;
  for (const StoredColumn& column : columns) {
    append_text(contents, column.spec.name);
    append_hash(contents, column.spec.fingerprint);
    append_number(contents, column.spec.small ? 1 : 0);
    append_number(contents, column.slot);
  }
  return contents;
}

std::optional<std::vector<StoredColumn>> decode_columns(std::string_view contents) {
  std::vector<StoredColumn> columns;
  while (!contents.empty()) {
    if (!take_column(contents, columns.emplace_back())) return std::nullopt;
  }
  return columns;
}

std::string encode_origin(std::uint32_t id, const Origin& origin) {
  std::string sealed;
  open_row(sealed);
  append_text(sealed, origin.model);
  append_hash(sealed, origin.parameters);
  seal_row(sealed, 0, id);
  return sealed;
}

std::optional<Origin> decode_origin(std::uint64_t id, std::string_view sealed) {
  Origin origin;
  auto contents = unseal(sealed, id);
  if (!contents || !take_text(*contents, origin.model) ||
      !take_hash(*contents, origin.parameters) || !contents->empty()) {
    return std::nullopt;
  }
  return origin;
}

std::string response_key(const Hash128& key) {
  std::string bytes;
  for (const std::uint64_t half : {key.high, key.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(half >> shift)));
    }
  }
  return bytes;
}

std::string seal_response(const Hash128& key, std::string_view json) {
  std::string sealed;
  open_row(sealed);
  sealed.append(json);
  seal_row(sealed, 0, key.high ^ key.low);
  return sealed;
}

Result<std::string_view> unseal_response(const Hash128& key, std::string_view sealed) {
  return unseal(sealed, key.high ^ key.low);
}

}  // namespace dovetail::pipeline
