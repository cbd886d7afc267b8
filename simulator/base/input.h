#pragma once
// Reading what a user names. One place that opens, so that no command blocks on a pipe into which
// nobody writes, reads a device without end, or takes more memory than a file may need.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace {

// An open file or pipe.
class Input {
 public:
  // "-" is standard input. Errors: missing, unreadable, a folder, a device; a pipe into which
  // nothing writes for two seconds.
  static absl::StatusOr<Input> Open(const std::string& path);
  Input(Input&& other) noexcept;
  Input& operator=(Input&&) = delete;
  ~Input();

  // Up to `capacity` bytes; 0 at the end.
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity);

 private:
  Input(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  std::optional<char> first_;  // read when it was opened
};

// What text files may hold: configuration that is parsed into trees, and tables of rows.
inline constexpr int64_t kMaxYamlBytes = int64_t{8} << 20;
inline constexpr int64_t kMaxJsonBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTableBytes = int64_t{256} << 20;

// All of a file, without the byte-order mark that it may begin with. Errors: those of Input::Open,
// larger than `max_bytes`, empty, UTF-16.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes);
// The same without looking at its bytes.
absl::StatusOr<std::string> ReadBinaryFile(const std::string& path, int64_t max_bytes);

// The lines of `text`, which must outlive them, without their ends ("\n" or "\r\n").
std::vector<std::string_view> SplitLines(std::string_view text);

}  // namespace foretrace
