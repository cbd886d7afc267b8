#pragma once
// Random graphs of operators, and kernels that could run them.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "simulator/backends/op_placement.h"
#include "simulator/backends/pattern_generator.h"

namespace foretrace {

inline ViewedOp Op(std::string name, std::string type, std::vector<int32_t> inputs) {
  return {std::move(name), std::move(type), std::move(inputs), "1x64x56x56", {}};
}

inline OperatorView RandomDag(std::mt19937_64& random, int32_t size) {
  std::vector<ViewedOp> ops;
  for (int32_t i = 0; i < size; ++i) {
    std::vector<int32_t> inputs;
    for (uint64_t k = 0; k < 1 + random() % 2; ++k) {
      // Mostly the neighbour before, so that there are chains to fuse.
      inputs.push_back(i == 0 ? kNoProducer
                              : std::max(0, i - 1 - static_cast<int32_t>(random() % 3)));
    }
    ops.push_back(Op("op" + std::to_string(i), random() % 3 == 0 ? "conv2d" : "relu", inputs));
  }
  return OperatorView("random", std::move(ops));
}

// Every fusable group of a rule that lets everything follow everything, on each backend whose coin
// falls so, at a random time; single operators always.
inline std::vector<KernelChoice> RandomChoices(std::mt19937_64& random, const OperatorView& dag,
                                               int32_t backends) {
  Backend any;
  any.rule.classes = {{"conv2d", FusionClass::kFusable}, {"relu", FusionClass::kElementwise}};
  any.rule.fuses = {
      {FusionClass::kFusable, {FusionClass::kElementwise, FusionClass::kFusable}},
      {FusionClass::kElementwise, {FusionClass::kElementwise, FusionClass::kFusable}}};
  any.rule.max_ops = 4;
  std::vector<KernelChoice> choices;
  for (const BackendMatch& match : GenerateMatches(dag, {any}).matches) {
    for (int32_t b = 0; b < backends; ++b) {
      if (match.ops.size() > 1 && random() % 2 == 0) continue;
      choices.push_back(
          {match.ops, b, SimTime::FromNs(static_cast<int64_t>(1000 + random() % 50'000))});
    }
  }
  return choices;
}

}  // namespace foretrace
