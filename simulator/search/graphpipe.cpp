#include "simulator/search/graphpipe.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/search/graphpipe_plan.h"
#include "simulator/search/graphpipe_solver.h"

namespace foretrace {
namespace {

using internal::GraphPipeModel;
using internal::GraphPipeSolver;

// The binary search ends when the bracket is this narrow, relative to its upper end.
constexpr double kTolerance = 1e-3;
// Beyond this multiple of the least time per sample no bound is tried.
constexpr double kLoosest = 1e6;
// No iteration is shorter than the bottleneck times the mini-batch, but for rounding to
// picoseconds.
constexpr double kRounding = 1 - 1e-6;

// The best plan over one set of configurations, added to `best` if its iteration is shorter.
absl::Status SearchConfigs(const GraphPipeProblem& p, GraphPipeModel& model, const OpGraph& graph,
                           std::vector<StageConfig> configs, GraphPipePlan& best) {
  GraphPipeSolver solver(p, model, std::move(configs));
  const RealSeconds floor = model.SequenceWork(model.root(), 0) / p.devices;
  if (p.mini_batch * floor >= best.iteration) return absl::OkStatus();
  const auto read = [&](const internal::Front& front) {
    // Fewest samples in flight at the source is the shallowest pipeline.
    const auto entry =
        std::min_element(front.begin(), front.end(), [](const auto& a, const auto& b) {
          return a.offset != b.offset ? a.offset < b.offset : a.devices < b.devices;
        });
    GraphPipePlan plan = internal::ReadPlan(solver, model, graph, entry->record);
    internal::CompletePlan(p, plan);
    return plan;
  };
  RealSeconds low = (1 - 1e-9) * floor, high = RealSeconds::Infinite();
  GraphPipePlan found;
  int failures = 0;
  for (RealSeconds bound = 1.25 * floor; bound < kLoosest * floor; bound = 2 * bound) {
    const internal::Front front = solver.Solve(bound);
    if (front.empty()) {
      low = bound;
      if (p.mini_batch * (kRounding * low) >= best.iteration) return absl::OkStatus();
      // Where memory is what forbids, no bound helps, which one look at the loosest tells; it is
      // too dear to take before it is likely.
      if (++failures == 4 && solver.Solve(kLoosest * floor).empty()) return absl::OkStatus();
      continue;
    }
    found = read(front);
    high = std::min(bound, found.bottleneck);
    break;
  }
  if (high == RealSeconds::Infinite()) return absl::OkStatus();
  while (high - low > kTolerance * high && p.mini_batch * (kRounding * low) < best.iteration) {
    const RealSeconds middle = low + (high - low) / 2;
    const internal::Front front = solver.Solve(middle);
    if (front.empty()) {
      low = middle;
    } else {
      found = read(front);
      high = std::min(middle, found.bottleneck);
    }
  }
  // The bottleneck alone ignores the time to fill the pipeline, so slightly slower but shallower
  // plans are simulated as well.
  for (const double slack : {1.0, 1.03, 1.1, 1.25, 1.6, 2.2}) {
    if (slack > 1) {
      const internal::Front front = solver.Solve(slack * high);
      if (front.empty()) continue;
      found = read(front);
    }
    if (p.mini_batch * (kRounding * found.bottleneck) >= best.iteration) continue;
    FORETRACE_RETURN_IF_ERROR(internal::SimulatePlan(p, found));
    if (found.iteration < best.iteration) best = found;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphPipePlan> PartitionGraphPipe(const GraphPipeProblem& problem) {
  FORETRACE_RETURN_IF_ERROR(internal::CheckProblem(problem));
  FORETRACE_ASSIGN_OR_RETURN(const OpGraph graph, internal::GraphOf(problem));
  std::vector<int32_t> sizes = problem.micro_batches;
  if (sizes.empty()) {
    for (int32_t b = 1; b <= problem.mini_batch; b *= 2) sizes.push_back(b);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  GraphPipePlan best;
  best.iteration = RealSeconds::Infinite();
  for (const bool linear : {false, true}) {
    if (problem.sequential && !linear) continue;
    GraphPipeModel model(problem, graph, linear);
    std::vector<StageConfig> all;
    for (const int32_t b : sizes) {
      std::vector<StageConfig> configs;
      for (const int32_t k : problem.k) {
        if (k <= problem.mini_batch / b) configs.push_back({b, k});
      }
      all.insert(all.end(), configs.begin(), configs.end());
      if (problem.uniform_micro_batch) {
        FORETRACE_RETURN_IF_ERROR(SearchConfigs(problem, model, graph, configs, best));
      }
    }
    if (!problem.uniform_micro_batch) {
      FORETRACE_RETURN_IF_ERROR(SearchConfigs(problem, model, graph, all, best));
    }
  }
  if (best.stages.empty()) {
    return Infeasible(
        "graphpipe: no stage graph on {} devices fits in {:.2f} GiB each; more devices or memory, "
        "or smaller micro-batches would help",
        problem.devices, Gib(problem.memory));
  }
  return best;
}

}  // namespace foretrace
