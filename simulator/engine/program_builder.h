#pragma once
// Puts the program of one rank together, item by item; what the compilers of compile_rank.h have in
// common.

#include <vector>

#include "simulator/engine/compile_rank.h"

namespace foretrace {

class ProgramBuilder {
 public:
  // `input` outlives it.
  explicit ProgramBuilder(const RankInput& input);

  const RankTrace& rank() const { return input_.rank; }
  SimTime recorded_begin() const { return recorded_begin_; }
  RankProgram& program() { return out_.program; }
  RankCompileReport& report() { return out_.report; }
  UnshownItemWaits& unshown() { return out_.unshown; }
  // Put in order once all are known.
  std::vector<WaitOfItem>& waits() { return waits_; }
  // kNoItem for nodes that are none, or none yet.
  uint32_t item_of(NodeIndex node) const { return out_.item_of[node.value]; }

  // Items that are added from now on are those of `lane`.
  void BeginLane(LaneProgram lane);
  // The item of its node.
  uint32_t Add(Item item);
  void EndLane();

  // A lane of calls and marks; those of `main` place CPU ops in time. `of_blocking`: what calls are
  // that hold their thread.
  void AddTimeline(const CpuTimelinePoints& timeline, bool main, ItemKind of_blocking);
  // Work of a device: its duration, and its launch where that is an item. Of communication its own
  // part is known once it is known whom it meets; as recorded where it meets nobody.
  Item DeviceWork(NodeIndex node);
  // The least gap to the work before of what was in flight when the recording began, or whose
  // launch was not recorded: as recorded.
  SimTime RecordedGap(NodeIndex node, SimTime previous_recorded_end);
  // The recorded duration, or the cost model's.
  void SetDuration(Item& item);
  // Where the first timeline begins and ends its steps.
  void FindIterations();

  CompiledRank Finish();

 private:
  bool ModelsOverheads(const CpuPoint& point) const;
  SimTime Lead(const CpuTimelinePoints& timeline, const CpuPoint& point);
  Item CpuItem(const CpuPoint& point, ItemKind of_blocking) const;

  const RankInput& input_;
  CompiledRank out_;
  SimTime recorded_begin_;
  std::vector<WaitOfItem> waits_;
};

}  // namespace foretrace
