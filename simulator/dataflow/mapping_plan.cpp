#include "simulator/dataflow/mapping_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/dataflow/quantities.h"
#include "simulator/plan/lowering.h"

namespace foretrace::dataflow {
namespace {

// Marks the last exchange, for which the next partition waits, and the last one over replicas that
// runs behind partitions.
constexpr int32_t kExchanged = 0, kReduced = 1;

SimTime Time(double ns) { return SimTime::FromPs(std::llround(ns * 1000)); }
Bytes Size(double bytes) { return Bytes(std::llround(bytes)); }

CollectiveOp OpOf(Exchange::Kind kind) {
  switch (kind) {
    case Exchange::Kind::kAllGather:
      return CollectiveOp::kAllGather;
    case Exchange::Kind::kAllToAll:
      return CollectiveOp::kAllToAll;
    case Exchange::Kind::kBroadcast:
      return CollectiveOp::kBroadcast;
    case Exchange::Kind::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    default:
      return CollectiveOp::kAllReduce;
  }
}

// The chip's index within the dimensions of a role, their first running fastest.
int32_t PlaceIn(const System& system, const Mapping& mapping, Role role, int32_t rank) {
  int32_t rest = rank, place = 0, stride = 1;
  for (size_t d = 0; d < system.dimensions.size(); ++d) {
    const auto size = static_cast<int32_t>(system.dimensions[d].network.size);
    if (mapping.roles[d] == role) {
      place += rest % size * stride;
      stride *= size;
    }
    rest /= size;
  }
  return place;
}

// Those that differ from the chip in dimensions of the role alone.
std::vector<int32_t> PeersOf(const System& system, const Mapping& mapping, Role role,
                             int32_t rank) {
  std::vector<int32_t> ranks = {rank};
  int32_t stride = 1;
  for (size_t d = 0; d < system.dimensions.size(); ++d) {
    const auto size = static_cast<int32_t>(system.dimensions[d].network.size);
    if (mapping.roles[d] == role) {
      std::vector<int32_t> more;
      for (int32_t i = 0; i < size; ++i) {
        for (const int32_t r : ranks) more.push_back(r + (i - r / stride % size) * stride);
      }
      ranks = std::move(more);
    }
    stride *= size;
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

struct RoleGroup {
  int32_t index = kNoGroup;
  int32_t members = 1;
};
using RoleGroups = std::array<RoleGroup, static_cast<size_t>(Role::kCount)>;

RoleGroups AddGroups(const System& system, const Mapping& mapping, JobPlan& plan) {
  RoleGroups groups;
  for (const Role role : {Role::kTensor, Role::kPipeline, Role::kData, Role::kAll}) {
    std::vector<std::vector<int32_t>> sets;
    int32_t members = 1;
    for (int32_t rank = 0; rank < system.chips(); ++rank) {
      std::vector<int32_t> ranks = PeersOf(system, mapping, role, rank);
      members = static_cast<int32_t>(ranks.size());
      if (ranks.front() == rank) sets.push_back(std::move(ranks));
    }
    groups[static_cast<size_t>(role)] = {plan.AddGroup(std::string(Name(role)), std::move(sets)),
                                         members};
  }
  return groups;
}

// What a stage's chips run.
class StageConverter {
 public:
  StageConverter(const Workload& workload, const MappedWorkload& mapped, const RoleGroups& groups,
                 int32_t stage)
      : workload_(workload),
        mapped_(mapped),
        groups_(groups),
        micro_batches_(static_cast<int32_t>(mapped.micro_batches)),
        stages_(static_cast<int32_t>(mapped.mapping.pipeline)),
        chunks_(static_cast<int32_t>(mapped.mapping.scheme.chunks)),
        stage_(stage) {}

  absl::StatusOr<PlannedStage> Convert() {
    PlannedStage out;
    FORETRACE_ASSIGN_OR_RETURN(out.passes, Schedule());
    std::map<std::tuple<PassKind, int32_t, bool, bool>, uint32_t> bodies;
    for (const Pass& pass : out.passes) {
      const bool first = pass.microbatch == 0, last = pass.microbatch == micro_batches_ - 1;
      const auto [it, added] = bodies.try_emplace({pass.kind, pass.chunk, first, last},
                                                  static_cast<uint32_t>(out.bodies.size()));
      if (added) out.bodies.push_back(BodyOf(pass, first, last));
      out.body_of.push_back(it->second);
    }
    out.end = EndOf();
    return out;
  }

 private:
  const RoleGroup& group(Role role) const { return groups_[static_cast<size_t>(role)]; }
  // Both passes in one: of what does not train, and where one partition holds both.
  bool whole() const { return !workload_.trains() || Mixed(); }
  bool overlapped() const {
    return mapped_.mapping.scheme.overlap_gradients && group(Role::kData).members > 1;
  }
  bool divided() const { return overlapped() && mapped_.mapping.scheme.zero > 0; }

  absl::StatusOr<PassList> Schedule() const {
    if (whole()) {
      PassList passes;
      for (int32_t i = 0; i < micro_batches_; ++i) passes.push_back({PassKind::kForward, i, 0});
      return passes;
    }
    if (chunks_ > 1) return InterleavedSchedule(micro_batches_, stages_, stage_, chunks_);
    return KFKBSchedule(micro_batches_, 1, std::min(2 * (stages_ - stage_) - 1, micro_batches_));
  }

  bool IsForward(const Partition& p) const {
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (((p.kernels >> i) & 1) != 0) return workload_.kernels[i].pass == Direction::kForward;
    }
    return true;
  }
  bool Mixed() const {
    KernelSet forward = 0;
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (workload_.kernels[i].pass == Direction::kForward) forward |= KernelSet{1} << i;
    }
    return std::any_of(mapped_.partitioning.partitions.begin(),
                       mapped_.partitioning.partitions.end(), [&](const Partition& p) {
                         return (p.kernels & forward) != 0 && (p.kernels & ~forward) != 0;
                       });
  }

  PlanStep Collective(CollectiveOp op, Role role, std::string name, double bytes, double ns) const {
    if (op == CollectiveOp::kAllGather) bytes *= group(role).members;  // what is gathered
    PlanStep step;
    step.name = Named(std::move(name));
    step.duration = Time(ns);
    step.group = group(role).index;
    step.op = op;
    step.bytes = Size(bytes);
    return step;
  }

  // The partition after all that came before it; its end is what the next one waits for. Exchanges
  // beside its work start with it.
  void AddPartition(const Partition& p, const char* prefix) {
    const bool overlaps = p.time < (1 - 1e-12) * (p.compute + p.memory + p.network);
    const AwaitedList held = exchanged_;
    const auto work = [&] {
      body_.Kernel(OfPass(prefix),
                   Time((overlaps ? std::max(p.compute, p.memory) : p.compute + p.memory).ns()),
                   held);
    };
    if (!overlaps) work();
    AwaitedList after = AfterKernels();
    if (overlaps) after.insert(after.end(), held.begin(), held.end());
    double named = 0;
    for (const Exchange& e : mapped_.exchanges) {
      if (((p.kernels >> e.kernel) & 1) == 0 || group(e.role).members < 2) continue;
      const double ns = e.time.ns() * mapped_.mapping.micro_batch;
      named += ns;
      PlanStep step =
          Collective(OpOf(e.kind), e.role, workload_.kernels[static_cast<size_t>(e.kernel)].name,
                     e.bytes.count() * mapped_.mapping.micro_batch, ns);
      step.mark = kExchanged;
      after = exchanged_ = {body_.Exchange(std::move(step), after)};
    }
    if (overlaps) work();
    // Published rules put a share of the gradients' reduction into each partition.
    if (p.network.ns() > named * (1 + 1e-9) + 1e-3) {
      body_.Kernel(Named("share of the gradients' reduction"), Time(p.network.ns() - named));
    }
  }

  void AddLayers(bool backward, bool first, bool last) {
    for (int64_t layer = 0; layer < mapped_.layers_per_stage / chunks_; ++layer) {
      if (!backward && first && divided()) AwaitWeights();
      // A layer runs again just before its own backward pass.
      for (const Partition& p : mapped_.repeated) {
        if (backward) AddPartition(p, "recompute ");
      }
      for (const Partition& p : mapped_.partitioning.partitions) {
        if (whole() || IsForward(p) != backward) AddPartition(p, "");
      }
      if (backward && last && overlapped()) {
        ReduceLayer(divided() ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                    AfterKernels());
      }
    }
  }

  // Of a layer, after those of the layers before it.
  void ReduceLayer(CollectiveOp op, AwaitedList after) {
    const double share = op == CollectiveOp::kAllReduce ? 1 : 0.5;
    double bytes =
        mapped_.time.gradient_bytes.count() / static_cast<double>(mapped_.layers_per_stage);
    if (op == CollectiveOp::kAllGather) bytes /= static_cast<double>(group(Role::kData).members);
    PlanStep step =
        Collective(op, Role::kData, "gradients", bytes, mapped_.time.layer_reduction.ns() * share);
    step.mark = kReduced;
    after.push_back(reduced_);
    reduced_ = body_.Exchange(std::move(step), std::move(after));
  }
  // Weights that the last iteration's optimizer updated.
  void AwaitWeights() {
    ReduceLayer(CollectiveOp::kAllGather, {});
    body_.Kernel(Named("weights"), SimTime(), {reduced_});
  }

  PlanBody BodyOf(const Pass& pass, bool first, bool last) {
    body_ = {};
    exchanged_ = {TheMark(kExchanged)};
    reduced_ = TheMark(kReduced);
    const bool backward = pass.kind == PassKind::kBackward;
    // Of a micro-batch through the layers of a place in the pipeline: chunks of stages one after
    // another.
    const int32_t place = pass.chunk * stages_ + stage_, places = stages_ * chunks_;
    const bool ends = place + 1 == places;
    if (backward ? !ends : place > 0) {
      AwaitedList before = AfterInputs();
      before.push_back(TheMark(kExchanged));
      body_.Kernel(OfPass("input of "), SimTime(), std::move(before));
      exchanged_.clear();
    }
    const SimTime head = Time(mapped_.time.head.ns() / static_cast<double>(micro_batches_));
    const bool heads = ends && mapped_.time.head.ns() > 0;
    if (heads && backward) body_.Kernel(Named("output layer and loss"), head);
    AddLayers(backward, first, last);
    if (heads && whole()) body_.Kernel(Named("output layer"), head);
    body_.output = AfterKernels();
    body_.output.insert(body_.output.end(), exchanged_.begin(), exchanged_.end());
    return std::move(body_);
  }

  PlanBody EndOf() {
    PlanBody end;
    const IterationTime& t = mapped_.time;
    const Role role = workload_.per_chip ? Role::kAll : Role::kData;
    const bool reduces = !overlapped() && t.gradient.ns() > 0 && group(role).members > 1;
    const bool scatters = mapped_.mapping.scheme.zero > 0;
    AwaitedList reduced = {TheMark(overlapped() ? kReduced : kExchanged)};
    if (reduces) {
      PlanStep step = Collective(scatters ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                                 role, "gradients", t.gradient_bytes.count(),
                                 scatters ? t.gradient.ns() / 2 : t.gradient.ns());
      reduced = {end.Exchange(std::move(step), {AfterKernels().front(), TheMark(kExchanged)})};
    }
    end.Kernel(Named("optimizer"), Time(t.optimizer.ns()), reduced);
    if (!reduces || !scatters) return end;
    const auto members = static_cast<double>(group(role).members);
    const Awaited gathered =
        end.Exchange(Collective(CollectiveOp::kAllGather, role, "weights",
                                t.gradient_bytes.count() / members, t.gradient.ns() / 2),
                     AfterKernels());
    end.Kernel(Named("weights"), SimTime(), {gathered});
    return end;
  }

  const Workload& workload_;
  const MappedWorkload& mapped_;
  const RoleGroups& groups_;
  int32_t micro_batches_, stages_, chunks_, stage_;
  PlanBody body_;
  AwaitedList exchanged_;  // the last exchange, for which the next partition waits
  Awaited reduced_;        // the last exchange over replicas
};

// From each place to the next, over the first of the pipeline's dimensions.
void AddEdges(const Workload& workload, const System& system, const MappedWorkload& mapped,
              JobPlan& plan) {
  const Bytes bytes = Size(workload.layer_input_bytes.count() * mapped.mapping.micro_batch);
  SimTime time;
  for (size_t d = 0; d < system.dimensions.size(); ++d) {
    if (mapped.mapping.roles[d] != Role::kPipeline) continue;
    const NetworkDimension& link = system.dimensions[d].network;
    time = Time(NsOf(CountOf(bytes), link.bandwidth) + NsOf(link.latency));
    break;
  }
  const auto stages = static_cast<int32_t>(mapped.mapping.pipeline);
  const auto places = stages * static_cast<int32_t>(mapped.mapping.scheme.chunks);
  for (int32_t p = 0; p + 1 < places; ++p) {
    const int32_t next = p + 1;
    plan.edges.push_back(
        {{p % stages, p / stages, next % stages, next / stages, time, time}, bytes});
  }
}

}  // namespace

absl::StatusOr<JobPlan> PlanOf(const Workload& workload, const System& system,
                               const MappedWorkload& mapped) {
  JobPlan plan;
  plan.name = fmt::format("{} on {}", workload.name, system.name);
  plan.shorter = "A smaller --batch gives shorter";
  plan.producer = "foretrace dataflow";
  const double nodes =
      static_cast<double>(system.chips()) * mapped.micro_batches *
      static_cast<double>(mapped.layers_per_stage) *
      static_cast<double>(2 * mapped.partitioning.partitions.size() + mapped.exchanges.size());
  FORETRACE_RETURN_IF_ERROR(CheckNodes(nodes, plan.name, plan.shorter));
  plan.mini_batch = static_cast<int32_t>(mapped.micro_batches);
  const RoleGroups groups = AddGroups(system, mapped.mapping, plan);
  plan.links = groups[static_cast<size_t>(Role::kPipeline)].index;
  const auto stages = static_cast<int32_t>(mapped.mapping.pipeline);
  for (int32_t s = 0; s < stages; ++s) {
    FORETRACE_ASSIGN_OR_RETURN(PlannedStage stage,
                               StageConverter(workload, mapped, groups, s).Convert());
    stage.source = plan.name;
    plan.stages.push_back(std::move(stage));
  }
  for (int32_t rank = 0; rank < system.chips(); ++rank) {
    const int32_t s = stages > 1 ? PlaceIn(system, mapped.mapping, Role::kPipeline, rank) : 0;
    plan.stages[static_cast<size_t>(s)].ranks.push_back(rank);
  }
  AddEdges(workload, system, mapped, plan);
  return plan;
}

}  // namespace foretrace::dataflow
