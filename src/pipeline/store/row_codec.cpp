#include "pipeline/store/row_codec.h"

#include <xxhash.h>

#include <cassert>
#include <limits>

namespace dovetail::pipeline {
namespace {

constexpr std::uint8_t kStateMask = 3;
constexpr std::uint8_t kHasProvenance = 4;
constexpr std::uint8_t kIsForgotten = 8;
constexpr std::uint8_t kIsCut = 16;

std::uint8_t tag_of(CellState state, const Provenance& provenance) {
  if (state == CellState::kForgotten) return kIsForgotten;
  std::uint8_t tag = static_cast<std::uint8_t>(state);
  if (provenance != Provenance{}) tag |= kHasProvenance;
  if (provenance.cut) tag |= kIsCut;
  return tag;
}

bool is_tag(std::uint8_t tag) {
  if (tag == kIsForgotten) return true;
  const bool cut_without_provenance = (tag & kIsCut) != 0 && (tag & kHasProvenance) == 0;
  return (tag & ~(kStateMask | kHasProvenance | kIsCut)) == 0 && !cut_without_provenance;
}

std::uint32_t checksum(std::string_view bytes, std::uint64_t key) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), key));
}

bool take_number32(std::string_view& in, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!take_number(in, wide) || wide > std::numeric_limits<std::uint32_t>::max()) {
    return false;
  }
  value = static_cast<std::uint32_t>(wide);
  return true;
}

bool take_cell(std::string_view& in, SlotCell& cell) {
  if (in.empty()) return false;
  const auto tag = static_cast<std::uint8_t>(in.front());
  in.remove_prefix(1);
  if (!is_tag(tag)) return false;
  cell.state =
      tag == kIsForgotten ? CellState::kForgotten : static_cast<CellState>(tag & kStateMask);
  cell.provenance = {};
  if (!take_number32(in, cell.slot) || cell.slot == kSharedSlot || cell.slot > kMaxSlot)
    return false;
  if ((tag & kHasProvenance) != 0) {
    Provenance& from = cell.provenance;
    if (!take_number32(in, from.origin) || !take_number32(in, from.attempts) ||
        !take_number32(in, from.prompt_tokens) || !take_number32(in, from.completion_tokens) ||
        !take_number(in, from.latency_us) || !take_number(in, from.cost)) {
      return false;
    }
    from.cut = (tag & kIsCut) != 0;
  }
  std::uint64_t size = 0;
  if (!take_number(in, size) || size > in.size()) return false;
  cell.json = in.substr(0, static_cast<std::size_t>(size));
  in.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

}  // namespace

void append_number(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(value | 0x80)));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

bool take_number(std::string_view& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(in.front());
    in.remove_prefix(1);
    if (shift == 63 && byte > 1) return false;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

void open_row(std::string& out) { out.append(kSealBytes, '\0'); }

void append_cell(std::string& out, const SlotCell& cell) {
  assert(cell.slot != kSharedSlot && cell.slot <= kMaxSlot);
  assert(cell.state != CellState::kForgotten || cell.provenance == Provenance{});
  const bool known = cell.provenance != Provenance{};
  out.push_back(static_cast<char>(tag_of(cell.state, cell.provenance)));
  append_number(out, cell.slot);
  if (known) {
    append_number(out, cell.provenance.origin);
    append_number(out, cell.provenance.attempts);
    append_number(out, cell.provenance.prompt_tokens);
    append_number(out, cell.provenance.completion_tokens);
    append_number(out, cell.provenance.latency_us);
    append_number(out, cell.provenance.cost);
  }
  append_number(out, cell.json.size());
  out.append(cell.json);
}

void seal_row(std::string& out, std::size_t start, std::uint64_t key) {
  const std::uint32_t sum = checksum(std::string_view(out).substr(start + kSealBytes), key);
  for (std::size_t i = 0; i < kSealBytes; ++i) {
    out[start + i] = static_cast<char>(static_cast<std::uint8_t>(sum >> (8 * i)));
  }
}

Result<std::string_view> unseal(std::string_view sealed, std::uint64_t key) {
  if (sealed.size() < kSealBytes) return fail(ErrorKind::kInvalid, "it is cut short");
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kSealBytes; ++i) {
    sum |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(sealed[i])) << (8 * i);
  }
  sealed.remove_prefix(kSealBytes);
  if (sum != checksum(sealed, key)) return fail(ErrorKind::kInvalid, "its checksum does not hold");
  return sealed;
}

Status decode_row(std::string_view sealed, RowKey key, std::vector<SlotCell>& cells) {
  auto contents = unseal(sealed, static_cast<std::uint64_t>(key));
  if (!contents) return fail(contents.error());
  std::uint32_t last = kSharedSlot;
  while (!contents->empty()) {
    SlotCell cell;
    if (!take_cell(*contents, cell) || cell.slot <= last ||
        (slot_of(key) != kSharedSlot && slot_of(key) != cell.slot)) {
      return fail(ErrorKind::kInvalid, "its cells are malformed");
    }
    last = cell.slot;
    cells.push_back(cell);
  }
  return {};
}

Result<std::string> merge_rows(std::string_view older, std::string_view newer, RowKey key) {
  std::vector<SlotCell> first;
  std::vector<SlotCell> second;
  if (auto ok = decode_row(older, key, first); !ok) return fail(ok.error());
  if (auto ok = decode_row(newer, key, second); !ok) return fail(ok.error());
  std::string merged;
  merged.reserve(older.size() + newer.size());
  open_row(merged);
  auto cell = first.begin();
  for (const SlotCell& next : second) {
    for (; cell != first.end() && cell->slot < next.slot; ++cell) append_cell(merged, *cell);
    if (cell != first.end() && cell->slot == next.slot) ++cell;
    append_cell(merged, next);
  }
  for (; cell != first.end(); ++cell) append_cell(merged, *cell);
  seal_row(merged, 0, static_cast<std::uint64_t>(key));
  return merged;
}

Result<std::uint64_t> drop_slots(std::string_view sealed, RowKey key, const std::vector<bool>& gone,
                                 std::string& rest) {
  std::vector<SlotCell> cells;
  if (auto ok = decode_row(sealed, key, cells); !ok) return fail(ok.error());
  const std::size_t before = cells.size();
  std::erase_if(cells, [&](const SlotCell& cell) { return gone[cell.slot]; });
  if (cells.size() == before) return std::uint64_t{0};
  rest.clear();
  if (!cells.empty()) {
    open_row(rest);
    for (const SlotCell& cell : cells) append_cell(rest, cell);
    seal_row(rest, 0, static_cast<std::uint64_t>(key));
  }
  return before - cells.size();
}

}  // namespace dovetail::pipeline
