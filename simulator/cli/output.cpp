#include "simulator/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "simulator/base/error.h"

namespace foretrace {

absl::Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return InvalidInput("cannot write to standard output: {}", std::strerror(errno));
  }
  return absl::OkStatus();
}

TextStyle OutputStyle() {
  TextStyle style;
  if (isatty(STDOUT_FILENO)) {
    style.colour = true;
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      style.width = std::max<size_t>(60, size.ws_col);
    }
  }
  return style;
}

std::string CsvQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace foretrace
