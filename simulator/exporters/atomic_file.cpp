#include "simulator/exporters/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "simulator/base/error.h"

namespace foretrace {
namespace {
constexpr size_t kBuffer = size_t{1} << 20;
}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // Through a link: what it points to is replaced, not the link.
    std::error_code error;
    const auto target = std::filesystem::canonical(path_, error);
    if (exists && !error) target_ = target.string();
    if (target_.empty()) target_ = path_;
    temporary_ = fmt::format("{}.{}.tmp", target_, ::getpid());
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) Fail("make");
}

AtomicFile::~AtomicFile() { Discard(); }

void AtomicFile::Fail(std::string_view action) {
  // EACCES, ENOSPC and the like are the user's to solve: bad input, not a defect.
  if (status_.ok()) {
    status_ = InvalidInput("{}: cannot {} the file: {}", path_, action, std::strerror(errno));
  }
  Discard();
}

void AtomicFile::Discard() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::Append(std::string_view bytes) {
  if (!status_.ok()) return;
  buffer_.append(bytes);
  if (buffer_.size() >= kBuffer) Flush();
}

void AtomicFile::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && status_.ok()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Fail("write");
      return;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
}

absl::Status AtomicFile::Commit() {
  if (status_.ok()) Flush();
  // Some file systems report a full disk only here.
  if (status_.ok() && ::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) Fail("write");
  if (status_.ok()) {
    if (!temporary_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0) {
      Fail("rename");
    } else {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }
  return status_;
}

}  // namespace foretrace
