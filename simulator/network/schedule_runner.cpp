#include "simulator/network/schedule_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulator/base/check.h"

namespace foretrace {

void ScheduleRunner::Begin(uint32_t name, TransferPlan plan, RealSeconds time) {
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(transfers_.size());
    transfers_.push_back(std::make_unique<Transfer>());
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Transfer& t = *transfers_[slot];
  const CollectiveSchedule& schedule = *plan.schedule;
  t.name = name;
  t.ranks = schedule.ranks();
  t.lanes = schedule.lanes();
  t.steps = schedule.steps();
  t.serial = schedule.serial();
  t.open = int64_t{t.lanes} * t.ranks;
  t.states.assign(static_cast<size_t>(t.open), State{});
  t.early.clear();
  const RealSeconds start = time + plan.launch;
  t.plan = std::move(plan);
  by_name_[name] = slot;
  backend_->CallAt(start, slot);
}

void ScheduleRunner::OnTimer(uint32_t slot) {
  const int32_t lanes = transfers_[slot]->lanes;
  const int32_t ranks = transfers_[slot]->ranks;
  for (int32_t lane = 0; lane < lanes; ++lane) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      // A serial lane is advanced by the one before it.
      if (transfers_[slot]->serial && lane > 0) return;
      Advance(slot, lane, rank);
    }
  }
}

// Issues the next step of a state when the rule allows. True when it did.
bool ScheduleRunner::Issue(uint32_t slot, Transfer& t, int32_t lane, int32_t rank, State& state) {
  if (state.missing > 0 || state.undrained > 0) return false;
  if (state.next > t.steps) return false;
  const size_t index =
      static_cast<size_t>(lane) * static_cast<size_t>(t.ranks) + static_cast<size_t>(rank);
  const int32_t step = t.plan.schedule->NextStep(rank, lane, state.next);
  if (step == t.steps) {
    state.next = t.steps + 1;  // done
    if (--t.open == 0) Finish(slot);
    return false;
  }
  if (t.serial && lane > 0) {
    const State& before = t.states[index - static_cast<size_t>(t.ranks)];
    const bool drained =
        before.next > step + 1 || (before.next == step + 1 && before.undrained == 0);
    if (!drained) return false;
  }
  state.next = step + 1;
  state.missing = t.plan.schedule->Receives(rank, lane, step);
  if (!t.early.empty()) {
    const auto found = t.early.find((uint64_t{index} << 24) | static_cast<uint32_t>(step));
    if (found != t.early.end()) {
      state.missing -= found->second;
      t.early.erase(found);
    }
  }
  sends_.clear();
  t.plan.schedule->Sends(rank, lane, step, sends_);
  state.undrained = static_cast<int32_t>(sends_.size());
  for (const Send& send : sends_) {
    uint32_t token;
    if (free_messages_.empty()) {
      token = static_cast<uint32_t>(messages_.size());
      messages_.emplace_back();
    } else {
      token = free_messages_.back();
      free_messages_.pop_back();
    }
    messages_[token] = {slot, static_cast<uint32_t>(index), send.to, step};
    backend_->Launch(t.plan.devices[static_cast<size_t>(rank)],
                     t.plan.devices[static_cast<size_t>(send.to)], send.bytes,
                     {t.plan.latency_scale_intra, t.plan.latency_scale_inter}, token);
  }
  return true;
}

// Issues as many steps of a state as the rule allows.
void ScheduleRunner::AdvanceLane(uint32_t slot, int32_t lane, int32_t rank) {
  Transfer& t = *transfers_[slot];
  State& state = t.states[static_cast<size_t>(lane) * static_cast<size_t>(t.ranks) +
                          static_cast<size_t>(rank)];
  while (Issue(slot, t, lane, rank, state)) {
  }
}

void ScheduleRunner::Advance(uint32_t slot, int32_t lane, int32_t rank) {
  const uint32_t name = transfers_[slot]->name;
  for (;;) {
    AdvanceLane(slot, lane, rank);
    Transfer& t = *transfers_[slot];
    // Later lanes of a pipeline wait for this one's sends.
    if (!t.serial || t.name != name || t.open == 0) return;
    if (++lane >= t.lanes) return;
  }
}

void ScheduleRunner::OnDrained(uint32_t token) {
  const Message message = messages_[token];
  Transfer& t = *transfers_[message.slot];
  State& state = t.states[message.state];
  if (--state.undrained > 0) return;
  if (state.missing > 0 && !t.serial) return;
  Advance(message.slot, static_cast<int32_t>(message.state) / t.ranks,
          static_cast<int32_t>(message.state) % t.ranks);
}

void ScheduleRunner::OnDelivered(uint32_t token) {
  const Message message = messages_[token];
  free_messages_.push_back(token);
  Transfer& t = *transfers_[message.slot];
  const int32_t lane = static_cast<int32_t>(message.state) / t.ranks;
  const size_t index =
      static_cast<size_t>(lane) * static_cast<size_t>(t.ranks) + static_cast<size_t>(message.to);
  State& state = t.states[index];
  if (message.step >= state.next) {
    ++t.early[(uint64_t{index} << 24) | static_cast<uint32_t>(message.step)];
    return;
  }
  FORETRACE_CHECK(message.step == state.next - 1 && state.missing > 0);
  if (--state.missing > 0 || state.undrained > 0) return;
  Advance(message.slot, lane, message.to);
}

void ScheduleRunner::Finish(uint32_t slot) {
  Transfer& t = *transfers_[slot];
  FORETRACE_CHECK(t.early.empty());
  finished_.push_back({backend_->now(), t.name});
  by_name_.erase(t.name);
  t.plan.schedule.reset();
  free_slots_.push_back(slot);
}

std::vector<ScheduleRunner::Finished> ScheduleRunner::TakeFinished() {
  return std::exchange(finished_, {});
}

std::string ScheduleRunner::DescribeRunning() const {
  std::string text;
  for (const auto& t : transfers_) {
    if (t == nullptr || t->open == 0) continue;
    for (size_t i = 0; i < t->states.size(); ++i) {
      const State& state = t->states[i];
      if (state.next > t->steps) continue;
      if (!text.empty()) text += "; ";
      text += fmt::format("transfer {}: rank {} waits in step {} of {} for {} messages", t->name,
                          i % static_cast<size_t>(t->ranks), state.next, t->steps, state.missing);
      break;
    }
  }
  return text;
}

}  // namespace foretrace
