#include "simulator/serve/engine.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace::serve {

ServingEngine::ServingEngine(int32_t index, const EngineConfig& config, const RequestTrace& trace,
                             const Speculation& speculation, const StepModel& model,
                             std::vector<RequestOutcome>& outcomes, ServingObserver& observer,
                             bool waits)
    : index_(index),
      config_(config),
      trace_(trace),
      model_(model),
      outcomes_(outcomes),
      observer_(observer),
      scheduler_(config, trace, speculation),
      waits_(waits) {}

void ServingEngine::Deliver(SequenceIndex request, SimTime at, int32_t sampled, int32_t target) {
  inbox_.push_back({request, at, sampled, target});
  inbox_load_ += trace_.requests[static_cast<size_t>(request)].input_tokens + target;
  if (sleeps_) wake_ = std::min(wake_, at);
}

void ServingEngine::TakeDeliveries() {
  while (!inbox_.empty() && inbox_.front().at <= wake_) {
    const Delivery& d = inbox_.front();
    RequestOutcome& outcome = outcomes_[static_cast<size_t>(d.request)];
    if (d.sampled == 0) outcome.queued = wake_;
    scheduler_.Enqueue(d.request, d.sampled, d.target);
    inbox_load_ -= trace_.requests[static_cast<size_t>(d.request)].input_tokens + d.target;
    inbox_.pop_front();
  }
}

// The loop: take notice of what arrived, put a step together and launch it unless as many as may be
// are under way, wait for the oldest, hand its tokens out.
void ServingEngine::Advance() {
  sleeps_ = false;
  if (collects_) CollectOldest();
  TakeDeliveries();
  const bool launched = static_cast<int32_t>(launched_.size()) < config_.depth() &&
                        !scheduler_.idle() && LaunchNext();
  if (launched && static_cast<int32_t>(launched_.size()) < config_.depth()) return;
  if (!launched_.empty()) {
    collects_ = true;
    clock_ = wake_;
    wake_ = std::max(wake_, launched_.front().record.end);
    return;
  }
  // A preempting step that had nothing left to run is tried again.
  if (!scheduler_.idle() && !step_.preempted.empty()) return;
  const SimTime loaded = scheduler_.NextLoaded();
  FORETRACE_CHECK(scheduler_.idle() || loaded < SimTime::Max());
  sleeps_ = true;
  wake_ = std::min(loaded, inbox_.empty() ? SimTime::Max() : inbox_.front().at);
}

// Slots have their turns one after another. Where the next one's step is under way it is the
// oldest, and its results come first.
bool ServingEngine::LaunchNext() {
  for (int32_t tried = 0; tried < config_.slots(); ++tried) {
    const int32_t slot = slot_;
    if (config_.slots() > 1 && !launched_.empty() && launched_.front().slot == slot) return false;
    slot_ = (slot_ + 1) % config_.slots();
    if (Launch(slot)) return true;
    if (!step_.preempted.empty()) return false;
  }
  return false;
}

bool ServingEngine::Launch(int32_t slot) {
  scheduler_.Schedule(step_, wake_, slot);
  for (const SequenceIndex i : step_.admitted) {
    RequestOutcome& outcome = outcomes_[static_cast<size_t>(i)];
    if (scheduler_.sequence(i).preemptions == 0 && scheduler_.sequence(i).transferred == 0) {
      outcome.scheduled = wake_;
    }
  }
  if (step_.items.empty()) return false;
  const auto sequences = static_cast<double>(step_.items.size());
  StepRecord record;
  record.engine = index_;
  record.scheduled = wake_;
  record.prefill_tokens = step_.batch.prefill_tokens();
  record.decodes = step_.batch.decodes;
  record.running = static_cast<int32_t>(scheduler_.running());
  record.waiting = static_cast<int32_t>(scheduler_.waiting());
  record.used_blocks = scheduler_.cache().used_blocks();
  record.end = SimTime::Max();
  wake_ += config_.host_step + config_.host_per_sequence.ScaledBy(sequences);
  launched_.push_back({record, step_.items, slot});
  if (waits_) {
    ready_.push_back({wake_, step_.batch});
    return true;
  }
  const StepTime time = model_.Time(step_.batch);
  Run(launched_.back(), std::max(wake_, device_free_), SimTime::FromUs(time.us()), time);
  return true;
}

void ServingEngine::Run(Launched& step, SimTime start, SimTime duration, const StepTime& time) {
  step.record.start = start;
  step.record.end = start + duration;
  // Stages are alike: the first is free again after its share.
  device_free_ = start + SimTime::FromPs(duration.ps() / config_.stages);
  busy_ += device_free_ - start;
  observer_.OnStep(step.record, time);
}

void ServingEngine::Start(SimTime start, SimTime duration, const StepTime& time) {
  Launched& step = launched_[launched_.size() - ready_.size()];
  ready_.pop_front();
  Run(step, start, duration, time);
  if (collects_ && &step == &launched_.front()) wake_ = std::max(clock_, step.record.end);
}

void ServingEngine::CollectOldest() {
  collects_ = false;
  const Launched step = std::move(launched_.front());
  launched_.pop_front();
  for (const StepItem& item : step.items) {
    if (item.sampled == 0) continue;
    scheduler_.Collect(item.sequence);
    RequestOutcome& outcome = outcomes_[static_cast<size_t>(item.sequence)];
    if (outcome.tokens == 0) {
      outcome.first_token = wake_;
    } else {
      observer_.OnTokens(wake_ - outcome.last_token, item.sampled);
    }
    outcome.tokens += item.sampled;
    outcome.last_token = wake_;
    if (outcome.tokens < scheduler_.sequence(item.sequence).target) continue;
    outcome.preemptions += scheduler_.sequence(item.sequence).preemptions;
    outcome.engine = index_;
    scheduler_.Finish(item.sequence);
    observer_.OnFinished(item.sequence, index_, wake_);
  }
}

}  // namespace foretrace::serve
