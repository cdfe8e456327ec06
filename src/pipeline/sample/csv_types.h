#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "pipeline/sample/seed_spec.h"

namespace dovetail::pipeline {

// Which types the fields of one CSV column fit, as they come in.
class TypeGuess {
 public:
  void see(const std::string& field);
  // Integers have no leading zero and fit 64 bits; numbers are written as in JSON; truth is true,
  // True or TRUE. A column of empty fields holds strings.
  SeedType type() const;

 private:
  bool seen_ = false;
  bool int_ = true, number_ = true, truth_ = true;
};

// A field as a value of the type: null where it is empty (but for strings), nothing where it does
// not fit.
std::optional<nlohmann::ordered_json> typed_field(const std::string& field, SeedType type);

}  // namespace dovetail::pipeline
