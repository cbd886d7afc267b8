#pragma once
// Streaming JSON: RapidJSON's iterative SAX reader over a ByteSource. Numbers arrive as text, so
// that time stamps with more digits than a double holds stay exact.

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/base/error.h"
#include "simulator/importers/io/byte_source.h"

namespace foretrace::json {

// RapidJSON's input stream concept over a ByteSource.
class ChunkStream {
 public:
  using Ch = char;
  explicit ChunkStream(ByteSource& source) : source_(source) { Refill(); }

  Ch Peek() const { return at_ != end_ ? *at_ : '\0'; }
  Ch Take() {
    if (at_ == end_) return '\0';
    const Ch c = *at_++;
    if (at_ == end_) Refill();
    return c;
  }
  size_t Tell() const { return static_cast<size_t>(begin_offset_ + (at_ - begin_)); }
  bool at_end() const { return at_ == end_; }
  const absl::Status& error() const { return error_; }
  // A single string or number longer than kMaxToken ends the stream: called once per token.
  void MarkToken() { token_offset_ = Tell(); }
  static constexpr size_t kMaxToken = size_t{256} << 20;

  // Writing is part of the concept but only used in situ.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  size_t PutEnd(Ch*) { return 0; }

 private:
  void Refill() {
    begin_offset_ += at_ - begin_;
    begin_ = at_ = end_ = nullptr;
    if (!error_.ok()) return;
    if (static_cast<size_t>(begin_offset_) - token_offset_ > kMaxToken) {
      error_ = InvalidInput("{}: a string or number at byte {} is longer than {} bytes",
                            source_.name(), token_offset_, kMaxToken);
      return;
    }
    auto chunk = source_.Next();
    if (!chunk.ok()) {
      error_ = chunk.status();
      return;
    }
    begin_ = at_ = chunk->data();
    end_ = begin_ + chunk->size();
  }

  ByteSource& source_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int64_t begin_offset_ = 0;
  size_t token_offset_ = 0;
  absl::Status error_;
};

// Parses one document into `handler`: RapidJSON's SAX events, of which numbers come as RawNumber
// only, plus `void SetStream(ChunkStream*)` for offsets and `absl::Status status()`, which says why
// the handler stopped the parse by returning false.
template <typename Handler>
absl::Status Parse(ByteSource& source, Handler& handler) {
  ChunkStream stream(source);
  handler.SetStream(&stream);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseStopWhenDoneFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (!stream.error().ok()) return stream.error();
  if (!handler.status().ok()) return handler.status();
  if (!result) {
    if (stream.at_end()) {
      return InvalidInput("{}: truncated at byte {}: the JSON document does not end",
                          source.name(), stream.Tell());
    }
    return InvalidInput("{}: not valid JSON at byte {}: {}", source.name(), result.Offset(),
                        rapidjson::GetParseError_En(result.Code()));
  }
  while (!stream.at_end()) {
    const char c = stream.Take();
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      return InvalidInput("{}: bytes after the end of the JSON document, at byte {}", source.name(),
                          stream.Tell() - 1);
    }
  }
  return stream.error();
}

}  // namespace foretrace::json
