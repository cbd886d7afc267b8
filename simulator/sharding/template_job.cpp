#include "simulator/sharding/template_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/edit.h"
#include "simulator/engine/executor.h"

namespace foretrace {
namespace {

constexpr int kMaxLevels = 8;

enum class LookupKind : uint8_t { kNone, kForward, kBackward, kCopyForward, kCopyBackward };

// By the name of a framework call.
LookupKind KindOfCall(std::string_view call) {
  const std::string name = LowerCase(call);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (!has("embedding") && !has("splitlookup")) return LookupKind::kNone;
  if (has("##") || has("awaitable")) return LookupKind::kNone;  // user ranges
  const bool backward = has("backward") || has("cppnode");
  const bool copied = has("dense_embedding_codegen") || has("dense_op");
  return copied ? (backward ? LookupKind::kCopyBackward : LookupKind::kCopyForward)
                : (backward ? LookupKind::kBackward : LookupKind::kForward);
}

// The innermost enclosing call that is a lookup.
LookupKind KindOfKernel(const TraceStore& store, const RankTrace& rank, NodeIndex kernel) {
  const NodeIndex launcher = rank.launcher(kernel);
  NodeIndex at = launcher.valid() ? rank.parent(launcher) : rank.parent(kernel);
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank.parent(at)) {
    if (rank.kind(at) != NodeKind::kCpuOp) continue;
    const LookupKind kind = KindOfCall(store.name(rank, at));
    if (kind != LookupKind::kNone) return kind;
  }
  return LookupKind::kNone;
}

Estimate Recorded(SimTime time) { return {time, EstimateSource::kRecorded}; }

int64_t IterationOf(const RankTrace& rank, NodeIndex node) {
  if (rank.iterations().empty()) return 0;
  const NodeIndex launcher = rank.launcher(node);
  return rank.iteration_at(rank.start(launcher.valid() ? launcher : node));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemplateJob>> TemplateJob::Create(
    std::shared_ptr<const TraceStore> store, int32_t gpus) {
  const std::string& source = store->ranks().front().info().source;
  if (store->ranks().size() != static_cast<size_t>(gpus)) {
    return InvalidInput("{}: the template has {} ranks, the task {} GPUs; both must agree", source,
                        store->ranks().size(), gpus);
  }
  std::unique_ptr<TemplateJob> job(new TemplateJob());
  job->store_ = std::move(store);
  FORETRACE_ASSIGN_OR_RETURN(job->job_, Compile(*job->store_, {}));
  if (job->job_.symbolic) {
    return InvalidInput("{}: the template must be a recorded trace; this one has no times", source);
  }
  job->ranks_.resize(job->store_->ranks().size());
  for (uint32_t r = 0; r < job->ranks_.size(); ++r) {
    job->FindLookups(r);
    if (job->ranks_[r].empty()) {
      return InvalidInput(
          "{}: no embedding lookups that a plan could replace; calls are known by "
          "names such as fbgemm::split_embedding_codegen_lookup or aten::embedding_bag",
          job->store_->ranks()[r].info().source);
    }
  }
  job->FindRendezvous();
  if (job->rendezvous_.empty()) {
    return InvalidInput(
        "{}: no iteration has an all-to-all after its lookups and one before their "
        "backward pass, so that a plan's exchange has no place in it",
        source);
  }
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, job->Run());
  job->ChooseIteration(schedule);
  return job;
}

void TemplateJob::FindLookups(uint32_t r) {
  const RankTrace& rank = store_->ranks()[r];
  const RankProgram& program = job_.program.ranks[r];
  std::vector<std::pair<uint32_t, LookupKind>> found;
  bool sharded = false;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const Item& item = program.items[i];
    if (item.kind != ItemKind::kDevice) continue;
    const LookupKind kind = KindOfKernel(*store_, rank, item.node);
    if (kind == LookupKind::kNone) continue;
    found.emplace_back(i, kind);
    sharded |= kind == LookupKind::kForward;
  }
  for (auto [i, kind] : found) {
    const bool copied = kind == LookupKind::kCopyForward || kind == LookupKind::kCopyBackward;
    if (copied && sharded) continue;
    const Item& item = program.items[i];
    const int64_t number = IterationOf(rank, item.node);
    if (number < 0) continue;
    RankIteration& iteration = ranks_[r][number];
    const bool backward = kind == LookupKind::kBackward || kind == LookupKind::kCopyBackward;
    (backward ? iteration.backward : iteration.forward).Add(i, item.duration);
    SimTime& begin = backward ? iteration.backward_begin : iteration.forward_begin;
    begin = std::min(begin, rank.start(item.node));
  }
}

// By the first member, whose iteration and lookups say what a transfer is for.
void TemplateJob::FindRendezvous() {
  struct Candidate {
    SimTime start;
    uint32_t rendezvous = 0;
  };
  struct Exchanges {
    std::vector<Candidate> before, between;
  };
  std::map<int64_t, Exchanges> by_iteration;
  for (uint32_t m = 0; m < job_.program.rendezvous.size(); ++m) {
    const RendezvousProgram& rendezvous = job_.program.rendezvous[m];
    if (!rendezvous.fixed || rendezvous.members.empty()) continue;
    const auto& member = rendezvous.members.front();
    const RankTrace& rank = store_->ranks()[member.rank];
    const NodeIndex node = job_.program.ranks[member.rank].items[member.item].node;
    if (rank.kind(node) != NodeKind::kCollective ||
        rank.collective_op(node) != CollectiveOp::kAllToAll) {
      continue;
    }
    const int64_t number = IterationOf(rank, node);
    const auto iteration = ranks_[member.rank].find(number);
    if (iteration == ranks_[member.rank].end()) continue;
    Exchanges& exchanges = by_iteration[number];
    const SimTime start = rank.start(node);
    if (start < iteration->second.forward_begin) {
      exchanges.before.push_back({start, m});
    } else if (start < iteration->second.backward_begin) {
      exchanges.between.push_back({start, m});
    }
  }
  const auto add = [&](const Candidate& candidate, CommStep step) {
    ReplacedRendezvous replaced{candidate.rendezvous, step, {}};
    for (const auto& member : job_.program.rendezvous[candidate.rendezvous].members) {
      replaced.recorded.push_back(job_.program.ranks[member.rank].items[member.item].duration);
    }
    rendezvous_.push_back(std::move(replaced));
  };
  for (auto& [number, exchanges] : by_iteration) {
    const auto earlier = [](const Candidate& a, const Candidate& b) { return a.start < b.start; };
    std::sort(exchanges.before.begin(), exchanges.before.end(), earlier);
    std::sort(exchanges.between.begin(), exchanges.between.end(), earlier);
    const bool whole = std::all_of(ranks_.begin(), ranks_.end(), [&, n = number](const auto& rank) {
      const auto it = rank.find(n);
      return it != rank.end() && !it->second.forward.items.empty() &&
             !it->second.backward.items.empty();
    });
    if (exchanges.between.size() < 2 || !whole) {
      for (auto& rank : ranks_) rank.erase(number);  // stays as recorded
      continue;
    }
    add(exchanges.between.front(), CommStep::kPooled);
    add(exchanges.between.back(), CommStep::kPooledGradient);
    const size_t before = exchanges.before.size();
    if (before > 0) add(exchanges.before[before - 1], CommStep::kIndices);
    if (before > 1) add(exchanges.before[before - 2], CommStep::kLengths);
  }
}

void TemplateJob::ChooseIteration(const Schedule& schedule) {
  std::vector<std::pair<SimTime, int64_t>> times;
  for (const auto& [number, iteration] : ranks_.front()) {
    iteration_ = number;
    times.emplace_back(IterationTime(schedule), number);
  }
  std::sort(times.begin(), times.end());
  iteration_ = times[(times.size() - 1) / 2].second;
  for (uint32_t r = 0; r < ranks_.size(); ++r) recorded_backlog_.push_back(Backlog(schedule, r));
}

void TemplateJob::Set(uint32_t rank, const Replaced& replaced, SimTime total,
                      EstimateSource source) {
  for (size_t i = 0; i < replaced.items.size(); ++i) {
    const double share = replaced.total > SimTime()
                             ? static_cast<double>(replaced.recorded[i].ps()) /
                                   static_cast<double>(replaced.total.ps())
                             : 1.0 / static_cast<double>(replaced.items.size());
    SetDuration(job_.program, rank, replaced.items[i], {total.ScaledBy(share), source});
  }
}

void TemplateJob::SetWork(const PlanWork& work, EstimateSource lookups) {
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    for (const auto& [number, iteration] : ranks_[r]) {
      Set(r, iteration.forward, work.ranks[r].lookups.forward, lookups);
      Set(r, iteration.backward, work.ranks[r].lookups.backward, lookups);
    }
  }
  for (const ReplacedRendezvous& m : rendezvous_) {
    const std::vector<Estimate>& times = work.comm[static_cast<size_t>(m.step)];
    // A plan of the task that exchanges no indices leaves that of the capture as it was.
    for (size_t i = 0; i < m.recorded.size(); ++i) {
      const auto& [rank, item] = job_.program.rendezvous[m.rendezvous].members[i];
      SetDuration(job_.program, rank, item,
                  times.empty() ? Recorded(m.recorded[i]) : times.front());
    }
  }
}

void TemplateJob::SetRecorded() {
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    for (const auto& [number, iteration] : ranks_[r]) {
      for (const Replaced* replaced : {&iteration.forward, &iteration.backward}) {
        for (size_t i = 0; i < replaced->items.size(); ++i) {
          SetDuration(job_.program, r, replaced->items[i], Recorded(replaced->recorded[i]));
        }
      }
    }
  }
  for (const ReplacedRendezvous& m : rendezvous_) {
    for (size_t i = 0; i < m.recorded.size(); ++i) {
      const auto& [rank, item] = job_.program.rendezvous[m.rendezvous].members[i];
      SetDuration(job_.program, rank, item, Recorded(m.recorded[i]));
    }
  }
}

absl::StatusOr<Schedule> TemplateJob::Run() const {
  return Execute(*store_, job_.program, nullptr);
}

std::pair<SimTime, SimTime> TemplateJob::Window(const Schedule& schedule, uint32_t rank) const {
  const RankProgram& program = job_.program.ranks[rank];
  for (const IterationItems& it : program.iterations) {
    if (it.number != iteration_ || it.begin_item == kNoItem || it.end_item == kNoItem) continue;
    return {schedule.ranks[rank].start[it.begin_item], schedule.ranks[rank].start[it.end_item]};
  }
  SimTime end = program.start;
  for (const SimTime t : schedule.ranks[rank].end) end = std::max(end, t);
  return {program.start, end};
}

SimTime TemplateJob::Backlog(const Schedule& schedule, uint32_t rank) const {
  const RankProgram& program = job_.program.ranks[rank];
  const RankSchedule& times = schedule.ranks[rank];
  const auto [from, to] = Window(schedule, rank);
  SimTime done = to;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const uint32_t issuer = program.items[i].issuer;
    if (issuer == kNoItem || times.start[issuer] < from || times.start[issuer] >= to) continue;
    done = std::max(done, times.end[i]);
  }
  return done - to;
}

SimTime TemplateJob::IterationTime(const Schedule& schedule) const {
  SimTime longest;
  for (uint32_t r = 0; r < job_.program.ranks.size(); ++r) {
    const auto [begin, end] = Window(schedule, r);
    SimTime time = end - begin;
    if (!recorded_backlog_.empty()) {
      time += std::max(SimTime(), Backlog(schedule, r) - recorded_backlog_[r]);
    }
    longest = std::max(longest, time);
  }
  return longest;
}

std::string TemplateJob::Describe() const {
  size_t kernels = 0;
  for (const auto& rank : ranks_) {
    for (const auto& [number, iteration] : rank) {
      kernels += iteration.forward.items.size() + iteration.backward.items.size();
    }
  }
  return fmt::format(
      "{} lookup kernels of {} ranks and {} all-to-alls are the plan's, in {} of {} "
      "iterations; everything else as recorded; times are of iteration {}",
      kernels, ranks_.size(), rendezvous_.size(), ranks_.front().size(),
      std::max<size_t>(store_->ranks().front().iterations().size(), 1), iteration_);
}

}  // namespace foretrace
