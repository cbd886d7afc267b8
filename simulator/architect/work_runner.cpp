#include "simulator/architect/work_runner.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace foretrace {

absl::StatusOr<std::vector<std::string>> ThreadRunner::Run(std::span<const std::string> keys,
                                                           const PartOfWork& work) const {
  std::atomic<size_t> next = 0;
  std::vector<absl::StatusOr<std::string>> answers(keys.size());
  const auto run = [&](size_t thread) {
    for (size_t i = next++; i < keys.size(); i = next++) {
      if (stop_.stop_requested()) {
        answers[i] = absl::CancelledError("interrupted");
      } else {
        answers[i] = work(i, thread);
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t t = 1; t < std::min(threads_, keys.size()); ++t) threads.emplace_back(run, t);
  run(0);
  threads.clear();
  std::vector<std::string> all;
  for (absl::StatusOr<std::string>& answer : answers) {
    if (!answer.ok()) return answer.status();
    all.push_back(*std::move(answer));
  }
  return all;
}

}  // namespace foretrace
