#pragma once
// Files that appear complete or not at all. Every file that foretrace writes goes through here.

#include <cstdint>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace {

// Writes a file that nobody sees until Commit, which flushes it to disk and moves it in place.
// Until then it has no name (O_TMPFILE), or, where the file system cannot do that, a hidden one
// beside its place, which is removed with the writer. A link is followed: what it points to is
// replaced, also where that does not exist yet. What is no regular file (a terminal, /dev/null, a
// pipe) is written in place, never replaced. The first error is kept and returned by Commit;
// nothing is left behind then, nor after `stop` was asked for.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, std::stop_token stop = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Append(std::string_view bytes);
  // Errors: could not be made, written (disk full), flushed or renamed; names the file and why.
  // Cancelled where `stop` was asked for.
  absl::Status Commit();

 private:
  void Open();
  void Fail(std::string_view action);
  void Flush();
  void Discard();
  bool MoveInPlace();

  std::string path_;
  std::string target_;     // where path_ leads; empty: written in place
  std::string temporary_;  // empty: the file has no name yet
  std::string buffer_;
  std::stop_token stop_;
  int descriptor_ = -1;
  absl::Status status_;
};

// All of `text` as the file `path`.
absl::Status WriteFile(const std::string& path, std::string_view text);

// Files that no output may replace: the inputs of a command.
class ProtectedFiles {
 public:
  // A file, or what lies up to three levels deep in a folder. What does not exist is passed over.
  void Add(const std::string& path);
  bool Contains(const std::string& path) const;

 private:
  std::set<std::pair<uint64_t, uint64_t>> files_;  // device and inode
};

// Files of one folder that appear together: they are made in a hidden folder within it, which is
// removed with this.
class FileSet {
 public:
  // Makes `folder` where it is missing. Errors: it cannot be made or written to.
  static absl::StatusOr<FileSet> Create(const std::string& folder, ProtectedFiles inputs = {});
  FileSet(FileSet&& other) noexcept;
  FileSet& operator=(FileSet&&) = delete;
  ~FileSet();

  // Where to write the file that is to be NAME. Errors: in its place is an input, a folder, a link
  // or a device, which is not replaced; `name` is not the name of a file within the folder.
  absl::StatusOr<std::string> Add(const std::string& name);
  // Moves all that was added in place.
  absl::Status Commit();

 private:
  FileSet(std::string folder, std::string hidden, ProtectedFiles inputs);

  std::string folder_, hidden_;
  ProtectedFiles inputs_;
  std::vector<std::string> names_;
};

// Errors: `name` is empty, hidden, or leads elsewhere ("a/b", ".."). `what` begins the message.
absl::Status CheckFileName(std::string_view name, std::string_view what);

}  // namespace foretrace
