#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/serve/overload.h"
#include "simulator/serve/speculative_step_model.h"
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

// Four blocks of 16: in the third step the first request gets its 32nd token, then the second,
// which goes first, needs a third block. The first gives way: of it 31 tokens are to be computed
// again, as that step has not run.
TEST(Scheduler, TokensOfTheStepThatPreemptsAreNotComputedAgain) {
  EngineConfig c = SmallEngine();
  c.policy = AdmissionPolicy::kPriority;
  c.kv_blocks = 4;
  const RequestTrace trace = TraceOf({At(0, 30, 9, 1), At(1, 32, 9, 0)});
  const Speculation none;
  Scheduler scheduler(c, trace, none);
  Step step;
  const auto run = [&](int64_t us) {
    scheduler.Schedule(step, SimTime::FromUs(us));
    for (const StepItem& item : step.items) scheduler.Collect(item.sequence);
  };
  scheduler.Enqueue(0, 0, 9);
  run(0);
  scheduler.Enqueue(1, 0, 9);
  run(1000);
  ASSERT_EQ(step.items.size(), 2u);
  run(2000);
  ASSERT_EQ(step.items.size(), 1u);
  EXPECT_EQ(step.items.front().sequence, 1);
  EXPECT_EQ(step.preempted, std::vector<SequenceIndex>{0});
  EXPECT_EQ(scheduler.recomputed_tokens(), 31);
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

// 90 steps, one a second of the arrivals' 90. A queue that stays at 50 is overload from the start;
// one that falls from 90 by 1 a second is not, with means of 45.5 and 15.5 in the last thirds; nor
// one that is empty again, in which requests wait for a third of the time.
TEST(Engine, AFullQueueIsOverload) {
  const RequestTrace trace = TraceOf({At(0, 1, 1), At(90e3, 1, 1)});
  const auto judge = [&trace](const auto& waiting) {
    OverloadJudge j(trace);
    for (int32_t s = 0; s <= 90; ++s) {
      StepRecord record;
      record.scheduled = SimTime::FromSeconds(s);
      record.waiting = waiting(s);
      j.OnStep(record);
    }
    return j;
  };
  const OverloadJudge full = judge([](int32_t) { return 50; });
  EXPECT_EQ(full.From(), SimTime());
  EXPECT_EQ(full.QueuedShare(), 1);
  EXPECT_EQ(judge([](int32_t s) { return 91 - s; }).From(), SimTime::Max());
  const OverloadJudge thirds = judge([](int32_t s) { return s < 30 ? 5 : 0; });
  EXPECT_EQ(thirds.From(), SimTime::Max());
  EXPECT_NEAR(thirds.QueuedShare(), 1.0 / 3, 1e-9);
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
// Engines that share experts: steps of both take as long as the longer part. A prompt of 60 tokens
// (1600 us) beside one of 10; decodes of one (1010 us); then a prompt of 50 arrives in a step, and
// the next is of 51 tokens (1510 us) for the other engine too, whose answer ends with it. What is
// left runs beside an engine that sleeps.
TEST(Engine, StepsOfEnginesThatShareExpertsRunTogether) {
  Deployment d = DeploymentOf(SmallEngine(), 1000, 10);
  d.pool.ranks = 2;
  d.pool.in_step = true;
  d.pool.config.rank_routing = RankRouting::kRoundRobin;
  const RequestTrace trace = TraceOf({At(0, 60, 4), At(0, 10, 3), At(1.7, 50, 2)});
  ServingResult r = Serve(trace, d);
  EXPECT_EQ(r.outcomes[0].first_token, SimTime::FromUs(1600));
  EXPECT_EQ(r.outcomes[1].first_token, SimTime::FromUs(1600));
  EXPECT_EQ(r.outcomes[1].last_token, SimTime::FromUs(1600 + 1010 + 1510));
  EXPECT_EQ(r.outcomes[2].first_token, SimTime::FromUs(1600 + 1010 + 1510));
  EXPECT_EQ(r.outcomes[0].last_token, SimTime::FromUs(1600 + 1010 + 1510 + 1020));
  d.pool.in_step = false;
  r = Serve(trace, d);
  EXPECT_EQ(r.outcomes[1].last_token, SimTime::FromUs(1100 + 2 * 1010));
  // Scheduled ahead, an engine that wakes takes part in the step after the one that runs.
  d.pool.in_step = true;
  d.pool.config.asynchronous = true;
  r = Serve(TraceOf({At(0, 60, 6), At(1.7, 50, 1)}), d);
  EXPECT_EQ(r.outcomes[1].first_token, SimTime::FromUs(1600 + 1010 + 1500));
  EXPECT_EQ(r.outcomes[0].last_token, SimTime::FromUs(1600 + 1010 + 1500 + 3 * 1010));
}

// A request lives on one rank: a prompt of 60 tokens takes as long on two ranks as on one, and two
// prompts run beside each other, on the rank whose queue is shorter or on the next.
TEST(Engine, ARequestLivesOnOneDataParallelRank) {
  for (const RankRouting routing : {RankRouting::kShortestQueue, RankRouting::kRoundRobin}) {
    Deployment d = DeploymentOf(SmallEngine(), 1000, 10);
    d.pool.ranks = 2;
    d.pool.config.rank_routing = routing;
    const ServingResult r = Serve(TraceOf({At(0, 60, 1), At(0, 60, 1)}), d);
    EXPECT_EQ(r.outcomes[0].first_token, SimTime::FromUs(1600));
    EXPECT_EQ(r.outcomes[1].first_token, SimTime::FromUs(1600));
    EXPECT_EQ(r.busy.size(), 2u);
  }
}

// Two stages, steps of 1000 us and 10 a token, prompts of a whole step of 64 tokens (1640 us) in
// steps of their own. A's is back at 1640, B's runs from 820 (when the first stage is free) to
// 2460. C waits by then. With a batch for each stage's turn, C's prompt is A's turn (1640 to 3280),
// B decodes by itself (2460 to 3470), and A and C together (3280 to 4300, then 5320). With none, A
// waits for B and decodes with it: from 2460 to 3480 and, the first stage being C's from 3280 to
// 3785, to 4805.
TEST(Engine, BatchesOfStagesDoNotMerge) {
  EngineConfig c = SmallEngine();
  c.stages = 2;
  c.mixed_steps = false;
  c.pipeline_slots = true;
  const RequestTrace trace = TraceOf({At(0, 64, 3), At(0, 64, 3), At(1, 64, 3)});
  ServingResult r = Serve(trace, DeploymentOf(c, 1000, 10));
  EXPECT_EQ(r.outcomes[0].last_token, SimTime::FromUs(5320));
  EXPECT_EQ(r.outcomes[1].last_token, SimTime::FromUs(4800));
  EXPECT_EQ(r.outcomes[2].last_token, SimTime::FromUs(5320));
  c.pipeline_slots = false;
  r = Serve(trace, DeploymentOf(c, 1000, 10));
  EXPECT_EQ(r.outcomes[0].last_token, SimTime::FromUs(4805));
  EXPECT_EQ(r.outcomes[1].last_token, SimTime::FromUs(4805));
}

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

// Blocks of 100 bytes over 1 GB/s take 0.1 us each, one after another. The first tier holds two:
// the third pushes the one that was used longest ago to the second, which holds one.
TEST(KvTiers, FullTiersPassTheOldestOn) {
  KvTiers tiers({{"host", Bytes(200), Bandwidth::GBps(1), SimTime::FromUs(1)},
                 {"disk", Bytes(100), Bandwidth::GBps(0.5), SimTime()}},
                Bytes(100));
  for (const uint64_t key : {1, 2, 3}) tiers.Put(key, SimTime());
  EXPECT_EQ(tiers.held(0), 2);
  EXPECT_EQ(tiers.held(1), 1);
  EXPECT_TRUE(tiers.Has(1));
  // Written at 0.1, 0.2 and 0.3 us; read from 1 us on: two of the host's in a row and its latency.
  const std::vector<uint64_t> hosts = {2, 3};
  EXPECT_EQ(tiers.Read(hosts, SimTime::FromUs(1)), SimTime::FromUs(1 + 0.2 + 1));
  const std::vector<uint64_t> disks = {1};
  EXPECT_EQ(tiers.Read(disks, SimTime::FromUs(1)), SimTime::FromUs(1 + 0.2));
  tiers.Put(2, SimTime::FromUs(2));  // used again: 3 is the oldest
  tiers.Put(4, SimTime::FromUs(2));
  EXPECT_FALSE(tiers.Has(1));
  EXPECT_TRUE(tiers.Has(2));
  EXPECT_EQ(tiers.blocks_lost(), 1);
}

TEST(KvTiers, TextsOfTiers) {
  const auto tier = ParseKvTier("disk:2:0.5:80");
  ASSERT_TRUE(tier.ok());
  EXPECT_EQ(tier->capacity, Bytes(int64_t{2} << 30));
  EXPECT_EQ(tier->latency, SimTime::FromUs(80));
  for (const char* bad :
       {"host", "host:1", "host:0:1", "host:1:x", ":1:1", "host:1:1:-2", "a:1:1:1:1"}) {
    EXPECT_FALSE(ParseKvTier(bad).ok()) << bad;
  }
}

EngineConfig WithTier(double gbps) {
  EngineConfig c = SmallEngine();
  c.kv_blocks = 8;
  c.max_num_batched_tokens = 256;
  c.block_bytes = Bytes(1000);
  c.kv_tiers = {{"host", Bytes(1 << 20), Bandwidth::GBps(gbps), SimTime()}};
  return c;
}

// As AFullCachePreemptsTheLastAdmitted, with the blocks of the preempted kept: they come back at
// 1 us each and only the last, unfinished block is computed again.
TEST(Engine, SwappedSequencesComeBack) {
  EngineConfig c = WithTier(1);
  c.preemption = Preemption::kSwap;
  const RequestTrace trace = TraceOf({At(0, 60, 60), At(0, 60, 60)});
  const ServingResult r = Serve(trace, DeploymentOf(c, 1000, 10));
  EXPECT_GE(r.outcomes[1].preemptions, 1);
  EXPECT_EQ(r.outcomes[0].tokens, 60);
  EXPECT_EQ(r.outcomes[1].tokens, 60);
  EXPECT_GE(r.tier_hits, 48);
  c.preemption = Preemption::kRecompute;
  c.kv_tiers.clear();
  const ServingResult again = Serve(trace, DeploymentOf(c, 1000, 10));
  EXPECT_LT(r.outcomes[1].last_token, again.outcomes[1].last_token);
  c.preemption = Preemption::kSwap;
  EXPECT_NE(Simulate(trace, DeploymentOf(c, 1, 1)).status().message().find("--kv-tier"),
            std::string_view::npos);
}

// A prompt of 64 that fills half of the cache, one of 96 that takes its blocks, and the first
// again: three of its blocks are read from below, 16 tokens are computed. A slow tier is waited
// for.
TEST(Engine, EvictedPrefixesAreReadFromBelow) {
  RequestTrace trace = TraceOf({At(0, 64, 2), At(50, 112, 2), At(100, 64, 2)});
  trace.prefix_block_tokens = 16;
  trace.prefix_ids = {1, 2, 3, 4};
  trace.requests[0].prefix_blocks = trace.requests[2].prefix_blocks = 4;
  const auto ttft = [&](EngineConfig c) {
    c.prefix_caching = true;
    const ServingResult r = Serve(trace, DeploymentOf(c, 0, 10));
    return r.outcomes[2].first_token - r.outcomes[2].queued;
  };
  EngineConfig without = WithTier(1);
  without.kv_tiers.clear();
  EXPECT_GT(ttft(without), SimTime::FromUs(300));
  EXPECT_LT(ttft(WithTier(1)), SimTime::FromUs(200));
  EXPECT_GT(ttft(WithTier(1e-4)), SimTime::FromUs(10000));
}

// Steps of SGLang's kind: a prompt goes alone and before the decodes that run.
TEST(Engine, PromptsGoFirstWhereStepsAreNotMixed) {
  EngineConfig c = SmallEngine();
  c.mixed_steps = false;
  const ServingResult r = Serve(TraceOf({At(0, 32, 10), At(2, 100, 4)}), DeploymentOf(c, 1000, 0));
  int32_t prompts = 0;
  for (const StepRecord& step : r.steps) {
    EXPECT_TRUE(step.prefill_tokens == 0 || step.decodes == 0);
    prompts += step.prefill_tokens > 0 ? 1 : 0;
  }
  EXPECT_EQ(prompts, 1 + 2);  // 100 tokens in chunks of 64
  // It arrives as the second step ends: the third and fourth are its own.
  EXPECT_EQ(r.outcomes[1].first_token, SimTime::FromUs(4000));
}

// 64 blocks of 16: each of two requests may come to 500 tokens. With all of the output kept free
// the second waits for the first; with nothing kept they share the cache.
TEST(Engine, AdmissionKeepsRoomForOutput) {
  EngineConfig c = SmallEngine();
  c.max_num_batched_tokens = 256;
  const RequestTrace trace = TraceOf({At(0, 100, 500), At(0, 100, 500)});
  EXPECT_EQ(Serve(trace, DeploymentOf(c, 1000, 0)).outcomes[1].scheduled, SimTime());
  c.output_reserve = {1, 1, 1, 4096, 0};
  const ServingResult r = Serve(trace, DeploymentOf(c, 1000, 0));
  EXPECT_GT(r.outcomes[1].scheduled, SimTime());
  EXPECT_EQ(r.preemptions, 0);
}

// The one with least output gives way, of equals the one with the longest input.
TEST(Engine, TheLeastOutputGivesWay) {
  EngineConfig c = SmallEngine();
  c.kv_blocks = 8;
  c.max_num_batched_tokens = 256;
  c.victim = Victim::kLeastOutput;
  const ServingResult r = Serve(TraceOf({At(0, 60, 60), At(0, 50, 60)}), DeploymentOf(c, 1000, 0));
  EXPECT_GE(r.outcomes[0].preemptions, 1);
  EXPECT_EQ(r.outcomes[1].preemptions, 0);
}

// What a release sets by memory: the last class that the device reaches counts, unless its name is
// excepted.
// Beyond the model's positions there is nothing to raise.
TEST(Engine, AdviceIsWhatTheModelHas) {
  EngineConfig c = SmallEngine();
  c.max_model_len = 100;
  c.model_positions = 200;
  const auto message = [&c](int32_t input) {
    return std::string(
        Simulate(TraceOf({At(0, input, 1)}), DeploymentOf(c, 1, 1)).status().message());
  };
  EXPECT_NE(message(150).find("raise --max-model-len"), std::string::npos) << message(150);
  EXPECT_EQ(message(250).find("raise"), std::string::npos) << message(250);
  EXPECT_NE(message(250).find("200 positions"), std::string::npos) << message(250);
  c.kv_blocks = c.reserved_blocks = 1;
  EXPECT_NE(message(10).find("--kv-blocks"), std::string::npos) << message(10);
}

TEST(EngineConfig, SizesByTheDevicesMemory) {
  EngineConfig c = SmallEngine();
  c.graph_sizes = {1, 2, 4, 8};
  c.memory_classes = {{Bytes(0), {}, 0, 0, 2, Bytes(5)}, {Bytes(70), {"a100"}, 9, 99, 8, Bytes()}};
  EXPECT_EQ(c.On("h100", Bytes(80)).max_num_seqs, 9);
  EXPECT_EQ(c.On("h100", Bytes(80)).graph_sizes.back(), 8);
  EXPECT_EQ(c.On("NVIDIA A100-SXM4-80GB", Bytes(80)).max_num_seqs, 4);
  EXPECT_EQ(c.On("h100", Bytes(10)).graph_sizes.back(), 2);
  EXPECT_EQ(c.On("h100", Bytes(10)).reserve, Bytes(5));
}

// vLLM's limits are of each data-parallel rank, SGLang's of all together, which divide them: of 64
// tokens and 4 sequences two ranks have 32 and 2, and eight ranks have no sequence for some.
TEST(EngineConfig, LimitsOfARank) {
  EngineConfig c = SmallEngine();
  c.file = "mine.yaml";
  const auto half = c.OfRank(2);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->max_num_seqs, 2);
  EXPECT_EQ(half->max_num_batched_tokens, 32);
  const std::string refusal(c.OfRank(8).status().message());
  EXPECT_NE(refusal.find("mine.yaml: max_num_seqs: 4 of all data-parallel ranks together"),
            std::string::npos)
      << refusal;
  c.limits_of_each_rank = true;
  EXPECT_EQ(c.OfRank(8)->max_num_seqs, c.max_num_seqs);
}

class FixedExchange : public TokenExchange {
 public:
  Estimate Time(int64_t tokens) const override {
    return {SimTime::FromUs(static_cast<double>(tokens)), EstimateSource::kAnalytic, false};
  }
};

// A draft of 100 us a step and a target of 1000, two tokens deep, of two decodes: 1000 + 2 * 100.
// On devices of its own also 2 * 3 ids there and back, 1 us each. A prompt is read by both: one
// after the other on the same devices, at once on others.
TEST(Speculation, DraftsOnTheSameAndOnOtherDevices) {
  const auto target = std::make_shared<LinearStep>(1000, 0, 0);
  const auto draft = std::make_shared<LinearStep>(100, 0, 0);
  const Speculation two = {DraftShape::kSequence, 2, 1, {1.0}};
  const auto same = MakeSpeculativeStepModel(target, draft, two, nullptr);
  const auto apart =
      MakeSpeculativeStepModel(target, draft, two, std::make_shared<FixedExchange>());
  StepBatch batch;
  batch.AddDecode(10), batch.AddDecode(10);
  EXPECT_NEAR(same->Time(batch).us(), 1200, 1e-9);
  EXPECT_NEAR(apart->Time(batch).us(), 1200 + 2 * 6, 1e-9);
  batch.Clear();
  batch.prefills = {{8, 0}};
  EXPECT_NEAR(same->Time(batch).us(), 1100, 1e-9);
  EXPECT_NEAR(apart->Time(batch).us(), 1000, 1e-9);
}

}  // namespace
}  // namespace foretrace::serve
