#pragma once
// Where the parts of a search are worked out: on threads, and, by those who start searches, on
// other processes or in a journal.

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// Works out part `i` on thread `thread` below WorkRunner::threads(). Doubles within are written so
// that what is read is what was written.
using PartOfWork = std::function<absl::StatusOr<std::string>(size_t i, size_t thread)>;

class WorkRunner {
 public:
  virtual ~WorkRunner() = default;
  virtual size_t threads() const = 0;
  // The answers to `keys` in their order. A key says all that its answer depends on, besides what
  // all of a search depends on. Errors: the first in order of keys; cancelled.
  virtual absl::StatusOr<std::vector<std::string>> Run(std::span<const std::string> keys,
                                                       const PartOfWork& work) const = 0;
};

// Threads of this process.
class ThreadRunner : public WorkRunner {
 public:
  explicit ThreadRunner(int jobs, std::stop_token stop = {})
      : threads_(static_cast<size_t>(jobs > 1 ? jobs : 1)), stop_(std::move(stop)) {}
  size_t threads() const override { return threads_; }
  absl::StatusOr<std::vector<std::string>> Run(std::span<const std::string> keys,
                                               const PartOfWork& work) const override;

 private:
  size_t threads_;
  std::stop_token stop_;
};

}  // namespace foretrace
