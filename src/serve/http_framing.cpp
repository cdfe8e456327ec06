#include "serve/http_framing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>

namespace dovetail::serve {
namespace {

constexpr int kMaxSizeDigits = 16;  // of a 64-bit number

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

// Of RFC 9110's tokens, which name methods and fields.
bool is_token(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return letter || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

ApiError framing_error(int status, std::string code, std::string message) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

ApiError bad_body(std::string_view what) {
  return framing_error(400, "bad_http", fmt::format("not a valid chunked body: {}", what));
}

ApiError too_large(std::string message) {
  return framing_error(413, "body_too_large", std::move(message));
}

constexpr std::string_view kExpectedLf = "a carriage return without a line feed";
constexpr std::string_view kControl = "a control character in a line";

}  // namespace

std::string_view FieldLines::feed(char c) {
  switch (part_) {
    case Part::kLineStart:
      if (c == '\r') {
        part_ = Part::kEnd;
        return {};
      }
      if (c == ' ' || c == '\t') return "a folded header line; expected one line for each header";
      if (!is_token(c)) return "a header line that begins without a name";
      part_ = Part::kName;
      return {};
    case Part::kName:
      if (c == ':') {
        part_ = Part::kValue;
        return {};
      }
      return is_token(c) ? std::string_view() : "a header name that is not followed by a colon";
    case Part::kValue:
      if (c == '\r') {
        part_ = Part::kLineEnd;
        return {};
      }
      return is_control(c) ? kControl : std::string_view();
    case Part::kLineEnd:
    case Part::kEnd:
      if (c != '\n') return kExpectedLf;
      part_ = part_ == Part::kEnd ? Part::kDone : Part::kLineStart;
      return {};
    case Part::kDone:
      break;
  }
  assert(false && "fed after the end");
  return {};
}

Problem HeadScanner::scan(std::string_view bytes) {
  while (at_ < bytes.size() && !done()) {
    if (at_ == kMaxHeadBytes) {
      return framing_error(
          431, "bad_http",
          fmt::format("the request's head is larger than {} bytes", kMaxHeadBytes));
    }
    if (const std::string_view what = feed(bytes); !what.empty()) {
      return framing_error(
          400, "bad_http",
          fmt::format("not a valid HTTP/1.1 request: {} (byte {} of its head)", what, at_));
    }
    ++at_;
  }
  return std::nullopt;
}

// Takes the byte at `at_`.
std::string_view HeadScanner::feed(std::string_view bytes) {
  const char c = bytes[at_];
  switch (part_) {
    case Part::kBlank:
      if (c == '\r') {
        part_ = Part::kBlankEnd;
        return {};
      }
      begin_ = at_;
      part_ = Part::kRequestLine;
      [[fallthrough]];
    case Part::kRequestLine:
      if (c == '\r')
        part_ = Part::kRequestLineEnd;
      else if (is_control(c))
        return kControl;
      return {};
    case Part::kBlankEnd:
      if (c != '\n') return kExpectedLf;
      part_ = Part::kBlank;
      return {};
    case Part::kRequestLineEnd: {
      if (c != '\n') return kExpectedLf;
      const std::string_view line = bytes.substr(begin_, at_ - 1 - begin_);
      if (!line.ends_with(" HTTP/1.1") && !line.ends_with(" HTTP/1.0")) {
        return "a request line that does not end with HTTP/1.1 or HTTP/1.0";
      }
      part_ = Part::kFields;
      return {};
    }
    case Part::kFields:
      return fields_.feed(c);
  }
  return {};
}

BodyDecoder BodyDecoder::of_length(std::uint64_t length) {
  BodyDecoder decoder;
  decoder.left_ = length;
  decoder.part_ = length == 0 ? Part::kDone : Part::kRest;
  return decoder;
}

BodyDecoder BodyDecoder::of_chunks(std::size_t max_payload) {
  BodyDecoder decoder;
  decoder.max_payload_ = max_payload;
  decoder.part_ = Part::kSize;
  return decoder;
}

Outcome<BodyDecoder::Step> BodyDecoder::next(std::string_view bytes) {
  assert(!bytes.empty() && !done());
  Step step;
  while (step.taken < bytes.size() && !done()) {
    if (part_ == Part::kData || part_ == Part::kRest) {
      const std::size_t here = bytes.size() - step.taken;
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, here));
      step.payload = bytes.substr(step.taken, size);
      step.taken += size;
      left_ -= size;
      if (left_ == 0) part_ = part_ == Part::kData ? Part::kDataEnd : Part::kDone;
      return step;
    }
    if (auto problem = frame(bytes[step.taken])) {
      return tl::unexpected<ApiError>(std::move(*problem));
    }
    ++step.taken;
  }
  return step;
}

Problem BodyDecoder::frame(char c) {
  // What the chunks leave of max_payload may be framing: small chunks are legal.
  ++framing_;
  if (framing_ > kMaxFramingBytes && framing_ - kMaxFramingBytes > max_payload_ - payload_) {
    return too_large(fmt::format(
        "the chunked body is too large; expected at most {} bytes of data and {} of chunk lines",
        max_payload_, kMaxFramingBytes));
  }
  switch (part_) {
    case Part::kSize:
    case Part::kExtension:
      return frame_size(c);
    case Part::kLineEnd:
      if (c != '\n') return bad_body(kExpectedLf);
      return begin_chunk();
    case Part::kDataEnd:
      if (c != '\r') return bad_body("a chunk's data is not followed by a line's end");
      part_ = Part::kDataEndLf;
      return std::nullopt;
    case Part::kDataEndLf:
      if (c != '\n') return bad_body(kExpectedLf);
      part_ = Part::kSize;
      return std::nullopt;
    case Part::kTrailers:
      if (++line_ > kMaxTrailerBytes) {
        return framing_error(
            431, "bad_http",
            fmt::format("the body's trailers are larger than {} bytes", kMaxTrailerBytes));
      }
      if (const std::string_view what = trailers_.feed(c); !what.empty()) return bad_body(what);
      if (trailers_.done()) part_ = Part::kDone;
      return std::nullopt;
    case Part::kData:
    case Part::kRest:
    case Part::kDone:
      break;
  }
  assert(false && "no framing is due");
  return std::nullopt;
}

Problem BodyDecoder::frame_size(char c) {
  if (++line_ > kMaxChunkLineBytes) {
    return too_large(
        fmt::format("a chunk's size and extensions are longer than {} bytes", kMaxChunkLineBytes));
  }
  if (c == '\r' && digits_ > 0) {
    part_ = Part::kLineEnd;
    return std::nullopt;
  }
  if (part_ == Part::kExtension) {
    return is_control(c) ? Problem(bad_body("a control character in a chunk's extensions"))
                         : std::nullopt;
  }
  if (c == ';' && digits_ > 0) {
    part_ = Part::kExtension;
    return std::nullopt;
  }
  const int value = hex_value(c);
  if (value < 0 || ++digits_ > kMaxSizeDigits) {
    return bad_body(fmt::format("a chunk's size is not a number of 1 to {} hexadecimal digits",
                                kMaxSizeDigits));
  }
  left_ = left_ * 16 + static_cast<std::uint64_t>(value);
  return std::nullopt;
}

// At the end of a chunk line: `left_` is the chunk's size.
Problem BodyDecoder::begin_chunk() {
  if (left_ > max_payload_ - payload_) {
    return too_large(fmt::format("the body is too large; expected at most {} bytes", max_payload_));
  }
  payload_ += static_cast<std::size_t>(left_);
  part_ = left_ == 0 ? Part::kTrailers : Part::kData;
  line_ = 0;
  digits_ = 0;
  return std::nullopt;
}

}  // namespace dovetail::serve
