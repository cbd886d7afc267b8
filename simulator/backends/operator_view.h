#pragma once
// What backends see of a graph of operators: of each what a pattern can ask for (its type, its
// attributes, the shape of its first input, its producers) and what it computes. Made from the
// graphs of networks and models (graph_view.h), and from recordings, which have calls and no graph.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "simulator/cost/operator/operator.h"

namespace foretrace {

// A weight or an input of the graph: no operator makes it.
inline constexpr int32_t kNoProducer = -1;

struct ViewedOp {
  std::string name;
  std::string type;                               // "conv2d", without a framework's prefix
  std::vector<int32_t> inputs;                    // producers, each before this one, or kNoProducer
  std::string shape;                              // of its first input, "1x64x56x56"
  std::map<std::string, std::string> attributes;  // "strides" -> "1x1"
  std::vector<OperatorCall> calls;                // what it computes; none: not known
};

class OperatorView {
 public:
  // Each operator's producers are before it.
  explicit OperatorView(std::string name, std::vector<ViewedOp> ops);

  const std::string& name() const { return name_; }
  const std::vector<ViewedOp>& ops() const { return ops_; }
  const ViewedOp& op(int32_t id) const { return ops_[static_cast<size_t>(id)]; }
  const std::vector<int32_t>& consumers(int32_t id) const {
    return consumers_[static_cast<size_t>(id)];
  }
  int32_t size() const { return static_cast<int32_t>(ops_.size()); }
  int32_t Find(const std::string& name) const;  // -1: no operator has it

 private:
  std::string name_;
  std::vector<ViewedOp> ops_;
  std::vector<std::vector<int32_t>> consumers_;  // each once, ascending
};

}  // namespace foretrace
