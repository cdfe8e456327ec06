#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>

#include "text/pattern.h"
#include "text/utf8.h"

namespace dovetail::text {

struct Tokenizer::Impl {
  bool spm = false;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::uint8_t> special;
  std::unordered_map<std::string, TokenId> ids;
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, TokenId>> merges;
  std::vector<TokenId> added;  // longest first
  std::vector<Pattern> patterns;
  std::array<std::string, 256> byte_text;
  std::unordered_map<char32_t, unsigned char> byte_of;
  std::optional<TokenId> bos, eos;
  bool add_bos = false, add_prefix = true;
  std::vector<TokenId> ends;

  void make_bytes() {
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool prints =
          (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t cp = prints ? byte : next++;
      byte_text[byte] = to_utf8(cp);
      byte_of[cp] = static_cast<unsigned char>(byte);
    }
  }

  std::string bytes(TokenId id) const {
    const std::string& text = tokens[static_cast<std::size_t>(id)];
    if (special[static_cast<std::size_t>(id)] != 0) return text;
    std::string out;
    if (spm) {
      if (text.size() == 6 && text.starts_with("<0x") && text.back() == '>')
        return {static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16))};
      for (std::size_t i = 0; i < text.size();) {
        if (text.compare(i, 3, "\u2581") == 0) {
          out += ' ';
          i += 3;
        } else {
          out += text[i++];
        }
      }
      return out;
    }
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint cp = code_point_at(text, i);
      const auto found = byte_of.find(cp.value);
      if (found != byte_of.end()) {
        out += static_cast<char>(found->second);
      } else {
        out.append(text, i, cp.size);
      }
      i += cp.size;
    }
    return out;
  }

  struct Node {
    TokenId id;
    int prev, next;
  };

  template <class Merge>
  void merge_all(std::vector<Node>& nodes, const Merge& merge) const {
    struct Job {
      double key;
      int left;
      TokenId a, b, to;
      bool operator<(const Job& o) const { return key != o.key ? key > o.key : left > o.left; }
    };
    std::priority_queue<Job> queue;
    const auto offer = [&](int left) {
      if (left < 0 || nodes[static_cast<std::size_t>(left)].next < 0) return;
      const Node& a = nodes[static_cast<std::size_t>(left)];
      const Node& b = nodes[static_cast<std::size_t>(a.next)];
      if (const auto m = merge(a.id, b.id)) queue.push({m->first, left, a.id, b.id, m->second});
    };
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i) offer(i);
    while (!queue.empty()) {
      const Job job = queue.top();
      queue.pop();
      Node& a = nodes[static_cast<std::size_t>(job.left)];
      if (a.id != job.a || a.next < 0 || nodes[static_cast<std::size_t>(a.next)].id != job.b)
        continue;
      Node& b = nodes[static_cast<std::size_t>(a.next)];
      b.id = -1;
      a.id = job.to;
      a.next = b.next;
      if (a.next >= 0) nodes[static_cast<std::size_t>(a.next)].prev = job.left;
      offer(a.prev);
      offer(job.left);
    }
  }

  static std::vector<Node> chain(const std::vector<TokenId>& start) {
    std::vector<Node> nodes;
    for (int i = 0; i < static_cast<int>(start.size()); ++i)
      nodes.push_back({start[static_cast<std::size_t>(i)], i - 1,
                       i + 1 < static_cast<int>(start.size()) ? i + 1 : -1});
    return nodes;
  }

  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
    std::vector<TokenId> start;
    if (spm) {
      for (std::size_t i = 0; i < piece.size();) {
        const std::size_t size = code_point_at(piece, i).size;
        const auto found = ids.find(std::string(piece.substr(i, size)));
        if (found != ids.end()) {
          start.push_back(found->second);
        } else {
          for (std::size_t j = i; j < i + size; ++j) {
            char name[8];
            std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned char>(piece[j]));
            const auto byte = ids.find(name);
            if (byte != ids.end()) start.push_back(byte->second);
          }
        }
        i += size;
      }
    } else {
      for (const char c : piece) {
        const auto found = ids.find(byte_text[static_cast<unsigned char>(c)]);
        if (found != ids.end()) start.push_back(found->second);
      }
    }
    std::vector<Node> nodes = chain(start);
    merge_all(nodes, [&](TokenId a, TokenId b) -> std::optional<std::pair<double, TokenId>> {
      if (spm) {
        const auto found =
            ids.find(tokens[static_cast<std::size_t>(a)] + tokens[static_cast<std::size_t>(b)]);
        if (found == ids.end()) return std::nullopt;
        return std::pair<double, TokenId>(-scores[static_cast<std::size_t>(found->second)],
                                          found->second);
      }
      const auto found =
          merges.find((static_cast<std::uint64_t>(a) << 32) | static_cast<std::uint32_t>(b));
      if (found == merges.end()) return std::nullopt;
      return std::pair<double, TokenId>(found->second.first, found->second.second);
    });
    for (const Node& node : nodes) {
      if (node.id >= 0) out.push_back(node.id);
    }
  }

  void encode_text(std::string_view text, std::vector<TokenId>& out) const {
    if (text.empty()) return;
    if (spm) {
      std::string changed = add_prefix ? "\u2581" : "";
      for (const char c : text) changed += c == ' ' ? "\u2581" : std::string(1, c);
      return encode_piece(changed, out);
    }
    std::vector<std::string_view> pieces = {text};
    for (const Pattern& pattern : patterns) {
      std::vector<std::string_view> finer;
      for (const std::string_view piece : pieces) {
        for (const Span& span : pattern.find(piece)) {
          if (span.end > span.begin)
            finer.push_back(piece.substr(span.begin, span.end - span.begin));
        }
      }
      pieces = std::move(finer);
    }
    for (const std::string_view piece : pieces) encode_piece(piece, out);
  }
};

namespace {
const char* const kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<Tokenizer> Tokenizer::create(const load::ModelSource& source) {
  if (const auto* gguf = std::get_if<load::GgufTokenizer>(&source.tokenizer))
    return from_gguf(*gguf);
  if (const auto* hf = std::get_if<load::HuggingFaceTokenizer>(&source.tokenizer))
    return from_json(hf->tokenizer_json, hf->tokenizer_config_json);
  return fail(ErrorKind::kInvalid, "{}: it has no tokenizer", source.path.string());
}

static void finish_impl(Tokenizer::Impl& impl) {
  for (std::size_t i = 0; i < impl.tokens.size(); ++i) {
    impl.ids.emplace(impl.tokens[i], static_cast<TokenId>(i));
    if (impl.special[i] != 0 && !impl.tokens[i].empty())
      impl.added.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(impl.added.begin(), impl.added.end(), [&](TokenId a, TokenId b) {
    return impl.tokens[static_cast<std::size_t>(a)].size() >
           impl.tokens[static_cast<std::size_t>(b)].size();
  });
  if (impl.eos) impl.ends.push_back(*impl.eos);
  for (const char* name :
       {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"}) {
    const auto found = impl.ids.find(name);
    if (found != impl.ids.end() && impl.special[static_cast<std::size_t>(found->second)] != 0)
      impl.ends.push_back(found->second);
  }
  std::sort(impl.ends.begin(), impl.ends.end());
  impl.ends.erase(std::unique(impl.ends.begin(), impl.ends.end()), impl.ends.end());
}

Result<Tokenizer> Tokenizer::from_gguf(const load::GgufTokenizer& data) {
  auto impl = std::make_shared<Impl>();
  impl->make_bytes();
  impl->spm = data.model == "llama";
  impl->tokens = data.tokens;
  impl->scores = data.scores;
  impl->scores.resize(data.tokens.size());
  impl->special.resize(data.tokens.size());
  for (std::size_t i = 0; i < data.token_types.size(); ++i)
    impl->special[i] = data.token_types[i] == 3 || data.token_types[i] == 2;
  impl->bos = data.bos;
  impl->eos = data.eos;
  impl->add_bos = data.add_bos.value_or(impl->spm);
  impl->add_prefix = data.add_space_prefix.value_or(true);
  finish_impl(*impl);
  std::uint32_t rank = 0;
  for (const std::string& merge : data.merges) {
    const std::size_t space = merge.find(' ', 1);
    const std::string a = merge.substr(0, space), b = merge.substr(space + 1);
    if (impl->ids.contains(a) && impl->ids.contains(b) && impl->ids.contains(a + b))
      impl->merges[(static_cast<std::uint64_t>(impl->ids[a]) << 32) |
                   static_cast<std::uint32_t>(impl->ids[b])] = {rank, impl->ids[a + b]};
    ++rank;
  }
  impl->patterns.push_back(*Pattern::regex(kGpt2, "pre"));
  return Tokenizer(impl);
}

Result<Tokenizer> Tokenizer::from_json(std::string_view text, std::string_view config_text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto config =
      nlohmann::json::parse(config_text.empty() ? "{}" : config_text, nullptr, false);
  auto impl = std::make_shared<Impl>();
  impl->make_bytes();
  std::size_t size = 0;
  for (const auto& [token, id] : json["model"]["vocab"].items())
    size = std::max(size, id.get<std::size_t>() + 1);
  for (const auto& token : json["added_tokens"])
    size = std::max(size, token["id"].get<std::size_t>() + 1);
  impl->tokens.resize(size);
  impl->special.resize(size);
  for (const auto& [token, id] : json["model"]["vocab"].items())
    impl->tokens[id.get<std::size_t>()] = token;
  for (const auto& token : json["added_tokens"]) {
    impl->tokens[token["id"].get<std::size_t>()] = token["content"];
    impl->special[token["id"].get<std::size_t>()] = 1;
  }
  finish_impl(*impl);
  const auto id_of = [&](const char* key) -> std::optional<TokenId> {
    if (!config.contains(key) || config[key].is_null()) return std::nullopt;
    const std::string name = config[key].is_string() ? config[key].get<std::string>()
                                                     : config[key]["content"].get<std::string>();
    return impl->ids.contains(name) ? std::optional(impl->ids[name]) : std::nullopt;
  };
  impl->bos = id_of("bos_token");
  impl->eos = id_of("eos_token");
  if (impl->eos) impl->ends.push_back(*impl->eos);
  impl->add_bos = config.value("add_bos_token", false);
  impl->patterns.push_back(*Pattern::regex(kGpt2, "pre"));
  return Tokenizer(impl);
}

std::vector<TokenId> Tokenizer::encode(std::string_view raw, const EncodeOptions& options) const {
  const std::string text = repair_utf8(raw);
  std::vector<TokenId> out;
  if (options.add_special && impl_->add_bos && impl_->bos) out.push_back(*impl_->bos);
  std::size_t begin = 0;
  if (options.parse_special) {
    for (std::size_t i = 0; i < text.size();) {
      TokenId hit = -1;
      for (const TokenId id : impl_->added) {
        if (text.compare(i, impl_->tokens[static_cast<std::size_t>(id)].size(),
                         impl_->tokens[static_cast<std::size_t>(id)]) == 0) {
          hit = id;
          break;
        }
      }
      if (hit < 0) {
        ++i;
        continue;
      }
      impl_->encode_text(std::string_view(text).substr(begin, i - begin), out);
      out.push_back(hit);
      i += impl_->tokens[static_cast<std::size_t>(hit)].size();
      begin = i;
    }
  }
  impl_->encode_text(std::string_view(text).substr(begin), out);
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  std::string out;
  for (const TokenId id : ids) out += decoder.push(id);
  return out + decoder.finish();
}

std::size_t Tokenizer::vocab_size() const { return impl_->tokens.size(); }
std::string_view Tokenizer::token_text(TokenId id) const {
  return id < 0 || static_cast<std::size_t>(id) >= impl_->tokens.size()
             ? std::string_view()
             : impl_->tokens[static_cast<std::size_t>(id)];
}
bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < impl_->special.size() &&
         impl_->special[static_cast<std::size_t>(id)] != 0;
}
std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  const auto found = impl_->ids.find(std::string(text));
  return found == impl_->ids.end() ? std::nullopt : std::optional(found->second);
}
std::optional<TokenId> Tokenizer::bos() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->eos; }
std::span<const TokenId> Tokenizer::end_ids() const { return impl_->ends; }
bool Tokenizer::adds_bos() const { return impl_->add_bos; }

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= tokenizer_.vocab_size()) return {};
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  std::string bytes = tokenizer_.impl_->bytes(id);
  if (tokenizer_.impl_->spm && at_start_ && bytes.starts_with(' ')) bytes.erase(0, 1);
  at_start_ = false;
  Utf8Repair repair;
  std::string out;
  pending_ += bytes;
  // Everything but an unfinished last character.
  std::size_t keep = 0;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, pending_.size()); ++back) {
    const auto c = static_cast<unsigned char>(pending_[pending_.size() - back]);
    if (c < 0x80) break;
    if (c >= 0xc0) {
      const std::size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
      if (back < need) keep = back;
      break;
    }
  }
  const std::string ready = pending_.substr(0, pending_.size() - keep);
  pending_.erase(0, ready.size());
  return repair_utf8(ready);
}

std::string StreamDecoder::finish() {
  const std::string rest = repair_utf8(pending_);
  pending_.clear();
  return rest;
}

}  // namespace dovetail::text
