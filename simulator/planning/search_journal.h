#pragma once
// Evaluations of a search on disk, so that it can go on after Ctrl-C.

#include <cstdio>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/console/processes.h"
#include "simulator/search/evaluator.h"

namespace foretrace {

class SearchJournal {
 public:
  // Reads `file` where it exists; process 0 reads and appends, the others learn what it read.
  // `question` is what the evaluations depend on besides the mapping. Errors: the file belongs to
  // another question, or is damaged before its last line: every line carries a checksum.
  static absl::StatusOr<SearchJournal> Open(const std::string& file, const std::string& question,
                                            const Processes& processes);
  SearchJournal(SearchJournal&& other) noexcept;
  ~SearchJournal();

  size_t size() const { return known_.size(); }
  // Asks `next` only for what is not known yet, and appends its answers.
  EvaluateBatch Wrap(EvaluateBatch next);

 private:
  SearchJournal() = default;
  absl::Status Read(const std::string& text, const std::string& header);
  absl::Status Append(const ParallelMapping& mapping, const std::optional<Evaluation>& evaluation);

  std::string file_;
  std::FILE* out_ = nullptr;
  std::map<std::string, std::optional<Evaluation>> known_;
};

// Spreads a batch over the processes; all of them get all answers.
EvaluateBatch OnProcesses(const Processes& processes, EvaluateBatch local);

}  // namespace foretrace
