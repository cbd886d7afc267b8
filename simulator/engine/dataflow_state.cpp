#include "simulator/engine/dataflow_state.h"

#include <utility>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// Calls `edge` with every producer, consumer and the lag between them.
template <typename Edge>
void ForEachEdge(const RankProgram& rank, const Edge& edge) {
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    const Item& item = rank.items[i];
    if (item.issuer != kNoItem)
      edge(item.issuer, Consumer{i, LagTable::kZero, true, false}, item.issue_lag);
    const uint32_t waits_end = rank.waits_end(i);
    for (uint32_t w = item.waits_begin; w < waits_end; ++w) {
      const ItemWait& wait = rank.waits[w];
      if (wait.before_end && item.kind != ItemKind::kBlocking) continue;
      edge(wait.item, Consumer{i, LagTable::kZero, wait.on_start, wait.before_end},
           rank.lags[wait.lag]);
    }
  }
}

}  // namespace

DataflowRank::DataflowRank(const RankProgram& program)
    : items(program.items.size() + 1),
      lanes(program.lanes.size()),
      placing_until(program.lanes.size(), SimTime::Min()) {
  FORETRACE_CHECK(program.lanes.size() <= UINT16_MAX);
  ForEachEdge(program, [this](uint32_t producer, const Consumer& consumer, SimTime) {
    ItemState& from = items[producer];
    ++from.consumers_begin;
    if (consumer.on_start) {
      from.start_awaited = true;
    } else {
      from.end_awaited = true;
    }
    ItemState& to = items[consumer.item];
    ++(consumer.before_end ? to.before_end : to.before_start);
  });
  // Each begin is first where the item's consumers end, and moves to where they begin as they are
  // filled in, the last first.
  uint32_t edges = 0;
  for (ItemState& item : items) {
    edges += item.consumers_begin;
    item.consumers_begin = edges;
  }
  consumers.resize(edges);
  ForEachEdge(program, [this](uint32_t producer, const Consumer& consumer, SimTime lag) {
    Consumer& kept = consumers[--items[producer].consumers_begin];
    kept = consumer;
    kept.lag = lags.Add(lag);
  });
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const Item& item = program.items[i];
    const LaneProgram& lane = program.lanes[item.lane];
    ItemState& state = items[i];
    state.lane = static_cast<uint16_t>(item.lane);
    state.competes =
        IsExclusive(lane) || (program.contention && (item.needs_room || item.placement_share > 0));
    state.meets = item.kind == ItemKind::kComm;
    state.fixed_length = !state.meets && state.before_end == 0;
    if (state.fixed_length) state.end = item.duration;
    // Nothing starts before its rank, and the first of a lane in order no sooner than its lead
    // after it; the others follow the item before them.
    if (!IsInOrder(lane)) {
      state.start = program.start;
    } else if (i == lane.begin) {
      state.start = program.start + item.lead;
    } else {
      ++state.before_start;
    }
  }
}

RankSchedule DataflowRank::TakeSchedule() {
  RankSchedule schedule;
  schedule.start.reserve(size());
  schedule.end.reserve(size());
  for (uint32_t i = 0; i < size(); ++i) {
    schedule.start.push_back(items[i].start);
    schedule.end.push_back(items[i].end);
  }
  std::vector<ItemState>().swap(items);
  return schedule;
}

}  // namespace foretrace
