#include "cli/graph_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/near_match.h"
#include "cores/names.h"
#include "pipeline/config/document.h"
#include "pipeline/sample/fields.h"

namespace dovetail::cli {
namespace {

using cores::AccessMode;
using cores::Region;
using pipeline::Document;
using pipeline::Fields;
using study::ProgramTask;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;  // of a buffer
constexpr std::uint64_t kMostBlocks = 1'000'000;            // of all tasks together
constexpr std::size_t kMostAccesses = 10'000;               // of a task
constexpr double kMostCost = 1e7;                           // microseconds

struct Buffer {
  cores::BufferId id = 0;
  std::uint64_t bytes = 0;
};

std::string suggestion(std::string_view given, const std::vector<std::string>& names) {
  const auto near = near_matches(given, names);
  return near.empty() ? std::string() : fmt::format("; did you mean {}?", fmt::join(near, " or "));
}

class GraphReader {
 public:
  explicit GraphReader(const Document& document) : document_(document) {}

  Result<std::vector<ProgramTask>> read() {
    Fields top(document_, document_.root(), "");
    if (const Json* buffers = top.object("buffers")) read_buffers(top, *buffers);
    const Json* tasks = top.array("tasks");
    if (top.ok() && (tasks == nullptr || tasks->empty())) {
      top.wrong("tasks", "expected a list of tasks here");
    }
    for (std::size_t i = 0; top.ok() && i < tasks->size(); ++i) {
      read_task(top, (*tasks)[i], pipeline::pointer_to(top.at("tasks"), i));
    }
    if (const Status ok = top.finish(); !ok) return fail(ok.error());
    return std::move(program_);
  }

 private:
  void read_buffers(Fields& top, const Json& buffers) {
    Fields fields(document_, buffers, top.at("buffers"));
    for (const auto& [name, value] : buffers.items()) {
      const auto bytes = fields.integer(name, 1, kMostBytes);
      if (!bytes) fields.wrong(name, "expected its size in bytes");
      if (!bytes) break;
      buffers_[name] = {buffers_.size(), static_cast<std::uint64_t>(*bytes)};
    }
    if (const Status ok = fields.finish(); !ok) top.wrong(ok.error());
  }

  void read_task(Fields& top, const Json& value, const std::string& pointer) {
    Fields fields(document_, value, pointer);
    ProgramTask task;
    task.name = fields.required_text("name");
    if (fields.ok() && !numbers_.try_emplace(task.name, program_.size()).second) {
      fields.wrong("name", "a second task '{}'", task.name);
    }
    if (const auto shape = cores::parse_shape(fields.required_text("shape"))) {
      task.shape = *shape;
    } else {
      fields.wrong("shape", "{}", shape.error().message);
    }
    task.blocks =
        static_cast<std::uint32_t>(fields.integer("blocks", 1, kMostBlocks).value_or(task.blocks));
    task.together = fields.flag("together").value_or(false);
    if (study::has_lanes(task.shape)) {
      blocks_ += task.blocks;
      if (blocks_ > kMostBlocks) {
        fields.wrong("blocks", "{} blocks up to here, expected at most {} in a graph", blocks_,
                     kMostBlocks);
      }
    }
    read_cost(fields, task);
    read_after(fields, task);
    read_accesses(fields, "reads", AccessMode::kRead, task);
    read_accesses(fields, "writes", AccessMode::kWrite, task);
    read_accesses(fields, "updates", AccessMode::kReadWrite, task);
    if (const Status ok = fields.finish(); !ok) return top.wrong(ok.error());
    program_.push_back(std::move(task));
  }

  void read_cost(Fields& fields, ProgramTask& task) {
    const auto cost = fields.number("cost", {0.001, kMostCost});
    if (!study::has_lanes(task.shape)) {
      if (cost) fields.wrong("cost", "a task of shape none takes no time; leave it out");
      return;
    }
    if (!cost) fields.wrong("cost", "expected the microseconds that a block takes");
    task.takes = static_cast<cores::Ticks>(std::llround(1000.0 * cost.value_or(1.0)));
  }

  void read_after(Fields& fields, ProgramTask& task) {
    const auto names = fields.texts("after");
    if (!names) return;
    for (const std::string& name : *names) {
      const auto found = numbers_.find(name);
      if (found != numbers_.end() && found->second < program_.size()) {
        task.after.push_back(found->second);
        continue;
      }
      std::vector<std::string> earlier;
      for (const ProgramTask& one : program_) earlier.push_back(one.name);
      return fields.wrong("after", "'{}' is no task before this one{}", name,
                          suggestion(name, earlier));
    }
  }

  void read_accesses(Fields& fields, std::string_view key, AccessMode mode, ProgramTask& task) {
    const Json* value = fields.find(key);
    if (value == nullptr) return;
    const std::size_t count = task.accesses.size() + (value->is_array() ? value->size() : 1);
    if (count > kMostAccesses) {
      return fields.wrong(key, "{} accesses of this task with those before, expected at most {}",
                          count, kMostAccesses);
    }
    if (!value->is_array()) return read_access(fields, key, *value, fields.at(key), mode, task);
    for (std::size_t i = 0; fields.ok() && i < value->size(); ++i) {
      const std::string pointer = pipeline::pointer_to(fields.at(key), i);
      read_access(fields, key, (*value)[i], pointer, mode, task);
    }
  }

  // "buffer", "buffer[BEGIN:END]", or a view as an object.
  void read_access(Fields& fields, std::string_view key, const Json& value,
                   const std::string& pointer, AccessMode mode, ProgramTask& task) {
    if (value.is_object()) return read_view(fields, value, pointer, mode, task);
    const auto wrong = [&](const std::string& what) {
      fields.wrong(Error{ErrorKind::kInvalid, document_.where(pointer) + what});
    };
    if (!value.is_string()) {
      return wrong(
          fmt::format("{} is no buffer; expected NAME, NAME[BEGIN:END] or a mapping, or a "
                      "list of such, in {}",
                      pipeline::shown(value), key));
    }
    const auto text = value.get<std::string>();
    const std::size_t bracket = text.find('[');
    const std::string name = text.substr(0, bracket);
    const Buffer* buffer = find(name);
    if (buffer == nullptr) return wrong(unknown(name));
    std::uint64_t begin = 0, end = buffer->bytes;
    if (bracket != std::string::npos) {
      const auto range = parse_range(std::string_view(text).substr(bracket));
      if (!range || range->first >= range->second || range->second > buffer->bytes) {
        return wrong(fmt::format("'{}': expected {}[BEGIN:END] with 0 <= BEGIN < END <= {}", text,
                                 name, buffer->bytes));
      }
      std::tie(begin, end) = *range;
    }
    task.accesses.push_back({Region(buffer->id, begin, end - begin), mode});
  }

  // "[BEGIN:END]"
  static std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_range(std::string_view text) {
    std::pair<std::uint64_t, std::uint64_t> range;
    const char* last = text.data() + text.size();
    const auto begin = std::from_chars(text.data() + 1, last, range.first);
    if (begin.ec != std::errc() || begin.ptr == last || *begin.ptr != ':') return std::nullopt;
    const auto end = std::from_chars(begin.ptr + 1, last, range.second);
    if (end.ec != std::errc() || end.ptr + 1 != last || *end.ptr != ']') return std::nullopt;
    return range;
  }

  void read_view(Fields& outer, const Json& value, const std::string& pointer, AccessMode mode,
                 ProgramTask& task) {
    Fields fields(document_, value, pointer);
    const std::string name = fields.required_text("buffer");
    const Buffer* buffer = find(name);
    if (buffer == nullptr) fields.wrong("buffer", "{}", unknown(name));
    const auto most = buffer == nullptr ? kMostBytes : static_cast<std::int64_t>(buffer->bytes);
    const auto offset = static_cast<std::uint64_t>(fields.integer("offset", 0, most).value_or(0));
    const auto element = static_cast<std::uint64_t>(fields.integer("element", 1, most).value_or(1));
    const auto counts = read_numbers(fields, "counts", 1, most);
    const auto strides = read_numbers(fields, "strides", 0, most);
    if (fields.ok() && counts.size() != strides.size()) {
      fields.wrong("strides", "{} of them for {} counts", strides.size(), counts.size());
    }
    if (fields.ok()) {
      // At most 2^48 each, five times.
      long double end = static_cast<long double>(offset) + static_cast<long double>(element);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        end += static_cast<long double>(counts[i] - 1) * static_cast<long double>(strides[i]);
      }
      if (end > static_cast<long double>(buffer->bytes)) {
        fields.wrong("", "the view ends at byte {:.0f}, and '{}' has {}", static_cast<double>(end),
                     name, buffer->bytes);
      }
    }
    if (const Status ok = fields.finish(); !ok) return outer.wrong(ok.error());
    task.accesses.push_back({Region(buffer->id, offset, element, counts, strides), mode});
  }

  std::vector<std::uint64_t> read_numbers(Fields& fields, std::string_view key, std::int64_t least,
                                          std::int64_t most) {
    std::vector<std::uint64_t> numbers;
    const Json* values = fields.array(key);
    if (values == nullptr) {
      fields.wrong(key, "expected a list of numbers, the outermost dimension first");
      return numbers;
    }
    for (const Json& value : *values) {
      const auto number = as_integer(value, least, most);
      if (!number || numbers.size() == Region::kMaxDimensions) {
        fields.wrong(key, "{}: expected up to {} whole numbers from {} to {}",
                     pipeline::shown(*values), Region::kMaxDimensions, least, most);
        return {};
      }
      numbers.push_back(static_cast<std::uint64_t>(*number));
    }
    return numbers;
  }

  const Buffer* find(const std::string& name) const {
    const auto found = buffers_.find(name);
    return found == buffers_.end() ? nullptr : &found->second;
  }

  std::string unknown(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [known, buffer] : buffers_) names.push_back(known);
    return fmt::format("'{}' is none of the buffers{}", name, suggestion(name, names));
  }

  const Document& document_;
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, cores::TaskNumber> numbers_;  // of tasks, by name
  std::vector<ProgramTask> program_;
  std::uint64_t blocks_ = 0;
};

}  // namespace

Result<std::vector<ProgramTask>> parse_graph(std::string_view text, const std::string& name) {
  const auto document = Document::parse(text, name);
  if (!document) return fail(document.error());
  return GraphReader(*document).read();
}

}  // namespace dovetail::cli
