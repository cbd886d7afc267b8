#include "simulator/plan/plan_layout.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

size_t MarksOf(const PlanBody& body) {
  size_t marks = 0;
  for (const PlanStep& step : body.steps) {
    marks = std::max(marks, static_cast<size_t>(step.mark + 1));
  }
  return marks;
}

std::vector<int32_t> PeersOf(const PlannedStage& own, int32_t device, const PlannedStage& other,
                             bool sends) {
  std::vector<int32_t> peers;
  const auto replicas = [](const PlannedStage& stage) {
    return static_cast<int64_t>(stage.ranks.size()) / stage.tensor;
  };
  const int64_t mine = replicas(own), theirs = replicas(other);
  const int32_t replica = device / own.tensor, place = device % own.tensor;
  for (int32_t d = 0; d < theirs * other.tensor; ++d) {
    const int32_t r = d / other.tensor, at = d % other.tensor;
    if (r * mine >= (replica + 1) * theirs || replica * theirs >= (r + 1) * mine) continue;
    if (sends ? at % own.tensor != place : place % other.tensor != at) continue;
    peers.push_back(other.ranks[static_cast<size_t>(d)]);
  }
  return peers;
}

}  // namespace

PlanLayout::PlanLayout(const JobPlan& plan) {
  size_t count = 0;
  for (const PlannedStage& stage : plan.stages) count += stage.ranks.size();
  of_rank.resize(count);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    for (size_t d = 0; d < stage.ranks.size(); ++d) {
      of_rank[static_cast<size_t>(stage.ranks[d])] = {static_cast<int32_t>(s),
                                                      static_cast<int32_t>(d)};
    }
    for (const PlanBody& body : stage.bodies) marks = std::max(marks, MarksOf(body));
    marks = std::max(marks, MarksOf(stage.end));
  }
  for (const DeviceGroups& group : plan.groups) {
    std::vector<int32_t> of(count, -1);
    for (size_t i = 0; i < group.sets.size(); ++i) {
      for (const int32_t rank : group.sets[i]) {
        of[static_cast<size_t>(rank)] = static_cast<int32_t>(i);
      }
    }
    set_of.push_back(std::move(of));
  }
}

std::vector<EdgeMessages> MessagesOf(const JobPlan& plan, const PlanLayout::Place& at) {
  std::vector<EdgeMessages> all;
  const auto stage = [&](int32_t s) -> const PlannedStage& {
    return plan.stages[static_cast<size_t>(s)];
  };
  for (size_t i = 0; i < plan.edges.size(); ++i) {
    const TimedEdge& e = plan.edges[i].ends;
    const int32_t unit = std::max(stage(e.from).micro_batch, stage(e.to).micro_batch);
    for (const bool forward : {true, false}) {
      for (const bool sends : {true, false}) {
        const bool first = forward == sends;  // this end is the edge's first
        if ((first ? e.from : e.to) != at.stage) continue;
        all.push_back({i, forward, sends, first ? e.from_chunk : e.to_chunk, unit,
                       PeersOf(stage(at.stage), at.device, stage(first ? e.to : e.from), sends)});
      }
    }
  }
  return all;
}

}  // namespace foretrace
