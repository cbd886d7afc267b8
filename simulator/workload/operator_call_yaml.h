#pragma once
// Operators on shapes in workload files:
//
//   {linear: {m: 128, n: 512, k: 256, bias: true}, dtype: float16}
//
// A call is named as below, its sizes as in cost/operator/operator.h; sizes that are not given are
// those of its default.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cost/operator/operator.h"

namespace YAML {
class Node;
}

namespace foretrace {

// Errors: an unknown call or key; `where` names the operator.
absl::StatusOr<OperatorCall> ReadOperatorCall(const YAML::Node& node, const std::string& where);

// What ReadOperatorCall reads.
std::string OperatorCallYaml(const OperatorCall& call);

}  // namespace foretrace
