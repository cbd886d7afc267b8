#pragma once
// libarchive behind one class: decompression filters, tar and zip, reading from another ByteSource.
// The library is loaded when an archive is opened.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"

struct archive;

namespace foretrace {

struct ArchiveLibrary;

// Whether bytes begin like a compressed stream (gzip apart: see gzip_source.h) or an archive, a tar
// or a zip, so that ArchiveReader must read them.
bool LooksCompressed(std::string_view prefix);
bool LooksLikeArchive(std::string_view prefix);

class ArchiveReader {
 public:
  ArchiveReader(std::unique_ptr<ByteSource> raw, const InputLimits& limits);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // Errors: libarchive cannot be loaded; not a stream that it reads. Before all else.
  absl::Status Open();
  // Moves to the next entry; false after the last.
  absl::StatusOr<bool> NextEntry();
  // Of the current entry. A compressed single file has an entry without a meaningful name.
  bool is_archive() const;
  bool is_regular() const { return is_regular_; }
  const std::string& entry_name() const { return entry_name_; }
  int64_t raw_offset() const { return raw_->raw_offset(); }
  // Reads the current entry's bytes; 0 at its end.
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity);

 private:
  static ssize_t ReadRaw(archive* handle, void* self, const void** data);
  absl::Status Failure(std::string_view what);

  std::unique_ptr<ByteSource> raw_;
  InputLimits limits_;
  const ArchiveLibrary* library_ = nullptr;
  archive* handle_ = nullptr;
  absl::Status raw_error_;
  std::string entry_name_;
  bool is_regular_ = true;
  bool is_encrypted_ = false;    // the current entry
  int64_t bytes_out_ = 0;        // of all entries
  int64_t entry_bytes_out_ = 0;  // of the current one
};

}  // namespace foretrace
