#include <algorithm>
#include <map>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/comm_edits.h"
#include "simulator/engine/compile_rank.h"
#include "simulator/engine/gradient_buckets.h"
#include "simulator/engine/reorder.h"
#include "simulator/engine/restructure.h"

namespace foretrace {
namespace {

class Merger {
 public:
  Merger(const TraceStore& store, const CompiledJob& job, Bytes bytes, NetworkModel* network,
         Program& program)
      : store_(store), bytes_(bytes), program_(program), gradients_(store, job, network) {
    FORETRACE_CHECK(bytes > Bytes());
    removed_.ranks.resize(program.ranks.size());
    instead_.resize(program.ranks.size());
  }

  absl::StatusOr<size_t> Run(const ItemSet& items) {
    FORETRACE_ASSIGN_OR_RETURN(buckets_, gradients_.Collect(items, program_));
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
  absl::Status Merge(size_t begin, size_t end, Bytes held) {
    const Bucket& last = buckets_[end - 1];
    RendezvousProgram& merged = program_.rendezvous[last.rendezvous];
    std::map<uint32_t, uint32_t> item_of;  // by rank
    for (const auto& m : merged.members) item_of[m.rank] = m.item;
    for (size_t b = begin; b + 1 < end; ++b) {
      for (const auto& m : program_.rendezvous[buckets_[b].rendezvous].members) {
        const auto item = item_of.find(m.rank);
        if (item == item_of.end()) return ChosenInPart(gradients_.NameOf(last));
        removed_.ranks[m.rank].push_back(m.item);
        instead_[m.rank][m.item] = item->second;
      }
    }
    if (!merged.fixed) {
      merged.transfer.bytes = held;
      return absl::OkStatus();
    }
    FORETRACE_ASSIGN_OR_RETURN(const TimeRatio ratio, gradients_.Ratio(last, held));
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
  const Bytes bytes_;
  Program& program_;
  GradientBuckets gradients_;
  std::vector<Bucket> buckets_;
  ItemSet removed_;
  std::vector<std::map<uint32_t, uint32_t>> instead_;  // by rank: item -> the merged one
};

}  // namespace

absl::StatusOr<size_t> MergeBuckets(const TraceStore& store, const CompiledJob& job,
                                    const ItemSet& items, Bytes bytes, NetworkModel* network,
                                    Program& program) {
  return Merger(store, job, bytes, network, program).Run(items);
}

}  // namespace foretrace
