#pragma once
// One engine: its loop over steps in simulated time.

#include <cstdint>
#include <deque>
#include <vector>

#include "simulator/serve/scheduler.h"

namespace foretrace::serve {

// What became of a request; instants.
struct RequestOutcome {
  SimTime arrival;    // at the router
  SimTime queued;     // the engine took notice of it
  SimTime scheduled;  // its first step was put together
  SimTime first_token;
  SimTime last_token;
  int32_t tokens = 0;  // that came out
  int32_t preemptions = 0;
  int32_t engine = -1;  // that made its last token
};

// One step as it ran.
struct StepRecord {
  SimTime scheduled, start, end;
  int32_t engine = 0;
  int32_t prefill_tokens = 0, decodes = 0;
  int32_t running = 0, waiting = 0;
  int64_t used_blocks = 0;
};

// What an engine tells.
class ServingObserver {
 public:
  virtual ~ServingObserver() = default;
  virtual void OnStep(const StepRecord& record, const StepTime& time) = 0;
  // `tokens` came out, `gap` after those before them.
  virtual void OnTokens(SimTime gap, int32_t tokens) = 0;
  // The last of the tokens that the engine makes for a request are out at `now`.
  virtual void OnFinished(SequenceIndex request, int32_t engine, SimTime now) = 0;
};

class ServingEngine {
 public:
  // All must outlive it. `outcomes` has an entry a request. With `waits` its steps run when another
  // starts them (StepGroup), else by themselves.
  ServingEngine(int32_t index, const EngineConfig& config, const RequestTrace& trace,
                const Speculation& speculation, const StepModel& model,
                std::vector<RequestOutcome>& outcomes, ServingObserver& observer,
                bool waits = false);

  // A request that arrives at `at`, no earlier than those handed over before; see
  // Scheduler::Enqueue.
  void Deliver(SequenceIndex request, SimTime at, int32_t sampled, int32_t target);
  // When the loop does something next; SimTime::Max(): nothing is left.
  SimTime wake() const { return wake_; }
  // Does it.
  void Advance();

  const Scheduler& scheduler() const { return scheduler_; }
  int64_t load() const { return scheduler_.load() + inbox_load_; }
  // Requests that run, and four times those that wait.
  int64_t queue_score() const {
    constexpr int64_t kWaiting = 4;
    return static_cast<int64_t>(scheduler_.running()) +
           kWaiting * static_cast<int64_t>(scheduler_.waiting() + inbox_.size());
  }
  SimTime busy() const { return busy_; }
  int32_t index() const { return index_; }

  // A step that was launched and runs when it is started.
  struct ReadyStep {
    SimTime ready;
    StepBatch batch;
  };
  // The next of them; null: none waits.
  ReadyStep* NextReady() { return ready_.empty() ? nullptr : &ready_.front(); }
  // There is nothing that it could run.
  bool sleeps() const { return sleeps_; }
  // The next of them takes `duration` from `start` on, of which `time` is its own work.
  void Start(SimTime start, SimTime duration, const StepTime& time);
  const StepModel& model() const { return model_; }
  int32_t stages() const { return config_.stages; }

 private:
  struct Delivery {
    SequenceIndex request;
    SimTime at;
    int32_t sampled, target;
  };
  // A step that was launched; `record` has its end once it is started.
  struct Launched {
    StepRecord record;
    std::vector<StepItem> items;
    int32_t slot = 0;
  };
  void TakeDeliveries();
  bool LaunchNext();  // of the slots in turn
  bool Launch(int32_t slot);
  void CollectOldest();
  void Run(Launched& step, SimTime start, SimTime duration, const StepTime& time);

  const int32_t index_;
  const EngineConfig& config_;
  const RequestTrace& trace_;
  const StepModel& model_;
  std::vector<RequestOutcome>& outcomes_;
  ServingObserver& observer_;
  Scheduler scheduler_;
  Step step_;
  std::deque<Delivery> inbox_;
  int64_t inbox_load_ = 0;
  std::deque<Launched> launched_;
  int32_t slot_ = 0;             // whose turn it is
  std::deque<ReadyStep> ready_;  // the last of launched_
  const bool waits_;
  SimTime clock_;  // of the loop while it waits for a step that has not been started
  SimTime wake_ = SimTime::Max();
  SimTime device_free_;
  SimTime busy_;
  bool sleeps_ = true;     // until something arrives
  bool collects_ = false;  // at wake_ the oldest step's results are there
};

}  // namespace foretrace::serve
