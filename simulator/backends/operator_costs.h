#pragma once
// Measured times of operators and fused operators by backend: the neutral CSV of measurements
// (calibration/README.md) with a column `backend`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "simulator/backends/backend.h"
#include "simulator/backends/op_placement.h"
#include "simulator/backends/operator_view.h"
#include "simulator/backends/operator_work.h"
#include "simulator/backends/pattern_generator.h"
#include "simulator/base/time.h"

namespace foretrace {

class OperatorCosts {
 public:
  // Adds the rows of a file; of repeated ones the median counts. Errors name file and line: a
  // missing column, a time that is missing, negative, zero or no number; rows of two devices, where
  // a column `platform` names them.
  absl::Status Read(const std::string& file);
  absl::Status Parse(const std::string& text, const std::string& file);

  // The time of `ops` on `backend`, which its name or an alias of it says; none: not measured.
  std::optional<SimTime> Find(const OperatorView& dag, const std::vector<int32_t>& ops,
                              const Backend& backend) const;

  int64_t rows() const { return rows_; }
  // Types of operators in the tables that none of `backends` names, each once, in order.
  std::vector<std::string> UnknownTypes(const std::vector<Backend>& backends) const;

  // What the backend's rows hold beside the kernel, as they were measured one by one: how much more
  // its shortest takes than the shortest of all rows. Zero where it has no rows.
  SimTime FixedPart(const Backend& backend) const;

 private:
  // By what was measured, by backend; repeats ascending.
  absl::flat_hash_map<std::string, absl::flat_hash_map<std::string, std::vector<SimTime>>> times_;
  int64_t rows_ = 0;
  std::string platform_;  // of all rows that name one
};

// What tables call these operators, most exact first: the tree with its wildcards,
// "add(conv2d(*,*),*)", and the types in order of execution, "conv2d+add". Both with the shape of
// the first input and every attribute. Then the same with sums of biases written as additions,
// which have no axis.
std::vector<std::string> CostKeys(const OperatorView& dag, const std::vector<int32_t>& ops);

// Matches with a known time, in their order: measured, else estimated where there is a timer.
std::vector<KernelChoice> TimedChoices(const OperatorView& dag,
                                       const std::vector<Backend>& backends,
                                       const std::vector<BackendMatch>& matches,
                                       const OperatorCosts& costs, const KernelTimer& timer);

}  // namespace foretrace
