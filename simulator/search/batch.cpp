#include <algorithm>
#include <atomic>
#include <thread>

#include "simulator/search/evaluator.h"

namespace foretrace {

EvaluateBatch OnThreads(const Evaluator& evaluator, int jobs) {
  return [&evaluator, jobs](std::span<const ParallelMapping> mappings)
             -> absl::StatusOr<std::vector<std::optional<Evaluation>>> {
    std::vector<absl::StatusOr<Evaluation>> results(mappings.size(),
                                                    absl::FailedPreconditionError(""));
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < mappings.size(); i = next++) {
        if (evaluator.Fits(mappings[i])) results[i] = evaluator.Evaluate(mappings[i]);
      }
    };
    std::vector<std::thread> threads;
    const size_t count = std::min(mappings.size(), static_cast<size_t>(std::max(jobs, 1)));
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    std::vector<std::optional<Evaluation>> out;
    for (const auto& result : results) {
      if (!result.ok() && result.status().code() != absl::StatusCode::kFailedPrecondition) {
        return result.status();
      }
      out.push_back(result.ok() ? std::optional(*result) : std::nullopt);
    }
    return out;
  };
}

}  // namespace foretrace
