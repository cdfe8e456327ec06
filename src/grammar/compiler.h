#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"

namespace dovetail::grammar {

enum class SourceKind : std::uint8_t { kJsonSchema, kRegex, kJsonObject, kStructure, kGbnf };

// Compiles grammars for one vocabulary and keeps the last ones. Any thread, several at a time: the
// caller decides how many, as each takes up to some 200 MiB meanwhile. A grammar that another
// thread compiles is waited for. What is in use lives on when it is no longer kept.
class Compiler {
 public:
  static constexpr std::size_t kMaxSource = std::size_t{256} << 10U;  // bytes
  static constexpr std::size_t kMaxStructure = std::size_t{1}
                                               << 20U;  // a structure's, with schemas
  static constexpr std::uint32_t kMaxSourceDepth = 256;
  static constexpr std::size_t kDefaultKept = std::size_t{512} << 20U;
  // Of one grammar's masks, as TokenMasks::create().
  static constexpr std::size_t kMaskBytes = std::size_t{64} << 20U;
  // So many states nearest the start have their masks before compile() returns.
  static constexpr std::size_t kPrepared = 64;

  // `kept`: bytes of grammars that are kept, their masks included.
  explicit Compiler(std::shared_ptr<const Vocabulary> vocabulary, std::size_t kept = kDefaultKept)
      : vocabulary_(std::move(vocabulary)), max_kept_(kept) {}

  // `text` is the schema or structure in JSON, or the expression; empty for kJsonObject. Takes up
  // to a second or two. Errors: as Grammar's and TokenMasks::create(); a text that is no JSON, or
  // beyond the bounds above. kUnavailable within milliseconds once `stop` is set, which is not
  // kept.
  Result<std::shared_ptr<const TokenMasks>> compile(SourceKind kind, std::string_view text,
                                                    StopFlag stop = nullptr);
  // The outcome of an earlier compile(), if it is kept; takes microseconds.
  std::optional<Result<std::shared_ptr<const TokenMasks>>> find(SourceKind kind,
                                                                std::string_view text);

  // Of what is kept now.
  std::size_t kept_grammars() const;
  std::size_t kept_bytes() const;

 private:
  using Key = std::pair<SourceKind, std::string>;
  struct Kept {
    std::shared_ptr<const TokenMasks> masks;
    std::optional<Error> error;  // refused once, refused again
    std::list<const Key*>::iterator place;
  };

  // These three under the lock.
  std::optional<Result<std::shared_ptr<const TokenMasks>>> find(const Key& key);
  void keep(Key key, const Result<std::shared_ptr<const TokenMasks>>& outcome);
  std::size_t sum() const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::size_t max_kept_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable done_;
  std::set<Key> under_way_;
  std::map<Key, Kept> kept_;
  std::list<const Key*> order_;  // the last used first
};

}  // namespace dovetail::grammar
