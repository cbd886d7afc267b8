#include "simulator/trace/rank_trace.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "absl/status/statusor.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

template <typename T>
size_t HeapBytes(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

// Far more than any job has; groups of all ranks are listed.
constexpr int32_t kMostRanks = 1 << 20;

absl::Status CheckWorldSize(const RankInfo& info) {
  if (info.rank < kMostRanks && info.world_size <= kMostRanks) return absl::OkStatus();
  return InvalidInput("{}: names rank {} of a job of {}, which is more than {} ranks", info.source,
                      info.rank, info.world_size, kMostRanks);
}

}  // namespace

int64_t RankTrace::iteration_at(SimTime time) const {
  for (const IterationMark& mark : iterations_) {
    if (time >= start(mark.node) && time < end(mark.node)) return mark.number;
  }
  return -1;
}

size_t RankTrace::memory_bytes() const {
  return HeapBytes(kind_) + HeapBytes(detail_) + HeapBytes(lane_) + HeapBytes(name_) +
         HeapBytes(start_) + HeapBytes(duration_) + HeapBytes(parent_) + HeapBytes(launcher_) +
         HeapBytes(tensor_begin_) + HeapBytes(tensors_) + HeapBytes(dims_) + HeapBytes(splits_) +
         source_id_.bytes() + dependencies_.bytes() + comm_.bytes() + sync_.bytes() +
         work_.bytes() + waves_.bytes() + launches_.bytes();
}

absl::StatusOr<TraceStore> TraceStore::Assemble(
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks, Diagnostics diagnostics) {
  if (ranks.empty()) return absl::InvalidArgumentError("no traces to simulate");
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.first.info().rank < b.first.info().rank;
  });
  TraceStore store;
  store.strings_ = std::make_unique<StringPool>();
  store.diagnostics_ = std::move(diagnostics);
  std::optional<RankInfo> sized;
  for (auto& [trace, pool] : ranks) {
    if (!store.ranks_.empty() && store.ranks_.back().info().rank == trace.info().rank) {
      return InvalidInput("two traces for rank {}: {} and {}; remove one of them",
                          trace.info().rank, store.ranks_.back().info().source,
                          trace.info().source);
    }
    FORETRACE_RETURN_IF_ERROR(CheckWorldSize(trace.info()));
    // One rank alone may be all that its trace knows of.
    if (trace.info().world_size > 1) {
      if (sized && sized->world_size != trace.info().world_size) {
        return InvalidInput(
            "{}: a job of {} ranks, but {} is of one of {}; give the traces of one job",
            trace.info().source, trace.info().world_size, sized->source, sized->world_size);
      }
      sized = trace.info();
    }
    const std::vector<StringId> remap = store.strings_->InternAll(*pool);
    for (StringId& name : trace.name_) name = remap[name.value];
    for (CommAttr& attr : trace.comm_.values()) {
      if (attr.group.valid()) attr.group = remap[attr.group.value];
    }
    pool.reset();
    store.world_size_ =
        std::max({store.world_size_, trace.info().world_size, trace.info().rank + 1});
    store.ranks_.push_back(std::move(trace));
  }
  store.AlignClocks();
  store.roles_.Assign(store.ranks_, *store.strings_);
  for (const RankTrace& rank : store.ranks_) FORETRACE_RETURN_IF_ERROR(store.UniteGroups(rank));
  return store;
}

absl::Status TraceStore::UniteGroups(const RankTrace& rank) {
  for (const ProcessGroup& group : rank.process_groups()) {
    const std::span<const ProcessGroup> same = process_groups_.named(group.name);
    if (same.empty()) {
      process_groups_.Add(group);
      continue;
    }
    if (group.ranks.empty() || process_groups_.Find(group.name, group.ranks) != nullptr) continue;
    // Frameworks number groups per process: the same name may be another group elsewhere.
    const ProcessGroup& first = same.front();
    if (!first.ranks.empty() && first.Has(rank.info().rank)) {
      return InvalidInput(
          "{}: process group \"{}\" has ranks [{}] here but [{}] in another rank's trace; give "
          "the right ones with --process-groups FILE",
          rank.info().source, group.name, fmt::join(group.ranks, ","), fmt::join(first.ranks, ","));
    }
    process_groups_.Add(group);
  }
  return absl::OkStatus();
}

void TraceStore::AlignClocks() {
  // Earliest start of each rank on the recording clock, in whole nanoseconds (rounded down).
  std::optional<int64_t> job_start;
  std::optional<int64_t> last_start;
  std::vector<SimTime> first(ranks_.size(), SimTime::Max());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankTrace& rank = ranks_[i];
    if (!rank.info_.has_times || rank.size() == 0) continue;
    first[i] = *std::min_element(rank.start_.begin(), rank.start_.end());
    const int64_t ns = first[i].ps() / 1000 - (first[i].ps() % 1000 < 0 ? 1 : 0);
    const int64_t start = rank.info_.origin_ns + ns;
    job_start = std::min(job_start.value_or(start), start);
    last_start = std::max(last_start.value_or(start), start);
  }
  if (!job_start) return;
  const bool related = static_cast<__int128>(*last_start) - *job_start <= kMaxSkew.ps() / 1000;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    RankTrace& rank = ranks_[i];
    if (first[i] == SimTime::Max()) continue;
    SimTime shift = -first[i];
    if (related) {
      shift = SimTime::FromNs(rank.info_.origin_ns - *job_start);
      rank.info_.origin_ns = *job_start;
    } else if (i > 0) {
      diagnostics_.Add(
          Repair::kUnrelatedClocks,
          fmt::format("{}: its clock is over an hour from that of other ranks", rank.info_.source));
    }
    if (shift == SimTime()) continue;
    for (SimTime& start : rank.start_) start += shift;
  }
}

absl::Status TraceStore::SetProcessGroups(std::vector<ProcessGroup> groups) {
  for (const ProcessGroup& group : groups) {
    for (int32_t rank : group.ranks) {
      if (rank < 0 || rank >= world_size_) {
        return InvalidInput("process group \"{}\" names rank {}, but the job has {} ranks",
                            group.name, rank, world_size_);
      }
    }
  }
  for (const ProcessGroup& group : groups) process_groups_.RemoveLike(group);
  for (ProcessGroup& group : groups) process_groups_.Add(std::move(group));
  return absl::OkStatus();
}

uint64_t TraceStore::node_count() const {
  uint64_t count = 0;
  for (const RankTrace& rank : ranks_) count += rank.size();
  return count;
}

size_t TraceStore::memory_bytes() const {
  size_t bytes = strings_->bytes();
  for (const RankTrace& rank : ranks_) bytes += rank.memory_bytes();
  return bytes;
}

std::string Describe(const TraceStore& store, const RankTrace& rank, NodeIndex n) {
  return fmt::format("{}: rank {}, node {} ({})", rank.info().source, rank.info().rank,
                     rank.source_id(n), Excerpt(store.name(rank, n), 80));
}

}  // namespace foretrace
