#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// A file that appears whole on Commit or not at all; through gzip where its name ends in ".gz".
class CompressedFile {
 public:
  explicit CompressedFile(const std::string& path);
  ~CompressedFile();
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  void Append(std::string_view bytes);
  // Errors of opening and writing are reported here, and name the file; nothing may follow.
  absl::Status Commit();

 private:
  class Gzip;
  std::unique_ptr<Gzip> gzip_;  // null: plain
  std::unique_ptr<class AtomicFile> file_;
};

}  // namespace foretrace
