#include "pipeline/sample/person.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "pipeline/sample/fields.h"

namespace dovetail::pipeline {
namespace {

using namespace std::string_view_literals;

// In the order of PersonField.
constexpr std::array kFieldNames = {"first_name"sv, "last_name"sv,  "full_name"sv, "sex"sv,
                                    "age"sv,        "birth_date"sv, "email"sv,     "phone"sv,
                                    "occupation"sv, "street"sv,     "city"sv};
constexpr std::array kSexes = {"any"sv, "female"sv, "male"sv};

constexpr std::array kFemaleNames = {
    "Ada"sv,   "Aisha"sv, "Amara"sv,  "Anna"sv,  "Beatriz"sv, "Carmen"sv, "Chloe"sv,  "Dana"sv,
    "Elena"sv, "Emma"sv,  "Fatima"sv, "Freya"sv, "Grace"sv,   "Hana"sv,   "Ingrid"sv, "Isabel"sv,
    "Julia"sv, "Kavya"sv, "Keiko"sv,  "Leila"sv, "Lucy"sv,    "Maria"sv,  "Mei"sv,    "Nadia"sv,
    "Noor"sv,  "Olga"sv,  "Priya"sv,  "Rosa"sv,  "Sara"sv,    "Yuna"sv};
constexpr std::array kMaleNames = {
    "Adam"sv,  "Ahmed"sv, "Andre"sv, "Arjun"sv,  "Ben"sv,   "Carlos"sv, "Chen"sv,  "Daniel"sv,
    "David"sv, "Emil"sv,  "Felix"sv, "George"sv, "Hiro"sv,  "Hugo"sv,   "Ivan"sv,  "Jamal"sv,
    "Jonas"sv, "Kofi"sv,  "Lars"sv,  "Luis"sv,   "Marco"sv, "Min"sv,    "Nikos"sv, "Omar"sv,
    "Oscar"sv, "Paul"sv,  "Ravi"sv,  "Samuel"sv, "Tomas"sv, "Yusuf"sv};
constexpr std::array kLastNames = {
    "Abebe"sv, "Ali"sv,    "Andersen"sv, "Baker"sv,   "Bauer"sv,    "Carter"sv, "Chandra"sv,
    "Costa"sv, "Dubois"sv, "Evans"sv,    "Fischer"sv, "Garcia"sv,   "Haddad"sv, "Hansen"sv,
    "Ito"sv,   "Jensen"sv, "Kaya"sv,     "Kim"sv,     "Kowalski"sv, "Larsen"sv, "Li"sv,
    "Lopez"sv, "Mensah"sv, "Meyer"sv,    "Moreau"sv,  "Nguyen"sv,   "Novak"sv,  "Okafor"sv,
    "Patel"sv, "Petrov"sv, "Rossi"sv,    "Santos"sv,  "Sato"sv,     "Shaw"sv,   "Silva"sv,
    "Singh"sv, "Taylor"sv, "Virtanen"sv, "Walker"sv,  "Wang"sv};
constexpr std::array kOccupations = {
    "accountant"sv,     "architect"sv,      "baker"sv,        "bus driver"sv,  "carpenter"sv,
    "chef"sv,           "civil engineer"sv, "dentist"sv,      "electrician"sv, "farmer"sv,
    "firefighter"sv,    "gardener"sv,       "journalist"sv,   "judge"sv,       "librarian"sv,
    "mechanic"sv,       "midwife"sv,        "musician"sv,     "nurse"sv,       "painter"sv,
    "pharmacist"sv,     "photographer"sv,   "physician"sv,    "pilot"sv,       "plumber"sv,
    "police officer"sv, "programmer"sv,     "sales clerk"sv,  "scientist"sv,   "tailor"sv,
    "teacher"sv,        "translator"sv,     "veterinarian"sv, "waiter"sv};
constexpr std::array kStreets = {
    "Bridge Street"sv, "Canal Road"sv,     "Cedar Lane"sv,   "Church Street"sv,
    "Garden Road"sv,   "Harbour Street"sv, "Hill Street"sv,  "Lake Avenue"sv,
    "Market Square"sv, "Mill Lane"sv,      "Orchard Road"sv, "Park Avenue"sv,
    "River Street"sv,  "School Lane"sv,    "Station Road"sv, "Willow Way"sv};
constexpr std::array kCities = {
    "Accra"sv,   "Athens"sv,  "Bergen"sv,  "Bogota"sv,  "Bristol"sv, "Busan"sv,  "Cairo"sv,
    "Chicago"sv, "Dublin"sv,  "Graz"sv,    "Hamburg"sv, "Hanoi"sv,   "Jaipur"sv, "Krakow"sv,
    "Kyoto"sv,   "Lagos"sv,   "Lima"sv,    "Lyon"sv,    "Mombasa"sv, "Osaka"sv,  "Porto"sv,
    "Quito"sv,   "Tampere"sv, "Toronto"sv, "Turin"sv,   "Valencia"sv};
constexpr std::array kDomains = {"example.com"sv, "example.net"sv, "example.org"sv};

std::vector<std::string> list_of(Fields& fields, std::string_view key,
                                 std::span<const std::string_view> otherwise) {
  auto given = fields.list(key);
  if (given.empty()) given.assign(otherwise.begin(), otherwise.end());
  return given;
}

const std::string& pick(const std::vector<std::string>& list, Stream& stream) {
  return list[stream.below(list.size())];
}

// Letters and digits of ASCII in lower case; all else is left out of an address.
std::string address_part(std::string_view name) {
  std::string part;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      part += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      part += c;
    }
  }
  return part.empty() ? "person" : part;
}

}  // namespace

PersonSpec parse_person(Fields& fields) {
  PersonSpec spec;
  if (const auto sex = fields.choice("sex", kSexes)) {
    spec.female_share = *sex == 0 ? 0.5 : *sex == 1 ? 1 : 0;
  }
  const auto both = fields.list("first_names");
  spec.female_names = list_of(fields, "female_names", kFemaleNames);
  spec.male_names = list_of(fields, "male_names", kMaleNames);
  if (!both.empty()) {
    if (fields.find("female_names") != nullptr || fields.find("male_names") != nullptr) {
      fields.reject("first_names", "either first_names or female_names and male_names");
    }
    spec.female_names = both;
    spec.male_names = both;
  }
  spec.last_names = list_of(fields, "last_names", kLastNames);
  spec.occupations = list_of(fields, "occupations", kOccupations);
  spec.streets = list_of(fields, "streets", kStreets);
  spec.cities = list_of(fields, "cities", kCities);
  spec.domains = list_of(fields, "email_domains", kDomains);
  if (const auto* range = fields.find("age_range")) {
    const bool is_pair = range->is_array() && range->size() == 2;
    const auto youngest = as_integer(is_pair ? (*range)[0] : *range, 0, 150);
    const auto oldest = as_integer(is_pair ? (*range)[1] : *range, 0, 150);
    if (is_pair && youngest && oldest && *youngest <= *oldest) {
      spec.youngest = *youngest;
      spec.oldest = *oldest;
    } else {
      fields.reject("age_range", "[youngest, oldest], integers from 0 to 150");
    }
  }
  if (const auto as_of = fields.text("as_of")) {
    spec.as_of = parse_iso_date(*as_of);
    // A birth date lies up to 151 years before.
    if (!spec.as_of || !add_units(*spec.as_of, -151, DateUnit::kYear)) {
      fields.reject("as_of", "a date such as 2026-01-31");
    }
  }
  const auto names = fields.list("fields");
  if (names.empty()) {
    for (std::size_t i = 0; i < kFieldNames.size(); ++i) {
      const auto field = static_cast<PersonField>(i);
      if (field != PersonField::kBirthDate || spec.as_of) spec.fields.push_back(field);
    }
  }
  for (const std::string& name : names) {
    const auto found = std::find(kFieldNames.begin(), kFieldNames.end(), name);
    if (found == kFieldNames.end()) {
      fields.reject("fields",
                    "first_name, last_name, full_name, sex, age, birth_date, email, phone, "
                    "occupation, street, city");
      break;
    }
    const auto field = static_cast<PersonField>(found - kFieldNames.begin());
    if (field == PersonField::kBirthDate && !spec.as_of && !fields.failed("as_of")) {
      fields.reject("fields", "birth_date only together with as_of, a date such as 2026-01-31");
    }
    spec.fields.push_back(field);
  }
  return spec;
}

nlohmann::ordered_json draw_person(const PersonSpec& spec, Stream& stream) {
  const bool female = stream.unit() < spec.female_share;
  const std::string& first = pick(female ? spec.female_names : spec.male_names, stream);
  const std::string& last = pick(spec.last_names, stream);
  const auto span = static_cast<std::uint64_t>(spec.oldest - spec.youngest) + 1;
  const std::int64_t age = spec.youngest + static_cast<std::int64_t>(stream.below(span));
  const std::uint64_t day_draw = stream.bits();
  const std::uint64_t number = stream.below(100);
  const std::string& domain = pick(spec.domains, stream);
  const std::uint64_t area = 200 + stream.below(800);
  const std::uint64_t line = 100 + stream.below(100);
  const std::string& occupation = pick(spec.occupations, stream);
  const std::uint64_t house = 1 + stream.below(200);
  const std::string& street = pick(spec.streets, stream);
  const std::string& city = pick(spec.cities, stream);

  auto person = nlohmann::ordered_json::object();
  for (const PersonField field : spec.fields) {
    auto& value = person[std::string(kFieldNames[static_cast<std::size_t>(field)])];
    switch (field) {
      case PersonField::kFirstName:
        value = first;
        break;
      case PersonField::kLastName:
        value = last;
        break;
      case PersonField::kFullName:
        value = first + " " + last;
        break;
      case PersonField::kSex:
        value = female ? "female" : "male";
        break;
      case PersonField::kAge:
        value = age;
        break;
      case PersonField::kBirthDate: {
        // The birthdays with that age are those after the one of age + 1, up to that of age.
        const Seconds youngest = *add_units(*spec.as_of, -age, DateUnit::kYear);
        const Seconds oldest = *add_units(*spec.as_of, -age - 1, DateUnit::kYear);
        const auto days =
            static_cast<std::uint64_t>(units_between(oldest, youngest, DateUnit::kDay));
        const auto back = static_cast<std::int64_t>(day_draw % days);
        value = format_date(*add_units(youngest, -back, DateUnit::kDay), "%Y-%m-%d");
        break;
      }
      case PersonField::kEmail:
        value = fmt::format("{}.{}{}@{}", address_part(first), address_part(last), number, domain);
        break;
      case PersonField::kPhone:
        value = fmt::format("+1 {} 555 0{}", area, line);
        break;
      case PersonField::kOccupation:
        value = occupation;
        break;
      case PersonField::kStreet:
        value = fmt::format("{} {}", house, street);
        break;
      case PersonField::kCity:
        value = city;
        break;
    }
  }
  return person;
}

}  // namespace dovetail::pipeline
