#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/comm_edits.h"
#include "simulator/engine/gradient_buckets.h"
#include "simulator/engine/reorder.h"

namespace foretrace {
namespace {

constexpr int64_t kMostPieces = 4096;  // of one bucket
constexpr int kMaxDepth = 64;          // of calls, more than which only hostile input nests

// A bucket of a rank, and after which calls its first pieces, all but the last, are issued.
struct Cuts {
  uint32_t item = 0;
  std::vector<uint32_t> after;
  std::vector<uint32_t> pieces;  // their items
};

// Splits the buckets of one rank.
class RankSplitter {
 public:
  RankSplitter(const TraceStore& store, uint32_t r, RankProgram& rank)
      : store_(store), trace_(store.ranks()[r]), rank_(rank) {
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      if (rank.items[i].kind != ItemKind::kDevice || rank.items[i].issuer == kNoItem) continue;
      computing_.emplace_back(rank.items[i].issuer, i);
    }
    std::sort(computing_.begin(), computing_.end());
  }

  // `before`: the bucket before in the step; kNoItem: this is the first.
  Cuts Cut(uint32_t item, uint32_t before, int64_t step, int64_t pieces) const {
    const uint32_t launch = rank_.items[item].issuer;
    std::vector<std::pair<uint32_t, uint32_t>> computed =
        Between(Begin(launch, before, step), launch);
    const auto forward = [this](const auto& c) { return !IsBackward(c.first); };
    if (!std::all_of(computed.begin(), computed.end(), forward)) std::erase_if(computed, forward);
    SimTime all, done;
    for (const auto& [issuer, device] : computed) all += rank_.items[device].duration;
    Cuts cuts{item, {}, {}};
    for (const auto& [issuer, device] : computed) {
      done += rank_.items[device].duration;
      while (std::ssize(cuts.after) + 1 < pieces &&
             done >= all.ScaledBy(static_cast<double>(cuts.after.size() + 1) /
                                  static_cast<double>(pieces))) {
        cuts.after.push_back(issuer);
      }
    }
    cuts.after.resize(static_cast<size_t>(pieces) - 1, launch);
    return cuts;
  }

  // Adds the pieces; `rendezvous` is the next that is free, the pieces of one bucket in order.
  void Add(Cuts& cuts, uint32_t rendezvous) {
    const uint32_t launch = rank_.items[cuts.item].issuer;
    for (const uint32_t after : cuts.after) {
      Item piece = rank_.items[cuts.item];
      Item& call = rank_.items[after];
      piece.issuer = after;
      if (after != launch) piece.issue_lag += call.duration;
      call.duration += rank_.items[launch].duration;
      piece.rendezvous = rendezvous++;
      cuts.pieces.push_back(static_cast<uint32_t>(rank_.items.size()));
      rank_.items.push_back(piece);
      pieces_[Place(cuts.item, after)].push_back(cuts.pieces.back());
      AddWaits(cuts.item, after, cuts.pieces.back());
    }
  }

  // Where each item is afterwards.
  std::vector<uint32_t> Run() {
    std::vector<std::vector<uint32_t>> lanes(rank_.lanes.size());
    const auto earlier = [this](uint32_t a, uint32_t b) {
      return rank_.items[a].issuer < rank_.items[b].issuer;
    };
    for (auto& [place, pieces] : pieces_) std::ranges::stable_sort(pieces, earlier);
    for (size_t l = 0; l < lanes.size(); ++l) {
      for (uint32_t i = rank_.lanes[l].begin; i < rank_.lanes[l].end; ++i) {
        if (const auto found = pieces_.find(i); found != pieces_.end()) {
          lanes[l].insert(lanes[l].end(), found->second.begin(), found->second.end());
        }
        lanes[l].push_back(i);
      }
    }
    std::vector<uint32_t> places = Rearrange(rank_, lanes);
    for (auto& [item, wait] : waits_) {
      item = places[item];
      wait.item = places[wait.item];
    }
    SetWaitsAndQueue(rank_, std::move(waits_));
    return places;
  }

  void TakeWaits() { waits_ = WaitsOf(rank_); }

 private:
  // The call after which gradients of a bucket can get ready.
  uint32_t Begin(uint32_t launch, uint32_t before, int64_t step) const {
    const LaneProgram& lane = rank_.lanes[rank_.items[launch].lane];
    uint32_t begin = lane.begin;
    for (const IterationItems& it : rank_.iterations) {
      const bool here = it.number == step && it.begin_item >= lane.begin && it.begin_item < launch;
      if (here) begin = it.begin_item;
    }
    if (before == kNoItem) return begin;
    const uint32_t other = rank_.items[before].issuer;
    return other != kNoItem && other < launch ? std::max(begin, other) : begin;
  }

  // Device work issued after one call and no later than another.
  std::vector<std::pair<uint32_t, uint32_t>> Between(uint32_t after, uint32_t until) const {
    const auto from =
        std::upper_bound(computing_.begin(), computing_.end(), std::pair(after, kNoItem));
    const auto to = std::upper_bound(from, computing_.end(), std::pair(until, kNoItem));
    return {from, to};
  }

  bool IsBackward(uint32_t call) const {
    NodeIndex op = trace_.parent(rank_.items[call].node);
    for (int depth = 0; op.valid() && depth < kMaxDepth; ++depth, op = trace_.parent(op)) {
      if (store_.roles().of_op(trace_.kind(op), trace_.name(op)).backward) return true;
    }
    return false;
  }

  // The item of the bucket's stream that a piece issued after a call stands before.
  uint32_t Place(uint32_t item, uint32_t after) const {
    const LaneProgram& lane = rank_.lanes[rank_.items[item].lane];
    while (item > lane.begin) {
      const uint32_t issuer = rank_.items[item - 1].issuer;
      if (issuer == kNoItem || rank_.items[issuer].lane != rank_.items[after].lane ||
          issuer <= after) {
        break;
      }
      --item;
    }
    return item;
  }

  // Waits of the bucket for what was issued too late for the piece are for what came before it on
  // its lane.
  void AddWaits(uint32_t bucket, uint32_t after, uint32_t piece) {
    const NodeIndex issued = rank_.items[after].node;
    for (uint32_t w = rank_.items[bucket].waits_begin; w < waits_end(bucket); ++w) {
      ItemWait wait = rank_.waits[w];
      if (wait.on_start || wait.cause == WaitCause::kLaunchQueue) continue;
      const uint32_t begin = rank_.lanes[rank_.items[wait.item].lane].begin;
      const auto late = [&](uint32_t i) {
        const uint32_t issuer = rank_.items[i].issuer;
        return issuer != kNoItem && issued < rank_.items[issuer].node;
      };
      while (wait.item > begin && late(wait.item)) --wait.item;
      if (!late(wait.item)) waits_.emplace_back(piece, wait);
    }
  }

  // RankProgram's, while pieces lie behind its items.
  uint32_t waits_end(uint32_t item) const {
    return item + 1 < recorded_ ? rank_.items[item + 1].waits_begin
                                : static_cast<uint32_t>(rank_.waits.size());
  }

  const TraceStore& store_;
  const RankTrace& trace_;
  RankProgram& rank_;
  const size_t recorded_ = rank_.items.size();
  std::vector<std::pair<uint32_t, uint32_t>> computing_;  // call, device work
  std::map<uint32_t, std::vector<uint32_t>> pieces_;      // by the item that they stand before
  std::vector<WaitOfItem> waits_;
};

// Every member on a rank of its own, with a launch of its own.
bool CanBeSplit(const Program& program, const RendezvousProgram& rendezvous) {
  std::set<uint32_t> ranks;
  return std::ranges::all_of(rendezvous.members, [&](const auto& m) {
    return ranks.insert(m.rank).second && program.ranks[m.rank].items[m.item].issuer != kNoItem;
  });
}

struct BucketSplit {
  const Bucket* bucket;
  int64_t pieces;
  std::vector<std::pair<uint32_t, Cuts>> ranks;
};

// Which buckets are cut, and where on each rank.
absl::StatusOr<std::vector<BucketSplit>> CutBuckets(const std::vector<Bucket>& buckets, Bytes bytes,
                                                    const GradientBuckets& gradients,
                                                    const Program& program,
                                                    std::vector<RankSplitter>& splitters) {
  std::vector<BucketSplit> splits;
  std::map<uint32_t, uint32_t> before;  // by rank: the item of the bucket before
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (b > 0 && !buckets[b].Belongs(buckets[b - 1])) before.clear();
    const RendezvousProgram& rendezvous = program.rendezvous[buckets[b].rendezvous];
    const int64_t pieces = buckets[b].spec.bytes.count() / bytes.count();
    if (pieces > kMostPieces) {
      return InvalidInput("a collective of communicator {} would become {} (at most {})",
                          gradients.NameOf(buckets[b]), pieces, kMostPieces);
    }
    if (pieces > 1 && CanBeSplit(program, rendezvous)) {
      splits.push_back({&buckets[b], pieces, {}});
      for (const auto& [r, item] : rendezvous.members) {
        const auto last = before.find(r);
        splits.back().ranks.emplace_back(
            r, splitters[r].Cut(item, last == before.end() ? kNoItem : last->second,
                                buckets[b].step, pieces));
      }
    }
    for (const auto& [r, item] : rendezvous.members) before[r] = item;
  }
  return splits;
}

}  // namespace

absl::StatusOr<size_t> SplitBuckets(const TraceStore& store, CompiledJob& job, const ItemSet& items,
                                    Bytes bytes, NetworkModel* network, Program& program) {
  FORETRACE_CHECK(bytes > Bytes() &&
                  program.rendezvous.size() == job.communicators.rendezvous.size());
  GradientBuckets gradients(store, job, network);
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<Bucket> buckets, gradients.Collect(items, program));
  std::vector<RankSplitter> splitters;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    splitters.emplace_back(store, r, program.ranks[r]);
    splitters.back().TakeWaits();
  }
  FORETRACE_ASSIGN_OR_RETURN(std::vector<BucketSplit> splits,
                             CutBuckets(buckets, bytes, gradients, program, splitters));
  size_t more = 0;
  for (BucketSplit& split : splits) {
    const uint32_t index = split.bucket->rendezvous;
    const Bytes held(split.bucket->spec.bytes.count() / split.pieces);
    if (program.rendezvous[index].fixed) {
      FORETRACE_ASSIGN_OR_RETURN(const TimeRatio ratio, gradients.Ratio(*split.bucket, held));
      ScaleMembers(program, program.rendezvous[index], ratio);
    } else {
      program.rendezvous[index].transfer.bytes = held;
    }
    job.communicators.rendezvous[index].pieces *= split.pieces;
    const auto first = static_cast<uint32_t>(program.rendezvous.size());
    for (auto& [r, cuts] : split.ranks) splitters[r].Add(cuts, first);
    for (int64_t p = 0; p + 1 < split.pieces; ++p, ++more) {
      RendezvousProgram piece = program.rendezvous[index];
      for (size_t m = 0; m < piece.members.size(); ++m) {
        piece.members[m].item = split.ranks[m].second.pieces[static_cast<size_t>(p)];
      }
      program.rendezvous.push_back(std::move(piece));
      job.communicators.rendezvous.push_back(
          MatchedRendezvous(job.communicators.rendezvous[index]));
    }
  }
  std::vector<std::vector<uint32_t>> places;
  for (RankSplitter& splitter : splitters) places.push_back(splitter.Run());
  FollowItems(program, places);
  return more;
}

}  // namespace foretrace
