#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/sample/fields.h"

namespace dovetail::pipeline {

// A YAML (or JSON) file as JSON, with the place of every value, so that whoever reads a value can
// say where it stands. Scalars have the types of YAML 1.2's core schema; quoted ones are strings.
class Document final : public Places {
 public:
  // `name` stands in errors. kInvalid with line and column: not YAML, not UTF-8, several documents,
  // a key twice or that is no string, an alias that holds itself, deeper than 64 levels, or more
  // than a million values (aliases are counted each time).
  static Result<Document> parse(std::string_view yaml, std::string name);

  const std::string& name() const { return name_; }
  const Json& root() const { return root_; }

  // "NAME:LINE:COLUMN: POINTER: " for the value at a JSON pointer, or the nearest that encloses it.
  std::string where(std::string_view pointer) const override;
  // A message that begins with a JSON pointer and ": ", as the readers of JSON write them, with the
  // place in front.
  std::string placed(std::string_view message) const;
  // The same of each line of a Mistakes::status(); kInvalid.
  Status all_placed(std::string_view mistakes) const;

 private:
  struct Place {
    int line = 0, column = 0;  // from 1
  };

  std::string name_;
  Json root_;
  std::unordered_map<std::string, Place> places_;

  friend class DocumentReader;
};

}  // namespace dovetail::pipeline
