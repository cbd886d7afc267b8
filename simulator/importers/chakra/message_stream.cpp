#include "simulator/importers/chakra/message_stream.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/chakra/wire.h"

namespace foretrace::chakra {
namespace {
constexpr size_t kMaxVarint = 10;
}  // namespace

absl::StatusOr<bool> MessageStream::Next(std::string_view& message) {
  ++messages_;
  WireReader reader(view_);
  uint64_t size = 0;
  if (!reader.ReadVarint(size) || size > view_.size() - reader.position()) {
    return NextAcrossChunks(message);
  }
  const size_t prefix = reader.position();
  message_offset_ = offset_ + static_cast<int64_t>(prefix);
  message = view_.substr(prefix, size);
  view_.remove_prefix(prefix + size);
  offset_ += static_cast<int64_t>(prefix + size);
  return true;
}

absl::StatusOr<bool> MessageStream::NextAcrossChunks(std::string_view& message) {
  FORETRACE_RETURN_IF_ERROR(CheckNodeCount(input_, messages_));
  carry_.clear();
  uint64_t size = 0;
  size_t prefix = 0;  // bytes of the length; 0 while it is not known
  message_offset_ = offset_;
  while (prefix == 0 || carry_.size() - prefix < size) {
    if (view_.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(view_, input_.Next());
      if (view_.empty()) {
        if (carry_.empty()) return false;
        if (prefix == 0) return ErrorAt(carry_.size(), "truncated inside the length of a message");
        return ErrorAt(carry_.size() - prefix,
                       fmt::format("truncated: a message of {} bytes has only {}", size,
                                   carry_.size() - prefix));
      }
    }
    // The length byte by byte, so that no more is taken than the message has.
    const size_t wanted = prefix == 0 ? 1 : prefix + static_cast<size_t>(size) - carry_.size();
    const size_t taken = std::min(wanted, view_.size());
    carry_.append(view_.substr(0, taken));
    view_.remove_prefix(taken);
    if (prefix > 0) continue;
    WireReader reader(carry_);
    if (!reader.ReadVarint(size)) {
      if (carry_.size() < kMaxVarint) continue;
      return ErrorAt(0, "the length of a message is malformed; the file is corrupted");
    }
    prefix = carry_.size();
    message_offset_ = offset_ + static_cast<int64_t>(prefix);
    if (size > kMaxMessage) {
      return ErrorAt(0, fmt::format("a message claims {} bytes, more than the limit of {}; the "
                                    "file is corrupted or not a Chakra trace",
                                    size, kMaxMessage));
    }
  }
  message = std::string_view(carry_).substr(prefix);
  offset_ += static_cast<int64_t>(carry_.size());
  return true;
}

absl::Status MessageStream::ErrorAt(size_t within, std::string_view problem) const {
  return InvalidInput("{}: at byte {}: {}", source_, message_offset_ + static_cast<int64_t>(within),
                      problem);
}

}  // namespace foretrace::chakra
