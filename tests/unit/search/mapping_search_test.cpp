#include "simulator/search/mapping_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "simulator/mapping/memory_model.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

TransformerConfig Gpt3() {
  TransformerConfig c;
  c.hidden = 12288;
  c.layers = 96;
  c.heads = 96;
  c.vocabulary = 51200;
  c.sequence = 2048;
  return c;
}

MappingSpace Space(int64_t devices, int32_t batch) {
  MappingSpace s;
  s.devices = devices;
  s.global_batch = batch;
  s.max_micro_batch = 8;
  return s;
}

absl::StatusOr<SearchResult> Search(const Evaluator& evaluator,
                                    const std::vector<ParallelMapping>& candidates, size_t keep,
                                    int jobs = 1) {
  SearchControl control;
  control.keep = keep;
  return SearchExhaustively(evaluator, OnThreads(evaluator, jobs), candidates, control);
}

// Bounds of millions take minutes, of which nobody would know how many are done.
TEST(MappingSearchTest, TellsOfBoundsBeforeItEvaluates) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const IterationEvaluator evaluator(Gpt3(), cluster, Bytes(int64_t{1} << 60));
  const auto all = EnumerateMappings(Gpt3(), Space(64, 64));
  SearchControl control;
  std::vector<int64_t> done;
  bool bounded = false;
  control.bounding = [&](int64_t bounds, int64_t total) {
    EXPECT_EQ(total, static_cast<int64_t>(all.size()));
    EXPECT_TRUE(done.empty());
    bounded |= bounds == 0;
  };
  control.progress = [&](int64_t evaluated, int64_t) { done.push_back(evaluated); };
  EXPECT_TRUE(SearchExhaustively(evaluator, OnThreads(evaluator, 1), all, control).ok());
  EXPECT_TRUE(bounded);
  EXPECT_FALSE(done.empty());
}

TEST(MappingSearchTest, EnumeratesEachOnceAndOnlyValid) {
  const auto all = EnumerateMappings(Gpt3(), Space(64, 64));
  EXPECT_GT(all.size(), 500u);
  EXPECT_EQ(std::set<ParallelMapping>(all.begin(), all.end()).size(), all.size());
  for (const ParallelMapping& m : all) EXPECT_TRUE(CheckMapping(Gpt3(), m, 64).ok());
}

// 96 layers on 64 stages: 32 of two, 32 of one. Experts divided as other GEMMs, and whole, with
// as many groups as then there are.
TEST(MappingSearchTest, UnevenStagesAndWholeExperts) {
  size_t uneven = 0;
  for (const ParallelMapping& m : EnumerateMappings(Gpt3(), Space(64, 64))) {
    if (m.layers.empty()) continue;
    EXPECT_EQ(m.pipeline, 64);
    EXPECT_EQ(m.layers[31], 2);
    EXPECT_EQ(m.layers[32], 1);
    ++uneven;
  }
  EXPECT_GT(uneven, 0u);
  TransformerConfig mixture = Gpt3();
  mixture.experts = 8;
  mixture.top_k = 2;
  MappingSpace space = Space(8, 8);
  space.max_tensor = 8;
  bool whole = false, divided = false;
  for (const ParallelMapping& m : EnumerateMappings(mixture, space)) {
    whole |= m.tensor == 8 && m.expert == 8 && m.expert_tensor == 1;
    divided |= m.tensor == 8 && m.expert == 1 && m.expert_tensor == 0;
  }
  EXPECT_TRUE(whole && divided);
}

// Software that turns 1F1B into DualPipe where it can does so once where both are asked for.
TEST(MappingSearchTest, SchedulesOfSoftwareComeOnce) {
  StackRelease release;
  release.dual_pipe = true;
  MappingSpace space = Space(64, 64);
  space.software = &release;
  space.schedules = {ScheduleKind::k1F1B, ScheduleKind::kDualPipe, ScheduleKind::kZeroBubbleH1};
  const auto all = EnumerateMappings(Gpt3(), space);
  EXPECT_EQ(std::set<ParallelMapping>(all.begin(), all.end()).size(), all.size());
  std::set<ScheduleKind> seen;
  for (const ParallelMapping& m : all) seen.insert(m.schedule);
  EXPECT_EQ(seen.size(), 3u);
  // What bounds a mapping's time from below does so where both ends feed the pipeline.
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const IterationEvaluator evaluator(Gpt3(), cluster, Bytes(int64_t{1} << 60));
  size_t dual = 0;
  for (const ParallelMapping& m : all) {
    if (!m.dual() || ++dual % 16 != 0) continue;
    const auto evaluation = evaluator.Evaluate(m);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_LE(evaluator.LowerBound(m), evaluation->iteration) << ToString(m);
  }
  EXPECT_GT(dual, 64u);
}

// Userbuffers are of a node's devices.
TEST(MappingSearchTest, PartsBesideGemmsWithinANodeAlone) {
  StackRelease release;
  release.sequence_parallel = release.overlap_tensor = release.chunked_tensor = true;
  MappingSpace space = Space(64, 64);
  space.software = &release;
  std::set<int32_t> in_parts, whole;
  for (const ParallelMapping& m : EnumerateMappings(Gpt3(), space)) {
    (m.chunked_tensor ? in_parts : whole).insert(m.tensor);
  }
  EXPECT_EQ(in_parts, (std::set<int32_t>{2, 4, 8}));
  EXPECT_EQ(whole, (std::set<int32_t>{1, 16, 32}));
}

// And no others than what was asked for.
TEST(MappingSearchTest, SchedulesOfSoftwareAreThoseAskedFor) {
  StackRelease release;
  release.dual_pipe = true;
  MappingSpace space = Space(64, 64);
  space.software = &release;
  space.schedules = {ScheduleKind::kDualPipe};
  const auto all = EnumerateMappings(Gpt3(), space);
  EXPECT_GT(all.size(), 0u);
  for (const ParallelMapping& m : all) EXPECT_EQ(m.dual(), m.pipeline > 1) << ToString(m);
  ParallelMapping chunks = all.back();
  chunks.chunks = 2;
  Conform(Gpt3(), space, chunks);
  EXPECT_FALSE(CheckMapping(Gpt3(), chunks, 64).ok()) << ToString(chunks);
  space.schedules = {ScheduleKind::k1F1B};
  Conform(Gpt3(), space, chunks);
  EXPECT_EQ(chunks.schedule, ScheduleKind::k1F1B);
}

// Each mapping in each format that is asked for, once.
TEST(MappingSearchTest, FormatsOfGemms) {
  MappingSpace space = Space(64, 64);
  const auto plain = EnumerateMappings(Gpt3(), space);
  space.formats = {GemmFormat::kFp8};
  const auto eight = EnumerateMappings(Gpt3(), space);
  space.formats = {GemmFormat::kModel, GemmFormat::kFp8, GemmFormat::kMxFp8, GemmFormat::kNvFp4};
  const auto every = EnumerateMappings(Gpt3(), space);
  EXPECT_EQ(eight.size(), plain.size());
  EXPECT_EQ(every.size(), 4 * plain.size());
  const std::set<ParallelMapping> known(every.begin(), every.end());
  EXPECT_EQ(known.size(), every.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    ParallelMapping m = plain[i];
    EXPECT_FALSE(m.narrow());
    m.fp8 = true;
    EXPECT_EQ(eight[i], m);
    for (const GemmFormat format : space.formats) {
      SetFormat(format, m);
      EXPECT_TRUE(known.contains(m)) << ToString(m);
    }
  }
}

// The bound prunes nothing that belongs to the best, in whatever format.
TEST(MappingSearchTest, PruningKeepsTheBest) {
  const IterationEvaluator evaluator(Gpt3(), FlatCluster(), Bytes(80'000'000'000));
  MappingSpace space = Space(64, 64);
  space.formats = {GemmFormat::kModel, GemmFormat::kFp8};
  const auto all = EnumerateMappings(Gpt3(), space);
  const auto pruned = Search(evaluator, all, 10, 3);
  const auto full = Search(evaluator, all, all.size());
  ASSERT_TRUE(pruned.ok() && full.ok()) << pruned.status() << full.status();
  EXPECT_GT(pruned->pruned, 0);
  EXPECT_EQ(full->pruned, 0);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(pruned->ranked[i].mapping, full->ranked[i].mapping);
    EXPECT_EQ(pruned->ranked[i].evaluation.iteration, full->ranked[i].evaluation.iteration);
  }
  // Nor anything on the front of time against memory.
  ASSERT_EQ(pruned->pareto.size(), full->pareto.size());
  for (size_t i = 0; i < full->pareto.size(); ++i) {
    EXPECT_EQ(pruned->ranked[pruned->pareto[i]].evaluation.memory,
              full->ranked[full->pareto[i]].evaluation.memory);
  }
  // The same candidates are evaluated whoever evaluates.
  const auto alone = Search(evaluator, all, 10, 1);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->evaluated, pruned->evaluated);
  for (const ParallelMapping& m : all) {
    const auto e = evaluator.Evaluate(m);
    if (e.ok()) {
      EXPECT_LE(evaluator.LowerBound(m), e->iteration) << ToString(m);
    }
  }
}

TEST(MappingSearchTest, LocalSearchComesCloseToTheBest) {
  const IterationEvaluator evaluator(Gpt3(), FlatCluster(), Bytes(80'000'000'000));
  const MappingSpace space = Space(64, 64);
  const auto full = Search(evaluator, EnumerateMappings(Gpt3(), space), 1);
  ASSERT_TRUE(full.ok());
  ParallelMapping start;
  start.tensor = 8;
  start.pipeline = 8;
  start.global_batch = 64;
  start.recompute = Recompute::kFull;
  const auto found = SearchLocally(evaluator, Gpt3(), space, start, 2000, 1);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_LE(found->evaluation.iteration.seconds(),
            1.05 * full->ranked[0].evaluation.iteration.seconds());
  const auto again = SearchLocally(evaluator, Gpt3(), space, start, 2000, 1);
  EXPECT_EQ(again->mapping, found->mapping);
}

// Every choice that is enumerated is also a move: from a plain mapping the search reaches those
// that need context parallelism, another schedule, ZeRO 3 and overlap, and stages that differ.
TEST(MappingSearchTest, LocalSearchMovesWhatIsEnumerated) {
  MappingSpace space = Space(64, 64);
  space.max_context = 4;
  space.max_zero = 3;
  space.overlap_gradients = true;
  space.schedules = {ScheduleKind::k1F1B, ScheduleKind::kZeroBubbleH1};
  std::set<std::string> seen;
  // Likes what is rare, and remembers what it was asked.
  class Asked : public Evaluator {
   public:
    explicit Asked(std::set<std::string>& seen) : seen_(seen) {}
    absl::StatusOr<Evaluation> Evaluate(const ParallelMapping& m) const override {
      if (m.context > 1) seen_.insert("context");
      if (m.schedule == ScheduleKind::kZeroBubbleH1) seen_.insert("schedule");
      if (m.overlap_gradients) seen_.insert("overlap");
      if (m.dispatch == ExpertDispatch::kDeepEp) seen_.insert("dispatch");
      if (m.overlap_experts) seen_.insert("ep-overlap");
      if (!m.layers.empty()) seen_.insert("layers");
      if (m.micro_batch > 2) seen_.insert("micro-batch");
      seen_.insert(m.mxfp8 ? "mxfp8" : m.fp8 ? "fp8" : "model");
      seen_.insert("zero" + std::to_string(m.zero));
      Evaluation e;
      e.iteration = SimTime::FromUs(1000);
      return e;
    }

   private:
    std::set<std::string>& seen_;
  };
  ParallelMapping start;
  start.tensor = 8;
  start.data = 8;
  start.global_batch = 64;
  ASSERT_TRUE(SearchLocally(Asked(seen), Gpt3(), space, start, 2000, 1).ok());
  for (const char* what :
       {"context", "schedule", "overlap", "zero1", "zero2", "zero3", "layers", "micro-batch"}) {
    EXPECT_TRUE(seen.contains(what)) << what;
  }
  seen.clear();
  space.max_micro_batch = 2;
  ASSERT_TRUE(SearchLocally(Asked(seen), Gpt3(), space, start, 2000, 1).ok());
  EXPECT_FALSE(seen.contains("micro-batch"));
  EXPECT_FALSE(seen.contains("fp8") || seen.contains("mxfp8"));
  space.formats = {GemmFormat::kModel, GemmFormat::kFp8};
  ASSERT_TRUE(SearchLocally(Asked(seen), Gpt3(), space, start, 2000, 1).ok());
  EXPECT_TRUE(seen.contains("fp8") && !seen.contains("mxfp8"));
  space.dispatches = {ExpertDispatch::kAllToAll, ExpertDispatch::kDeepEp};
  space.overlap_experts = true;
  TransformerConfig experts = Gpt3();
  experts.experts = 8;
  experts.top_k = 2;
  ASSERT_TRUE(SearchLocally(Asked(seen), experts, space, start, 2000, 1).ok());
  EXPECT_TRUE(seen.contains("dispatch") && seen.contains("ep-overlap"));
}

// Dispatchers other than all-to-all are of whole experts, and of those that are divided.
TEST(MappingSearchTest, DispatchersOfExperts) {
  TransformerConfig model = Gpt3();
  model.experts = 8;
  model.top_k = 2;
  MappingSpace space = Space(16, 64);
  const size_t plain = EnumerateMappings(model, space).size();
  space.dispatches = {ExpertDispatch::kAllToAll, ExpertDispatch::kDeepEp};
  space.overlap_experts = true;
  size_t others = 0;
  for (const ParallelMapping& m : EnumerateMappings(model, space)) {
    if (m.dispatch == ExpertDispatch::kAllToAll && !m.overlap_experts) continue;
    ++others;
    EXPECT_GT(m.expert, 1) << ToString(m);
    EXPECT_TRUE(m.dispatch == ExpertDispatch::kAllToAll || m.expert_width() == 1) << ToString(m);
  }
  EXPECT_GT(others, 0u);
  EXPECT_EQ(EnumerateMappings(model, space).size(), plain + others);
}

TEST(MappingSearchTest, InfeasibleSaysWhatWouldHelp) {
  const IterationEvaluator evaluator(Gpt3(), FlatCluster(), Bytes(16'000'000'000));
  const auto none = Search(evaluator, EnumerateMappings(Gpt3(), Space(8, 8)), 1);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("needed"));
  // 7 devices divide neither heads nor layers.
  ParallelMapping m;
  m.tensor = 7;
  EXPECT_THAT(CheckMapping(Gpt3(), m, 7).message(), testing::HasSubstr("does not divide"));
  m = {};
  m.tensor = 8;
  m.micro_batch = m.global_batch = 8;
  EXPECT_THAT(CheckMemory(Gpt3(), m, Bytes(80'000'000'000), {}).message(),
              testing::HasSubstr("GiB"));
}

// Eight devices of one pipeline; memory in which a part of the layers has to be recomputed.
TEST(MappingSearchTest, RecomputesNoMoreLayersThanItHasTo) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  TransformerConfig model = Gpt3();
  model.layers = 16;
  MappingSpace space = Space(8, 16);
  space.max_micro_batch = space.max_chunks = 1;
  const ParallelMapping none = *ParseMapping("tp8 mb1 sp", 16, "test");
  ParallelMapping full = none, some = none;
  full.recompute = some.recompute = Recompute::kFull;
  some.recomputed_layers = 5;
  const Bytes capacity = MemoryOf(model, some).total();
  ASSERT_LT(MemoryOf(model, full).total(), capacity);
  ASSERT_GT(MemoryOf(model, none).total(), capacity);
  const IterationEvaluator evaluator(model, cluster, capacity);
  const auto fewest = MakeFit(evaluator, model, space, none);
  ASSERT_TRUE(fewest.has_value());
  EXPECT_EQ(*fewest, some);
  EXPECT_FALSE(MakeFit(evaluator, model, space, full).has_value());
  // Neither where nothing has to be recomputed, nor where all layers and more would have to be.
  const IterationEvaluator large(model, cluster, MemoryOf(model, none).total());
  EXPECT_FALSE(MakeFit(large, model, space, none).has_value());
  const IterationEvaluator small(model, cluster, MemoryOf(model, full).total() - Bytes(1));
  EXPECT_FALSE(MakeFit(small, model, space, none).has_value());
  // As software chooses them: every third of 16 are five, every fourth are four.
  StackRelease release;
  space.software = &release;
  EXPECT_FALSE(MakeFit(evaluator, model, space, none).has_value());
  release.some_layers = SomeLayers::kEvery;
  const auto every = MakeFit(evaluator, model, space, none);
  ASSERT_TRUE(every.has_value());
  EXPECT_EQ(every->recomputed_every, 3);
  EXPECT_EQ(evaluator.Memory(*every), capacity);
  space.software = nullptr;

  SearchControl control;
  const std::vector<ParallelMapping> candidates = {full, none};
  const auto without = SearchExhaustively(evaluator, OnThreads(evaluator, 1), candidates, control);
  control.instead = [&](const ParallelMapping& m) {
    const auto other = MakeFit(evaluator, model, space, m);
    return other ? std::vector{*other} : std::vector<ParallelMapping>();
  };
  const auto with = SearchExhaustively(evaluator, OnThreads(evaluator, 1), candidates, control);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(without->ranked.front().mapping, full);
  EXPECT_EQ(with->ranked.front().mapping, some);
  EXPECT_EQ(with->candidates, 3);
  EXPECT_LT(with->ranked.front().evaluation.iteration,
            without->ranked.front().evaluation.iteration);
  const auto local = SearchLocally(evaluator, model, space, full, 2000, 1);
  ASSERT_TRUE(local.ok());
  EXPECT_LE(local->evaluation.iteration, with->ranked.front().evaluation.iteration);
  EXPECT_LE(local->evaluation.memory, capacity);
}

// Stages in front hold more micro-batches: with fewer layers there, and no more on the others than
// needed, a mapping fits that does not with as many on each.
TEST(MappingSearchTest, LayersMoveToStagesThatHaveRoom) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  TransformerConfig model = Gpt3();
  model.layers = 40;
  const ParallelMapping equal = *ParseMapping("tp2 pp4 dp1 mb1", 16, "test");
  const ParallelMapping moved = *ParseMapping("tp2 pp4 dp1 mb1 layers=9,11,10,10", 16, "test");
  const Bytes capacity = MemoryOf(model, moved).total();
  ASSERT_GT(MemoryOf(model, equal).total(), capacity);
  const IterationEvaluator evaluator(model, cluster, capacity);
  const auto found = MoveLayersToFit(evaluator, model, equal);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(ToString(*found), ToString(moved));
  // None where nothing has to move, and where no stage has room for what others cannot hold.
  const IterationEvaluator large(model, cluster, MemoryOf(model, equal).total());
  EXPECT_FALSE(MoveLayersToFit(large, model, equal).has_value());
  const IterationEvaluator small(model, cluster, Bytes(MemoryOf(model, equal).total().count() / 2));
  EXPECT_FALSE(MoveLayersToFit(small, model, equal).has_value());
  // Chunks of a stage are not moved.
  const ParallelMapping chunks = *ParseMapping("tp2 pp4 dp1 mb1 v2", 16, "test");
  EXPECT_FALSE(MoveLayersToFit(evaluator, model, chunks).has_value());
}

// An output layer of 65,536 words computes what 2 h V / (24 h^2 + 4 s h) = 4.0 layers of 1,024
// elements do over 2,048 tokens, so that the last stage has fewer: of all ways to divide 16 layers
// in two the fastest.
TEST(MappingSearchTest, LayersBalanceTheOutputLayer) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  TransformerConfig model;
  model.hidden = 1024;
  model.layers = model.heads = 16;
  model.vocabulary = 65'536;
  model.sequence = 2048;
  model = WithDefaults(model);
  const IterationEvaluator evaluator(model, cluster, Bytes(1'000'000'000'000));
  std::optional<RankedMapping> fastest;
  for (int first = 1; first < 16; ++first) {
    const std::string words = fmt::format("pp2 mb1 layers={},{}", first, 16 - first);
    RankedMapping r{*ParseMapping(words, 32, "test"), {}};
    const auto evaluation = evaluator.Evaluate(r.mapping);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    r.evaluation = *evaluation;
    if (!fastest || r.evaluation.iteration < fastest->evaluation.iteration) fastest = r;
  }
  RankedMapping equal{*ParseMapping("pp2 mb1", 32, "test"), {}};
  equal.evaluation = *evaluator.Evaluate(equal.mapping);
  const auto found = ShiftLayersToBalance(evaluator, model, equal);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(ToString(found->mapping), ToString(fastest->mapping));
  EXPECT_GT(found->mapping.layers[0], 8);
  EXPECT_FALSE(ShiftLayersToBalance(evaluator, model, *found).has_value());
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(ShiftLayersToBalance(evaluator, model, equal, stopped.get_token()).has_value());
  // Chunks of a stage are not moved.
  RankedMapping chunks{*ParseMapping("pp2 mb1 v2", 32, "test"), {}};
  EXPECT_FALSE(ShiftLayersToBalance(evaluator, model, chunks).has_value());
}

// Less than full recomputation needs: two layers to an input, or inputs divided over eight ranks
// where these have the same; a host keeps them where there is one whose rate is known.
TEST(MappingSearchTest, KeepsFewerInputs) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const TransformerConfig model = Gpt3();
  MappingSpace space = Space(8, 16);
  const ParallelMapping full = *ParseMapping("tp8 mb1 full", 16, "test");
  const auto fit = [&](const char* words, int64_t missing) {
    const auto m = ParseMapping(words, 16, "test");
    const IterationEvaluator evaluator(model, cluster,
                                       MemoryOf(model, *m).total() - Bytes(missing));
    const auto found = MakeFit(evaluator, model, space, full);
    return found ? ToString(*found) : "";
  };
  const std::string plain = "tp8 pp1 dp1 mb1 v1 full";
  EXPECT_EQ(fit("tp8 mb1 full", 0), "");
  const std::string together = fit("tp8 mb1 full uniform3", 0);
  EXPECT_EQ(together.find(plain + " uniform"), 0u) << together;
  EXPECT_EQ(fit("tp8 mb1 full partition-activations", 0), plain + " partition-activations");
  EXPECT_EQ(fit("tp8 mb1 full partition-activations", 1), "");
  space.inputs_on_host = true;
  EXPECT_EQ(fit("tp8 mb1 full partition-activations", 1), plain + " offload-activations");
  EXPECT_EQ(fit("tp8 mb1 full offload-activations", 1), "");
}

// Weights divided within nodes of eight are tried where replicas are in several.
TEST(MappingSearchTest, DividesWeightsWithinNodes) {
  MappingSpace space = Space(32, 64);
  space.max_zero = 3;
  int within = 0;
  for (const ParallelMapping& m : EnumerateMappings(Gpt3(), space)) {
    if (m.hybrid == 0) continue;
    ++within;
    EXPECT_EQ(m.zero, 3) << ToString(m);
    EXPECT_EQ(m.hybrid * m.tensor, 8) << ToString(m);
    EXPECT_GT(m.replicas(), m.hybrid) << ToString(m);
  }
  EXPECT_GT(within, 0);
}

// Bounds hold of mappings that recompute some layers, or layers of two kinds.
TEST(MappingSearchTest, BoundsOfSomeLayers) {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  TransformerConfig mixed = Gpt3();
  mixed.layers = 16;
  mixed.experts = 8;
  mixed.top_k = 2;
  mixed.dense_first = 5;
  mixed.dense_ffn = 49152;
  for (const TransformerConfig& model : {Gpt3(), mixed}) {
    const IterationEvaluator evaluator(model, cluster, Bytes(int64_t{1} << 60));
    for (const char* degrees : {"tp8", "tp8 pp4", "tp8 pp4 v2", "tp8 pp4 zb-h1"}) {
      for (const char* again : {"full block1", "full block2", "full every2", "full every3"}) {
        const auto m = ParseMapping(fmt::format("{} mb1 {}", degrees, again), 16, "test");
        ASSERT_TRUE(m.ok()) << m.status();
        const auto evaluation = evaluator.Evaluate(*m);
        ASSERT_TRUE(evaluation.ok()) << evaluation.status();
        EXPECT_LE(evaluator.LowerBound(*m), evaluation->iteration) << ToString(*m);
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
