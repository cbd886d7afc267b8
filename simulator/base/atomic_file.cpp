#include "simulator/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBuffer = size_t{1} << 20;
constexpr int kMaxLinks = 40;  // as the kernel's own limit (path_resolution(7))

// Where a chain of links leads, whether something is there or not; empty when it has no end.
std::string Followed(const std::string& path) {
  fs::path at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(at, error))) return at.string();
    const fs::path next = fs::read_symlink(at, error);
    if (error) return "";
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return "";
}

// "dir/.name.PID.tmp": hidden, so that nobody takes it for a trace.
std::string HiddenName(const std::string& target) {
  const fs::path path(target);
  return (path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid()))
      .string();
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::stop_token stop)
    : path_(std::move(path)), stop_(std::move(stop)) {
  Open();
  if (descriptor_ < 0) Fail("make");
}

void AtomicFile::Open() {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // A pipe that nobody reads must not block for ever: opened so, it is an error (ENXIO).
    for (int i = 0; i < 100 && descriptor_ < 0; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
      if (errno != ENXIO) break;
    }
    if (descriptor_ >= 0) ::fcntl(descriptor_, F_SETFL, 0);
    return;
  }
  target_ = Followed(path_);
  if (target_.empty()) {
    errno = ELOOP;
    return;
  }
  const fs::path parent = fs::path(target_).parent_path();
  descriptor_ =
      ::open(parent.empty() ? "." : parent.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 || errno == ENOENT || errno == EACCES) return;
  temporary_ = HiddenName(target_);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

AtomicFile::~AtomicFile() { Discard(); }

void AtomicFile::Fail(std::string_view action) {
  // EACCES, ENOSPC and the like are the user's to solve: bad input, not a defect.
  if (status_.ok()) {
    status_ =
        InvalidInput("{}: cannot {} the file: {}", OneLine(path_), action, std::strerror(errno));
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
    if (stop_.stop_requested()) {
      status_ = absl::CancelledError(fmt::format("{}: interrupted, not written", path_));
      Discard();
      break;
    }
    const ssize_t written = ::write(descriptor_, rest.data(), std::min(rest.size(), kBuffer));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Fail("write");
      return;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
}

bool AtomicFile::MoveInPlace() {
  if (temporary_.empty()) {
    const std::string open_file = fmt::format("/proc/self/fd/{}", descriptor_);
    const auto name_it = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (name_it(target_)) return true;
    if (errno != EEXIST) return false;
    // linkat does not replace.
    temporary_ = HiddenName(target_);
    ::unlink(temporary_.c_str());
    if (!name_it(temporary_)) return false;
  }
  return ::rename(temporary_.c_str(), target_.c_str()) == 0;
}

absl::Status AtomicFile::Commit() {
  if (status_.ok()) Flush();
  // Some file systems report a full disk only here.
  if (status_.ok() && ::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) Fail("write");
  if (status_.ok()) {
    if (!target_.empty() && !MoveInPlace()) {
      Fail("rename");
    } else {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }
  return status_;
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Append(text);
  return file.Commit();
}

absl::Status CheckFileName(std::string_view name, std::string_view what) {
  if (!name.empty() && name[0] != '.' && name.find('/') == std::string_view::npos &&
      std::ranges::none_of(
          name, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }) &&
      name.size() <= 200) {
    return absl::OkStatus();
  }
  return InvalidInput(
      "{} '{}' must be the name of a file within the output folder: no '/', no "
      "control characters, not hidden, at most 200 bytes",
      what, Excerpt(name, 60));
}

void ProtectedFiles::Add(const std::string& path) {
  constexpr int kLevels = 3;
  const auto add = [this](const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      files_.emplace(status.st_dev, status.st_ino);
    }
  };
  add(path);
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(path, options, error), end; !error && it != end;
       it.increment(error)) {
    if (it.depth() >= kLevels) it.disable_recursion_pending();
    add(it->path());
  }
}

bool ProtectedFiles::Contains(const std::string& path) const {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && files_.contains({status.st_dev, status.st_ino});
}

FileSet::FileSet(std::string folder, std::string hidden, ProtectedFiles inputs)
    : folder_(std::move(folder)), hidden_(std::move(hidden)), inputs_(std::move(inputs)) {}

FileSet::FileSet(FileSet&& other) noexcept
    : folder_(std::move(other.folder_)),
      hidden_(std::exchange(other.hidden_, "")),
      inputs_(std::move(other.inputs_)),
      names_(std::move(other.names_)) {}

FileSet::~FileSet() {
  std::error_code ignored;
  if (!hidden_.empty()) fs::remove_all(hidden_, ignored);
}

absl::StatusOr<FileSet> FileSet::Create(const std::string& folder, ProtectedFiles inputs) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return InvalidInput("{}: cannot make the folder: {}", OneLine(folder), error.message());
  }
  const std::string hidden = fmt::format("{}/.foretrace.{}.tmp", folder, ::getpid());
  fs::create_directory(hidden, error);
  if (error) return InvalidInput("{}: cannot write to the folder: {}", folder, error.message());
  return FileSet(folder, hidden, std::move(inputs));
}

absl::StatusOr<std::string> FileSet::Add(const std::string& name) {
  FORETRACE_RETURN_IF_ERROR(CheckFileName(name, "output file"));
  const std::string target = folder_ + "/" + name;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return InvalidInput("{}: is in the place of an output and no regular file; remove it", target);
  }
  if (inputs_.Contains(target)) {
    return InvalidInput("{}: is an input and would be replaced; give another output", target);
  }
  names_.push_back(name);
  return hidden_ + "/" + name;
}

absl::Status FileSet::Commit() {
  for (const std::string& name : names_) {
    const std::string target = folder_ + "/" + name;
    if (::rename((hidden_ + "/" + name).c_str(), target.c_str()) != 0) {
      return InvalidInput("{}: cannot write the file: {}", target, std::strerror(errno));
    }
  }
  names_.clear();
  return absl::OkStatus();
}

}  // namespace foretrace
