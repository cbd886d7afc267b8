#pragma once
// A file on disk as the documents it holds: one, plain or compressed, or the members of a tar or
// zip.

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/importers/io/byte_source.h"

namespace foretrace {

class ArchiveReader;

class InputFile {
 public:
  // Looks at the content, not at the name. Of an archive, `inside` selects one member or a folder
  // of members; empty for all. Errors: missing, unreadable, empty; `inside` of what is none.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path,
                                                         const InputLimits& limits,
                                                         const std::string& inside = "");
  ~InputFile();

  // The next document, decompressed, valid until the next call; null after the last. Members come
  // in archive order; folders, links, hidden members and macOS resource forks ("._*") are passed
  // over. A member may itself be compressed, but not an archive.
  absl::StatusOr<ByteSource*> NextDocument();
  bool is_archive() const { return is_archive_; }

 private:
  InputFile(std::string path, std::string inside, const InputLimits& limits);
  bool IsWanted(std::string_view member) const;
  // A document whose bytes are `raw`'s, decompressed where they are compressed.
  absl::StatusOr<ByteSource*> Document(std::unique_ptr<ByteSource> raw);

  std::string path_;
  std::string inside_;
  InputLimits limits_;
  bool is_archive_ = false;
  std::unique_ptr<ArchiveReader> archive_;  // a tar or zip; else null
  std::unique_ptr<ByteSource> single_;      // the one document still to be handed out
  std::unique_ptr<ArchiveReader> member_filter_;
  std::unique_ptr<ByteSource> current_;
};

// The last component of a document's name: "traces.tar:a/rank0.json" gives "rank0.json".
std::string_view BaseName(std::string_view name);

}  // namespace foretrace
