#include "simulator/search/graphpipe_plan.h"

#include <algorithm>
#include <utility>

#include "simulator/base/check.h"

namespace foretrace::internal {
namespace {

void CollectOps(const ItemInstance& item, std::vector<int32_t>& ops) {
  if (item.op >= 0) ops.push_back(item.op);
  for (const auto& kind : item.branches) {
    for (const SequenceInstance& branch : kind) {
      for (const ItemInstance& inner : branch.items) CollectOps(inner, ops);
    }
  }
}

// Turns records into stages by walking them along an occurrence of the tree.
class PlanReader {
 public:
  PlanReader(const GraphPipeSolver& solver, GraphPipePlan& plan) : solver_(solver), plan_(plan) {}

  void ReadSequence(int32_t index, const SequenceInstance& at) {
    const PartRecord& r = solver_.record(index);
    switch (r.kind) {
      case PartRecord::Kind::kStage: {
        std::vector<int32_t> ops;
        for (int32_t i = r.begin; i < r.end; ++i) CollectOps(at.items[static_cast<size_t>(i)], ops);
        AddStage(r, std::move(ops));
        return;
      }
      case PartRecord::Kind::kSeries:
        ReadSequence(r.first, at);
        ReadSequence(r.second, at);
        return;
      case PartRecord::Kind::kParallelItem: {
        auto left = at.items[static_cast<size_t>(r.begin)].branches;
        ReadBranches(r.first, left);
        return;
      }
      case PartRecord::Kind::kAbsorb: {
        auto left = at.items[static_cast<size_t>(r.begin)].branches;
        auto& kind = left[static_cast<size_t>(r.counts[0])];
        SequenceInstance carrier = kind.back();
        kind.pop_back();
        carrier.items.push_back(at.items[static_cast<size_t>(r.begin) + 1]);
        ReadSequence(r.first, carrier);
        if (r.second >= 0) ReadBranches(r.second, left);
        return;
      }
      default:
        FORETRACE_CHECK(false);
    }
  }

 private:
  void ReadBranches(int32_t index, std::vector<std::vector<SequenceInstance>>& left) {
    const PartRecord& r = solver_.record(index);
    if (r.kind == PartRecord::Kind::kSplit) {
      ReadBranches(r.first, left);
      if (r.second >= 0) ReadBranches(r.second, left);
    } else if (r.kind == PartRecord::Kind::kBranch) {
      auto& kind = left[static_cast<size_t>(r.counts[0])];
      const SequenceInstance branch = kind.back();
      kind.pop_back();
      ReadSequence(r.first, branch);
    } else {
      FORETRACE_CHECK(r.kind == PartRecord::Kind::kGroupStage);
      std::vector<int32_t> ops;
      for (size_t k = 0; k < left.size(); ++k) {
        for (int32_t i = 0; i < r.counts[k]; ++i) {
          for (const ItemInstance& item : left[k].back().items) CollectOps(item, ops);
          left[k].pop_back();
        }
      }
      AddStage(r, std::move(ops));
    }
  }

  void AddStage(const PartRecord& r, std::vector<int32_t> ops) {
    GraphPipeStage stage;
    std::sort(ops.begin(), ops.end());
    stage.ops = std::move(ops);
    stage.devices = r.devices;
    stage.config = solver_.config(r.config);
    plan_.stages.push_back(std::move(stage));
  }

  const GraphPipeSolver& solver_;
  GraphPipePlan& plan_;
};

// By the last of their operators in topological order, in which every dependency goes forward.
void SortStages(const OpGraph& graph, GraphPipePlan& plan) {
  std::vector<int32_t> position(static_cast<size_t>(graph.size()));
  for (size_t i = 0; i < position.size(); ++i) {
    position[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
  }
  const auto last_of = [&](const GraphPipeStage& s) {
    int32_t last = 0;
    for (const int32_t op : s.ops) last = std::max(last, position[static_cast<size_t>(op)]);
    return last;
  };
  std::sort(plan.stages.begin(), plan.stages.end(),
            [&](const auto& a, const auto& b) { return last_of(a) < last_of(b); });
}

}  // namespace

GraphPipePlan ReadPlan(const GraphPipeSolver& solver, const GraphPipeModel& model,
                       const OpGraph& graph, int32_t record) {
  GraphPipePlan plan;
  plan.linearised = model.linearised();
  PlanReader(solver, plan).ReadSequence(record, model.instance());
  SortStages(graph, plan);
  return plan;
}

}  // namespace foretrace::internal
