#include "simulator/reconstruct/sync_rules.h"

#include <algorithm>
#include <utility>

#include "simulator/reconstruct/call_rules.h"
#include "simulator/reconstruct/in_flight_waits.h"

namespace foretrace {
namespace {

// What one round decides explains what other waits seemed to hold up, or no longer does: those are
// judged again.
constexpr int kMostRounds = 4;

class Inference {
 public:
  Inference(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order)
      : rank_(rank),
        index_(index),
        order_(order),
        rules_(ApplyCallRules(rank, index, order, earlier_)) {}

  RankSync Run() {
    DecideWaits();
    std::vector<UnnamedWait> waits = rules_.unnamed;
    waits.insert(waits.end(), rules_.before_recording.begin(), rules_.before_recording.end());
    std::ranges::sort(waits, {}, &UnnamedWait::call);
    if (AddInFlightWaits(rank_, index_, Held(waits), earlier_)) ApplyAgain();
    RankSync& sync = rules_.sync;
    sync.held = Held(waits);
    std::vector<ChosenEdge> chosen = rules_.chosen;
    chosen.insert(chosen.end(), earlier_.chosen.begin(), earlier_.chosen.end());
    sync.unshown = FindUnshownWaits(rank_, index_, order_, rules_.unnamed, chosen,
                                    sync.device_edges, sync.block_edges);
    sync.after_unrecorded = FindAfterUnrecorded(rank_, sync.device_edges);
    sync.before_is_done = WorkOfBeforeIsDone(rank_);
    KeepUnrecordedWaits(rank_, rules_.before_recording, sync);
    return std::move(sync);
  }

 private:
  void ApplyAgain() { rules_ = ApplyCallRules(rank_, index_, order_, earlier_); }

  std::vector<HeldWait> Held(const std::vector<UnnamedWait>& waits) const {
    return FindHeldWaits(rank_, index_, order_, waits, rules_.sync.device_edges,
                         rules_.sync.block_edges);
  }

  bool Decide(Deciding deciding) {
    const EarlierEvents found =
        FindEarlierEvents(rank_, index_, order_, rules_.unnamed, rules_.sync.device_edges,
                          rules_.sync.block_edges, deciding);
    if (found.decided.empty()) return false;
    earlier_.Add(found);
    ApplyAgain();
    return true;
  }

  // Waits that held something up before those that did not: what these mean depends on what is left
  // to explain.
  void DecideWaits() {
    if (Held(rules_.unnamed).empty()) {
      Decide(Deciding::kAll);
      return;
    }
    for (int round = 0; round < kMostRounds && Decide(Deciding::kHeld); ++round) {
      if (Held(rules_.unnamed).empty()) break;
    }
    if (Decide(Deciding::kAll) && !Held(rules_.unnamed).empty()) Decide(Deciding::kHeld);
  }

  const RankTrace& rank_;
  const DeviceIndex& index_;
  const IssueOrder& order_;
  EarlierEvents earlier_;
  CallRules rules_;
};

}  // namespace

RankSync InferSync(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order) {
  return Inference(rank, index, order).Run();
}

RankSync RankSync::Summary() const {
  RankSync summary;
  std::ranges::copy(rules, summary.rules);
  summary.unresolved_waits = unresolved_waits;
  summary.held = held;
  summary.after_unrecorded = after_unrecorded;
  summary.before_is_done = before_is_done;
  summary.unshown.calls = unshown.calls;
  summary.unshown.ambiguous = unshown.ambiguous;
  return summary;
}

}  // namespace foretrace
