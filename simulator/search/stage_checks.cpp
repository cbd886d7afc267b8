// What is wrong with given stages, in the user's words.

#include <algorithm>
#include <bit>
#include <string>

#include <fmt/ranges.h>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/search/graphpipe_plan.h"

namespace foretrace::internal {
namespace {

std::string NameOf(const GraphPipeProblem& p, int32_t op) {
  const std::string& name = p.ops[static_cast<size_t>(op)].name;
  return name.empty() ? fmt::format("{}", op) : "'" + name + "'";
}

std::string NameOf(const GraphPipeProblem& p, const GraphPipePlan& plan, size_t stage) {
  const std::vector<int32_t>& ops = plan.stages[stage].ops;
  return ops.size() == 1 ? fmt::format("stage {} ({})", stage, NameOf(p, ops[0]))
                         : fmt::format("stage {} ({} to {})", stage, NameOf(p, ops.front()),
                                       NameOf(p, ops.back()));
}

absl::Status CheckConfig(const GraphPipeProblem& p, const GraphPipeStage& stage, size_t s) {
  const int32_t b = stage.config.micro_batch, k = stage.config.k;
  if (stage.ops.empty()) return Infeasible("C1: stage {} has no operators", s);
  if (stage.devices < 1) return Infeasible("C3: stage {} has no devices", s);
  for (const auto& [what, value] : {std::pair{"micro-batch", b}, {"k", k}}) {
    if (value < 1 || !std::has_single_bit(static_cast<uint32_t>(value))) {
      return Infeasible("C5: stage {}: {} {} is no power of two; {} would be", s, what, value,
                        std::bit_floor(static_cast<uint32_t>(std::max(value, 1))));
    }
  }
  if (p.mini_batch % b != 0) {
    return Infeasible(
        "C5: stage {}: micro-batches of {} samples do not divide the mini-batch of {}", s, b,
        p.mini_batch);
  }
  const int32_t t = stage.tensor;
  if (t != 1 && std::ranges::find(p.widths, t) == p.widths.end()) {
    return Infeasible(
        "C3: stage {}: operators are not divided over {} devices here; tensor-parallel widths are "
        "1{}{}",
        s, t, p.widths.empty() ? "" : ", ", fmt::join(p.widths, ", "));
  }
  if (stage.devices % t != 0) {
    return Infeasible("C3: stage {}: {} devices are no multiple of its tensor-parallel width {}", s,
                      stage.devices, t);
  }
  if (b < stage.replicas()) {
    return Infeasible(
        "C5: stage {}: micro-batches of {} samples cannot be shared by {} {}; larger ones or fewer "
        "devices would do",
        s, b, stage.replicas(), t == 1 ? "devices" : "replicas");
  }
  return absl::OkStatus();
}

// The first change that makes all stages fit.
std::string WhatWouldFit(const GraphPipeProblem& p, const GraphPipePlan& plan, size_t worst) {
  const auto fits = [&](GraphPipePlan changed) {
    CompletePlan(p, changed);
    return std::all_of(changed.stages.begin(), changed.stages.end(),
                       [&](const auto& s) { return s.memory <= p.memory; });
  };
  GraphPipePlan smaller = plan;
  for (int32_t divisor = 2;; divisor *= 2) {
    bool possible = true;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const int32_t b = plan.stages[s].config.micro_batch / divisor;
      possible = possible && b >= plan.stages[s].replicas() && b >= 1;
      smaller.stages[s].config.micro_batch = std::max(b, 1);
    }
    if (!possible) break;
    if (fits(smaller)) {
      return fmt::format("micro-batches of {} samples would fit",
                         smaller.stages[worst].config.micro_batch);
    }
  }
  GraphPipePlan wider = plan;
  const int32_t most = plan.stages[worst].config.micro_batch * plan.stages[worst].tensor;
  for (int32_t d = plan.stages[worst].devices * 2; d <= most; d *= 2) {
    wider.stages[worst].devices = d;
    if (fits(wider)) return fmt::format("{} devices for this stage would fit", d);
  }
  GraphPipePlan repeated = plan;
  repeated.stages[worst].recomputed = plan.stages[worst].ops;
  if (plan.stages[worst].recomputed.size() < plan.stages[worst].ops.size() && fits(repeated)) {
    return "recomputing this stage would fit";
  }
  return "fewer operators in this stage are needed";
}

}  // namespace

absl::Status CheckStages(const GraphPipeProblem& p, const std::vector<GraphPipeStage>& stages) {
  const auto count = static_cast<int32_t>(p.ops.size());
  std::vector<int32_t> stage_of(p.ops.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    if (absl::Status status = CheckConfig(p, stages[s], s); !status.ok()) return status;
    for (const int32_t op : stages[s].ops) {
      if (op < 0 || op >= count) {
        return Infeasible("C1: stage {}: there is no operator {}", s, op);
      }
      int32_t& owner = stage_of[static_cast<size_t>(op)];
      if (owner >= 0) {
        return Infeasible("C1: operator {} is in stages {} and {}", NameOf(p, op), owner, s);
      }
      owner = static_cast<int32_t>(s);
    }
  }
  for (int32_t op = 0; op < count; ++op) {
    if (stage_of[static_cast<size_t>(op)] < 0) {
      return Infeasible("C1: operator {} is in no stage", NameOf(p, op));
    }
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<bool> seen(p.ops.size());
    for (const int32_t op : stages[s].recomputed) {
      if (op < 0 || op >= count || stage_of[static_cast<size_t>(op)] != static_cast<int32_t>(s)) {
        return Infeasible("C1: stage {} recomputes operator {}, which is not in it", s,
                          op >= 0 && op < count ? NameOf(p, op) : std::to_string(op));
      }
      if (seen[static_cast<size_t>(op)]) {
        return Infeasible("C1: stage {} recomputes operator {} twice", s, NameOf(p, op));
      }
      seen[static_cast<size_t>(op)] = true;
    }
  }
  for (const GraphPipeEdge& e : p.edges) {
    const int32_t from = stage_of[static_cast<size_t>(e.from)];
    const int32_t to = stage_of[static_cast<size_t>(e.to)];
    if (from > to) {
      return Infeasible("C2: operator {} of stage {} feeds {} of stage {}, which comes before it",
                        NameOf(p, e.from), from, NameOf(p, e.to), to);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const GraphPipeProblem& p, const GraphPipePlan& plan) {
  const auto fullest =
      std::max_element(plan.stages.begin(), plan.stages.end(),
                       [](const auto& a, const auto& b) { return a.memory < b.memory; });
  if (fullest == plan.stages.end() || fullest->memory <= p.memory) {
    return absl::OkStatus();
  }
  const auto s = static_cast<size_t>(fullest - plan.stages.begin());
  RealBytes fixed;
  for (const int32_t op : fullest->ops) fixed += p.PartOf(op, fullest->tensor).fixed_bytes;
  return Infeasible(
      "{} needs {:.2f} GiB a device, {:.2f} more than the {:.2f} there are (weights, gradients and "
      "optimizer {:.2f}; activations {:.2f}, of {} samples in flight on {} devices); {}",
      NameOf(p, plan, s), Gib(fullest->memory), Gib(fullest->memory - p.memory), Gib(p.memory),
      Gib(fixed), Gib(fullest->memory - fixed), fullest->in_flight_samples, fullest->devices,
      WhatWouldFit(p, plan, s));
}

}  // namespace foretrace::internal
