#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::pipeline {

// A 128-bit content hash, made by the caller.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// How a cell ended. A cell that is not in the store has not been finished.
enum class CellState : std::uint8_t {
  kValue,    // `json` is the value
  kFailed,   // `json` is the reason
  kSkipped,  // by its condition or by a column before it
  kDropped,  // its record was dropped
  // As if it had never been there: put() takes it for cells that are to be made anew, and reading
  // never hands it out.
  kForgotten,
};
inline constexpr std::size_t kCellStates = 4;  // of cells that are read

// Who made a value: kept once per run, not per cell (Store::origin()).
struct Origin {
  std::string model;
  Hash128 parameters;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// What a cell cost, all attempts at it together. All zeros takes no room in the store.
struct Provenance {
  std::uint32_t origin = 0;  // from Store::origin(); 0: none
  std::uint32_t attempts = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint64_t latency_us = 0;  // of the last attempt
  std::uint64_t cost = 0;        // in 1e-9 of the currency
  bool cut = false;              // the last answer was ended by its limit of tokens
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

// One finished cell. `column` is an index into the columns of the last Store::reconcile().
struct CellResult {
  std::uint64_t record = 0;
  std::uint32_t column = 0;
  CellState state = CellState::kValue;
  std::string json;  // the value as JSON text; for the other states the reason
  Provenance provenance;
  friend bool operator==(const CellResult&, const CellResult&) = default;
};

// A cell as reading hands it out; `json` is valid during the call.
struct CellView {
  std::uint64_t record = 0;
  std::uint32_t column = 0;
  CellState state = CellState::kValue;
  std::string_view json;
  Provenance provenance;
};

// A column of the run.
struct ColumnSpec {
  std::string name;
  Hash128 fingerprint;  // of everything its values depend on; another one makes them anew
  // Values of a few bytes that come together (samplers, expressions): such columns of a record
  // share a row of the database, which makes them several times cheaper.
  bool small = false;
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

}  // namespace dovetail::pipeline
