#include "simulator/serve/engine.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace::serve {

ServingEngine::ServingEngine(int32_t index, const EngineConfig& config, const RequestTrace& trace,
                             const Speculation& speculation, const StepModel& model,
                             std::vector<RequestOutcome>& outcomes, ServingObserver& observer)
    : index_(index),
      config_(config),
      trace_(trace),
      model_(model),
      outcomes_(outcomes),
      observer_(observer),
      scheduler_(config, trace, speculation) {}

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
  const bool launched =
      static_cast<int32_t>(launched_.size()) < config_.depth() && !scheduler_.idle() && Launch();
  if (launched && static_cast<int32_t>(launched_.size()) < config_.depth()) return;
  if (!launched_.empty()) {
    wake_ = std::max(wake_, launched_.front().end);
    collects_ = true;
    return;
  }
  // A preempting step that had nothing left to run is tried again.
  if (!scheduler_.idle() && !step_.preempted.empty()) return;
  const SimTime loaded = scheduler_.NextLoaded();
  FORETRACE_CHECK(scheduler_.idle() || loaded < SimTime::Max());
  sleeps_ = true;
  wake_ = std::min(loaded, inbox_.empty() ? SimTime::Max() : inbox_.front().at);
}

bool ServingEngine::Launch() {
  scheduler_.Schedule(step_, wake_);
  for (const SequenceIndex i : step_.admitted) {
    RequestOutcome& outcome = outcomes_[static_cast<size_t>(i)];
    if (scheduler_.sequence(i).preemptions == 0 && scheduler_.sequence(i).transferred == 0) {
      outcome.scheduled = wake_;
    }
  }
  if (step_.items.empty()) return false;
  const StepTime time = model_.Time(step_.batch);
  const auto sequences = static_cast<double>(step_.items.size());
  StepRecord record;
  record.engine = index_;
  record.scheduled = wake_;
  wake_ += config_.host_step + config_.host_per_sequence.ScaledBy(sequences);
  record.start = std::max(wake_, device_free_);
  const SimTime duration = SimTime::FromUs(time.us());
  record.end = record.start + duration;
  // Stages are alike: the first is free again after its share.
  device_free_ = record.start + SimTime::FromPs(duration.ps() / config_.stages);
  busy_ += device_free_ - record.start;
  record.prefill_tokens = step_.batch.prefill_tokens();
  record.decodes = step_.batch.decodes;
  record.running = static_cast<int32_t>(scheduler_.running());
  record.waiting = static_cast<int32_t>(scheduler_.waiting());
  record.used_blocks = scheduler_.cache().used_blocks();
  observer_.OnStep(record, time);
  launched_.push_back({record.end, step_.items});
  return true;
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
