#pragma once
// Work of a search on the processes of mpirun, with a journal.

#include "simulator/architect/work_runner.h"
#include "simulator/planning/files/line_journal.h"

namespace foretrace {

// What is not known is shared out over the processes, which all get all answers; process 0 writes
// them down. The same answers for any number of processes.
class JournaledRunner : public WorkRunner {
 public:
  // `journal` may be null; all outlive the runner.
  JournaledRunner(const WorkRunner& local, const Processes& processes, LineJournal* journal)
      : local_(local), processes_(processes), journal_(journal) {}

  size_t threads() const override { return local_.threads(); }
  absl::StatusOr<std::vector<std::string>> Run(std::span<const std::string> keys,
                                               const PartOfWork& work) const override;

 private:
  absl::StatusOr<std::vector<std::string>> Missing(std::span<const std::string> keys,
                                                   const std::vector<size_t>& missing,
                                                   const PartOfWork& work) const;

  const WorkRunner& local_;
  const Processes& processes_;
  LineJournal* journal_;
};

}  // namespace foretrace
