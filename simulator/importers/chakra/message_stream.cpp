#include "simulator/importers/chakra/message_stream.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/chakra/wire.h"

namespace foretrace::chakra {
namespace {
constexpr size_t kMaxVarint = 10;
}  // namespace

absl::StatusOr<bool> MessageStream::Fill() {
  if (in_carry_) {
    carry_.erase(0, static_cast<size_t>(view_.data() - carry_.data()));
  } else {
    carry_.assign(view_);
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string_view chunk, input_.Next());
  in_carry_ = chunk.empty() || !carry_.empty();
  if (in_carry_) carry_.append(chunk);
  view_ = in_carry_ ? std::string_view(carry_) : chunk;
  return !chunk.empty();
}

absl::StatusOr<bool> MessageStream::Next(std::string_view& message) {
  uint64_t size = 0;
  size_t prefix = 0;
  while (true) {
    WireReader reader(view_.substr(0, kMaxVarint));
    if (!view_.empty() && reader.ReadVarint(size)) {
      prefix = reader.position();
      break;
    }
    message_offset_ = offset_;
    if (view_.size() >= kMaxVarint) {
      return ErrorAt(0, "the length of a message is malformed; the file is corrupted");
    }
    FORETRACE_ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    if (view_.empty()) return false;
    return ErrorAt(view_.size(), "truncated inside the length of a message");
  }
  message_offset_ = offset_ + static_cast<int64_t>(prefix);
  if (size > kMaxMessage) {
    return ErrorAt(0, fmt::format("a message claims {} bytes, more than the limit of {}; the file "
                                  "is corrupted or not a Chakra trace", size, kMaxMessage));
  }
  while (view_.size() - prefix < size) {
    FORETRACE_ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) {
      return ErrorAt(view_.size() - prefix,
                     fmt::format("truncated: a message of {} bytes has only {}", size,
                                 view_.size() - prefix));
    }
  }
  message = view_.substr(prefix, size);
  view_.remove_prefix(prefix + size);
  offset_ += static_cast<int64_t>(prefix + size);
  return true;
}

absl::Status MessageStream::ErrorAt(size_t within, std::string_view problem) const {
  return InvalidInput("{}: at byte {}: {}", source_, message_offset_ + static_cast<int64_t>(within),
                      problem);
}

}  // namespace foretrace::chakra
