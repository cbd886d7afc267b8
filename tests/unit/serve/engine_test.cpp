#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

ServingResult Serve(const RequestTrace& trace, const Deployment& deployment) {
  auto result = Simulate(trace, deployment);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : ServingResult();
}

// 100 tokens in chunks of 64 and 36: (1000 + 64 * 10) + (1000 + 36 * 10) us to the first token;
// then four steps of one token, over 100, 101, 102 and 103 cached ones: 4 * (1000 + 10) + 2 * 406.
TEST(Engine, OneRequestIsTheClosedForm) {
  const RequestTrace trace = TraceOf({At(5, 100, 5)});
  const ServingResult r = Serve(trace, DeploymentOf(SmallEngine(), 1000, 10, 2));
  const RequestOutcome& o = r.outcomes[0];
  EXPECT_EQ(o.queued, SimTime::FromUs(5000));
  EXPECT_EQ(o.first_token, SimTime::FromUs(5000 + 1640 + 1360));
  EXPECT_EQ(o.last_token, SimTime::FromUs(5000 + 3000 + 4040 + 812));
  EXPECT_EQ(o.tokens, 5);
  EXPECT_EQ(r.step_count, 6);
}

// The host's time of a step is hidden behind the step that runs, but for the first.
TEST(Engine, AsynchronousSchedulingHidesTheHost) {
  EngineConfig c = SmallEngine();
  c.host_step = SimTime::FromUs(100);
  const RequestTrace trace = TraceOf({At(0, 10, 11)});
  const ServingResult apart = Serve(trace, DeploymentOf(c, 1000, 0));
  EXPECT_EQ(apart.outcomes[0].last_token, SimTime::FromUs(11 * 1100));
  c.asynchronous = true;
  const ServingResult together = Serve(trace, DeploymentOf(c, 1000, 0));
  EXPECT_EQ(together.outcomes[0].last_token, SimTime::FromUs(100 + 11 * 1000));
  // A host that is slower than its device is what counts.
  const ServingResult bound = Serve(trace, DeploymentOf(c, 10, 0));
  EXPECT_GE(bound.outcomes[0].last_token, SimTime::FromUs(11 * 100));
}

TEST(Engine, RequestsAreAdmittedInOrder) {
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(At(0.1 * i, 40 + 7 * (i % 3), 3 + i % 5));
  const ServingResult r = Serve(TraceOf(requests), DeploymentOf(SmallEngine(), 1000, 10));
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_LE(r.outcomes[i - 1].scheduled, r.outcomes[i].scheduled) << i;
    EXPECT_LE(r.outcomes[i - 1].first_token, r.outcomes[i].first_token) << i;
  }
}

TEST(Engine, PrioritiesGoFirst) {
  EngineConfig c = SmallEngine();
  c.max_num_seqs = 1;
  c.policy = AdmissionPolicy::kPriority;
  const ServingResult r = Serve(TraceOf({At(0, 10, 4, 1), At(0.1, 10, 4, 1), At(0.2, 10, 4, 0)}),
                                DeploymentOf(c, 1000, 0));
  EXPECT_LT(r.outcomes[2].first_token, r.outcomes[1].first_token);
}

// Eight blocks of 16: two requests of 60 + 60 tokens hold four each until both need a fifth. The
// one admitted last gives way and comes back; all tokens come out.
TEST(Engine, AFullCachePreemptsTheLastAdmitted) {
  EngineConfig c = SmallEngine();
  c.kv_blocks = 8;
  c.max_num_batched_tokens = 256;
  const ServingResult r = Serve(TraceOf({At(0, 60, 60), At(0, 60, 60)}), DeploymentOf(c, 1000, 0));
  EXPECT_EQ(r.outcomes[0].preemptions, 0);
  EXPECT_GE(r.outcomes[1].preemptions, 1);
  EXPECT_EQ(r.outcomes[0].tokens, 60);
  EXPECT_EQ(r.outcomes[1].tokens, 60);
  EXPECT_EQ(r.peak_blocks, 8);
  EXPECT_GT(r.recomputed_tokens, 0);
  EXPECT_LT(r.outcomes[0].last_token, r.outcomes[1].last_token);
}

// The second prompt begins with three of the first's blocks of 16: of its 64 tokens 16 are left.
TEST(Engine, SharedPrefixesAreNotComputedAgain) {
  EngineConfig c = SmallEngine();
  c.prefix_caching = true;
  RequestTrace trace = TraceOf({At(0, 64, 2), At(50, 64, 2)});
  trace.prefix_block_tokens = 16;
  trace.prefix_ids = {1, 2, 3, 4, 1, 2, 3, 9};
  trace.requests[0].prefix_blocks = trace.requests[1].prefix_blocks = 4;
  trace.requests[1].prefix_begin = 4;
  const ServingResult r = Serve(trace, DeploymentOf(c, 0, 10));
  EXPECT_EQ(r.outcomes[0].first_token - r.outcomes[0].queued, SimTime::FromUs(640));
  EXPECT_EQ(r.outcomes[1].first_token - r.outcomes[1].queued, SimTime::FromUs(160));
  EXPECT_EQ(r.prefix_hits, 48);
  // All of a prompt in the cache: its last block is computed all the same.
  trace.prefix_ids[7] = 4;
  EXPECT_EQ(Serve(trace, DeploymentOf(c, 0, 10)).prefix_hits, 48);
}

TEST(Engine, WhatCanNeverFitIsRefused) {
  EngineConfig c = SmallEngine();
  const auto long_one = Simulate(TraceOf({At(0, 4000, 200)}), DeploymentOf(c, 1, 1));
  EXPECT_EQ(long_one.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(long_one.status().message().find("context of 4096"), std::string_view::npos);
  const auto big = Simulate(TraceOf({At(0, 1000, 100)}), DeploymentOf(c, 1, 1));
  EXPECT_NE(big.status().message().find("can never fit in a KV cache of 1024"),
            std::string_view::npos);
}

// One request a millisecond, each worth two: the queue grows from the beginning.
TEST(Engine, OverloadIsTold) {
  std::vector<Request> fast, slow;
  for (int i = 0; i < 400; ++i) {
    fast.push_back(At(i, 64, 1));
    slow.push_back(At(3 * i, 64, 1));
  }
  const Deployment d = DeploymentOf(SmallEngine(), 2000, 0);
  const ServingResult over = Serve(TraceOf(fast), d);
  EXPECT_LT(over.overloaded_from, SimTime::FromSeconds(0.05));
  EXPECT_EQ(Serve(TraceOf(slow), d).overloaded_from, SimTime::Max());
}

// Two engines in turn are one engine each for every other request.
TEST(Engine, ReplicasShareTheWork) {
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(At(i, 32, 8));
  Deployment d = DeploymentOf(SmallEngine(), 1000, 10);
  d.pool.engines = 2;
  d.routing = Routing::kRoundRobin;
  const ServingResult r = Serve(TraceOf(requests), d);
  for (size_t i = 0; i < r.outcomes.size(); ++i) {
    EXPECT_EQ(r.outcomes[i].engine, static_cast<int32_t>(i % 2));
  }
}

// Prefill 1000 + 32 * 10 us; then 32 tokens of 100 bytes at 1 GB/s and 5 us of latency; then three
// steps of the decode engine.
TEST(Engine, PoolsHandKeysAndValuesOver) {
  Deployment d = DeploymentOf(SmallEngine(), 1000, 10);
  d.decode = d.pool;
  d.link = {Bytes(100), Bandwidth::GBps(1), SimTime::FromUs(5)};
  const ServingResult r = Serve(TraceOf({At(0, 32, 4)}), d);
  EXPECT_EQ(r.outcomes[0].first_token, SimTime::FromUs(1320));
  EXPECT_EQ(r.outcomes[0].last_token, SimTime::FromUs(1320 + 3.2 + 5 + 3 * 1010));
  EXPECT_EQ(r.outcomes[0].engine, 1);
}

// Of three users each asks again when it is answered: never more than three run.
TEST(Engine, UsersWaitForTheirAnswers) {
  std::vector<Request> requests(12, At(0, 16, 4));
  Deployment d = DeploymentOf(SmallEngine(), 1000, 0);
  d.concurrency = 3;
  const ServingResult r = Serve(TraceOf(requests), d);
  for (const StepRecord& step : r.steps) EXPECT_LE(step.running + step.waiting, 3);
  EXPECT_EQ(r.end, SimTime::FromUs(4 * 4 * 1000));
}

// All drafts right: three tokens a step. None right: one.
TEST(Engine, DraftsThatAreRightSaveSteps) {
  const RequestTrace trace = TraceOf({At(0, 16, 13)});
  Deployment d = DeploymentOf(SmallEngine(), 1000, 0);
  d.speculation = {DraftShape::kSequence, 2, 1, {1.0}};
  EXPECT_EQ(Serve(trace, d).step_count, 1 + 4);
  d.speculation.acceptance = {0.0};
  EXPECT_EQ(Serve(trace, d).step_count, 13);
}

}  // namespace
}  // namespace foretrace::serve
