// Recycling of slots, case by case (CASES.md: T1 to T26). A fake model that never ends by itself,
// so that the course of every workload is known to the step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedule/case_play.h"

namespace dovetail::schedule {
namespace {

using testing::ElementsAre;

struct Arrival {
  std::uint32_t step;
  SequenceId request;
  std::uint32_t slot;
  bool operator==(const Arrival&) const = default;
};

void PrintTo(const Arrival& a, std::ostream* out) {
  *out << a.step << ": " << a.request << " -> " << a.slot;
}

struct Recycling {
  std::vector<Arrival> admissions;
  std::map<SequenceId, std::uint64_t> left;  // the step with its last token
  std::uint32_t steps = 0, idle_slot_steps = 0;
  std::uint32_t tokens = 0;
  std::uint32_t batches = 0;  // steps with an admission, except the first
  std::uint32_t mid_stream = 0;
};

std::uint32_t cap_of(std::uint32_t i, std::uint32_t max_cap) {
  return std::min(max_cap, 12 + (11 * i) % 28);
}

Recycling recycle(std::uint32_t slots, std::uint32_t requests, std::uint32_t max_cap) {
  Play play(roomy(slots, 512, 0, 128));
  for (std::uint32_t i = 0; i < requests; ++i) {
    EXPECT_TRUE(play.add(i, std::min(46U, 20 + (13 * i) % 26), cap_of(i, max_cap)));
  }
  Recycling seen;
  while (!play.scheduler().idle() && seen.steps < 64 * requests + 64) {
    play.step();
    const StepPlan& plan = play.last();
    for (const Admission& admission : plan.admitted) {
      seen.admissions.push_back({seen.steps, admission.sequence, admission.slot});
      seen.mid_stream += plan.decode_rows() > 0 ? 1 : 0;
    }
    seen.batches += seen.steps > 0 && !plan.admitted.empty() ? 1 : 0;
    seen.idle_slot_steps += plan.rows.size() < slots ? 1 : 0;
    ++seen.steps;
  }
  EXPECT_TRUE(play.scheduler().idle()) << "more steps than the bound allows";
  for (std::uint32_t i = 0; i < requests; ++i) {
    EXPECT_EQ(play.driver().generated(i), cap_of(i, max_cap)) << i;
    seen.tokens += play.driver().generated(i);
    seen.left[i] = *play.course(i).finished;
    EXPECT_EQ(play.course(i).admissions, 1U);
  }
  EXPECT_EQ(play.finished().size(), requests);
  play.expect_all_returned();
  return seen;
}

// A request leaves in the commit of the step before the one in which its slot has a new owner. The
// figures that these are compared with count decode steps alone, and a request that comes in later
// has its first and its second token in one of them: 26, 65, 69 and 46 steps are 28, 67, 71 and 48
// here. In the third shape two requests leave in one step rather than one after the other, so that
// 7 steps admit a sequence and not 8.
TEST(SlotCases, T1_ThreeSlotsSixRequests) {
  const Recycling seen = recycle(3, 6, 14);
  EXPECT_THAT(seen.admissions,
              ElementsAre(Arrival{0, 0, 0}, Arrival{0, 1, 1}, Arrival{0, 2, 2}, Arrival{12, 3, 0},
                          Arrival{14, 4, 1}, Arrival{14, 5, 2}));
  EXPECT_EQ(seen.left.at(0), 11U);
  EXPECT_EQ(seen.left.at(1), 13U);
  EXPECT_EQ(seen.left.at(2), 13U);
  EXPECT_EQ(seen.tokens, 82U);
  EXPECT_EQ(seen.batches, 2U);
  EXPECT_EQ(seen.mid_stream, 3U);
  EXPECT_EQ(seen.steps, 28U);
}

TEST(SlotCases, T2_FourSlotsEightRequests) {
  const Recycling seen = recycle(4, 8, 48);
  EXPECT_THAT(seen.admissions, ElementsAre(Arrival{0, 0, 0}, Arrival{0, 1, 1}, Arrival{0, 2, 2},
                                           Arrival{0, 3, 3}, Arrival{12, 4, 0}, Arrival{17, 5, 3},
                                           Arrival{23, 6, 1}, Arrival{34, 7, 2}));
  EXPECT_EQ(seen.tokens, 208U);
  EXPECT_EQ(seen.steps, 67U);
  EXPECT_EQ(seen.batches, 4U);
  EXPECT_EQ(seen.mid_stream, 4U);
  EXPECT_GE(seen.idle_slot_steps, 27U) << "half-full steps must be among them";
}

TEST(SlotCases, T3_OtherShapes) {
  const Recycling wide = recycle(8, 16, 48);
  EXPECT_EQ(wide.tokens, 420U);
  EXPECT_EQ(wide.steps, 71U);
  EXPECT_EQ(wide.batches, 7U);
  const Recycling narrow = recycle(4, 8, 24);
  EXPECT_EQ(narrow.tokens, 170U);
  EXPECT_EQ(narrow.steps, 48U);
}

TEST(SlotCases, T6_TheFirstTokenCounts) {
  for (const bool by_end : {false, true}) {
    Play play(roomy(1, 64, 0, 64));
    ASSERT_TRUE(play.add(0, 5, by_end ? 9 : 1));
    ASSERT_TRUE(play.add(1, 6, 9));
    if (by_end) play.driver().finish_next(0);
    play.plan();
    ASSERT_EQ(play.last().rows.size(), 1U) << "the slot is taken in this step";
    play.commit();
    EXPECT_THAT(play.finished(), ElementsAre(0));
    EXPECT_EQ(play.driver().generated(0), 1U);
    EXPECT_EQ(play.decode_tokens(), 0U) << "no decode step";
    EXPECT_EQ(play.scheduler().pool().used(), 0U);
    play.step();
    ASSERT_EQ(play.last().admitted.size(), 1U) << "refilled in the next step";
    EXPECT_EQ(play.last().admitted[0].slot, 0U);
  }
}

// The scheduler's part: who ends, and when. Which reason is told is the engine's (its tests).
TEST(SlotCases, T7_TheEarlierOfEndAndCapEnds) {
  struct Case {
    std::uint32_t cap, end_at, expected;  // end_at 0: never
  };
  for (const auto& [cap, end_at, expected] :
       {Case{4, 4, 4}, Case{4, 0, 4}, Case{4, 2, 2}, Case{1, 0, 1}, Case{1, 1, 1}}) {
    Play play(roomy(1, 64, 0, 64));
    ASSERT_TRUE(play.add(0, 5, cap));
    while (!play.course(0).finished) {
      if (play.driver().generated(0) + 1 == end_at) play.driver().finish_next(0);
      play.step();
      ASSERT_LE(play.steps(), 10U);
    }
    EXPECT_EQ(play.driver().generated(0), expected) << cap << " " << end_at;
    EXPECT_EQ(play.steps(), expected);
    EXPECT_TRUE(play.scheduler().idle());
  }
}

TEST(SlotCases, T8_InOrderIntoTheLowestFreeSlots) {
  std::mt19937 random(8);
  Play play(roomy(6, 512, 0, 128));
  SequenceId next = 0, admitted = 0;
  std::map<std::uint32_t, SequenceId> taken;
  while (next < 400 || !play.scheduler().idle()) {
    for (; next < 400 && random() % 3 != 0; ++next) {
      ASSERT_TRUE(play.add(next, 1 + random() % 20, 1 + random() % 12));
    }
    play.plan();
    for (const Admission& admission : play.last().admitted) {
      EXPECT_EQ(admission.sequence, admitted++);
      std::uint32_t lowest = 0;
      while (taken.contains(lowest)) ++lowest;
      EXPECT_EQ(admission.slot, lowest);
      taken[admission.slot] = admission.sequence;
    }
    play.commit();
    for (const SequenceId id : play.driver().finished()) {
      std::erase_if(taken, [&](const auto& entry) { return entry.second == id; });
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(admitted, 400U);
}

TEST(SlotCases, T9_AllFreeSlotsAreFilledAtOnce) {
  Play play(roomy(4, 512, 0, 128));
  for (SequenceId id = 0; id < 8; ++id) ASSERT_TRUE(play.add(id, 8, id < 4 && id != 1 ? 5 : 50));
  for (int i = 0; i < 5; ++i) play.step();
  ASSERT_THAT(play.finished(), ElementsAre(0, 2, 3));
  play.step();
  ASSERT_EQ(play.last().admitted.size(), 3U);
  EXPECT_EQ(play.last().prefill_rows, 3U);
  EXPECT_EQ(play.last().decode_rows(), 1U) << "and no step waits for them";
}

// The scheduler's part of the equality with each request's own run: the rows of A, position by
// position, are the same for every arrival at every step.
TEST(SlotCases, T11_AnAdmissionDoesNotDisturb) {
  for (std::uint32_t k = 1; k <= 30; ++k) {
    Play play(roomy(2, 512, 0, 128));
    ASSERT_TRUE(play.add(0, 20, 30));
    std::vector<kv::BlockId> blocks;
    for (std::uint32_t step = 0; step < 30; ++step) {
      if (step == k) {
        ASSERT_TRUE(play.add(1, 33, 39));
      }
      play.plan();
      const Row* row = play.driver().row_of(0);
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->slot, 0U);
      EXPECT_EQ(row->first_position, step == 0 ? 0 : 19 + step);
      ASSERT_GE(row->blocks.size(), blocks.size());
      EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), row->blocks.begin()));
      blocks.assign(row->blocks.begin(), row->blocks.end());
      play.commit();
    }
    EXPECT_EQ(play.finished().size(), 1U);
    play.run(100);
  }
}

// Play sees that no position of the slot's former owner is ever read.
TEST(SlotCases, T13_ARecycledSlotStartsAtItsOwnBeginning) {
  SchedulerOptions options = roomy(1, 512, 0, 80);
  Play play(options);
  ASSERT_TRUE(play.add(0, 33, 39));
  ASSERT_TRUE(play.add(1, 20, 39));
  play.run(100);
  EXPECT_THAT(play.finished(), ElementsAre(0, 1));
  Play other(options);
  ASSERT_TRUE(other.add(0, 33, 39));
  ASSERT_TRUE(other.add(1, 20, 39));
  while (other.finished().empty()) other.step();
  other.plan();
  ASSERT_EQ(other.last().rows.size(), 1U);
  EXPECT_EQ(other.last().rows[0].slot, 0U);
  EXPECT_EQ(other.last().rows[0].first_position, 0U);
  EXPECT_EQ(other.last().rows[0].blocks.size(), 2U);
  other.commit();
}

TEST(SlotCases, T14_AFreeSlotHasNoRow) {
  Play play(roomy(4, 512, 0, 128));
  ASSERT_TRUE(play.add(0, 20, 30));
  while (!play.scheduler().idle()) {
    play.step();
    EXPECT_EQ(play.last().rows.size(), 1U);
  }
}

TEST(SlotCases, T15_EverySlotAndNumberOfMatesGiveTheSameRows) {
  for (SequenceId mates = 0; mates < 8; ++mates) {
    Play play(roomy(8, 512, 0, 128));
    for (SequenceId id = 0; id < mates; ++id) ASSERT_TRUE(play.add(id, 10 + id, 60));
    ASSERT_TRUE(play.add(100, 37, 40));
    for (std::uint32_t step = 0; step < 40; ++step) {
      play.plan();
      const Row* row = play.driver().row_of(100);
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->slot, mates);
      EXPECT_EQ(row->first_position, step == 0 ? 0 : 36 + step);
      EXPECT_EQ(row->tokens, step == 0 ? 37U : 1U);
      play.commit();
    }
    EXPECT_TRUE(play.course(100).finished);
  }
}

TEST(SlotCases, T16_RaggedLengths) {
  for (const std::uint32_t slots : {8U, 4U}) {
    Play play(roomy(slots, 512, 0, 128));
    for (std::uint32_t i = 0; i < slots; ++i) ASSERT_TRUE(play.add(i, 46 - 3 * i, 48));
    for (std::uint32_t step = 0; step < 48; ++step) {
      play.plan();
      ASSERT_EQ(play.last().rows.size(), slots);
      // T18: each row is at its own length.
      for (std::uint32_t i = 0; i < slots; ++i) {
        EXPECT_EQ(play.driver().row_of(i)->first_position, step == 0 ? 0 : 45 - 3 * i + step);
      }
      play.commit();
    }
    EXPECT_EQ(play.finished().size(), slots);
    EXPECT_TRUE(play.scheduler().idle());
  }
}

// Four slots, 200 requests, at random steps, of random lengths, some ended early: as many
// admissions as ends, each within its cap, and an end to it all.
TEST(SlotCases, T19_T20_LivenessAndConservation) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    constexpr std::uint32_t kRequests = 200;
    Play play(roomy(4, 96, 0, 128));
    std::map<SequenceId, std::uint32_t> caps;
    std::uint32_t admitted = 0;
    std::uint64_t idle_steps = 0;
    while (caps.size() < kRequests || !play.scheduler().idle()) {
      while (caps.size() < kRequests && random() % 4 == 0) {
        const SequenceId id = caps.size();
        caps[id] = 1 + random() % 64;
        ASSERT_TRUE(play.add(id, 1 + random() % 60, caps[id]));
      }
      if (const SequenceId id = random() % kRequests;
          random() % 8 == 0 && caps.contains(id) && play.driver().alive(id)) {
        play.driver().finish_next(id);
      }
      idle_steps += play.scheduler().idle() ? 1 : 0;
      play.step();
      admitted += static_cast<std::uint32_t>(play.last().admitted.size());
      ASSERT_LT(play.steps(), idle_steps + 64 * kRequests + 64);
      ASSERT_FALSE(HasFailure()) << seed;
    }
    EXPECT_EQ(admitted, kRequests);
    EXPECT_EQ(play.finished().size(), kRequests);
    for (const auto& [id, cap] : caps) {
      EXPECT_GE(play.driver().generated(id), 1U);
      EXPECT_LE(play.driver().generated(id), cap);
    }
    play.expect_all_returned();
  }
}

TEST(SlotCases, T21_CancelInTheQueueAndInASlot) {
  Play play(roomy(2, 512, 0, 128));
  for (SequenceId id = 0; id < 4; ++id) ASSERT_TRUE(play.add(id, 20, 30));
  play.step();
  play.cancel(3);
  EXPECT_EQ(play.scheduler().waiting(), 1U);
  play.cancel(0);
  EXPECT_EQ(play.scheduler().running(), 1U);
  const std::uint64_t events = play.driver().log().written();
  play.cancel(0);
  play.cancel(3);
  play.cancel(77);
  EXPECT_EQ(play.driver().log().written(), events)
      << "a second cancel, or one of an unknown id, is no event";
  play.step();
  ASSERT_EQ(play.last().admitted.size(), 1U);
  EXPECT_EQ(play.last().admitted[0].sequence, 2U);
  EXPECT_EQ(play.last().admitted[0].slot, 0U);
  play.run(100);
  EXPECT_THAT(play.finished(), ElementsAre(1, 2));
  EXPECT_EQ(play.driver().generated(1), 30U);
  EXPECT_EQ(play.driver().generated(0), 1U);
  EXPECT_EQ(play.course(3).admissions, 0U);
  play.expect_all_returned();
}

// A cap beyond the context is cut to it (the server refuses it at its door, with the numbers); a
// prompt that leaves no room for one token is refused here, and leaves no trace.
TEST(SlotCases, T22_Capacity) {
  Play play(roomy(2, 2048, 0, 1024));
  ASSERT_TRUE(play.add(0, 768, 256));
  play.step();
  const std::uint64_t events = play.driver().log().written();
  const Status refused = play.add(1, 1024, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("1024 tokens"));
  EXPECT_EQ(play.scheduler().waiting(), 0U);
  EXPECT_EQ(play.scheduler().running(), 1U);
  EXPECT_EQ(play.driver().log().written(), events + 1) << "the refusal alone";
  EXPECT_TRUE(play.add(1, 769, 256)) << "its id was not used up";
  play.run(400);
  EXPECT_EQ(play.driver().generated(0), 256U);
  EXPECT_EQ(play.driver().generated(1), 255U);
}

// Every state that a step can find, as a table: is there a decode row, is a prompt in prefill, does
// one wait, at every phase of every interval, mixed or not. A prompt that has its slot never waits
// more than `interval` steps for its next chunk, and a decode never more than two in a row.
TEST(SlotCases, T26_NoParkedPrefillWaitsLongerThanTheInterval) {
  for (const bool mixed : {true, false}) {
    for (const std::uint32_t interval : {1U, 2U, 3U, 7U}) {
      for (const bool decodes : {true, false}) {
        for (const bool partly_read : {true, false}) {
          for (const bool waits : {true, false}) {
            for (std::uint32_t phase = 0; phase < 8; ++phase) {
              SchedulerOptions options = roomy(8, 8, 0, 512);
              options.mixed = mixed;
              options.prefill_interval = interval;
              options.min_prefill_tokens = 2;
              Play play(options);
              SequenceId next = 0;
              if (decodes) {
                for (; next < 6; ++next) ASSERT_TRUE(play.add(next, 1, 0));
              }
              for (std::uint32_t i = 0; i < phase; ++i) play.step();
              std::vector<SequenceId> prompts;
              if (partly_read) {
                ASSERT_TRUE(play.add(next, 40, 1));
                prompts.push_back(next++);
                play.step();
              }
              if (waits) {
                ASSERT_TRUE(play.add(next, 40, 1));
                prompts.push_back(next++);
              }
              std::uint64_t last_chunk = play.steps();
              while (prompts.size() != static_cast<std::size_t>(std::count_if(
                                           prompts.begin(), prompts.end(), [&](SequenceId id) {
                                             return play.course(id).finished.has_value();
                                           }))) {
                ASSERT_LT(play.steps(), 400U);
                play.step();
                if (play.last().prefill_rows == 0) continue;
                ASSERT_LE(play.steps() - last_chunk, interval + 1)
                    << mixed << interval << decodes << partly_read << waits << phase;
                last_chunk = play.steps();
              }
              for (SequenceId id = 0; decodes && id < 6; ++id) {
                EXPECT_LE(play.course(id).longest_gap, 2U);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::schedule
