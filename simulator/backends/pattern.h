#pragma once
// Operator patterns (Collage, section 2.3): operator types with wildcards, as in
// relu(add(conv2d(*, *), *)), and what attributes and shapes they ask for. What is read twice has a
// name: multiply($x=dense(*, *), sigmoid($x)).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/operator_view.h"

namespace foretrace {

// "*": whatever stands there stays outside the match. "?": any one operator, inside it.
struct PatternNode {
  std::string type;
  int32_t same_as = -1;         // of "$": the node whose operator this is too
  std::vector<int32_t> inputs;  // of the pattern's nodes
};

// Operators of `type` must have one of `values` as `attribute`. The attribute "rank" is the number
// of dimensions of its first input.
struct Constraint {
  std::string type;
  std::string attribute;
  std::vector<std::string> values;
};

struct Pattern {
  std::string text;
  std::vector<PatternNode> nodes;  // the root last
  std::vector<Constraint> constraints;
};

// Errors: no pattern of this grammar; a bare wildcard; a name twice, or before what it names; more
// than 256 operators (as Collage's own bound); two roots ("a, b": a pattern with two outputs would
// be two kernels' worth of results, and placements could then wait for each other in a circle).
absl::StatusOr<Pattern> ParsePattern(std::string_view text);

bool Meets(const ViewedOp& op, const Constraint& constraint);

// Why no operators of a graph rooted at `root` are the pattern, or which: ascending ids.
enum class Mismatch : uint8_t { kType, kConstraint, kSecondOutput };
struct MatchResult {
  std::optional<std::vector<int32_t>> ops;
  Mismatch why = Mismatch::kType;
};
// Operands of commutative operators (add, multiply, maximum, minimum) match in either order.
// An operator within that others read too is refused: the fused kernel would not write it.
MatchResult MatchAt(const Pattern& pattern, const OperatorView& dag, int32_t root);

// True where only the last of `ops` (ascending) is read from outside.
bool HasOneOutput(const OperatorView& dag, const std::vector<int32_t>& ops);

}  // namespace foretrace
