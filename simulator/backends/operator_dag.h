#pragma once
// The view of a graph of operators that backends are placed on: of each what a pattern can see (its
// type, its attributes, the shape of its first input, its producers) and what it computes. Made
// from network files, from models (model_dag.h) and from recordings.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// A weight or an input of the graph: no operator makes it.
inline constexpr int32_t kNoProducer = -1;

struct DagOp {
  std::string name;
  std::string type;                               // "conv2d", without a framework's prefix
  std::vector<int32_t> inputs;                    // producers, each before this one, or kNoProducer
  std::string shape;                              // of its first input, "1x64x56x56"
  std::map<std::string, std::string> attributes;  // "strides" -> "1x1"
  std::vector<OperatorCall> calls;                // what it computes; none: not known
};

class OperatorDag {
 public:
  // Each operator's producers are before it.
  explicit OperatorDag(std::string name, std::vector<DagOp> ops);

  const std::string& name() const { return name_; }
  const std::vector<DagOp>& ops() const { return ops_; }
  const DagOp& op(int32_t id) const { return ops_[static_cast<size_t>(id)]; }
  const std::vector<int32_t>& consumers(int32_t id) const {
    return consumers_[static_cast<size_t>(id)];
  }
  int32_t size() const { return static_cast<int32_t>(ops_.size()); }
  int32_t Find(const std::string& name) const;  // -1: no operator has it

 private:
  std::string name_;
  std::vector<DagOp> ops_;
  std::vector<std::vector<int32_t>> consumers_;  // each once, ascending
};

// Files of traces/networks/. What operators compute follows from the sizes of first input (`shape`)
// and result (`output`) and from `dtype` (operator_work.h). Errors name file, line and key: a
// repeated name, an input that is no earlier operator ("*" stands for weights and inputs of the
// graph), no operator.
absl::StatusOr<OperatorDag> LoadOperatorDag(const std::string& file);
absl::StatusOr<OperatorDag> ParseOperatorDag(const std::string& text, const std::string& file);

}  // namespace foretrace
