#include "simulator/engine/comm_edits.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/engine/grow_groups.h"
#include "simulator/engine/reorder.h"
#include "simulator/engine/restructure.h"

namespace foretrace {
namespace {

// Collectives among `items`, by rendezvous: how many of their members are chosen.
std::map<uint32_t, size_t> ChosenCollectives(const ItemSet& items, const Program& program) {
  std::map<uint32_t, size_t> chosen;
  for (uint32_t r = 0; r < items.ranks.size(); ++r) {
    for (const uint32_t i : items.ranks[r]) {
      const Item& item = program.ranks[r].items[i];
      if (item.kind == ItemKind::kComm) ++chosen[item.rendezvous];
    }
  }
  return chosen;
}

absl::StatusOr<TransferSpec> Transfer(const TraceStore& store, const CompiledJob& job,
                                      uint32_t rendezvous) {
  const MatchedRendezvous& matched = job.communicators.rendezvous[rendezvous];
  return TransferOf(store, job.communicators.communicators[matched.communicator], matched);
}

absl::Status ChosenInPart(std::string_view communicator) {
  return InvalidInput("all ranks of communicator {} change together: leave out rank=",
                      communicator);
}

// Collectives that leave or need as much on each member, however many there are.
bool KeepsItsBytes(const TransferSpec& spec) {
  switch (spec.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kBarrier:
      return !spec.point_to_point;
    default:
      return false;
  }
}

void ScaleMembers(Program& program, const RendezvousProgram& rendezvous, double ratio) {
  for (const auto& m : rendezvous.members) {
    Item& item = program.ranks[m.rank].items[m.item];
    item.duration = DurationChange{ratio, SimTime()}.Of(item.duration);
  }
}

// Time over bytes, as recorded of a communicator's collectives of one operation.
class RecordedTimes {
 public:
  void Add(Bytes bytes, SimTime time) {
    const auto x = static_cast<double>(bytes.count());
    ++n_, x_ += x, y_ += time.us(), xx_ += x * x, xy_ += x * time.us();
    least_ = std::min(least_, bytes);
    most_ = std::max(most_, bytes);
  }
  bool one_size() const { return least_ == most_; }
  // How much longer `to` takes than `from`: on the line of least squares; in proportion where that
  // would begin below zero.
  double Ratio(Bytes from, Bytes to) const {
    const double slope = (n_ * xy_ - x_ * y_) / (n_ * xx_ - x_ * x_);
    const double begin = (y_ - slope * x_) / n_;
    if (slope < 0) return 1;  // of no matter next to what each takes
    const double fixed = begin > 0 ? begin / slope : 0;
    return (fixed + static_cast<double>(to.count())) / (fixed + static_cast<double>(from.count()));
  }

 private:
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
  Bytes least_ = Bytes(INT64_MAX), most_;
};

class Merger {
 public:
  Merger(const TraceStore& store, const CompiledJob& job, Bytes bytes, NetworkModel* network,
         Program& program)
      : store_(store), job_(job), bytes_(bytes), network_(network), program_(program) {
    FORETRACE_CHECK(bytes > Bytes());
    removed_.ranks.resize(program.ranks.size());
    instead_.resize(program.ranks.size());
  }

  absl::StatusOr<size_t> Run(const ItemSet& items) {
    FORETRACE_RETURN_IF_ERROR(Collect(items));
    size_t gone = 0;
    for (size_t begin = 0; begin < buckets_.size();) {
      size_t end = begin;
      Bytes held;
      while (end < buckets_.size() && buckets_[end].Belongs(buckets_[begin]) && held < bytes_) {
        held += buckets_[end++].spec.bytes;
      }
      if (end - begin > 1) FORETRACE_RETURN_IF_ERROR(Merge(begin, end, held));
      gone += end - begin - 1;
      begin = end;
    }
    for (uint32_t r = 0; r < program_.ranks.size(); ++r) {
      if (!instead_[r].empty()) FORETRACE_RETURN_IF_ERROR(Redirect(r));
      std::sort(removed_.ranks[r].begin(), removed_.ranks[r].end());
    }
    RemoveDeviceWork(program_, removed_);
    return gone;
  }

 private:
  struct Bucket {
    uint32_t communicator = 0;
    int64_t step = 0;
    NodeIndex node;  // of its first member
    uint32_t rendezvous = 0;
    TransferSpec spec;

    bool Belongs(const Bucket& other) const {
      return communicator == other.communicator && step == other.step && spec.op == other.spec.op;
    }
  };

  std::string_view NameOf(const Bucket& bucket) const {
    return job_.communicators.communicators[bucket.communicator].name;
  }

  absl::Status Collect(const ItemSet& items) {
    for (const auto& [index, chosen] : ChosenCollectives(items, program_)) {
      const RendezvousProgram& rendezvous = program_.rendezvous[index];
      const uint32_t communicator = job_.communicators.rendezvous[index].communicator;
      const auto& first = rendezvous.members.front();
      const RankTrace& rank = store_.ranks()[first.rank];
      const NodeIndex node = program_.ranks[first.rank].items[first.item].node;
      Bucket bucket{communicator, rank.iteration_at(rank.start(node)), node, index, {}};
      FORETRACE_ASSIGN_OR_RETURN(bucket.spec, Transfer(store_, job_, index));
      if (bucket.spec.op != CollectiveOp::kAllReduce &&
          bucket.spec.op != CollectiveOp::kReduceScatter) {
        continue;
      }
      if (chosen < rendezvous.members.size()) return ChosenInPart(NameOf(bucket));
      RecordedTimes& times = times_[{communicator, bucket.spec.op}];
      for (const auto& m : rendezvous.members) {
        times.Add(bucket.spec.bytes, program_.ranks[m.rank].items[m.item].duration);
      }
      buckets_.push_back(std::move(bucket));
    }
    std::sort(buckets_.begin(), buckets_.end(), [](const Bucket& a, const Bucket& b) {
      return std::tuple(a.communicator, a.node) < std::tuple(b.communicator, b.node);
    });
    return absl::OkStatus();
  }

  absl::StatusOr<double> Ratio(const Bucket& last, Bytes held) {
    if (network_ == nullptr) {
      const RecordedTimes& times = times_[{last.communicator, last.spec.op}];
      if (!times.one_size()) return times.Ratio(last.spec.bytes, held);
      return InvalidInput(
          "all collectives of communicator {} have {} bytes, which does not say how long larger "
          "ones take; name a --platform whose network does",
          NameOf(last), last.spec.bytes.count());
    }
    TransferSpec merged = last.spec;
    merged.bytes = held;
    FORETRACE_ASSIGN_OR_RETURN(const Estimate from, network_->IsolatedDuration(last.spec));
    FORETRACE_ASSIGN_OR_RETURN(const Estimate to, network_->IsolatedDuration(merged));
    return to.time.seconds() / std::max(from.time.seconds(), 1e-12);
  }

  absl::Status Merge(size_t begin, size_t end, Bytes held) {
    const Bucket& last = buckets_[end - 1];
    RendezvousProgram& merged = program_.rendezvous[last.rendezvous];
    std::map<uint32_t, uint32_t> item_of;  // by rank
    for (const auto& m : merged.members) item_of[m.rank] = m.item;
    for (size_t b = begin; b + 1 < end; ++b) {
      for (const auto& m : program_.rendezvous[buckets_[b].rendezvous].members) {
        const auto item = item_of.find(m.rank);
        if (item == item_of.end()) return ChosenInPart(NameOf(last));
        removed_.ranks[m.rank].push_back(m.item);
        instead_[m.rank][m.item] = item->second;
      }
    }
    if (!merged.fixed) {
      merged.transfer.bytes = held;
      return absl::OkStatus();
    }
    FORETRACE_ASSIGN_OR_RETURN(const double ratio, Ratio(last, held));
    ScaleMembers(program_, merged, ratio);
    return absl::OkStatus();
  }

  // When the CPU gets to an item, in the order of the recording.
  NodeIndex IssueOf(const RankProgram& rank, uint32_t item) const {
    const uint32_t issuer = rank.items[item].issuer;
    return rank.items[issuer == kNoItem ? item : issuer].node;
  }

  // What waited for a bucket waits for the one that it became part of.
  absl::Status Redirect(uint32_t r) {
    RankProgram& rank = program_.ranks[r];
    std::vector<WaitOfItem> waits = WaitsOf(rank);
    for (auto& [item, wait] : waits) {
      const auto found = instead_[r].find(wait.item);
      if (found == instead_[r].end() || instead_[r].contains(item) || item == found->second) {
        continue;
      }
      if (IssueOf(rank, item) < IssueOf(rank, found->second)) {
        const RankTrace& trace = store_.ranks()[r];
        return InvalidInput("{} waits for a bucket before the last that would join it is issued",
                            DescribeNode(store_, trace, rank.items[item].node));
      }
      wait.item = found->second;
    }
    SetWaitsAndQueue(rank, std::move(waits));
    return absl::OkStatus();
  }

  const TraceStore& store_;
  const CompiledJob& job_;
  const Bytes bytes_;
  NetworkModel* network_;
  Program& program_;
  std::vector<Bucket> buckets_;  // by communicator, in order
  std::map<std::pair<uint32_t, CollectiveOp>, RecordedTimes> times_;
  ItemSet removed_;
  std::vector<std::map<uint32_t, uint32_t>> instead_;  // by rank: item -> the merged one
};

}  // namespace

absl::StatusOr<size_t> ChangeGroupSize(const TraceStore& store, const CompiledJob& job,
                                       const ItemSet& items, int32_t size, NetworkModel& network,
                                       Program& program) {
  size_t changed = 0;
  GroupResizer resizer(store, job, network);
  for (const auto& [index, chosen] : ChosenCollectives(items, program)) {
    RendezvousProgram& rendezvous = program.rendezvous[index];
    const MatchedRendezvous& matched = job.communicators.rendezvous[index];
    const std::string& name = job.communicators.communicators[matched.communicator].name;
    FORETRACE_ASSIGN_OR_RETURN(const TransferSpec from, Transfer(store, job, index));
    if (!KeepsItsBytes(from)) {
      return InvalidInput(
          "what {} of communicator {} moves depends on how many ranks there are and on the model; "
          "select reductions, all-gathers and broadcasts (collective=all_reduce)",
          from.point_to_point ? "a send or receive" : Name(from.op), name);
    }
    if (chosen < rendezvous.members.size()) return ChosenInPart(name);
    ++changed;
    if (!rendezvous.fixed) {
      rendezvous.transfer.members = ResizedGroup(from.members, size);
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(const double ratio, resizer.Ratio(index, size));
    ScaleMembers(program, rendezvous, ratio);
  }
  return changed;
}

absl::StatusOr<size_t> MergeBuckets(const TraceStore& store, const CompiledJob& job,
                                    const ItemSet& items, Bytes bytes, NetworkModel* network,
                                    Program& program) {
  return Merger(store, job, bytes, network, program).Run(items);
}

}  // namespace foretrace
