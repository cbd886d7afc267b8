#pragma once
// Streaming input: a plain file, a compressed one (gzip, xz, zstd, bzip2), or a member of an
// archive, all seen as one sequence of decompressed bytes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace {

// What untrusted input may grow to.
struct InputLimits {
  // Decompressed bytes of one file or archive member.
  int64_t max_bytes = int64_t{64} << 30;
  // Decompressed bytes per compressed byte, judged once more than `ratio_grace` bytes have come
  // out. Real traces compress by up to 40.
  int64_t max_ratio = 1000;
  int64_t ratio_grace = int64_t{64} << 20;
};

class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // As a person would find it: "dir/rank0.json.gz", "traces.tar.gz:rank0.json".
  const std::string& name() const { return name_; }
  // The next bytes, valid until the next call; empty at the end. Errors name the file.
  absl::StatusOr<std::string_view> Next();
  // The first bytes without consuming them: at least `size` unless the input is shorter. Only
  // before the first Next; `size` at most kMaxPeek.
  absl::StatusOr<std::string_view> Peek(size_t size);
  // Forgets `size` bytes that Peek has shown. Only before the first Next.
  void Skip(size_t size);
  // Bytes that were read from disk for what has been handed out, before decompression.
  virtual int64_t raw_offset() const { return offset(); }
  // Bytes that Next has handed out.
  int64_t offset() const { return offset_; }

  // Small enough that what one stage writes is still in the cache when the next reads it.
  static constexpr size_t kChunk = size_t{256} << 10;
  static constexpr size_t kMaxPeek = kChunk;

 protected:
  // Reads up to `capacity` bytes into `buffer`; 0 at the end.
  virtual absl::StatusOr<size_t> Read(char* buffer, size_t capacity) = 0;

 private:
  std::string name_;
  // Not cleared: what is handed out was read.
  std::unique_ptr<char[]> buffer_;
  size_t peeked_ = 0;  // bytes of buffer_ that Next has yet to hand out
  bool started_ = false;
  int64_t offset_ = 0;
};

// Errors: a document claims more nodes than a file of its size on disk can describe, as a
// decompression bomb does. Importers ask now and then, so that memory stays within bounds.
absl::Status CheckNodeCount(const ByteSource& source, int64_t nodes);

// Bytes in memory, for tests and fuzzing. `bytes` must outlive the source.
std::unique_ptr<ByteSource> MakeMemorySource(std::string name, std::string_view bytes);

// The bytes of a file as they are on disk. Errors: missing, unreadable, a folder, empty.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenRawFile(const std::string& path);

}  // namespace foretrace
