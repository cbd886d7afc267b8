#include "simulator/engine/deadlock.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "simulator/base/error.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr int kListed = 4;
constexpr char kDeadlock[] = "foretrace/deadlock";  // payload by which a status is known

std::string NodeText(const TraceStore& store, uint32_t rank, NodeIndex node) {
  const RankTrace& trace = store.ranks()[rank];
  return fmt::format("rank {} node {} ({})", trace.info().rank, trace.source_id(node),
                     Excerpt(store.name(trace, node), 60));
}

bool Awaits(const RendezvousProgram& rendezvous, uint32_t rank, uint32_t item,
            const RendezvousProgram::Member& source) {
  if (rendezvous.awaiting != Awaiting::kListed) return rendezvous.awaiting == Awaiting::kAll;
  return std::ranges::any_of(rendezvous.awaits, [&](const RendezvousProgram::Await& await) {
    const RendezvousProgram::Member& member = rendezvous.members[await.member];
    return member.rank == rank && member.item == item &&
           &rendezvous.members[await.source] == &source;
  });
}

std::string WhatItWaitsFor(const TraceStore& store, const Program& program,
                           const Schedule& schedule, const RendezvousTracker& tracker, uint32_t r,
                           uint32_t index) {
  const RankProgram& rank = program.ranks[r];
  const Item& item = rank.items[index];
  if (item.kind == ItemKind::kComm && schedule.ranks[r].start[index] != kNotYet) {
    const RendezvousProgram& rendezvous = program.rendezvous[item.rendezvous];
    for (const auto& member : rendezvous.members) {
      if (!Awaits(rendezvous, r, index, member)) continue;
      if (schedule.ranks[member.rank].start[member.item] == kNotYet) {
        const RankTrace& other = store.ranks()[member.rank];
        return fmt::format("{} of {} members arrived; rank {} has not reached its node {}",
                           tracker.arrived(item.rendezvous), rendezvous.members.size(),
                           other.info().rank,
                           other.source_id(program.ranks[member.rank].items[member.item].node));
      }
    }
    return "the network";
  }
  if (item.issuer != kNoItem && schedule.ranks[r].start[item.issuer] == kNotYet) {
    return "its launch, " + NodeText(store, r, rank.items[item.issuer].node);
  }
  for (uint32_t w = item.waits_begin; w < rank.waits_end(index); ++w) {
    const ItemWait& wait = rank.waits[w];
    const SimTime at =
        wait.on_start ? schedule.ranks[r].start[wait.item] : schedule.ranks[r].end[wait.item];
    if (at == kNotYet) return NodeText(store, r, rank.items[wait.item].node);
  }
  return "the item before it";
}

}  // namespace

absl::Status DeadlockError(const TraceStore& store, const Program& program,
                           const Schedule& schedule, const RendezvousTracker& tracker) {
  std::string text;
  int listed = 0;
  int blocked = 0;
  uint32_t first = 0;  // rank that cannot go on
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    bool rank_listed = false;
    for (const LaneProgram& lane : rank.lanes) {
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        if (schedule.ranks[r].end[i] != kNotYet) continue;
        if (blocked++ == 0) first = r;
        if (!rank_listed && listed < kListed && rank.items[i].kind == ItemKind::kComm) {
          text += fmt::format("; {} waits for {}", NodeText(store, r, rank.items[i].node),
                              WhatItWaitsFor(store, program, schedule, tracker, r, i));
          rank_listed = true;
          ++listed;
        }
        if (!lane.ready_order && !lane.unlimited) break;
      }
    }
    for (const LaneProgram& lane : rank.lanes) {
      if (rank_listed || listed >= kListed) break;
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        if (schedule.ranks[r].end[i] != kNotYet) continue;
        text += fmt::format("; {} waits for {}", NodeText(store, r, rank.items[i].node),
                            WhatItWaitsFor(store, program, schedule, tracker, r, i));
        rank_listed = true;
        ++listed;
        break;
      }
    }
  }
  const std::string& source = store.ranks()[first].info().source;
  absl::Status status = InvalidInput("{}{}deadlock: {} lanes cannot go on{}", source,
                                     source.empty() ? "" : ": ", blocked, text);
  status.SetPayload(kDeadlock, absl::Cord());
  return status;
}

bool IsDeadlock(const absl::Status& status) { return status.GetPayload(kDeadlock).has_value(); }

}  // namespace foretrace
