#pragma once
// Splits a byte source into varint-delimited messages.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"

namespace foretrace::chakra {

class MessageStream {
 public:
  // `input` must outlive the stream. `source` names the file in errors.
  MessageStream(ByteSource& input, std::string source)
      : input_(input), source_(std::move(source)) {}

  // The next message, valid until the next call; false at the end of the input. Errors: a length
  // that is no varint, one over kMaxMessage, the input ending inside a message.
  absl::StatusOr<bool> Next(std::string_view& message);

  // "FILE: at byte N: PROBLEM", N being `within` bytes into the current message.
  absl::Status ErrorAt(size_t within, std::string_view problem) const;

  // Real nodes have some hundreds of bytes; lists of thousands of tensors a few hundred KB. Memory
  // is taken as bytes arrive, so a hostile length costs nothing.
  static constexpr uint64_t kMaxMessage = uint64_t{1} << 30;

 private:
  // A message that the chunk at hand does not hold to its end.
  absl::StatusOr<bool> NextAcrossChunks(std::string_view& message);

  ByteSource& input_;
  std::string source_;
  std::string_view view_;       // unread bytes of the chunk at hand
  std::string carry_;           // a message that spans chunks
  int64_t offset_ = 0;          // of what is unread in the file
  int64_t message_offset_ = 0;  // where the current message's content begins in the file
  int64_t messages_ = 0;
};

}  // namespace foretrace::chakra
