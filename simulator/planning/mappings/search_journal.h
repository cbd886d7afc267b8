#pragma once
// Evaluations of a search on disk, so that it can go on after Ctrl-C.

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "simulator/console/processes.h"
#include "simulator/planning/files/line_journal.h"
#include "simulator/search/evaluator.h"

namespace foretrace {

class SearchJournal {
 public:
  // `question` is what the evaluations depend on besides the mapping. Errors as LineJournal::Open.
  static absl::StatusOr<SearchJournal> Open(const std::string& file, const std::string& question,
                                            const Processes& processes);

  size_t size() const { return lines_.size(); }
  // Asks `next` only for what is not known yet, and appends its answers.
  EvaluateBatch Wrap(EvaluateBatch next);

 private:
  explicit SearchJournal(LineJournal lines) : lines_(std::move(lines)) {}

  LineJournal lines_;
};

// Spreads a batch over the processes; all of them get all answers.
EvaluateBatch OnProcesses(const Processes& processes, EvaluateBatch local);

}  // namespace foretrace
