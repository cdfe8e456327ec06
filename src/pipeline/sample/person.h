#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/sample/date_time.h"
#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {

class Fields;

enum class PersonField {
  kFirstName,
  kLastName,
  kFullName,
  kSex,
  kAge,
  kBirthDate,
  kEmail,
  kPhone,
  kOccupation,
  kStreet,
  kCity,
};

// People who do not exist. Names, places and occupations come from the lists; where the description
// gives none, from short built-in ones. E-mail addresses end in domains that are reserved for
// examples (RFC 2606), telephone numbers lie in a range reserved for fiction (555-0100 to
// 555-0199).
struct PersonSpec {
  std::vector<PersonField> fields;  // in the order of the result
  std::vector<std::string> female_names, male_names, last_names;
  std::vector<std::string> occupations, streets, cities, domains;
  double female_share = 0.5;
  std::int64_t youngest = 18, oldest = 90;
  std::optional<Seconds> as_of;  // the day on which the age holds; needed for birth_date
};

// Keys: fields, sex (female, male, any), age_range, as_of, first_names, female_names, male_names,
// last_names, occupations, streets, cities, email_domains.
PersonSpec parse_person(Fields& fields);

// An object with the fields. All of them are drawn whatever is asked for, so that a person stays
// the same when a field is added.
nlohmann::ordered_json draw_person(const PersonSpec& spec, Stream& stream);

}  // namespace dovetail::pipeline
