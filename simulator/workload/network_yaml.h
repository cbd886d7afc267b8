#pragma once
// Networks operator by operator, as files (traces/networks/).

#include <string>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/graph/operator_graph.h"

namespace foretrace {

inline constexpr ShippedKind kNetworkFiles = {"network", "traces/networks", ".yaml"};

struct Network {
  std::string name;
  OperatorGraph graph;  // every size is declared; no repeated block
};

// Keys: name, description, source, dtype (without it no work is known), ops. Of an operator: name,
// op (its type, "conv2d"), inputs (operators before it, or "*": a weight or an input of the graph),
// shape (of the first input), output (of the result), attributes (of convolutions kernel_size and
// groups, of pools pool_size; others for patterns of backends alone). Types that are not known,
// and results without a size, are opaque. Errors name file, line and key: a repeated name, an input
// that is no earlier operator, a shape that is not the input's, groups that do not divide channels,
// no operator.
absl::StatusOr<Network> LoadNetwork(const std::string& file);
absl::StatusOr<Network> ParseNetwork(const std::string& text, const std::string& file);

}  // namespace foretrace
