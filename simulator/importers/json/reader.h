#pragma once
// Streaming JSON over a ByteSource: a push parser that hands out strings and numbers as views into
// its buffer. Numbers stay text, so that time stamps with more digits than a double holds are
// exact. Memory is one buffer, as long as the longest token.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/importers/io/byte_source.h"

namespace foretrace::json {

// Receives a document in order. Views are valid during the call. Returning false stops the parse;
// status() then says why.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual bool Key(std::string_view key) = 0;
  virtual bool String(std::string_view text) = 0;
  // A number, "true", "false" or "null", as written.
  virtual bool Literal(std::string_view text) = 0;
  virtual bool StartObject() = 0;
  virtual bool EndObject() = 0;
  virtual bool StartArray() = 0;
  virtual bool EndArray() = 0;
  virtual const absl::Status& status() const = 0;
};

class Reader {
 public:
  explicit Reader(ByteSource& source) : source_(source) {}

  // Parses one document, which must be all of the input. Errors name the source, the byte and the
  // cause: truncated, not JSON, nested too deeply, a token that is too long.
  absl::Status Parse(Handler& handler);
  // Byte of the input at which the parser stands.
  int64_t offset() const { return buffer_offset_ + static_cast<int64_t>(at_); }
  // Called by a handler within Key: the value that follows is passed over unseen.
  void SkipValue() { skip_value_ = true; }

  static constexpr size_t kMaxToken = size_t{256} << 20;
  static constexpr size_t kMaxDepth = 200;

 private:
  // What may come next.
  enum class Expect : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kCommaOrEnd, kEnd };

  bool Step(Handler& handler, char c);
  bool StartsValue(Handler& handler, char c);
  bool Close(Handler& handler, char c);
  bool ParseKey(Handler& handler);
  bool ParseScalar(Handler& handler, char c);
  bool Skip(char c);
  bool SkipNested();
  // Reads the string whose opening quote is at at_; `view` gets its decoded text.
  bool ReadString(std::string_view& view);
  bool DecodeEscapes(std::string_view raw, int64_t at, std::string_view& view);
  bool ReadLiteral(std::string_view& view);
  bool SkipSpace();
  // Brings in more bytes after end_, keeping those from `keep` on; false at the end or on error.
  bool Refill(size_t& keep);
  bool Fail(absl::Status status);
  bool FailAt(int64_t offset, std::string_view what);
  bool Truncated();
  void AfterValue() { expect_ = open_.empty() ? Expect::kEnd : Expect::kCommaOrEnd; }

  ByteSource& source_;
  int64_t objects_ = 0;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  int64_t buffer_offset_ = 0;
  bool exhausted_ = false;
  bool skip_value_ = false;
  Expect expect_ = Expect::kValue;
  std::vector<char> open_;  // '{' or '[' of each open container
  std::string decoded_;
  absl::Status status_;
};

}  // namespace foretrace::json
