#include "grammar/json_validator.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace dovetail::grammar::test {
namespace {

using Json = nlohmann::ordered_json;

bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number())
    return a.get<double>() == b.get<double>() &&
           (a.is_number_float() || b.is_number_float() || a == b);
  if (a.type() != b.type()) return false;
  if (a.is_array()) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
  }
  if (a.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, value] : a.items()) {
      if (!b.contains(name) || !same(value, b[name])) return false;
    }
    return true;
  }
  return a == b;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  }
  throw std::invalid_argument("type " + type);
}

std::size_t length(const std::string& utf8) {
  std::size_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

bool has_format(const std::string& text, const std::string& format) {
  const auto is = [&](const char* pattern) {
    return std::regex_match(text, regex_for_long_texts(pattern));
  };
  int year = 0, month = 0, day = 0;
  const auto is_date = [&](const std::string& date) {
    if (!std::regex_match(date, std::regex("\\d{4}-\\d\\d-\\d\\d"))) return false;
    year = std::stoi(date.substr(0, 4));
    month = std::stoi(date.substr(5, 2));
    day = std::stoi(date.substr(8, 2));
    if (month < 1 || month > 12 || day < 1) return false;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int days[] = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return day <= days[month - 1];
  };
  const auto is_time = [](const std::string& time) {
    std::smatch part;
    if (!std::regex_match(
            time, part,
            std::regex("(\\d\\d):(\\d\\d):(\\d\\d)(\\.\\d+)?(Z|[+-](\\d\\d):(\\d\\d))"))) {
      return false;
    }
    return std::stoi(part[1]) < 24 && std::stoi(part[2]) < 60 && std::stoi(part[3]) < 60 &&
           (part[6].str().empty() || (std::stoi(part[6]) < 24 && std::stoi(part[7]) < 60));
  };
  if (format == "date") return is_date(text);
  if (format == "time") return is_time(text);
  if (format == "date-time") {
    return text.size() > 11 && text[10] == 'T' && is_date(text.substr(0, 10)) &&
           is_time(text.substr(11));
  }
  if (format == "uuid") {
    return is("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}");
  }
  if (format == "ipv4") {
    std::smatch part;
    if (!std::regex_match(text, part,
                          std::regex("(\\d{1,3})\\.(\\d{1,3})\\.(\\d{1,3})\\.(\\d{1,3})")))
      return false;
    for (std::size_t i = 1; i < 5; ++i) {
      const std::string digits = part[i];
      if (std::stoi(digits) > 255 || (digits.size() > 1 && digits[0] == '0')) return false;
    }
    return true;
  }
  if (format == "email") return is("[^@\\s]+@[^@\\s.]+(\\.[^@\\s.]+)+");
  if (format == "ipv6") {
    in6_addr address;
    return inet_pton(AF_INET6, text.c_str(), &address) == 1;
  }
  if (format == "hostname") {
    return text.size() < 254 && is("(?!-)[a-zA-Z0-9-]{1,63}(\\.(?!-)[a-zA-Z0-9-]{1,63})*") &&
           text.find("-.") == std::string::npos && !text.ends_with('-');
  }
  if (format == "duration") {
    return is("P(?!$)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+S)?)?|P\\d+W");
  }
  if (format == "uri" || format == "uri-reference") {
    // What RFC 3986 gives in appendix B, and its characters.
    return is("([A-Za-z][\\w+.-]*:)?(//[^/?#]*)?[^?#]*(\\?[^#]*)?(#.*)?") &&
           is("([\\w.~!$&'()*+,;=:@/?#\\[\\]-]|%[0-9A-Fa-f]{2})*") &&
           (format == "uri-reference" || is("[A-Za-z][\\w+.-]*:.*"));
  }
  return true;  // an annotation
}

bool members_hold(const Json& root, const Json& schema, const Json& value) {
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
  if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
  for (const auto& [name, member] : value.items()) {
    if (schema.contains("propertyNames") && !is_instance(root, schema["propertyNames"], name)) {
      return false;
    }
  }
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json properties = schema.value("properties", Json::object());
  const Json patterns = schema.value("patternProperties", Json::object());
  for (const auto& [name, member] : value.items()) {
    bool known = false;
    if (properties.contains(name)) {
      known = true;
      if (!is_instance(root, properties[name], member)) return false;
    }
    for (const auto& [pattern, inner] : patterns.items()) {
      if (!std::regex_search(name, regex_for_long_texts(pattern))) continue;
      known = true;
      if (!is_instance(root, inner, member)) return false;
    }
    if (!known && schema.contains("additionalProperties") &&
        !is_instance(root, schema["additionalProperties"], member)) {
      return false;
    }
  }
  return true;
}

bool items_hold(const Json& root, const Json& schema, const Json& value) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
  for (std::size_t i = 0; schema.value("uniqueItems", false) && i < value.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (same(value[i], value[j])) return false;
    }
  }
  const Json prefix = schema.value("prefixItems", Json::array());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i < prefix.size()) {
      if (!is_instance(root, prefix[i], value[i])) return false;
    } else if (schema.contains("items") && !is_instance(root, schema["items"], value[i])) {
      return false;
    }
  }
  return true;
}

bool number_holds(const Json& schema, const Json& value) {
  const auto as = [](const Json& number) { return number.get<long double>(); };
  const long double x =
      value.is_number_unsigned()  ? static_cast<long double>(value.get<std::uint64_t>())
      : value.is_number_integer() ? static_cast<long double>(value.get<std::int64_t>())
                                  : as(value);
  const std::string format = schema.value("format", "");
  if (format == "int32" && (x < -2147483648.0L || x > 2147483647.0L)) return false;
  if (format == "uint8" && (x < 0 || x > 255)) return false;
  if (schema.contains("multipleOf")) {
    const long double times = x / as(schema["multipleOf"]);
    if (std::abs(times - std::round(times)) > std::abs(times) * 1e-15L + 1e-12L) return false;
  }
  if (schema.contains("minimum") && x < as(schema["minimum"])) return false;
  if (schema.contains("maximum") && x > as(schema["maximum"])) return false;
  if (schema.contains("exclusiveMinimum") && x <= as(schema["exclusiveMinimum"])) return false;
  return !schema.contains("exclusiveMaximum") || x < as(schema["exclusiveMaximum"]);
}

bool string_holds(const Json& schema, const std::string& text) {
  if (schema.contains("minLength") && length(text) < schema["minLength"]) return false;
  if (schema.contains("maxLength") && length(text) > schema["maxLength"]) return false;
  if (schema.contains("pattern") &&
      !std::regex_search(text, regex_for_long_texts(schema["pattern"].get<std::string>()))) {
    return false;
  }
  return !schema.contains("format") || has_format(text, schema["format"]);
}

}  // namespace

std::regex regex_for_long_texts(const std::string& expression) {
  return std::regex(expression, std::regex::ECMAScript | std::regex_constants::__polynomial);
}

bool is_instance(const Json& root, const Json& schema, const Json& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string path =
        std::regex_replace(schema["$ref"].get<std::string>(), std::regex("%20"), " ");
    if (!is_instance(root, root.at(Json::json_pointer(path.substr(1))), value)) return false;
  }
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    const bool good = type.is_string()
                          ? has_type(value, type)
                          : std::any_of(type.begin(), type.end(),
                                        [&](const Json& one) { return has_type(value, one); });
    if (!good && !(value.is_null() && schema.value("nullable", false))) return false;
  }
  if (schema.contains("not") && is_instance(root, schema["not"], value)) return false;
  if (schema.contains("const") && !same(schema["const"], value)) return false;
  if (schema.contains("enum") && std::none_of(schema["enum"].begin(), schema["enum"].end(),
                                              [&](const Json& one) { return same(one, value); })) {
    return false;
  }
  const auto holding = [&](const char* keyword) {
    return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                         [&](const Json& part) { return is_instance(root, part, value); });
  };
  if (schema.contains("allOf") &&
      holding("allOf") != static_cast<std::ptrdiff_t>(schema["allOf"].size())) {
    return false;
  }
  if (schema.contains("anyOf") && holding("anyOf") == 0) return false;
  if (schema.contains("oneOf") && holding("oneOf") != 1) return false;
  if (value.is_string()) return string_holds(schema, value.get<std::string>());
  if (value.is_number()) return number_holds(schema, value);
  if (value.is_array()) return items_hold(root, schema, value);
  return !value.is_object() || members_hold(root, schema, value);
}

}  // namespace dovetail::grammar::test
