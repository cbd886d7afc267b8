#include "tests/support/store_copy.h"

#include <memory>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

class RankCopy {
 public:
  RankCopy(const TraceStore& store, uint32_t rank)
      : store_(store), rank_(store.ranks()[rank]), rank_index_(rank), builder_(rank_.info()) {}

  absl::StatusOr<RankTraceBuilder::Result> Run(const TimeEdit& edit) {
    for (uint32_t l = 0; l < rank_.lanes().size(); ++l) {
      const Lane& lane = rank_.lanes()[l];
      builder_.SetLaneLabel(builder_.AddLane(lane.kind, lane.id, lane.device), lane.label);
    }
    for (uint32_t i = 0; i < rank_.size(); ++i) AddNode(NodeIndex(i), edit);
    for (uint32_t i = 0; i < rank_.size(); ++i) AddLinks(NodeIndex(i));
    for (const IterationMark& mark : rank_.iterations()) {
      builder_.AddIteration(mark.number, mark.node);
    }
    for (const ProcessGroup& group : rank_.process_groups()) builder_.AddProcessGroup(group);
    RankTraceBuilder::Options options;
    options.sort_by_start = rank_.info().has_times;
    options.infer_nesting = false;  // parents are copied
    return builder_.Build(options);
  }

 private:
  void AddNode(NodeIndex n, const TimeEdit& edit) {
    RecordedTime time{rank_.start(n), rank_.duration(n)};
    if (edit) edit(rank_index_, n, time);
    RankTraceBuilder::NodeSpec spec;
    spec.kind = rank_.kind(n);
    spec.detail = rank_.raw_detail(n);
    spec.name = store_.name(rank_, n);
    spec.lane = rank_.lane(n);
    spec.start = time.start;
    spec.duration = time.duration;
    spec.source_id = rank_.source_id(n);
    builder_.AddNode(spec);
  }

  void AddLinks(NodeIndex n) {
    if (rank_.parent(n).valid()) builder_.SetParent(n, rank_.parent(n));
    if (rank_.launcher(n).valid()) builder_.SetLauncher(n, rank_.launcher(n));
    if (const CommAttr* comm = rank_.comm(n); comm != nullptr) {
      CommAttr copy = *comm;
      if (copy.group.valid()) copy.group = builder_.Intern(store_.strings().Get(comm->group));
      builder_.SetComm(n, copy, rank_.in_splits(*comm), rank_.out_splits(*comm));
    }
    if (const SyncAttr* sync = rank_.sync(n); sync != nullptr) builder_.SetSync(n, *sync);
    if (const WorkAttr* work = rank_.work(n); work != nullptr) builder_.SetWork(n, *work);
    if (const uint32_t waves = rank_.waves_milli(n); waves > 0) builder_.SetWaves(n, waves);
    if (const LaunchAttr* launch = rank_.launch(n)) builder_.SetLaunch(n, *launch);
    for (const Tensor& tensor : rank_.tensors(n)) builder_.AddTensor(n, tensor, rank_.dims(tensor));
    for (const Dependency& d : rank_.dependencies(n)) {
      builder_.AddDependency(n, d.producer, d.kind);
    }
  }

  const TraceStore& store_;
  const RankTrace& rank_;
  uint32_t rank_index_;
  RankTraceBuilder builder_;
};

}  // namespace

absl::StatusOr<TraceStore> CopyStore(const TraceStore& store, const TimeEdit& edit) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    FORETRACE_ASSIGN_OR_RETURN(auto built, RankCopy(store, r).Run(edit));
    ranks.emplace_back(std::move(built.trace), std::move(built.strings));
  }
  FORETRACE_ASSIGN_OR_RETURN(TraceStore copy, TraceStore::Assemble(std::move(ranks), {}));
  copy.RaiseWorldSize(store.world_size());
  return copy;
}

}  // namespace foretrace
