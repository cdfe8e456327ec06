#pragma once

namespace dovetail::model {

// Ways to break the forward pass's graph on purpose, to see that tests notice. A build with the
// compile definition DOVETAIL_MODEL_MUTANT=N has the N-th; the product has none.
enum class Mutant {
  kNone,
  kOneTileTooLate,    // a tile does not wait for the keys of the first tile that it shares with
  kSharedRows,        // tiles prepare their rows in one place
  kTileIsASequence,   // the positions of a tile's query tiles begin with the segment's
  kFirstRowOnly,      // of the rows of a tile that have logits, the last layer attends for some
  kPartsDoNotMeet,    // the parts of an expert's task go on before the others are there
  kCapacity,          // an expert takes no more rows than the mean of a tile's
  kTilesAreTheShape,  // passes of as many tiles run one graph, whatever their tiles share
  kCount
};

#ifdef DOVETAIL_MODEL_MUTANT
inline constexpr Mutant kMutant = static_cast<Mutant>(DOVETAIL_MODEL_MUTANT);
#else
inline constexpr Mutant kMutant = Mutant::kNone;
#endif

constexpr bool mutated(Mutant mutant) { return kMutant == mutant; }

}  // namespace dovetail::model
