#pragma once

#include "base/mutant.h"

namespace dovetail::model {

// Faults of the forward pass's graph that tests build in (base/mutant.h).
enum class Mutant {
  kNone,
  kOneTileTooLate,    // a tile does not wait for the keys of the first tile that it shares with
  kSharedRows,        // tiles prepare their rows in one place
  kTileIsASequence,   // the positions of a tile's query tiles begin with the segment's
  kFirstRowOnly,      // of the rows of a tile that have logits, the last layer attends for some
  kPartsDoNotMeet,    // the parts of an expert's task go on before the others are there
  kCapacity,          // an expert takes no more rows than the mean of a tile's
  kTilesAreTheShape,  // passes of as many tiles run one graph, whatever their tiles share
  kOneSegmentTooFew,  // of the segments of a context that lanes share, the first is left out
  kStateStays,        // a sequence begins with the state that its slot's last one left
  kOneInputTooOld,    // of a convolution's last inputs those of the run before are kept
  kSavedAtTheEnd,     // a state is saved as the rows of its pass leave it
  kFormulaOfTheStep,  // a token's formula is that of the row that computes it
  kNoChain,           // a tile does not wait for the states of the tile before it
  kNoSecondChain,     // nor, where a layer's steps have two chains, in the second of them
  kEntriesOfAll,      // a row sees the compressed entries of its sequence's last row
  kWindowShort,       // the window's first position is left out
  kExpertsOfFirst,    // experts by a token's number are those of the tile's first
  kEntryOfRowsAlone,  // an entry sums the pass's rows alone
  kHiddenRowFirst,    // in what drafts, the hidden row comes before the embedding
  kNewestOfState,     // the newest entry that a row sees is that of the sequence's state
  kOneSliceTooFew,    // of an entry in slices the last block's is not written
  kTokensNotShifted,  // what drafts takes for a position its own token, not the one behind it
  kCount
};

}  // namespace dovetail::model
