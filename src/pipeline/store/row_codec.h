#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// A row of the database holds one or several cells of a record: four bytes of checksum over its key
// and contents, then the cells, ordered by slot. A cell: a byte with its state, whether it has a
// provenance and whether its answer was cut, the slot, the provenance, the length of the text, the
// text; numbers are LEB128. A slot is a column's number in the database. Slot 0 in a key is the row
// that small columns share.
using RowKey = std::int64_t;
inline constexpr int kSlotBits = 16;
inline constexpr std::uint32_t kSharedSlot = 0;
inline constexpr std::uint32_t kMaxSlot = (1U << kSlotBits) - 1;
inline constexpr std::uint64_t kMaxRecord = (std::uint64_t{1} << (63 - kSlotBits)) - 1;

constexpr RowKey row_key(std::uint64_t record, std::uint32_t slot) {
  return static_cast<RowKey>(record << kSlotBits | slot);
}
constexpr std::uint64_t record_of(RowKey key) {
  return static_cast<std::uint64_t>(key) >> kSlotBits;
}
constexpr std::uint32_t slot_of(RowKey key) { return static_cast<std::uint32_t>(key) & kMaxSlot; }

struct SlotCell {
  std::uint32_t slot = 0;
  CellState state = CellState::kValue;
  std::string_view json;
  Provenance provenance;
};

inline constexpr std::size_t kSealBytes = 4;

// Appends the room for the checksum; seal_row() fills it in when all is appended. The contents
// begin at `start` of `out`; any bytes sealed under one key do not pass under another.
void open_row(std::string& out);
void append_cell(std::string& out, const SlotCell& cell);
void seal_row(std::string& out, std::size_t start, std::uint64_t key);

// The contents behind a checksum that holds; nothing where it does not.
Result<std::string_view> unseal(std::string_view sealed, std::uint64_t key);

// Appends the cells of a sealed row; their texts point into it. A row that is not what
// append_cell() made, or belongs elsewhere, is an error.
Status decode_row(std::string_view sealed, RowKey key, std::vector<SlotCell>& cells);

// The row of all cells of both; where both have a slot, that of `newer` counts.
Result<std::string> merge_rows(std::string_view older, std::string_view newer, RowKey key);

// Sets `rest` to the row without the cells of slots that are gone, empty where none is left. Says
// how many went; 0: `rest` is not set.
Result<std::uint64_t> drop_slots(std::string_view sealed, RowKey key, const std::vector<bool>& gone,
                                 std::string& rest);

// LEB128, for the store's other records.
void append_number(std::string& out, std::uint64_t value);
// Takes a number off the front; false where there is none.
bool take_number(std::string_view& in, std::uint64_t& value);

}  // namespace dovetail::pipeline
