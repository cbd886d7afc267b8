#pragma once
// Engines and requests of tests, small enough to follow by hand.

#include <memory>
#include <utility>
#include <vector>

#include "simulator/serve/device_costs.h"
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

// A microsecond for each byte that a stream moves, or each FLOP of a GEMM; sums cost their
// bytes.
class CountingCosts : public DeviceCosts {
 public:
  Estimate Kernel(const KernelWork& work) const override {
    if (work.kind == KernelKind::kElementwise) return Us(static_cast<double>(work.total_bytes()));
    return Us(work.flop.count());
  }
  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    if (ranks <= 1) return Us(0);
    return Us(static_cast<double>(bytes.count()) * (op == CollectiveOp::kAllReduce ? 1 : 1000));
  }
  Estimate Send(int32_t, Bytes) const override { return Us(0); }
  std::string Source() const override { return "count"; }

 private:
  static Estimate Us(double us) { return {SimTime::FromUs(us), EstimateSource::kAnalytic, false}; }
};

inline double Part(const StepTime& time, StepPart part) {
  return time.parts[static_cast<size_t>(part)].us();
}

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
