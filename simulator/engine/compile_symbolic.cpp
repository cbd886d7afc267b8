// Traces without times: items run when their dependencies allow, and what they cost comes from
// models.

#include "simulator/engine/compile_rank.h"
#include "simulator/engine/lane_lists.h"
#include "simulator/engine/program_builder.h"

namespace foretrace {
namespace {

Item ItemOf(NodeIndex node, ProgramBuilder& builder) {
  const RankTrace& rank = builder.rank();
  Item item;
  item.node = node;
  item.kind = IsDeviceKind(rank.kind(node)) ? ItemKind::kDevice : ItemKind::kCall;
  if (item.kind == ItemKind::kCall && rank.has_duration(node)) {
    // Declared for the CPU: it stands as it is, for nothing in it can have waited.
    item.duration = rank.duration(node);
  } else if (!IsCommunicationKind(rank.kind(node))) {
    builder.SetDuration(item);
  }
  return item;
}

void AddDependencies(ProgramBuilder& builder) {
  const RankTrace& rank = builder.rank();
  size_t waits = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) waits += rank.dependencies(NodeIndex(i)).size();
  builder.waits().reserve(waits);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const uint32_t consumer = builder.item_of(NodeIndex(i));
    if (consumer == kNoItem) continue;
    for (const Dependency& d : rank.dependencies(NodeIndex(i))) {
      const uint32_t producer = builder.item_of(d.producer);
      if (producer == kNoItem) continue;
      builder.waits().push_back(
          {consumer, {producer, LagTable::kZero, false, false, WaitCause::kDependency}});
    }
  }
}

}  // namespace

CompiledRank CompileSymbolic(const RankInput& input) {
  ProgramBuilder builder(input);
  const RankTrace& rank = input.rank;
  const LaneLists lanes(rank, [&](NodeIndex n) { return rank.kind(n) != NodeKind::kAnnotation; });
  builder.program().items.reserve(lanes.size());
  for (uint32_t l = 0; l < rank.lanes().size(); ++l) {
    const std::span<const NodeIndex> nodes = lanes.of(LaneIndex(l));
    if (nodes.empty()) continue;
    LaneProgram lane;
    lane.lane = LaneIndex(l);
    lane.cpu = rank.lanes()[l].kind == Lane::Kind::kCpuThread;
    lane.ready_order = true;
    lane.unlimited = IsCommunicationKind(rank.kind(nodes.front()));
    builder.BeginLane(lane);
    for (const NodeIndex node : nodes) builder.Add(ItemOf(node, builder));
    builder.EndLane();
  }
  AddDependencies(builder);
  return builder.Finish();
}

}  // namespace foretrace
