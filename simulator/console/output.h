#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// Where a command's answer goes, and how far it says that it is: a terminal, a file, a program that
// uses the library. Commands may tell their progress from several threads.
class Console {
 public:
  virtual ~Console() = default;
  // Takes all of `text`. Errors: it cannot be written (a full disk, a closed pipe).
  virtual absl::Status Print(std::string_view text) = 0;
  // Width and colours of tables.
  virtual TextStyle style() const = 0;
  virtual void Progress(std::string_view what, int64_t done, int64_t total) = 0;

  // Prints `object`, the text of a JSON object that a command made, with what every document of
  // foretrace begins with: schema_version, foretrace_version, command.
  absl::Status PrintJson(std::string_view command, std::string_view object);
};

// The document that PrintJson prints.
std::string JsonDocument(std::string_view command, std::string_view object);

// Standard output; progress on standard error until the answer is there: on a terminal from two
// seconds on, else a line every ten seconds. What tells no progress of its own still says for how
// long it has been working. Of processes that MPI launched, only those that tell some.
class TerminalConsole : public Console {
 public:
  TerminalConsole();
  ~TerminalConsole() override;
  absl::Status Print(std::string_view text) override;
  // Its width and colours where standard output is a terminal, else 100 columns without.
  TextStyle style() const override;
  void Progress(std::string_view what, int64_t done, int64_t total) override;
  // Takes back what was shown of progress; no more is shown but what Progress is told.
  void ClearProgress();

 private:
  using Clock = std::chrono::steady_clock;

  void Tick(const std::stop_token& stop);
  void Show(Clock::time_point now);

  const bool terminal_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any ends_;
  Clock::time_point last_ = begin_;
  std::string doing_ = "working";
  bool shown_ = false;
  bool answering_ = false;
  std::jthread ticker_;
};

// The schema's version grows when a key changes its meaning or goes.
inline constexpr int kJsonSchemaVersion = 1;

// {"error": {"exit_code": ..., "message": ...}}, as every command with --json ends when it fails.
std::string ErrorJson(int exit_code, std::string_view message);

}  // namespace foretrace
