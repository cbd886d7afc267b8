#include "simulator/replay/scale/scale_out.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/engine/executor.h"
#include "simulator/replay/what_if/node_selector.h"

namespace foretrace {
namespace {

// As PyTorch, Megatron, DeepSpeed, their meshes and `generate` name groups (pg_desc).
constexpr char kDataParallel[] =
    R"((?i)data.?parallel|(^|[^a-z])(data|dp|ddp|fsdp|hsdp|dp_cp|dp_shard|dp_replicate)([^a-z]|$))";
// torch.optim's range, and those of optimizers of frameworks.
constexpr char kOptimizer[] = R"((?i)optimizer\.step)";

absl::StatusOr<std::shared_ptr<const RE2>> Expression(const std::string& text) {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  auto expression = std::make_shared<const RE2>(text, quiet);
  if (expression->ok()) return expression;
  return InvalidInput("--data-parallel {}: {}", Excerpt(text, 60), expression->error());
}

// Device work that an optimizer's step launches.
ItemSet OptimizerWork(const TraceStore& store, const Program& program) {
  const RE2 optimizer(kOptimizer);
  return SelectItems(program, [&](uint32_t r, const Item& item) {
    if (item.kind != ItemKind::kDevice) return false;
    const RankTrace& rank = store.ranks()[r];
    const NodeIndex launcher = rank.launcher(item.node);
    NodeIndex at = rank.parent(launcher.valid() ? launcher : item.node);
    for (; at.valid(); at = rank.parent(at)) {
      if (Matches(optimizer, store.name(rank, at))) return true;
    }
    return false;
  });
}

// By how much the shards of a rank shrink; 1: gradients are not scattered over what grows.
double ShardFactor(const TraceStore& store, const CompiledJob& job,
                   const std::vector<GroupGrowth>& groups) {
  std::map<uint32_t, double> factors;
  for (const GroupGrowth& g : groups) {
    factors[g.communicator] = static_cast<double>(g.from) / static_cast<double>(g.to);
  }
  double factor = 1;
  for (const MatchedRendezvous& rendezvous : job.communicators.rendezvous) {
    const auto grown = factors.find(rendezvous.communicator);
    if (grown == factors.end() || rendezvous.point_to_point || rendezvous.members.empty()) continue;
    const auto& first = rendezvous.members.front();
    const RankTrace& rank = store.ranks()[first.rank];
    if (rank.collective_op(first.node) != CollectiveOp::kReduceScatter) continue;
    factor = std::min(factor, grown->second);
  }
  return factor;
}

// Kernels on a share of the parameters: in proportion, down to the shortest that the rank has.
void ShrinkOptimizer(const TraceStore& store, double factor, Program& program,
                     ScaleOut::Summary& summary) {
  const ItemSet work = OptimizerWork(store, program);
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    std::vector<Item>& items = program.ranks[r].items;
    SimTime shortest = SimTime::Max();
    for (const Item& item : items) {
      if (item.kind != ItemKind::kDevice || item.duration <= SimTime()) continue;
      shortest = std::min(shortest, item.duration);
    }
    SimTime before, after;
    for (const uint32_t i : work.ranks[r]) {
      before += items[i].duration;
      const SimTime scaled = std::max(items[i].duration.ScaledBy(factor), shortest);
      items[i].duration = std::min(items[i].duration, scaled);
      after += items[i].duration;
    }
    if (before < summary.optimizer_before) continue;
    summary.optimizer_before = before, summary.optimizer_after = after;
  }
}

}  // namespace

int32_t RecordedRanks(const TraceStore& store) {
  return std::max(store.world_size(), static_cast<int32_t>(store.ranks().size()));
}

absl::StatusOr<ScaleOut> ScaleOut::Make(int32_t ranks, const std::string& groups) {
  ScaleOut scale;
  scale.ranks_ = ranks;
  if (!groups.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(scale.groups_, Expression(groups));
  }
  return scale;
}

bool ScaleOut::Grows(const TraceStore& store, const MatchedCommunicator& communicator) const {
  static const RE2 kNamed(kDataParallel);
  const ProcessGroups& groups = store.process_groups();
  const ProcessGroup* group = groups.Find(communicator.name, communicator.ranks);
  if (group == nullptr && groups.contains(communicator.name)) {
    group = &groups.named(communicator.name).front();  // all ranks, or others of the same name
  }
  const std::string_view description = group == nullptr ? "" : group->description;
  const RE2& expression = groups_ != nullptr ? *groups_ : kNamed;
  if (Matches(expression, communicator.name) || Matches(expression, description)) return true;
  return groups_ == nullptr && GroupSize(communicator) == RecordedRanks(store);
}

absl::StatusOr<std::vector<int32_t>> ScaleOut::Sizes(const TraceStore& store,
                                                     const CompiledJob& job) const {
  const int64_t recorded = RecordedRanks(store);
  if (ranks_ < recorded) {
    return InvalidInput("--ranks {}: the job was recorded on {}; --ranks predicts larger ones",
                        ranks_, recorded);
  }
  std::vector<int32_t> sizes;
  std::set<std::string> all;
  bool any = false;
  std::set<uint32_t> collective;  // pairs that send and receive do not grow
  for (const MatchedRendezvous& rendezvous : job.communicators.rendezvous) {
    if (!rendezvous.point_to_point) collective.insert(rendezvous.communicator);
  }
  for (const MatchedCommunicator& communicator : job.communicators.communicators) {
    const auto index = static_cast<uint32_t>(sizes.size());
    sizes.push_back(0);
    const auto members = static_cast<int64_t>(GroupSize(communicator));
    if (members < 2 || !collective.contains(index)) continue;
    all.insert(fmt::format("{} ({} ranks)", communicator.name, members));
    if (!Grows(store, communicator)) continue;
    any = true;
    if (ranks_ * members % recorded != 0) {
      return InvalidInput(
          "--ranks {}: communicator {} has {} of {} ranks, which does not come out; a multiple of "
          "{} does",
          ranks_, communicator.name, members, recorded, recorded / std::gcd(recorded, members));
    }
    sizes.back() = static_cast<int32_t>(ranks_ * members / recorded);
  }
  if (any) return sizes;
  if (all.empty()) {
    return Infeasible(
        "--ranks {}: no collectives of several ranks are recorded, so that nothing tells what more "
        "ranks would exchange; record at least two ranks",
        ranks_);
  }
  constexpr size_t kMostListed = 12;
  const size_t more = all.size() - std::min(all.size(), kMostListed);
  if (more > 0) all.erase(std::next(all.begin(), kMostListed), all.end());
  return Infeasible(
      "--ranks {}: no communicator {}; --data-parallel REGEX says which grow with the job: {}{}",
      ranks_,
      groups_ != nullptr ? fmt::format("is called {}", groups_->pattern())
                         : "has all ranks or is named for data parallelism",
      fmt::join(all, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

absl::StatusOr<ScaleOut::Summary> ScaleOut::Scale(const TraceStore& store, const CompiledJob& job,
                                                  NetworkModel* network, Program& program) const {
  Summary summary;
  const bool same = ranks_ == RecordedRanks(store);
  if (same && whose_ == ArrivalsOf::kGroup) return summary;
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<int32_t> sizes, Sizes(store, job));
  if (network == nullptr && !same) {
    return InvalidInput(
        "--ranks {}: how long collectives of more ranks take is asked of a network: --platform "
        "names "
        "that of the recorded machine, --on PLATFORM another (`foretrace list platforms`)",
        ranks_);
  }
  if (network != nullptr && network->contends()) {
    return InvalidInput(
        "--ranks {}: ranks that do the same are simulated once, so their transfers cannot contend: "
        "leave out --network {}",
        ranks_, network->name());
  }
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store, program, network));
  FORETRACE_ASSIGN_OR_RETURN(
      summary.groups, GrowGroups(store, job, sizes, schedule, whose_, last_, network, program));
  const double factor = ShardFactor(store, job, summary.groups);
  if (factor < 1) ShrinkOptimizer(store, factor, program, summary);
  return summary;
}

absl::Status ScaleOut::Apply(const TraceStore& store, const CompiledJob& job, NetworkModel* network,
                             Program& program) const {
  return Scale(store, job, network, program).status();
}

}  // namespace foretrace
