// What holds for any engine and any requests.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "simulator/serve/simulate.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

EngineConfig AnyEngine() {
  EngineConfig c = SmallEngine();
  c.max_num_seqs = *rc::gen::inRange(1, 9);
  c.max_num_batched_tokens = *rc::gen::inRange(1, 200);
  c.block_tokens = 1 << *rc::gen::inRange(0, 6);
  // At least what the longest request needs, so that the cache is often short.
  c.kv_blocks = 400 / c.block_tokens + *rc::gen::inRange(1, 40);
  c.asynchronous = *rc::gen::arbitrary<bool>();
  c.prefix_caching = *rc::gen::arbitrary<bool>();
  c.reserve_full_input = *rc::gen::arbitrary<bool>();
  c.long_prefill_threshold = *rc::gen::element(0, 16, 64);
  c.policy = *rc::gen::element(AdmissionPolicy::kFcfs, AdmissionPolicy::kPriority);
  c.host_step = SimTime::FromUs(*rc::gen::inRange(0, 2000));
  c.stages = *rc::gen::element(1, 1, 3);
  c.mixed_steps = *rc::gen::arbitrary<bool>();
  c.victim = *rc::gen::element(Victim::kLastAdmitted, Victim::kLeastOutput);
  if (*rc::gen::arbitrary<bool>()) c.output_reserve = {0.7, 0.1, 10, 100, 5};
  const int tiers = *rc::gen::inRange(0, 3);
  c.block_bytes = Bytes(1000);
  for (int t = 0; t < tiers; ++t) {
    c.kv_tiers.push_back({"tier", Bytes(*rc::gen::inRange(0, 50000)),
                          Bandwidth::GBps(*rc::gen::element(1e-4, 0.01, 1.0)),
                          SimTime::FromUs(*rc::gen::inRange(0, 100))});
  }
  if (tiers > 0 && *rc::gen::arbitrary<bool>()) c.preemption = Preemption::kSwap;
  return c;
}

RequestTrace AnyTrace() {
  RequestTrace trace = TraceOf({});
  const int count = *rc::gen::inRange(1, 40);
  const int spread = *rc::gen::element(0, 1, 20);
  double at = 0;
  for (int i = 0; i < count; ++i) {
    at += spread * *rc::gen::inRange(0, 5);
    Request r =
        At(at, *rc::gen::inRange(1, 250), *rc::gen::inRange(1, 150), *rc::gen::inRange(0, 3));
    trace.requests.push_back(r);
  }
  if (*rc::gen::arbitrary<bool>()) {  // of few prefixes, so that some are shared
    trace.prefix_block_tokens = 32;
    for (Request& r : trace.requests) {
      r.prefix_begin = static_cast<uint32_t>(trace.prefix_ids.size());
      r.prefix_blocks = static_cast<uint32_t>(r.input_tokens / 32);
      const uint64_t family = *rc::gen::inRange<uint64_t>(0, 3);
      for (uint64_t b = 0; b < r.prefix_blocks; ++b) trace.prefix_ids.push_back(family * 100 + b);
    }
  }
  return trace;
}

TEST(ServingProperty, NoTokenIsLostAndNoBlockIsKept) {
  EXPECT_TRUE(rc::check([] {
    const RequestTrace trace = AnyTrace();
    Deployment d = DeploymentOf(AnyEngine(), 500, 3, 0.1);
    d.pool.engines = *rc::gen::inRange(1, 4);
    d.routing =
        *rc::gen::element(Routing::kRoundRobin, Routing::kLeastLoaded, Routing::kPrefixAware);
    if (*rc::gen::arbitrary<bool>()) {
      d.decode = d.pool;
      d.link = {Bytes(1000), Bandwidth::GBps(1), SimTime::FromUs(10)};
    }
    d.concurrency = *rc::gen::element(0, 0, 3);
    // That all blocks were given back is checked when the engines end.
    const auto result = Simulate(trace, d);
    RC_ASSERT(result.ok());
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      const RequestOutcome& o = result->outcomes[i];
      RC_ASSERT(o.tokens == trace.requests[i].output_tokens);
      RC_ASSERT(o.arrival <= o.queued && o.queued <= o.scheduled);
      RC_ASSERT(o.scheduled < o.first_token && o.first_token <= o.last_token);
    }
    RC_ASSERT(result->peak_blocks <= d.pool.config.usable_blocks());
    for (const StepRecord& step : result->steps) {
      const bool bounded = d.pool.config.mixed_steps || step.prefill_tokens > 0;
      RC_ASSERT(!bounded ||
                step.prefill_tokens + step.decodes <= d.pool.config.max_num_batched_tokens);
      RC_ASSERT(step.prefill_tokens + step.decodes > 0);
      RC_ASSERT(step.running <= d.pool.config.max_num_seqs);
    }
  }));
}

TEST(ServingProperty, StepsOfAnEngineFollowOneAnother) {
  EXPECT_TRUE(rc::check([] {
    const RequestTrace trace = AnyTrace();
    EngineConfig c = AnyEngine();
    c.stages = 1;  // stages of a pipeline overlap
    const auto result = Simulate(trace, DeploymentOf(c, 500, 3));
    RC_ASSERT(result.ok());
    for (size_t i = 1; i < result->steps.size(); ++i) {
      RC_ASSERT(result->steps[i - 1].end <= result->steps[i].start);
    }
  }));
}

TEST(ServingProperty, FirstComeIsFirstServed) {
  EXPECT_TRUE(rc::check([] {
    const RequestTrace trace = AnyTrace();
    EngineConfig c = AnyEngine();
    c.policy = AdmissionPolicy::kFcfs;
    // One whose blocks are read from below lets others pass.
    c.kv_tiers.clear();
    c.preemption = Preemption::kRecompute;
    const auto result = Simulate(trace, DeploymentOf(c, 500, 3));
    RC_ASSERT(result.ok());
    for (size_t i = 1; i < trace.requests.size(); ++i) {
      RC_ASSERT(result->outcomes[i - 1].scheduled <= result->outcomes[i].scheduled);
    }
  }));
}

TEST(ServingProperty, EqualInputsGiveEqualBits) {
  EXPECT_TRUE(rc::check([] {
    const RequestTrace trace = AnyTrace();
    Deployment d = DeploymentOf(AnyEngine(), 500, 3);
    d.pool.engines = 2;
    const auto a = Simulate(trace, d), b = Simulate(trace, d);
    RC_ASSERT(a.ok() && b.ok());
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      RC_ASSERT(a->outcomes[i].last_token == b->outcomes[i].last_token);
    }
  }));
}

}  // namespace
}  // namespace foretrace::serve
