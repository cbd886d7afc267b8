#include "simulator/base/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "simulator/base/compressed.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr size_t kBlock = size_t{64} << 10;
constexpr std::chrono::milliseconds kPatience{2000};

// Whether a pipe that was opened without blocking has a writer, or gets one soon: without one,
// read() says "end" at once. `first` receives the byte that was read to find out.
bool HasWriter(int descriptor, std::optional<char>& first) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    char byte = 0;
    const ssize_t count = ::read(descriptor, &byte, 1);
    if (count == 1) first = byte;
    if (count != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

absl::StatusOr<Input> Input::Open(const std::string& path) {
  const bool standard = path == "-";
  const int descriptor = standard
                             ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const std::string name = standard ? "standard input" : OneLine(path);
  if (descriptor < 0) return InvalidInput("{}: cannot be opened: {}", name, std::strerror(errno));
  Input input(name, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return InvalidInput("{}: cannot be opened: {}", name, std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) return InvalidInput("{}: is a folder, not a file", name);
  const bool terminal = S_ISCHR(status.st_mode) && ::isatty(descriptor) != 0;
  if ((S_ISCHR(status.st_mode) && !terminal) || S_ISBLK(status.st_mode)) {
    return InvalidInput("{}: is a device, not a file", name);
  }
  if (S_ISFIFO(status.st_mode) && !standard && !HasWriter(descriptor, input.first_)) {
    return InvalidInput("{}: is a pipe into which nothing writes", name);
  }
  // From here on reading may wait: somebody writes. Standard input's flags are shared with others.
  if (!standard) ::fcntl(descriptor, F_SETFL, 0);
  return input;
}

Input::Input(Input&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      first_(other.first_) {}

Input::~Input() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<size_t> Input::Read(char* buffer, size_t capacity) {
  if (first_ && capacity > 0) {
    buffer[0] = *first_;
    first_.reset();
    return 1;
  }
  while (true) {
    const ssize_t count = ::read(descriptor_, buffer, capacity);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return InvalidInput("{}: cannot be read: {}", path_, std::strerror(errno));
  }
}

absl::StatusOr<std::string> ReadBinaryFile(const std::string& path, int64_t max_bytes) {
  FORETRACE_ASSIGN_OR_RETURN(Input input, Input::Open(path));
  std::string text;
  std::vector<char> block(kBlock);
  while (true) {
    FORETRACE_ASSIGN_OR_RETURN(const size_t count, input.Read(block.data(), block.size()));
    if (count == 0) return text;
    if (static_cast<int64_t>(text.size() + count) > max_bytes) {
      return InvalidInput("{}: larger than {} MiB, the limit for a file of this kind",
                          OneLine(path), max_bytes >> 20);
    }
    text.append(block.data(), count);
  }
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadBinaryFile(path, max_bytes));
  RemoveByteOrderMark(text);
  if (const std::string_view unpacker = UnpackerOf(text); !unpacker.empty()) {
    return InvalidInput("{}: is compressed, which files of this kind must not be: {} it first",
                        OneLine(path), unpacker);
  }
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    return InvalidInput(
        "{}: is a zip archive, which files of this kind must not be: unzip it first",
        OneLine(path));
  }
  const size_t zero = text.find('\0');
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") || zero < 4) {
    return InvalidInput("{}: is UTF-16, or no text; save it as UTF-8", OneLine(path));
  }
  if (text.empty()) return InvalidInput("{}: the file is empty", OneLine(path));
  if (zero != std::string::npos) {
    return InvalidInput(
        "{}:{}: a zero byte, which no text has: the file is damaged, or no text", OneLine(path),
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n'));
  }
  // Lines of the Macintosh before 2001, which spreadsheets still write.
  if (text.find('\n') == std::string::npos) std::replace(text.begin(), text.end(), '\r', '\n');
  return text;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace foretrace
