#include "laws/checker/law_checker.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// The checker judges made-up runs: one for each of its rules, broken at one point.

namespace dovetail::laws {
namespace {

using observe::Event;
using observe::EventKind;
using schedule::Policy;
using schedule::SchedulerOptions;

// "kind id a b c flags; ..." with c and what follows left out where it is 0; flags are letters of
// [f]inal chunk, [s]ampled and [d]ecode.
std::vector<Event> parse(const std::string& text) {
  static const std::map<std::string, EventKind> kinds = {
      {"arrive", EventKind::kArrive},      {"priority", EventKind::kPriority},
      {"refuse", EventKind::kRefuse},      {"admit", EventKind::kAdmit},
      {"preempt", EventKind::kPreempt},    {"finish", EventKind::kFinish},
      {"cancel", EventKind::kCancel},      {"take", EventKind::kTakeBlock},
      {"share", EventKind::kShareBlock},   {"release", EventKind::kReleaseBlock},
      {"index", EventKind::kIndexBlock},   {"drop", EventKind::kDropBlock},
      {"withhold", EventKind::kWithhold},  {"load", EventKind::kLoadState},
      {"save", EventKind::kSaveState},     {"keep", EventKind::kIndexState},
      {"yield", EventKind::kReleaseState}, {"forget", EventKind::kDropState},
      {"plan", EventKind::kPlan},          {"row", EventKind::kRow},
      {"planned", EventKind::kPlanned},    {"accept", EventKind::kAccept},
      {"commit", EventKind::kCommit},
  };
  std::vector<Event> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string kind, word;
    if (!(words >> kind)) continue;
    Event event;
    event.kind = kinds.at(kind);
    words >> event.id;
    for (std::uint32_t* number : {&event.a, &event.b, &event.c}) {
      if (words >> word) *number = static_cast<std::uint32_t>(std::stol(word));
    }
    if (words >> word) {
      for (const char letter : word) {
        event.flags |= letter == 'f'   ? observe::kRowFinalChunk
                       : letter == 's' ? observe::kRowSampled
                                       : observe::kRowDecode;
      }
    }
    events.push_back(event);
  }
  return events;
}

SchedulerOptions small() {
  SchedulerOptions options;
  options.max_num_seqs = 2;
  options.max_num_batched_tokens = 8;
  options.block_size = 4;
  options.kv_blocks = 8;
  options.max_context = 32;
  options.prefill_alignment = 1;
  options.min_prefill_tokens = 2;
  options.watermark = 0;
  options.prefix_cache = true;
  return options;
}

std::string judge(const SchedulerOptions& options, const std::string& events, bool timed = false) {
  LawChecker checker(options, timed);
  for (const Event& event : parse(events)) checker.see(event);
  checker.finish();
  return checker.violations().empty() ? "" : checker.violations().front();
}

// Sequence 1: 4 prompt tokens and 3 new ones.
const std::string kIn = "arrive 1 4 3; priority 1;";
const std::string kIn2 = "arrive 2 4 3; priority 2;";
const std::string kIn3 = "arrive 3 4 3; priority 3;";
const std::string kBlocks = "take 1 0 0 0; take 1 1 0 1;";
const std::string kAdmit = "plan 0; admit 1 0;" + kBlocks;
const std::string kRead = "row 1 0 4 0 fs; planned 0 1 0 4;";
const std::string kReadDone = "accept 1 1 4; commit 0;";
const std::string kStep0 = kIn + kAdmit + kRead + kReadDone;
const std::string kStep1 = "plan 1; row 1 4 1 0 ds; planned 1 0 1 1; accept 1 1 5; commit 1;";
const std::string kRow2 = "plan 2; row 1 5 1 0 ds; planned 2 0 1 1; accept 1 1 6 1;";
const std::string kStep2 = kRow2 + "finish 1 3; release 1 1; release 1 0; commit 2;";
// The same beside sequence 2, which is as long.
const std::string kBothAdmitted = kIn + kIn2 + kAdmit + "admit 2 1; take 2 2 0 0; take 2 3 0 1;";
const std::string kBothStep0 = kBothAdmitted +
                               "row 1 0 4 0 fs; row 2 0 4 0 fs; planned 0 2 0 8; accept 1 1 4;"
                               "accept 2 1 4; commit 0;";

// 3 and 2 are admitted before 1, which came first but is less urgent.
const std::string kUrgent =
    "arrive 1 2 3; priority 1 1; arrive 3 6 3; priority 3; arrive 2 16 3; priority 2;"
    "plan 0; admit 3 0; take 3 0; take 3 1 0 1; admit 2 1; admit 1 2;";

void three_by_priority(SchedulerOptions& options) {
  options.policy = Policy::kPriority;
  options.max_num_seqs = 3;
  options.prefill_alignment = 4;
}

// Two groups, the second of which sees four positions: sequence 1 has 12 prompt tokens, which two
// steps read. Its block 1 is behind the window after the first, 3 after the second.
const std::string kFar =
    "arrive 1 12 1; priority 1; plan 0; admit 1 0; take 1 0 0 0; take 1 1 1 0; take 1 2 0 1;"
    "take 1 3 1 1; take 1 4 0 2; row 1 0 8; planned 0 1 0 8; accept 1 0 8;";
const std::string kFarNext = kFar + "release 1 1; commit 0; plan 1;";
const std::string kFarEnd =
    "take 1 5 1 2; row 1 8 4 0 fs; planned 1 1 0 4; accept 1 1 12 1; release 1 3; finish 1 1;"
    "release 1 4; release 1 5; release 1 2; release 1 0; commit 1;";

void with_a_window(SchedulerOptions& options) {
  options.groups = {{0}, {4}};
  options.kv_blocks = 24;
}

// A model with states: sequence 1 saves that after 8 of its 9 tokens; sequence 2 begins with it.
const std::string kSaves =
    "arrive 1 9 1; priority 1; plan 0; admit 1 0; take 1 0 0 0; take 1 1 0 1; take 1 2 0 2;"
    "save 1 0 8; row 1 0 8; planned 0 1 0 8; accept 1 0 8; index 1 0; index 1 1;";
const std::string kSaved =
    kSaves +
    "keep 1 0; yield 1 0; commit 0;"
    "plan 1; row 1 8 1 0 fs; planned 1 1 0 1; accept 1 1 9 1; finish 1 1; release 1 2;"
    "release 1 1; release 1 0; commit 1; arrive 2 9 1; priority 2; plan 2; admit 2 0 8;";
const std::string kLoadedRow =
    "share 2 0 0 0; share 2 1 0 1; take 2 2 0 2; row 2 8 1 0 fs; planned 2 1 0 1;";

// Sequence 1 has a draft token, which is wrong.
const std::string kDraftSaved = kStep0 + "plan 1; save 1 0 5 1;";
const std::string kDraftRow = "row 1 4 2 1 ds; planned 1 0 1 2; accept 1 1 5;";
const std::string kTakenBack = kDraftSaved + kDraftRow + "load 1 0 5; yield 1 0; commit 1;";

void with_states(SchedulerOptions& options) {
  options.has_states = true;
  options.saved_states = 1;
  options.speculative_tokens = 2;
}

struct Case {
  const char* name;
  std::string events;
  std::string violation;  // a part of it; "": none
  std::function<void(SchedulerOptions&)> set = {};
};

const Case kCases[] = {
    {"AGoodRun", kStep0 + kStep1 + kStep2, ""},

    {"InAndRefused", kIn + "refuse 1", "law 4: 1 was in and is refused"},
    {"Lost", kIn, "law 4: 1 is lost"},
    {"KeepsABlock", kStep0 + kStep1 + kRow2 + "finish 1 3; release 1 1; commit 2; plan 3",
     "law 2: 1 has ended and keeps 1 blocks"},
    {"Unknown", "plan 0; admit 7 0", "law 4: admitted 7, but it is not there"},
    {"ArrivesTwice", kIn + kIn, "law 4: 1 arrives twice"},
    {"ComesBack", kStep0 + kStep1 + kStep2 + kIn, "law 4: 1 arrives twice"},
    {"CanNeverFit", "arrive 1 4 29", "law 2: 1 with 4 + 29 tokens can never fit 32"},

    {"AdmittedOutsideOfAPlan", kIn + "admit 1 0", "law 1: 1 is admitted outside"},
    {"AdmittedTwice", kIn + kAdmit + "admit 1 1", "law 4: 1 is admitted twice"},
    {"AdmittedAfterRows", kIn + kIn2 + kAdmit + "row 1 0 4 0 fs; admit 2 1",
     "law 3: 2 is admitted after rows"},
    {"Overtakes", kIn + kIn2 + "plan 0; admit 2 0", "law 4: 2 overtakes 1"},
    {"OvertakesAMoreUrgentOne",
     "arrive 1 4 3; priority 1 1; arrive 2 4 3; priority 2 0; plan 0; admit 1 0",
     "law 4: 1 overtakes 2", [](auto& o) { o.policy = Policy::kPriority; }},
    {"TenantOvertakes",
     kIn + "arrive 2 4 3 0; priority 2; arrive 3 4 3 1; priority 3; plan 0; admit 1 0; admit 2 1",
     "law 4: 2 of tenant 0 goes first, but tenant 1", [](auto& o) { o.policy = Policy::kFair; }},
    {"MoreThanTheSlots", kIn + kIn2 + kAdmit + "admit 2 1", "law 2: 2 is admitted, but all 1 slots",
     [](auto& o) { o.max_num_seqs = 1; }},
    {"NotTheLowestSlot", kIn + "plan 0; admit 1 1", "1 gets slot 1, but 0 is free"},
    {"TheSlotOfAnother", kIn + kIn2 + kAdmit + "admit 2 0", "law 2: 2 gets slot 0, which is taken"},
    {"PartOfABlockCached", kIn + "plan 0; admit 1 0 3", "law 5: 1 finds 3 of 4 tokens cached"},
    {"TheWholePromptCached", kIn + "plan 0; admit 1 0 4", "law 5: 1 finds 4 of 4 tokens cached"},
    {"NeverPreempted", kIn + "plan 0; admit 1 0 0 1", "1 says wrongly whether it was preempted"},

    {"PreemptedOutsideOfAPlan", kStep0 + "preempt 1 0 4", "law 4: 1 is preempted ahead of a plan"},
    {"PreemptedAfterRows", kIn + kAdmit + "row 1 0 4 0 fs; preempt 1 0 4",
     "law 4: 1 is preempted after rows were planned"},
    {"PreemptedWhileItWaits", kIn + "plan 0; preempt 1 0 0", "law 4: 1 is preempted, but it waits"},
    {"TheOlderGivesWay", kBothStep0 + "plan 1; preempt 1 0 4",
     "law 4: 1 is preempted, but 2 is younger"},
    {"PreemptedWithoutNeed", kStep0 + "plan 1; preempt 1 0 4",
     "law 4: 1 is preempted without need"},
    {"LosesASlotOfAnother",
     kIn + "plan 0; admit 1 0; take 1 0 0 0;" + kRead + kReadDone + "plan 1; preempt 1 1 4",
     "law 2: 1 loses slot 1", [](auto& o) { o.kv_blocks = 1; }},
    {"AdmittedByThePlanThatPreemptedIt",
     kIn + "plan 0; admit 1 0; take 1 0 0 0;" + kRead + kReadDone +
         "plan 1; preempt 1 0 4; release 1 0; admit 1 0 0 1",
     "law 4: 1 is admitted by the plan that preempted it", [](auto& o) { o.kv_blocks = 1; }},
    {"LosesWhatItHadNot",
     kIn + "plan 0; admit 1 0; take 1 0 0 0;" + kRead + kReadDone + "plan 1; preempt 1 0 3",
     "law 5: 1 loses 3 positions, but had 4", [](auto& o) { o.kv_blocks = 1; }},

    {"EndsTwice", kStep0 + "cancel 1 0; cancel 1 0", "law 4: 1 ends twice"},
    {"CancelledWithoutARow", kStep0 + "cancel 1 1", "law 2: 1 says wrongly whether a row"},
    {"FinishesTooEarly", kStep0 + "finish 1 2", "law 5: 1 ends with 2 new tokens, but it got 1"},

    {"TakesNoBlock", kIn + "plan 0; admit 1 0; take 1 8", "law 2: block 8 does not exist"},
    {"TakesABlockTwice", kIn + "plan 0; admit 1 0; take 1 0; take 1 0 0 1",
     "law 2: 1 takes block 0, which is in use"},
    {"TakesABlockThatIsFindable",
     kStep0 + "index 1 0; cancel 1 0; release 1 1; release 1 0;" + kIn2 +
         "plan 1; admit 2 0; take 2 0",
     "law 2: 2 takes block 0, which can still be found"},
    {"TakesAWithheldBlock", "withhold 0 8;" + kIn + "plan 0; admit 1 0; take 1 0",
     "law 2: 1 takes a block that is withheld"},
    {"TakesABlockForAWrongPlace", kIn + "plan 0; admit 1 0; take 1 0 0 1",
     "law 2: 1 takes block 0 at index 1"},
    {"TakesABlockWhileItWaits", kIn + "take 1 0", "law 2: 1 takes block 0 at index 0"},
    {"SharesNoBlock", kIn + "plan 0; admit 1 0; share 1 8", "law 2: block 8 does not exist"},
    {"SharesWhatCannotBeFound", kIn + "plan 0; admit 1 0; share 1 0",
     "law 2: 1 shares block 0, which cannot be found"},
    {"SharesMoreThanItFound", kStep0 + "index 1 0;" + kIn2 + "plan 1; admit 2 1 0; share 2 0",
     "law 2: 2 shares block 0 at index 0"},
    {"GivesBackABlockOfAnother", kBothStep0 + "cancel 1 0; release 1 2",
     "law 2: 1 releases block 2, which was not its own"},
    {"GivesBackABlockThatIsBeingWritten",
     kIn + kAdmit + kRead + "plan 1 1; row 1 4 1 0 ds; planned 1 0 1 1; cancel 1 1; release 1 1",
     "law 2: 1 releases block 1 while a row of it is in flight"},
    {"GivesBackABlockAndRunsOn", kStep0 + "release 1 0", "law 2: 1 releases block 0 and runs on"},
    {"IndexesABlockOfAnother", kBothStep0 + "index 1 2",
     "law 2: block 2 is indexed, but it is not 1's"},
    {"IndexesABlockThatIsNotFull", kStep0 + "index 1 1", "law 5: block 1 of 1 is indexed"},
    {"IndexesABlockThatIsBeingComputed", kIn + kAdmit + kRead + "index 1 0",
     "law 5: block 0 of 1 is indexed"},
    {"IndexesABlockTwice", kStep0 + "index 1 0; index 1 0", "law 2: block 0 is indexed twice"},
    {"DropsNoBlock", "drop 0 8", "law 2: block 8 does not exist"},
    {"DropsABlockInUse", kStep0 + "index 1 0; drop 0 0",
     "law 2: block 0 is dropped, but it is in use"},
    {"DropsThoughOthersAreFree",
     kStep0 + "index 1 0; cancel 1 0; release 1 1; release 1 0; drop 0 0",
     "law 2: block 0 is dropped, but others are free"},
    {"DropsAYoungerBlock",
     kBothStep0 +
         "index 1 0; index 2 2; cancel 1 0; release 1 1; release 1 0; cancel 2 0; release 2 3; "
         "release 2 2;" +
         kIn3 + "plan 1; admit 3 0; take 3 1; take 3 3 0 1; drop 0 2",
     "law 2: block 2 is dropped, but 0 was let go before it", [](auto& o) { o.kv_blocks = 4; }},

    {"APlanWithinAPlan", kIn + "plan 0; plan 0", "a plan within a plan"},
    {"APlanAheadOfNothing", kIn + "plan 0 1", "plan 0 says wrongly whether another is in flight"},
    {"APlanOfAnotherNumber", kIn + "plan 1", "plan 1 should be 0"},
    {"ARowOfOneThatWaits", kIn + "plan 0; row 1 0 4 0 fs", "law 2: 1 has a row, but does not run"},
    {"TwoRows", kIn + kAdmit + "row 1 0 2; row 1 2 2 0 fs", "1 has two rows in a step"},
    {"AheadOfDrafts", kStep0 + "plan 1; row 1 4 2 1 ds; planned 1 0 1 2; plan 2 1; row 1 5 1 0 ds",
     "law 5: 1 is planned ahead of draft tokens", [](auto& o) { o.speculative_tokens = 1; }},
    {"TwoClassesInAStep",
     kIn + "arrive 2 4 3; priority 2 0 1;" + kAdmit +
         "admit 2 1; take 2 2; row 1 0 4 0 fs; row 2 0 4 0 fs",
     "2 of class 1 shares a step with class 0"},
    {"PrefillAfterDecode",
     kStep0 + kIn2 + "plan 1; admit 2 1; take 2 2; row 1 4 1 0 ds; row 2 0 4 0 fs",
     "the prefill row of 2 comes after decode rows"},
    {"OutOfOrder", kBothAdmitted + "row 2 0 4 0 fs; row 1 0 4 0 fs",
     "the row of 1 is out of order"},
    {"AGap", kIn + kAdmit + "row 1 1 3 0 fs",
     "law 5: 1 computes from position 1, but 0 come first"},
    {"WithoutABlock", kIn + "plan 0; admit 1 0; row 1 0 4 0 fs",
     "law 2: 1 computes 4 positions in 0"},
    {"WithTooFewBlocks", "arrive 1 5 3; priority 1; plan 0; admit 1 0; take 1 0; row 1 0 5 0 fs",
     "law 2: 1 computes 5 positions in 1 blocks"},
    {"WritesABlockThatIsFindable",
     kIn + "plan 0; admit 1 0; take 1 0;" + kRead + kReadDone +
         "index 1 0; withhold 0 1; plan 1; preempt 1 0 4; planned 1; withhold 0 0;"
         "plan 1; admit 1 0 0 1; row 1 0 4",
     "law 2: 1 writes block 0, which is not its own alone", [](auto& o) { o.kv_blocks = 1; }},
    {"ASharedPrefix",
     kStep0 +
         "arrive 2 6 3; priority 2; index 1 0; plan 1; admit 2 1 4; share 2 0; take 2 2 0 1;"
         "row 2 4 2 0 fs; row 1 4 1 0 ds; planned 1 1 1 3; accept 2 1 6; accept 1 1 5; commit 1;"
         "cancel 1 0; release 1 1; release 1 0; cancel 2 0; release 2 2; release 2 0",
     ""},
    {"DraftsTooMany", kStep0 + "plan 1; row 1 4 2 1 ds",
     "law 5: 1 decodes 2 tokens with 1 draft tokens"},
    {"DraftsMiscounted", kStep0 + "plan 1; row 1 4 2 0 ds",
     "law 5: 1 decodes 2 tokens with 0 draft tokens"},
    {"NotSampled", kStep0 + "plan 1; row 1 4 1 0 d",
     "law 5: 1 decodes 1 tokens with 0 draft tokens"},
    {"DraftsBeyondTheEnd", kStep0 + "plan 1; row 1 4 3 2 ds", "law 5: 1 drafts beyond its end",
     [](auto& o) { o.speculative_tokens = 2; }},
    {"DraftsAheadOfTheLastToken", kIn + kAdmit + kRead + "plan 1 1; row 1 4 2 1 ds",
     "law 5: 1 drafts ahead of its last token", [](auto& o) { o.speculative_tokens = 1; }},
    {"DecodesWhilePartlyRead", kIn + kAdmit + "row 1 0 1 0 ds", "law 5: 1 decodes at 0, but 4"},
    {"ReadsBeyondThePrompt", kIn + kAdmit + "row 1 0 5 0 fs",
     "law 5: 1 prefills 5 positions, but its prefill end is 4"},
    {"SampledBeforeTheEnd", kIn + kAdmit + "row 1 0 3 0 s",
     "law 5: 1 is sampled wrongly at 3 of 4"},
    {"NotSampledAtTheEnd", kIn + kAdmit + "row 1 0 4 0 f", "law 5: 1 is sampled wrongly at 4 of 4"},
    {"OverTheThreshold", kIn + kAdmit + "row 1 0 4 0 fs", "1 prefills 4 tokens, the threshold is 3",
     [](auto& o) { o.long_prefill_token_threshold = 3; }},

    {"MiscountedRows", kIn + kAdmit + "row 1 0 4 0 fs; planned 0 2 0 4",
     "plan 0 counts 2 + 0 rows"},
    {"MiscountedTokens", kIn + kAdmit + "row 1 0 4 0 fs; planned 0 1 0 5",
     "plan 0 counts 1 + 0 rows"},
    {"OverTheBudget", kIn + kAdmit + kRead, "a step of 1 rows and 4 tokens",
     [](auto& o) { o.max_num_batched_tokens = 3; }},
    {"MixedThoughOff",
     kStep0 + kIn2 + "plan 1; admit 2 1; take 2 2; row 2 0 4 0 fs; row 1 4 1 0 ds; planned 1 1 1 5",
     "a mixed step, but mixing is off", [](auto& o) { o.mixed = false; }},
    {"TwoChunksCutShort", kBothAdmitted + "row 1 0 3; row 2 0 3; planned 0 2 0 6",
     "2 chunks are cut short of 2 tokens", [](auto& o) { o.prefill_alignment = 2; }},
    {"AnEmptyStep", kIn + "plan 0; planned 0", "law 1: an empty step, but 1 is there"},

    {"ADecodeLeftOut", kBothStep0 + "plan 1; row 1 4 1 0 ds; planned 1 0 1 1",
     "law 3: 2 decodes and has no row, though 1 rows of 6 are taken"},
    {"ASecondPrefillStep",
     kStep0 + kIn2 + "plan 1; admit 2 1; take 2 2; row 2 0 4 0 fs; planned 1 1 0 4",
     "law 3: 1 waits for a second prefill step", [](auto& o) { o.mixed = false; }},
    {"PartlyReadAndLeftOut",
     kStep0 + "arrive 2 12 3; priority 2; plan 1; admit 2 1; take 2 2; take 2 3 0 1; row 2 0 7; "
              "row 1 4 1 0 ds;"
              "planned 1 1 1 8; accept 2 0 7; accept 1 1 5; commit 1;"
              "plan 2; row 1 5 1 0 ds; planned 2 0 1 1",
     "law 3: 2 is in prefill and left out for 1 steps"},
    {"RoomForOneThatIsPartlyRead", kBothAdmitted + "row 2 0 4 0 fs; planned 0 1 0 4",
     "law 1: 1 is in prefill, and 4 tokens of the step are unused"},
    {"RoomForOneThatIsPartlyReadBesideAnotherTenantsHead",
     "arrive 1 4 3 1; priority 1; arrive 2 4 3 2; priority 2; arrive 3 4 3 3; priority 3;"
     "plan 0; admit 2 0; take 2 0; admit 3 1; row 2 0 4 0 fs; planned 0 1 0 4",
     "law 1: 3 is in prefill, and 4 tokens of the step are unused",
     [](auto& o) { o.policy = Policy::kFair; }},
    {"RoomForTheHead", kIn + kIn2 + kAdmit + kRead, "law 1: 2 waits, though a slot"},
    {"RoomForTheMostUrgentThatIsPartlyRead", kUrgent + "row 3 0 4; planned 0 1 0 4",
     "law 1: 2 is in prefill, and 4 tokens", three_by_priority},
    // 2 tokens are too few for it, and the other may not overtake it.
    {"NoRoomForTheMostUrgentThatIsPartlyRead",
     kUrgent + "row 3 0 6 0 fs; planned 0 1 0 6; accept 3 1 6; commit 0; cancel 3 0; release 3 1;"
               "release 3 0; cancel 2 0; cancel 1 0",
     "", three_by_priority},

    {"AResultWithoutARow", kStep0 + "accept 1 1 5", "law 5: 1 has a result without a row"},
    {"TooManyTokens", kIn + kAdmit + kRead + "accept 1 2 4",
     "law 5: 1 gets 2 new tokens of a row with 0"},
    {"NoToken", kIn + kAdmit + kRead + "accept 1 0 4",
     "law 5: 1 gets 0 new tokens of a row with 0"},
    {"WrongPositions", kIn + kAdmit + kRead + "accept 1 1 5",
     "law 5: 1 has 5 positions after 0 + 4"},
    {"BeyondItsEnd", kStep0 + kStep1 + "plan 2; row 1 5 1 0 ds; planned 2 0 1 1; accept 1 1 6",
     "law 5: 1 goes on beyond 7 tokens"},
    {"CommitOfAnotherNumber", kIn + kAdmit + kRead + "accept 1 1 4; commit 1",
     "commit 1 should be 0"},
    {"CommitOfNoPlan", "commit 0", "commit 0 of no plan"},
    {"ARowWithoutAResult", kIn + kAdmit + kRead + "commit 0",
     "law 5: the row of 1 in step 0 has no result"},

    {"AWindow", kFarNext + kFarEnd, "", with_a_window},
    {"ReleasesWhatItSees", kFar + "release 1 3", "law 2: 1 releases block 3 and runs on",
     with_a_window},
    {"ReleasesWhatAllSee", kFar + "release 1 0", "law 2: 1 releases block 0 and runs on",
     with_a_window},
    {"KeepsWhatIsBehindItsWindow", kFar + "commit 0",
     "law 2: 1 keeps block 1, which is behind its window", with_a_window},
    {"ComputesWithoutAWindowsBlock", kFarNext + "row 1 8 4 0 fs",
     "law 5: 1 sees a block at index 2 that it does not hold", with_a_window},
    {"TakesABlockBehindItsWindow", kFarNext + "take 1 5 1 0", "law 2: 1 takes block 5 at index 0",
     with_a_window},
    {"TakesABlockOfNoGroup", kFarNext + "take 1 5 2 2", "law 2: 1 takes block 5 at index 2",
     with_a_window},
    {"SharesWithAHoleInItsWindow",
     kFarNext + "index 1 0; index 1 2; index 1 3;"
                "arrive 2 9 1; priority 2; admit 2 1 8; share 2 0 0 0; share 2 3 1 1",
     "law 2: 2 shares block 3 at index 1", with_a_window},

    {"ASavedState",
     kSaved + "load 2 0 8;" + kLoadedRow +
         "accept 2 1 9 1; yield 2 0; finish 2 1; release 2 2; release 2 1; release 2 0; commit 2",
     "", with_states},
    {"BeginsWithoutAState", kSaved + kLoadedRow, "law 5: 2 begins at position 8 without a state",
     with_states},
    {"BeginsWithAStateOfAnotherPosition", kSaved + "load 2 0 4",
     "law 5: 2 begins with state 0 at position 4", with_states},
    {"BeginsWithAStateThatIsNotSaved",
     kSaves + "commit 0; arrive 2 9 1; priority 2; plan 1;"
              "admit 2 1 8; load 2 0 8",
     "law 5: 2 begins with state 0, which cannot be found", with_states},
    {"SavesOverAState", kSaved + "save 2 0 8", "law 2: 2 saves over state 0, which may be read",
     with_states},
    {"SavesBetweenBlocks", kIn + kAdmit + "save 1 0 3", "law 5: 1 saves state 0 at position 3",
     with_states},
    {"SavesWhatItsRowDoesNotReach", kIn + kAdmit + "save 1 0 8; row 1 0 4 0 fs",
     "law 5: 1 saves a state at position 8, but computes 4", with_states},
    {"FindsAStateBeforeItIsSaved", kIn + kAdmit + "save 1 0 4; row 1 0 4 0 fs; keep 1 0",
     "law 5: state 0 of 1 is indexed, but it is not saved", with_states},
    {"DropsAStateThatIsRead", kSaved + "load 2 0 8; forget 2 0",
     "law 2: state 0 is dropped, but it is in use", with_states},
    {"ReleasesAStateOfAnother", kSaved + "yield 2 0",
     "law 2: 2 releases state 0, which is not its own", with_states},
    {"KeepsAState",
     kSaved + "load 2 0 8;" + kLoadedRow +
         "accept 2 1 9 1; finish 2 1; release 2 2; release 2 1; release 2 0;"
         "commit 2",
     "law 4: 2 is lost", with_states},
    {"TakesDraftTokensBack",
     kTakenBack + "plan 2; row 1 5 1 0 ds; planned 2 0 1 1; accept 1 1 6 1; yield 1 0; finish 1 3;"
                  "release 1 1; release 1 0; commit 2;",
     "", with_states},
    {"DraftsWithoutAState", kStep0 + "plan 1;" + kDraftRow,
     "law 5: 1 has 1 draft tokens and saves 0 states", with_states},
    {"SavesBehindDraftTokens", kStep0 + "plan 1; save 1 0 6 1",
     "law 5: 1 saves state 0 at position 6", with_states},
    {"GoesOnWithWrongTokens",
     kDraftSaved + kDraftRow + "yield 1 0; commit 1; plan 2; row 1 5 1 0 ds",
     "law 5: 1 begins at position 5 without a state", with_states},
    {"TakesTooManyBack", kDraftSaved + kDraftRow + "load 1 0 4",
     "begins with state 0, which cannot", with_states},
    {"KeepsADraftsState", kDraftSaved + kDraftRow + "load 1 0 5; commit 1; plan 2; row 1 5 1 0 ds",
     "law 5: 1 has 0 draft tokens and saves 1 states", with_states},
};

class LawCheckerRules : public testing::TestWithParam<Case> {};

TEST_P(LawCheckerRules, SeesWhatIsBroken) {
  SchedulerOptions options = small();
  if (GetParam().set) GetParam().set(options);
  const std::string violation = judge(options, GetParam().events);
  if (GetParam().violation.empty()) {
    EXPECT_EQ(violation, "");
  } else {
    EXPECT_NE(violation.find(GetParam().violation), std::string::npos) << violation;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LawCheckerRules, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LawChecker, SeesThatADecodeMissesItsTurns) {
  SchedulerOptions options = small();
  options.max_num_seqs = 3;
  options.max_num_batched_tokens = 2;  // one for decodes while prefill is owed one
  options.min_prefill_tokens = 1;
  std::string events =
      "arrive 1 1 20; priority 1; arrive 2 1 20; priority 2; plan 0; admit 1 0; take 1 0; take 1 1 "
      "0 1;"
      "admit 2 1; take 2 2; take 2 3 0 1; row 1 0 1 0 fs; row 2 0 1 0 fs; planned 0 2 0 2; accept "
      "1 1 1;"
      "accept 2 1 1; commit 0; arrive 3 16 3; priority 3; plan 1; admit 3 2; take 3 4; take 3 5 0 "
      "1;";
  for (int step = 1; step <= 5; ++step) {
    if (step > 1) events += fmt::format("plan {};", step);
    events += fmt::format(
        "row 3 {} 1; row 1 {} 1 0 ds; planned {} 1 1 2; accept 3 0 {}; accept 1 1 {}; commit {};",
        step - 1, step, step, step, step + 1, step);
  }
  EXPECT_NE(judge(options, events).find("law 3: 2 decodes and has missed 5 turns"),
            std::string::npos)
      << judge(options, events);
}

TEST(LawChecker, SeesThatOneRunsAndIsForgotten) {
  SchedulerOptions options = small();
  options.max_context = 8;
  std::string events = kIn + "arrive 2 4 1; priority 2; plan 0; admit 1 0; take 1 0;";
  for (int step = 0; step < 60; ++step) {
    const int other = step + 2;
    const std::string arrival = fmt::format("arrive {} 4 1; priority {};", other, other);
    events += step == 0 ? "" : arrival + fmt::format("plan {};", step);
    events += fmt::format(
        "admit {0} 1; take {0} 1; row {0} 0 4 0 fs; planned {1} 1 0 4; accept {0} 1 4 1; finish "
        "{0} 1;"
        "release {0} 1; commit {1};",
        other, step);
  }
  // What a step costs is known, so that unused room proves nothing.
  const std::string violation = judge(options, events, true);
  EXPECT_NE(violation.find("law 4: 1 runs and had no row for 48 steps"), std::string::npos)
      << violation;
}

TEST(LawChecker, SeesThatAClassWaitsForAnother) {
  std::string events =
      "arrive 1 4 20; priority 1;" + kAdmit + "take 1 2 0 2; take 1 3 0 3;" + kRead + kReadDone +
      "arrive 2 4 3; priority 2 0 1; plan 1; admit 2 1; take 2 4; row 2 0 4 0 fs; planned 1 1 0 4;"
      "accept 2 1 4; commit 1;";
  for (int step = 2; step < 10; ++step) {
    events +=
        fmt::format("plan {0}; row 1 {1} 1 0 ds; planned {0} 0 1 1; accept 1 1 {2}; commit {0};",
                    step, step + 2, step + 3);
  }
  const std::string violation = judge(small(), events);
  EXPECT_NE(violation.find("law 4: 2 of class 1 waits for other classes"), std::string::npos)
      << violation;
}

}  // namespace
}  // namespace dovetail::laws
