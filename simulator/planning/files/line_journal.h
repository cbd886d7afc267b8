#pragma once
// Answers on disk by what was asked, so that a search can go on after Ctrl-C.

#include <cstdio>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/console/processes.h"

namespace foretrace {

// FNV-1a; tells texts apart, nothing more.
uint64_t Fingerprint(const std::string& text);

// One line an answer, "key | value | checksum of both", after a header.
class LineJournal {
 public:
  // What the journal is of: `kind` with its version ("search journal 2"), all that its answers
  // depend on besides their keys and the program, and for errors what may differ in another one.
  struct Subject {
    std::string kind, question, differs;
  };
  // Reads `file` where it exists; process 0 reads and appends, the others learn what it read.
  // Errors: the file belongs to another question, was written by another build of the program, or
  // is damaged before its last line.
  static absl::StatusOr<LineJournal> Open(const std::string& file, const Subject& subject,
                                          const Processes& processes);
  LineJournal(LineJournal&& other) noexcept;
  ~LineJournal();

  const std::string& file() const { return file_; }
  size_t size() const { return known_.size(); }
  // Null: not known.
  const std::string* Find(const std::string& key) const;
  // Neither holds a line break or " | ".
  absl::Status Append(const std::string& key, const std::string& value);
  absl::Status Flush();

 private:
  LineJournal() = default;
  absl::Status Read(const std::string& text, const std::string& header, const Subject& subject);
  // Rather than appended to: half a line may be at its end.
  absl::Status Rewrite(const std::string& header);

  std::string file_;
  std::FILE* out_ = nullptr;
  std::map<std::string, std::string> known_;
};

}  // namespace foretrace
