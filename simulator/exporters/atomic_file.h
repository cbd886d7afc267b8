#pragma once
// Files that appear complete or not at all.

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// Writes under a temporary name in the same directory, flushes to disk, and renames on Commit. A
// writer that is destroyed before that removes what it wrote. The first error is kept and returned
// by Commit; nothing is left behind then. What is no regular file (a device, a pipe) is written in
// place, never replaced.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Append(std::string_view bytes);
  // Errors: could not be made, written (disk full), flushed or renamed; names the file and why.
  absl::Status Commit();

 private:
  void Fail(std::string_view action);
  void Flush();
  void Discard();

  std::string path_;
  std::string target_;     // where path_ leads
  std::string temporary_;  // empty: written in place
  std::string buffer_;
  int descriptor_ = -1;
  absl::Status status_;
};

}  // namespace foretrace
