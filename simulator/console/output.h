#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

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

// Standard output; progress on standard error: on a terminal from two seconds on, else a line every
// ten seconds.
class TerminalConsole : public Console {
 public:
  ~TerminalConsole() override;
  absl::Status Print(std::string_view text) override;
  // Its width and colours where standard output is a terminal, else 100 columns without.
  TextStyle style() const override;
  void Progress(std::string_view what, int64_t done, int64_t total) override;
  // Takes back what was shown of progress.
  void ClearProgress();

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

// The schema's version grows when a key changes its meaning or goes.
inline constexpr int kJsonSchemaVersion = 1;

// {"error": {"exit_code": ..., "message": ...}}, as every command with --json ends when it fails.
std::string ErrorJson(int exit_code, std::string_view message);

// A field of a CSV file, in quotes.
std::string CsvQuoted(std::string_view text);

}  // namespace foretrace
