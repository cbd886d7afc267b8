// The two executors on random programs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/engine/executor.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kNodes = 64;  // more than items of one rank

// Nodes for error messages to name.
TraceStore PlainStore() {
  JobScript job(kRanks);
  for (uint32_t r = 0; r < kRanks; ++r) {
    for (uint32_t i = 0; i < kNodes; ++i) {
      job.rank(r).Call("n" + std::to_string(i), RuntimeCall::kOther, {1.0 * i, i + 0.5});
    }
  }
  return job.Build();
}

SimTime RandomTime() { return SimTime::FromPs(*rc::gen::inRange(0, 20)); }

// Calls of two threads in one timeline overlap by a clock tick: then the second has a negative
// lead.
SimTime RandomLead(bool cpu) { return SimTime::FromPs(*rc::gen::inRange(cpu ? -10 : 0, 20)); }

// Items are drawn one after the other over all ranks, and wait only for what was drawn before, so
// that a program can always be executed.
class ProgramDraft {
 public:
  ProgramDraft() : ranks_(kRanks) {
    for (RankDraft& rank : ranks_) rank.lanes.resize(4);  // two threads, two streams
  }

  Program Draw() {
    const int steps = *rc::gen::inRange(1, 40);
    for (int s = 0; s < steps; ++s) {
      if (*rc::gen::inRange(0, 4) == 0) {
        DrawRendezvous();
      } else {
        const auto r = *rc::gen::inRange<uint32_t>(0, kRanks);
        const auto lane = *rc::gen::inRange<uint32_t>(0, 4);
        const bool blocking = lane < 2 && *rc::gen::inRange(0, 3) == 0;
        Append(r, lane,
               lane >= 2 ? ItemKind::kDevice : (blocking ? ItemKind::kBlocking : ItemKind::kCall));
      }
    }
    return Layout();
  }

 private:
  struct Drawn {
    Item item;
    std::vector<std::pair<ItemWait, SimTime>> waits;  // of draft indices, with lags
  };
  struct RankDraft {
    std::vector<Drawn> items;
    std::vector<std::vector<uint32_t>> lanes;  // draft indices, in program order
    std::vector<uint32_t> place;               // draft index -> item
  };

  uint32_t Append(uint32_t r, uint32_t lane, ItemKind kind) {
    RankDraft& rank = ranks_[r];
    Drawn drawn;
    drawn.item.kind = kind;
    drawn.item.lane = lane;
    drawn.item.lead = RandomLead(lane < 2);
    drawn.item.duration = RandomTime();
    const auto before = static_cast<uint32_t>(rank.items.size());
    if (before > 0) {
      const auto issuer = *rc::gen::inRange<uint32_t>(0, before);
      if (lane >= 2 && rank.items[issuer].item.lane < 2) {
        drawn.item.issuer = issuer;
        drawn.item.issue_lag = RandomTime();
      }
      for (int w = *rc::gen::inRange(0, 3); w > 0; --w) {
        ItemWait wait;
        wait.item = *rc::gen::inRange<uint32_t>(0, before);
        wait.on_start = *rc::gen::arbitrary<bool>();
        wait.before_end = kind == ItemKind::kBlocking && *rc::gen::arbitrary<bool>();
        drawn.waits.push_back({wait, RandomTime()});
      }
    }
    rank.lanes[lane].push_back(before);
    rank.items.push_back(std::move(drawn));
    return before;
  }

  void DrawRendezvous() {
    RendezvousProgram rendezvous;
    const auto id = static_cast<uint32_t>(rendezvous_.size());
    const auto absent = *rc::gen::inRange<uint32_t>(0, kRanks + 1);
    for (uint32_t r = 0; r < kRanks; ++r) {
      if (r == absent) continue;
      const uint32_t index = Append(r, *rc::gen::inRange<uint32_t>(2, 4), ItemKind::kComm);
      ranks_[r].items[index].item.rendezvous = id;
      rendezvous.members.push_back({r, index});
    }
    rendezvous.awaiting = *rc::gen::element(Awaiting::kAll, Awaiting::kNone, Awaiting::kListed);
    if (rendezvous.awaiting == Awaiting::kListed) {
      for (uint32_t source = 0; source < rendezvous.members.size(); ++source) {
        for (uint32_t m = 0; m < rendezvous.members.size(); ++m) {
          if (m != source && *rc::gen::arbitrary<bool>()) rendezvous.awaits.push_back({m, source});
        }
      }
    }
    rendezvous_.push_back(rendezvous);
  }

  Program Layout() {
    Program program;
    for (RankDraft& rank : ranks_) {
      RankProgram out;
      out.start = RandomTime();
      rank.place.resize(rank.items.size());
      uint32_t next = 0;
      for (uint32_t l = 0; l < rank.lanes.size(); ++l) {
        LaneProgram lane;
        lane.cpu = l < 2;
        lane.begin = next;
        for (const uint32_t draft : rank.lanes[l]) rank.place[draft] = next++;
        lane.end = next;
        out.lanes.push_back(lane);
      }
      out.items.resize(rank.items.size());
      std::vector<uint32_t> order(rank.items.size());
      for (uint32_t d = 0; d < rank.items.size(); ++d) order[rank.place[d]] = d;
      for (uint32_t i = 0; i < order.size(); ++i) {
        const Drawn& drawn = rank.items[order[i]];
        Item item = drawn.item;
        item.node = NodeIndex(i);
        if (item.issuer != kNoItem) item.issuer = rank.place[item.issuer];
        item.waits_begin = static_cast<uint32_t>(out.waits.size());
        for (auto [wait, lag] : drawn.waits) {
          wait.item = rank.place[wait.item];
          wait.lag = out.lags.Add(lag);
          out.waits.push_back(wait);
        }
        out.items[i] = item;
      }
      program.ranks.push_back(std::move(out));
    }
    for (RendezvousProgram& rendezvous : rendezvous_) {
      for (auto& m : rendezvous.members) m.item = ranks_[m.rank].place[m.item];
      program.rendezvous.push_back(std::move(rendezvous));
    }
    return program;
  }

  std::vector<RankDraft> ranks_;
  std::vector<RendezvousProgram> rendezvous_;
};

bool SameTimes(const Schedule& a, const Schedule& b) {
  for (uint32_t r = 0; r < a.ranks.size(); ++r) {
    if (a.ranks[r].start != b.ranks[r].start || a.ranks[r].end != b.ranks[r].end) return false;
  }
  return a.makespan == b.makespan && a.rendezvous_active == b.rendezvous_active;
}

RC_GTEST_PROP(Executors, AgreeOnProgramsInOrder, ()) {
  const TraceStore store = PlainStore();
  const Program program = ProgramDraft().Draw();
  RC_ASSERT(!NeedsDataflow(program));
  const auto straight = RunStraight(store, program, nullptr);
  const auto dataflow = RunDataflow(store, program, nullptr);
  RC_ASSERT(straight.ok());
  RC_ASSERT(dataflow.ok());
  RC_ASSERT(SameTimes(*straight, *dataflow));
}

RC_GTEST_PROP(Executors, GiveTheSameAnswerTwice, ()) {
  const TraceStore store = PlainStore();
  const Program program = ProgramDraft().Draw();
  const auto first = RunStraight(store, program, nullptr);
  const auto second = RunStraight(store, program, nullptr);
  RC_ASSERT(first.ok() && second.ok());
  RC_ASSERT(SameTimes(*first, *second));
}

// Every constraint holds, and one of them exactly.
RC_GTEST_PROP(Executors, StartEachItemAtItsLatestConstraint, ()) {
  const TraceStore store = PlainStore();
  const Program program = ProgramDraft().Draw();
  const auto schedule = RunStraight(store, program, nullptr);
  RC_ASSERT(schedule.ok());
  for (uint32_t r = 0; r < kRanks; ++r) {
    const RankProgram& rank = program.ranks[r];
    const RankSchedule& times = schedule->ranks[r];
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      const Item& item = rank.items[i];
      const bool first = rank.lanes[item.lane].begin == i;
      SimTime latest = (first ? rank.start : times.end[i - 1]) + item.lead;
      if (item.issuer != kNoItem) {
        latest = std::max(latest, times.start[item.issuer] + item.issue_lag);
      }
      for (uint32_t w = item.waits_begin; w < rank.waits_end(i); ++w) {
        const ItemWait& wait = rank.waits[w];
        if (wait.before_end) continue;
        latest = std::max(
            latest, (wait.on_start ? times.start : times.end)[wait.item] + rank.lags[wait.lag]);
      }
      RC_ASSERT(times.start[i] == latest);
    }
  }
}

// A member ends its own part after the last arrival that it awaits.
RC_GTEST_PROP(Executors, EndEachMemberAfterWhatItAwaits, ()) {
  const TraceStore store = PlainStore();
  const Program program = ProgramDraft().Draw();
  const auto schedule = RunStraight(store, program, nullptr);
  RC_ASSERT(schedule.ok());
  for (const RendezvousProgram& rendezvous : program.rendezvous) {
    for (uint32_t m = 0; m < rendezvous.members.size(); ++m) {
      SimTime last = SimTime::Min();
      for (uint32_t source = 0; source < rendezvous.members.size(); ++source) {
        const bool listed =
            std::ranges::any_of(rendezvous.awaits, [&](const RendezvousProgram::Await& await) {
              return await.member == m && await.source == source;
            });
        if (source != m && !listed && rendezvous.awaiting != Awaiting::kAll) continue;
        const auto& [rank, item] = rendezvous.members[source];
        last = std::max(last, schedule->ranks[rank].start[item]);
      }
      const auto& [rank, item] = rendezvous.members[m];
      RC_ASSERT(schedule->ranks[rank].end[item] == last + program.ranks[rank].items[item].duration);
    }
  }
}

RC_GTEST_PROP(Executors, LongerWorkNeverEndsAnythingEarlier, ()) {
  const TraceStore store = PlainStore();
  Program program = ProgramDraft().Draw();
  const auto before = RunStraight(store, program, nullptr);
  std::vector<uint32_t> busy;
  for (uint32_t k = 0; k < kRanks; ++k) {
    if (!program.ranks[k].items.empty()) busy.push_back(k);
  }
  const uint32_t r = *rc::gen::elementOf(busy);
  const auto i = *rc::gen::inRange<size_t>(0, program.ranks[r].items.size());
  program.ranks[r].items[i].duration += SimTime::FromPs(*rc::gen::inRange(1, 50));
  const auto after = RunStraight(store, program, nullptr);
  RC_ASSERT(before.ok() && after.ok());
  for (uint32_t k = 0; k < kRanks; ++k) {
    for (uint32_t j = 0; j < program.ranks[k].items.size(); ++j) {
      RC_ASSERT(after->ranks[k].end[j] >= before->ranks[k].end[j]);
    }
  }
}

// Two ranks enter the same rendezvous, each on one stream and in an order of its own.
RC_GTEST_PROP(Executors, DifferentOrdersAreADeadlockThatNamesBothRanks, ()) {
  const TraceStore store = PlainStore();
  const int rendezvous = *rc::gen::inRange(2, 5);
  std::vector<int> identity(rendezvous);
  for (int m = 0; m < rendezvous; ++m) identity[m] = m;
  Program program;
  program.rendezvous.resize(rendezvous);
  std::vector<std::vector<int>> orders;
  for (uint32_t r = 0; r < 2; ++r) {
    std::vector<int> order = identity;
    for (int m = rendezvous - 1; m > 0; --m)
      std::swap(order[m], order[*rc::gen::inRange(0, m + 1)]);
    RankProgram rank;
    LaneProgram lane;
    lane.end = static_cast<uint32_t>(rendezvous);
    rank.lanes.push_back(lane);
    for (int k = 0; k < rendezvous; ++k) {
      Item item;
      item.kind = ItemKind::kComm;
      item.node = NodeIndex(k);
      item.rendezvous = static_cast<uint32_t>(order[k]);
      item.duration = SimTime::FromPs(1);
      program.rendezvous[order[k]].members.push_back({r, static_cast<uint32_t>(k)});
      rank.items.push_back(item);
    }
    program.ranks.push_back(std::move(rank));
    orders.push_back(order);
  }
  for (const auto& run : {RunStraight, RunDataflow}) {
    const auto schedule = run(store, program, nullptr);
    RC_ASSERT(schedule.ok() == (orders[0] == orders[1]));
    if (schedule.ok()) continue;
    const std::string message(schedule.status().message());
    RC_ASSERT(message.find("deadlock") != std::string::npos);
    RC_ASSERT(message.find("rank 0 node") != std::string::npos);
    RC_ASSERT(message.find("rank 1 node") != std::string::npos);
  }
}

}  // namespace
}  // namespace foretrace
