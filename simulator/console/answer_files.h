#pragma once
// The files that a command writes of its answer besides what it prints: --html and --csv.

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "simulator/base/atomic_file.h"

namespace foretrace {

// A command hands over the JSON that it prints with --json; page.h and csv_tables.h make of it what
// was asked for.
class AnswerFiles {
 public:
  // What the command line asks for; empty: not. `tables` is a folder.
  std::string page, tables;

  bool asked() const { return !page.empty() || !tables.empty(); }
  bool written() const { return written_; }

  // Nothing where nothing was asked for; else `object`, a JSON object as for Console::PrintJson, as
  // the answer of `command`. `inputs` are not replaced. Errors: those of the files.
  absl::Status Write(std::string_view command, const std::function<std::string()>& object,
                     const ProtectedFiles& inputs);
  // That a command which writes index.html and tables into `folder` replaces neither of them.
  absl::Status CheckBeside(const std::string& folder) const;
  // Another process of the same run writes them.
  void LeaveToAnother() { written_ = true; }

 private:
  bool written_ = false;
};

}  // namespace foretrace
