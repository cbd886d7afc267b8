#include "simulator/console/output.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/utf8.h"
#include "simulator/console/processes.h"
#include "simulator/console/version.h"

namespace foretrace {

namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kBetweenTold = std::chrono::milliseconds(100);
constexpr auto kBetweenTicks = std::chrono::seconds(1);
constexpr auto kBetweenLines = std::chrono::seconds(10);

// Sentences, not the columns of a table, a quoted file or a list of Markdown.
bool IsProse(std::string_view line) {
  return line.find("  ") == std::string_view::npos && line.find(' ') != std::string_view::npos &&
         !line.starts_with('|') && !line.starts_with('*') && !line.starts_with('#') &&
         !line.starts_with('-');
}

// `text` without what a terminal would obey, whatever names it holds; of tables' headings in bold
// that is kept.
std::string Harmless(std::string_view text, bool colour) {
  constexpr std::string_view kBold = "\x1b[1m", kPlain = "\x1b[0m";
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    size_t end = rest.find('\n');
    for (const std::string_view style : {kBold, kPlain}) {
      if (colour) end = std::min(end, rest.find(style));
    }
    end = std::min(end, rest.size());
    out += OneLine(rest.substr(0, end));
    begin += end;
    if (end == rest.size()) break;
    const size_t kept = rest[end] == '\n' ? 1 : kBold.size();
    out += rest.substr(end, kept);
    begin += kept;
  }
  return out;
}

// Sentences that are wider than `width` go on below, indented.
std::string Folded(std::string_view text, size_t width) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view words = line.substr(indent);
    if (DisplayWidth(line) > width && indent + 20 < width && IsProse(words)) {
      out.append(indent, ' ');
      out += Wrapped(words, width, indent, indent + 2);
    } else {
      out += line;
    }
    if (end == text.size()) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

TerminalConsole::TerminalConsole() : terminal_(isatty(STDERR_FILENO) != 0) {
  if (!Processes::Launched()) {
    ticker_ = std::jthread([this](const std::stop_token& stop) { Tick(stop); });
  }
}

TerminalConsole::~TerminalConsole() { ClearProgress(); }

absl::Status TerminalConsole::Print(std::string_view text) {
  ClearProgress();
  std::string folded;
  if (!text.starts_with('{')) {  // a JSON document is one line
    folded = Folded(Harmless(text, style().colour), style().width);
    text = folded;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return InvalidInput("cannot write to standard output: {}", std::strerror(errno));
  }
  return absl::OkStatus();
}

std::string JsonDocument(std::string_view command, std::string_view object) {
  FORETRACE_CHECK(object.starts_with('{'));
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("foretrace_version", kVersion);
  json.Field("command", command);
  json.EndObject();
  std::string document(buffer.GetString(), buffer.GetSize() - 1);
  object.remove_prefix(1);
  const size_t first = object.find_first_not_of(" \n");
  if (first != std::string_view::npos && object[first] != '}') document += ',';
  document += object;
  if (!document.ends_with('\n')) document += '\n';
  return document;
}

absl::Status Console::PrintJson(std::string_view command, std::string_view object) {
  return Print(JsonDocument(command, object));
}

std::string ErrorJson(int exit_code, std::string_view message) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("error");
  json.StartObject();
  json.Field("exit_code", exit_code);
  json.Field("message", message);
  json.EndObject();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

TextStyle TerminalConsole::style() const {
  TextStyle style;
  if (isatty(STDOUT_FILENO) && !Processes::Launched()) {
    // https://no-color.org: set to anything but nothing.
    const char* no_colour = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    style.colour = (no_colour == nullptr || *no_colour == '\0') &&
                   (terminal == nullptr || std::string_view(terminal) != "dumb");
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      style.width = std::max<size_t>(60, size.ws_col);
    }
  }
  return style;
}

void TerminalConsole::Progress(std::string_view what, int64_t done, int64_t total) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now - last_ < kBetweenTold) return;
  last_ = now;
  doing_ = fmt::format("{}: {}/{}", what, done, total);
  if (terminal_ && now - begin_ >= kPatience) Show(now);
}

void TerminalConsole::Tick(const std::stop_token& stop) {
  // Who closed the other end of standard error does not want to read this; it ends nothing.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  std::unique_lock lock(mutex_);
  const Clock::duration between = terminal_ ? kBetweenTicks : kBetweenLines;
  for (Clock::time_point next = begin_ + (terminal_ ? kPatience : kBetweenLines);;
       next += between) {
    ends_.wait_until(lock, stop, next, [] { return false; });
    if (stop.stop_requested()) return;
    if (!answering_) Show(next);
  }
}

void TerminalConsole::Show(Clock::time_point now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  const std::string text = terminal_ ? fmt::format("\r{}, {} s\033[K", doing_, seconds)
                                     : fmt::format("foretrace: {}, {} s so far\n", doing_, seconds);
  std::fputs(text.c_str(), stderr);
  last_ = now;
  shown_ = terminal_;
}

void TerminalConsole::ClearProgress() {
  const std::lock_guard lock(mutex_);
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
  answering_ = true;
}

}  // namespace foretrace
