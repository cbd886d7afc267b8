#include "simulator/engine/ingredients.h"

#include <utility>

namespace foretrace {
namespace {

// Waits for work from before the recording are on the start of the rank's first item.
bool IsOnWork(const ItemWait& wait) { return !wait.on_start; }

bool IsOfStreams(const RankProgram& rank, const WaitOfItem& wait) {
  return IsOnWork(wait.second) && wait.second.cause == WaitCause::kDependency &&
         !rank.lanes[rank.items[wait.first].lane].cpu;
}

bool IsOfBlockingCall(const RankProgram&, const WaitOfItem& wait) {
  return wait.second.cause == WaitCause::kCpuBlock;
}

void DropWaits(CompiledJob& job, bool (*dropped)(const RankProgram&, const WaitOfItem&)) {
  for (size_t r = 0; r < job.program.ranks.size(); ++r) {
    RankProgram& rank = job.program.ranks[r];
    std::vector<WaitOfItem> kept;
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      for (uint32_t w = rank.items[i].waits_begin; w < rank.waits_end(i); ++w) {
        if (!dropped(rank, {i, rank.waits[w]})) kept.emplace_back(i, rank.waits[w]);
      }
    }
    SetWaits(rank, std::move(kept));
    const auto gone = [&](const WaitOfItem& wait) { return dropped(rank, wait); };
    std::erase_if(job.unshown[r].chosen, gone);
    std::erase_if(job.unshown[r].latest, gone);
    for (OtherItemWaits& others : job.unshown[r].others) {
      std::erase_if(others.instead_of, gone);
      std::erase_if(others.taken, gone);
    }
  }
}

void ResumeAtOnce(const RankProgram& rank, uint32_t item, ItemWait& wait) {
  if (IsOnWork(wait) && IsOfBlockingCall(rank, {item, wait})) wait.lag = LagTable::kZero;
}

void DropCpuTime(CompiledJob& job) {
  for (size_t r = 0; r < job.program.ranks.size(); ++r) {
    RankProgram& rank = job.program.ranks[r];
    rank.overheads.clear();
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      Item& item = rank.items[i];
      if (rank.lanes[item.lane].cpu) item.lead = item.duration = SimTime();
      // Algorithm 1 counts half of the launch call.
      if (job.semantics == Semantics::kAlgorithm1) item.issue_lag = SimTime();
      for (uint32_t w = item.waits_begin; w < rank.waits_end(i); ++w) {
        ResumeAtOnce(rank, i, rank.waits[w]);
      }
    }
    for (auto* waits : {&job.unshown[r].chosen, &job.unshown[r].latest}) {
      for (auto& [item, wait] : *waits) ResumeAtOnce(rank, item, wait);
    }
    for (OtherItemWaits& others : job.unshown[r].others) {
      for (auto& [item, wait] : others.taken) ResumeAtOnce(rank, item, wait);
    }
  }
}

}  // namespace

void LeaveOut(Ingredient what, CompiledJob& job) {
  if (what == Ingredient::kRankSync) {
    for (RendezvousProgram& rendezvous : job.program.rendezvous) {
      if (!rendezvous.fixed) continue;
      rendezvous.awaiting = Awaiting::kNone;
      rendezvous.awaits.clear();
    }
    return;
  }
  if (job.symbolic) return;
  switch (what) {
    case Ingredient::kStreamSync:
      DropWaits(job, IsOfStreams);
      break;
    case Ingredient::kCpu:
      DropCpuTime(job);
      break;
    case Ingredient::kBlocking:
      DropWaits(job, IsOfBlockingCall);
      break;
    case Ingredient::kContention:
      for (RankProgram& rank : job.program.ranks) rank.contention = false;
      break;
    case Ingredient::kFences:
      for (RankProgram& rank : job.program.ranks) rank.fences = FenceWaits();
      break;
    default:
      for (RankProgram& rank : job.program.ranks) rank.start = SimTime();
  }
}

}  // namespace foretrace
