#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/api_error.h"
#include "serve/http_message.h"

// Where the head and the body of a request begin and end, as RFC 9112 frames them, read strictly
// and in bounded memory. Beast 1.81 parses heads, but not these: its parser buffers chunk
// extensions, chunk sizes and trailers without a limit and unfolds folded lines. No I/O. What a
// head says is read by it (http_head.cpp).
namespace dovetail::serve {

inline constexpr std::size_t kMaxHeadBytes = 16 << 10;
inline constexpr std::size_t kMaxChunkLineBytes = 1 << 10;  // size and extensions
inline constexpr std::size_t kMaxTrailerBytes = 8 << 10;
// Chunk lines and trailers of one body, beyond max_body_bytes for what they carry.
inline constexpr std::size_t kMaxFramingBytes = 64 << 10;

// Header or trailer lines up to the empty line that ends them, byte by byte.
class FieldLines {
 public:
  // What is wrong with this byte, empty if nothing. Not to be called after done() or an error.
  std::string_view feed(char c);
  bool done() const { return part_ == Part::kDone; }

 private:
  enum class Part : std::uint8_t { kLineStart, kName, kValue, kLineEnd, kEnd, kDone };
  Part part_ = Part::kLineStart;
};

// Finds the end of a request's head in bytes that arrive in pieces.
class HeadScanner {
 public:
  // `bytes`: everything from the request's first byte on; each call has those of the call before it
  // in front and goes on behind them. Errors: 400 for what is not the head of an HTTP/1.x request,
  // 431 beyond kMaxHeadBytes.
  Problem scan(std::string_view bytes);
  bool done() const { return fields_.done(); }

  // The head is [begin(), end()) of the bytes once done(); empty lines before it are skipped.
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return at_; }

 private:
  enum class Part : std::uint8_t { kBlank, kBlankEnd, kRequestLine, kRequestLineEnd, kFields };
  std::string_view feed(std::string_view bytes);

  FieldLines fields_;
  Part part_ = Part::kBlank;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
};

// Decodes a request's body from bytes that arrive in pieces. Keeps none of them.
class BodyDecoder {
 public:
  // A body of `length` bytes.
  static BodyDecoder of_length(std::uint64_t length);
  // A chunked body, of at most `max_payload` bytes in its chunks.
  static BodyDecoder of_chunks(std::size_t max_payload);

  struct Step {
    std::size_t taken = 0;     // bytes of the input that are used up
    std::string_view payload;  // of the body, within the input; may be empty
  };
  // Takes at least one byte of `bytes`, which must not be empty, and at most one run of payload;
  // nothing that follows the body. Errors: 400 for bad framing, 413 for more payload or chunk lines
  // than allowed, 431 for more trailers. Not to be called after done() or an error.
  Outcome<Step> next(std::string_view bytes);
  bool done() const { return part_ == Part::kDone; }

 private:
  enum class Part : std::uint8_t {
    kSize,  // digits of a chunk's size
    kExtension,
    kLineEnd,
    kData,
    kDataEnd,  // CR and LF behind a chunk's data
    kDataEndLf,
    kTrailers,
    kRest,  // of a body of known length
    kDone,
  };
  Problem frame(char c);
  Problem frame_size(char c);
  Problem begin_chunk();

  Part part_ = Part::kRest;
  std::uint64_t left_ = 0;  // of the chunk, or of the body
  std::size_t max_payload_ = 0;
  std::size_t payload_ = 0;  // announced by chunks so far
  std::size_t framing_ = 0;  // bytes so far that are not payload
  std::size_t line_ = 0;     // bytes of this chunk line, or of the trailers
  int digits_ = 0;
  FieldLines trailers_;
};

// Reads the head of a request: all bytes that HeadScanner found, with the empty line. Errors: 400
// for what is malformed or could be framed in two ways, for a Host header that is missing from
// HTTP/1.1, there more than once or no host; 501 for transfer codings other than "chunked".
Outcome<HttpHead> parse_head(std::string_view text);

// "Example.org:80" gives "example.org" and "[::1]" itself; nothing for what is no host with an
// optional port.
std::optional<std::string> host_name(std::string_view authority);

}  // namespace dovetail::serve
