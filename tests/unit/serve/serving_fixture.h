#pragma once
// Engines and requests of tests, small enough to follow by hand.

#include <memory>
#include <utility>
#include <vector>

#include "simulator/serve/simulate.h"

namespace foretrace::serve {

// Microseconds: base + per_token * new tokens + per_cached * cached tokens of decodes.
class LinearStep : public StepModel {
 public:
  LinearStep(double base, double per_token, double per_cached)
      : base_(base), per_token_(per_token), per_cached_(per_cached) {}
  StepTime Time(const StepBatch& batch) const override {
    StepTime time;
    time.Add(StepPart::kDense,
             RealUs(base_ + per_token_ * batch.tokens() +
                    per_cached_ * static_cast<double>(batch.decode_cached)),
             EstimateSource::kAnalytic);
    return time;
  }
  std::string Source() const override { return "test"; }

 private:
  double base_, per_token_, per_cached_;
};

inline EngineConfig SmallEngine() {
  EngineConfig c;
  c.name = "test";
  c.max_num_seqs = 4;
  c.max_num_batched_tokens = 64;
  c.max_model_len = 4096;
  c.block_tokens = 16;
  c.kv_blocks = 64;
  c.asynchronous = false;
  c.prefix_caching = false;
  return c;
}

inline Request At(double ms, int32_t input, int32_t output, int32_t priority = 0) {
  Request r;
  r.arrival = SimTime::FromUs(ms * 1e3);
  r.input_tokens = input;
  r.output_tokens = output;
  r.priority = priority;
  return r;
}

inline RequestTrace TraceOf(std::vector<Request> requests) {
  RequestTrace trace;
  trace.source = "test";
  trace.requests = std::move(requests);
  return trace;
}

inline Deployment DeploymentOf(const EngineConfig& config, double base, double per_token,
                               double per_cached = 0) {
  Deployment d;
  d.pool = {config, std::make_shared<LinearStep>(base, per_token, per_cached), 1};
  d.keep_steps = true;
  return d;
}

}  // namespace foretrace::serve
