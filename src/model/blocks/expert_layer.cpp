#include "model/blocks/expert_layer.h"

namespace dovetail::model {

void ExpertLayer::add_steps(Program& program) {
  program.add({.name = "router",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const Experts::Rows mine = rows(index);
                     input().multiply(part.block, blocks, mine.count,
                                      work_.prepared(work_.tile(index)), {experts_.logits(mine)});
                   }},
              [this](std::uint32_t index) {
                return work_.share_product(work_.tile(index), input(), rows(index).count);
              });
  program.add({.name = "choose",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const Experts::Rows mine = rows(index);
                     experts_.choose(mine, part_of(mine.count, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count, count * 32 * experts_.count());
              });
  program.add({.name = "sort",
               .run = [this](std::uint32_t index, std::uint32_t,
                             const cores::Part&) { experts_.sort(rows(index)); }},
              [](std::uint32_t) { return 1U; });
  program.add(
      {.name = "experts",
       .matrix = true,
       .run =
           [this](std::uint32_t index, std::uint32_t, const cores::Part& part) {
             experts_.compute(layer_, rows(index), work_.projected.of(work_.tile(index)), part);
           },
       .shape =
           [this](std::uint32_t index) {
             return experts_.mixed(rows(index).count) ? cores::kWholeGroup : cores::kMatrixTask;
           }},
      [this](std::uint32_t index) { return experts_.blocks(rows(index).count); });
  program.add({.name = "combine",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const Experts::Rows mine = rows(index);
                     experts_.combine(mine, part_of(mine.count, part.block, blocks),
                                      work_.projected.of(work_.tile(index)));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count,
                                   count * experts_.used() * work_.hidden);
              });
}

}  // namespace dovetail::model
