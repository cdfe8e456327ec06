// Any bytes as the text of an answer in one of the formats: the events are the same however it is
// cut, and calls begin, go on and end in order. The first bytes choose the format, the cut and
// whether the prompt opened the reasoning.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/answer.h"
#include "dialog/families.h"

namespace {

using namespace dovetail;
using dialog::AnswerEvent;

std::vector<dialog::AnswerPlan> plans() {
  std::vector<dialog::AnswerPlan> out;
  for (const dialog::test::Family& family : dialog::test::families()) {
    const dialog::DialogFormat format = dialog::test::detect(family);
    for (const bool opened : {false, true}) {
      dialog::AnswerRequest request;
      request.tools = {{.name = "f",
                        .description = "",
                        .parameters = Json::parse(
                            R"({"type":"object","properties":{"s":{"type":"string"},
                                "n":{"type":"integer"},"m":{"type":["string","null","array"]}}})"),
                        .strict = true},
                       {.name = "f2", .description = "", .parameters = nullptr, .strict = true}};
      request.choice = dialog::ToolChoice::kAuto;
      request.reasoning_opened = opened;
      out.push_back(dialog::AnswerPlan::create(format, request).value());
    }
  }
  return out;
}

// One event for those that add up.
class Events {
 public:
  void add(const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      check(event);
      const bool adds_up =
          event.kind != AnswerEvent::Kind::kCallBegin && event.kind != AnswerEvent::Kind::kCallEnd;
      if (adds_up && !all_.empty() && all_.back().kind == event.kind) {
        all_.back().text += event.text;
      } else {
        all_.push_back(event);
      }
    }
  }

  bool operator==(const Events& other) const {
    return std::ranges::equal(all_, other.all_, [](const AnswerEvent& a, const AnswerEvent& b) {
      return a.kind == b.kind && a.text == b.text && a.call == b.call && a.id == b.id;
    });
  }

 private:
  void check(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kCallBegin:
        if (event.call != calls_++) std::abort();
        open_ = true;
        break;
      case AnswerEvent::Kind::kArguments:
      case AnswerEvent::Kind::kCallEnd:
        if (!open_ || event.call + 1 != calls_) std::abort();
        open_ = event.kind == AnswerEvent::Kind::kArguments;
        break;
      default:
        open_ = false;
    }
  }

  std::vector<AnswerEvent> all_;
  std::size_t calls_ = 0;
  bool open_ = false;
};

Events read(const dialog::AnswerPlan& plan, std::string_view text, std::size_t piece) {
  dialog::AnswerReader reader(plan);
  Events out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    out.add(reader.feed(text.substr(at, piece)));
  }
  out.add(reader.finish());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<dialog::AnswerPlan> all = plans();
  if (size < 2) return 0;
  const dialog::AnswerPlan& plan = all[data[0] % all.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Events whole = read(plan, text, text.size() + 1);
  if (!(read(plan, text, 1) == whole)) std::abort();
  if (!(read(plan, text, 2U + data[1] % 64) == whole)) std::abort();
  return 0;
}
