#include "simulator/importers/io/byte_source.h"

#include <algorithm>
#include <cstring>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr size_t kLeastRead = size_t{4} << 10;

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string name, std::string_view bytes)
      : ByteSource(std::move(name)), bytes_(bytes) {}

 protected:
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    const size_t count = std::min(capacity, bytes_.size());
    std::memcpy(buffer, bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, Input input)
      : ByteSource(std::move(path)), input_(std::move(input)) {}

 protected:
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    return input_.Read(buffer, capacity);
  }

 private:
  Input input_;
};

}  // namespace

absl::StatusOr<std::string_view> ByteSource::Next() {
  if (buffer_ == nullptr) buffer_.reset(new char[kChunk]);
  started_ = true;
  size_t count = peeked_;
  peeked_ = 0;
  if (count == 0) {
    FORETRACE_ASSIGN_OR_RETURN(count, Read(buffer_.get(), kChunk));
  }
  offset_ += static_cast<int64_t>(count);
  return std::string_view(buffer_.get(), count);
}

absl::StatusOr<std::string_view> ByteSource::Peek(size_t size) {
  FORETRACE_CHECK(!started_ && size <= kMaxPeek);
  if (buffer_ == nullptr) buffer_.reset(new char[kChunk]);
  while (peeked_ < size) {
    // No more than asked for: who only looks at the start of a file does not read all of it.
    const size_t wanted = std::min(std::max(size - peeked_, kLeastRead), kChunk - peeked_);
    FORETRACE_ASSIGN_OR_RETURN(const size_t count, Read(buffer_.get() + peeked_, wanted));
    if (count == 0) break;
    peeked_ += count;
  }
  return std::string_view(buffer_.get(), peeked_);
}

void ByteSource::Skip(size_t size) {
  FORETRACE_CHECK(!started_ && size <= peeked_);
  peeked_ -= size;
  std::memmove(buffer_.get(), buffer_.get() + size, peeked_);
}

absl::Status CheckNodeCount(const ByteSource& source, int64_t nodes) {
  // Real traces take twenty bytes a node and more, compressed.
  constexpr int64_t kFree = 1'000'000;
  constexpr int64_t kLeastBytes = 6;
  if (nodes <= kFree || (nodes - kFree) * kLeastBytes <= source.raw_offset()) {
    return absl::OkStatus();
  }
  return InvalidInput("{}: {} nodes from {} bytes on disk: a decompression bomb, not a trace",
                      source.name(), nodes, source.raw_offset());
}

std::unique_ptr<ByteSource> MakeMemorySource(std::string name, std::string_view bytes) {
  return std::make_unique<MemorySource>(std::move(name), bytes);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenRawFile(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(Input input, Input::Open(path));
  auto source = std::make_unique<FileSource>(path, std::move(input));
  FORETRACE_ASSIGN_OR_RETURN(const std::string_view first, source->Peek(1));
  if (first.empty()) return InvalidInput("{}: the file is empty", path);
  return source;
}

}  // namespace foretrace
