#pragma once
// Answers as one page for a browser: a file that needs nothing beside it.

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// The page of --html. A command hands over the JSON that it prints with --json; what the page shows
// of it is pages/answers.js, and its charts are drawn by Chart.js, which the page carries. Names in
// the answer are data: no part of it can become markup or script, and the page's policy allows its
// own script and style alone, by their hashes.
class PageWriter {
 public:
  void Ask(std::string file) { file_ = std::move(file); }
  bool asked() const { return !file_.empty(); }
  bool written() const { return written_; }

  // Nothing where no page was asked for; else `object`, a JSON object as for Console::PrintJson, as
  // the page of `command`. Errors: no Chart.js; over 500 MB; the file cannot be written.
  absl::Status Write(std::string_view command, const std::function<std::string()>& object);

 private:
  std::string file_;
  bool written_ = false;
};

}  // namespace foretrace
