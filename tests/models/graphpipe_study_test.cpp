// GraphPipe's evaluation as a study: tables and figures of chapter 3 on a model of its devices.
// What is compared is the direction and rough size of effects; the published throughputs were
// measured on other software.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <tuple>
#include <vector>

#include "simulator/cost/kernel/kernel_file.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/search/graph_searchers.h"
#include "simulator/search/workload_problem.h"
#include "simulator/workload/multi_branch.h"

namespace foretrace {
namespace {

// Summit: V100 with 16 GB, 15.7 TFLOP/s in 32 bits, 0.9 TB/s; 100 Gb/s InfiniBand. Attainable
// shares and the 30 us of launching an operator are assumptions.
PartitionDevice Summit(int32_t devices) {
  PartitionDevice d;
  d.flop_rate = FlopRate::Teraflops(15.7 * 0.8);
  d.memory_bandwidth = Bandwidth::GBps(900 * 0.8);
  d.network = Bandwidth::GBps(12.5 * 0.9);
  d.overhead = SimTime::FromUs(30);
  d.memory = Bytes(int64_t{16} << 30);
  d.devices = devices;
  return d;
}

struct Outcome {
  GraphPipePlan plan;
  double throughput = 0;
  double cpu_s = 0;
};

Outcome Run(absl::StatusOr<GraphSearchResult> (*search)(const GraphPipeProblem&),
            const GraphPipeProblem& problem) {
  const std::clock_t start = std::clock();
  const auto found = search(problem);
  Outcome o;
  o.cpu_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(found.ok()) << found.status();
  if (found.ok()) {
    o.plan = found->plan;
    o.throughput = problem.mini_batch / found->plan.iteration.seconds();
  }
  return o;
}

void Report(const char* what, const Outcome& o) {
  std::printf("  %-10s %9.1f/s depth %2d, micro-batches of %5d, %.2f s;", what, o.throughput,
              o.plan.depth, o.plan.stages.empty() ? 0 : o.plan.stages[0].config.micro_batch,
              o.cpu_s);
}

// All three; the gain of stage graphs over PipeDream.
double Compare(const GraphPipeProblem& problem) {
  const Outcome graph = Run(SearchGraphPipe, problem);
  const Outcome line = Run(SearchSequential, problem);
  const Outcome pipedream = Run(SearchPipeDream, problem);
  Report("graph", graph);
  Report("sequential", line);
  Report("PipeDream", pipedream);
  const double gain = graph.throughput / pipedream.throughput;
  std::printf(" over PipeDream %.3f, over sequential %.3f\n", gain,
              graph.throughput / line.throughput);
  // A line of stages is a graph of stages, and PipeDream's partition is a line.
  EXPECT_GE(graph.throughput, line.throughput * 0.9999);
  EXPECT_GE(line.throughput, pipedream.throughput * 0.9999);
  EXPECT_LE(graph.plan.depth, line.plan.depth);
  return gain;
}

// Figure 3.6 and table 3.1.
TEST(GraphPipeStudy, EndToEnd) {
  const auto mmt = BuildMultiModalTransformer({});
  const auto dlrm = BuildDlrm({});
  const auto uno = BuildCandleUno({});
  ASSERT_TRUE(mmt.ok() && dlrm.ok() && uno.ok());
  double most = 0;
  for (const int32_t devices : {4, 8, 16, 32}) {
    for (const auto& [name, w, batch] :
         {std::tuple("mmt", &*mmt, 16), std::tuple("dlrm", &*dlrm, 64),
          std::tuple("candle_uno", &*uno, 1024)}) {
      std::printf("%-10s %2d devices:", name, devices);
      most = std::max(most, Compare(GraphPipeProblemOf(*w, Summit(devices), batch * devices)));
    }
  }
  EXPECT_NEAR(most, 1.61, 0.25);
}

// Operators whose GEMMs are measured take what a V100 took for them, with 30 us of launching;
// those without calls keep their times. Beyond the sizes measured it is extrapolated.
template <typename Calls>
void UseMeasuredKernels(const KernelModels& kernels, GraphPipeProblem& p, const Calls& calls) {
  for (size_t op = 0; op < p.ops.size(); ++op) {
    for (size_t i = 0; i < p.ops[op].forward.size(); ++i) {
      const std::vector<OperatorCall::Shape> shapes = calls(op, int64_t{1} << i);
      if (shapes.empty()) continue;
      for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
        double t = SimTime::FromUs(30).seconds();
        for (const OperatorCall::Shape& shape : shapes) {
          for (const KernelWork& work : Kernels({shape, DType::kFloat32, pass})) {
            t += kernels.Predict(work, Precision::kFloat32).time.seconds();
          }
        }
        (pass == Direction::kForward ? p.ops[op].forward : p.ops[op].backward)[i] = RealSeconds(t);
      }
    }
  }
}

// Calls of a layer of the case study: attention, up, down.
std::vector<OperatorCall::Shape> LayerCalls(size_t op, int64_t x) {
  const MultiModalConfig c;
  const int64_t heads = c.heads, head = c.hidden / c.heads, s = c.sequence;
  if (op % 3 == 1) return {LinearOp{x * s, c.hidden, c.ffn, true}};
  if (op % 3 == 2) return {LinearOp{x * s, c.ffn, c.hidden, true}};
  const LinearOp projection{x * s, c.hidden, c.hidden, true};
  return {projection,
          projection,
          projection,
          projection,
          BatchedMatmulOp{x * heads, s, s, head},
          SoftmaxOp{x * heads * s, s},
          BatchedMatmulOp{x * heads, s, head, s}};
}

// Figure 3.7, left: CANDLE-Uno by number of branches, on as many devices as the caption's 4, 8 and
// 16, with the appendix's mini-batches of 1,024 samples a device. PipeDream's line of n stages
// waits for n - 1 micro-batches, the graph for one, so that the gain is (m + n - 1) / (m + 1) with
// m of them. How many the published system could use it does not say; that its runtime limits how
// many tasks there are it does say (footnote 8), and its authors reported runs of 64 tasks a device
// on 16 of Summit's (github.com/StanfordLegion/legion/issues/1448): of four layers, forward and
// backward, that is 8 micro-batches. Published: up to 2 with 16 branches.
TEST(GraphPipeStudy, NumberOfBranches) {
  const auto kernels = LoadKernelModels(FORETRACE_SOURCE_DIR "/calibration/v100-pcie/kernels.yaml");
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  // Most micro-batches (0: any number), with measured kernels, and the gain that 16 branches have.
  for (const auto& [most, measured, low, high] :
       {std::tuple(0, false, 1.1, 1.3), std::tuple(0, true, 1.05, 1.4),
        std::tuple(16, false, 31.0 / 17 * 0.95, 31.0 / 17 * 1.03),
        std::tuple(8, false, 23.0 / 9 * 0.95, 23.0 / 9 * 1.03)}) {
    double previous = 0;
    for (const int32_t branches : {2, 4, 8, 16}) {
      CandleUnoConfig c;
      c.branches = branches;
      const auto w = BuildCandleUno(c);
      ASSERT_TRUE(w.ok());
      GraphPipeProblem p = GraphPipeProblemOf(*w, Summit(branches), 1024 * branches);
      for (int32_t b = 1; most > 0 && b <= p.mini_batch; b *= 2) {
        if (p.mini_batch / b <= most) p.micro_batches.push_back(b);
      }
      if (measured) {
        UseMeasuredKernels(kernels->models, p, [&](size_t op, int64_t x) {
          return op + 1 == p.ops.size()
                     ? std::vector<OperatorCall::Shape>{}
                     : std::vector<OperatorCall::Shape>{LinearOp{x, c.width, c.width, true}};
        });
      }
      std::printf("%2d branches, %s micro-batches, %s:", branches,
                  most > 0 ? fmt::format("at most {}", most).c_str() : "any number of",
                  measured ? "measured kernels" : "roofline");
      const double gain = Compare(p);
      EXPECT_GE(gain, previous * 0.999);
      previous = gain;
    }
    EXPECT_GE(previous, low);
    EXPECT_LE(previous, high);
  }
}

// A layer a stage, the concatenation in the last.
std::vector<GraphPipeStage> CaseStudyStages(int32_t micro_batch) {
  std::vector<GraphPipeStage> all(8);
  for (int32_t s = 0; s < 8; ++s) {
    GraphPipeStage& stage = all[static_cast<size_t>(s)];
    stage.ops = {3 * s, 3 * s + 1, 3 * s + 2};
    if (s == 7) stage.ops.push_back(24);
    stage.config = {micro_batch, 1};
  }
  return all;
}

// Figure 3.9: two branches of four on eight devices. Both searches cut the model alike, a stage a
// sequence of attention and two linear layers. The paper names two sources of its 20 %, of 10 %
// each: the shallower pipeline, and the efficiency of the larger micro-batch that fits because
// fewer are in flight. It states neither the layers' sizes (here those of its other transformer)
// nor a memory limit; the one here lies half-way between what the chain's first stage needs for
// micro-batches of 4 (8 in flight) and what the graph's needs (5, as the concatenation shares a
// branch's last stage).
TEST(GraphPipeStudy, TwoBranchCase) {
  const auto w = BuildTwoBranchCaseStudy();
  ASSERT_TRUE(w.ok());
  const auto& stages = CaseStudyStages;
  GraphPipeProblem graph = GraphPipeProblemOf(*w, Summit(8), 128);
  const auto kernels = LoadKernelModels(FORETRACE_SOURCE_DIR "/calibration/v100-pcie/kernels.yaml");
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  UseMeasuredKernels(kernels->models, graph, [&](size_t op, int64_t x) {
    return op + 1 == graph.ops.size() ? std::vector<OperatorCall::Shape>{} : LayerCalls(op, x);
  });
  GraphPipeProblem chain = graph;
  chain.sequential = true;
  const auto needs = [](const absl::StatusOr<GraphPipePlan>& plan) {
    EXPECT_TRUE(plan.ok()) << plan.status();
    double most = 0;
    for (const GraphPipeStage& s : plan->stages) most = std::max(most, s.memory.count());
    return most;
  };
  const double limit =
      (needs(EvaluateStages(graph, stages(4))) + needs(EvaluateStages(chain, stages(4)))) / 2;
  graph.memory = chain.memory = RealBytes(limit);
  EXPECT_FALSE(EvaluateStages(chain, stages(4)).ok());
  const auto chain2 = EvaluateStages(chain, stages(2));
  const auto graph2 = EvaluateStages(graph, stages(2));
  const auto graph4 = EvaluateStages(graph, stages(4));
  ASSERT_TRUE(chain2.ok() && graph2.ok() && graph4.ok());
  EXPECT_EQ(chain2->depth, 8);
  EXPECT_EQ(graph4->depth, 5);
  // At the same micro-batch the shallower pipeline gains (32 + 7) / (32 + 4) = 1.083 with 32 of 4
  // samples; without the limit the chain could run them.
  GraphPipeProblem roomy = chain;
  roomy.memory = RealBytes(1e12);
  const auto chain4 = EvaluateStages(roomy, stages(4));
  ASSERT_TRUE(chain4.ok());
  const double depth = chain4->iteration.seconds() / graph4->iteration.seconds();
  // Time a sample of the slowest stage: what a full pipeline processes.
  const double efficiency = graph2->bottleneck.seconds() / graph4->bottleneck.seconds();
  const double all = chain2->iteration.seconds() / graph4->iteration.seconds();
  std::printf(
      "two branches, %.2f GB a device: chain b 2 %.1f/s, graph b 2 %.1f/s, chain b 4 without limit "
      "%.1f/s, graph b 4 %.1f/s: gain %.3f by depth at b 4, %.3f by efficiency, %.3f in all "
      "(published 1.1, 1.1, 1.2)\n",
      limit * 1e-9, 128 / chain2->iteration.seconds(), 128 / graph2->iteration.seconds(),
      128 / chain4->iteration.seconds(), 128 / graph4->iteration.seconds(), depth, efficiency, all);
  EXPECT_NEAR(depth, 1.1, 0.03);
  EXPECT_NEAR(efficiency, 1.1, 0.04);
  // They do not multiply on 128 samples: the chain with micro-batches of 2 has 64 of them, so that
  // its bubble of 7 is 14 samples long, and the graph's of 4 of 4 samples is 16. In all, (64 + 7) /
  // (2 (32 + 4)) = 0.986 times the efficiency is left.
  EXPECT_NEAR(all, 0.986 * efficiency, 0.02);
  // The searches themselves, under the same limit.
  const auto gpp = SearchGraphPipe(graph), spp = SearchSequential(chain);
  ASSERT_TRUE(gpp.ok() && spp.ok());
  const GraphPipePlan &g = gpp->plan, &l = spp->plan;
  std::printf("searched: graph %.1f/s depth %d b %d, chain %.1f/s depth %d b %d, ratio %.3f\n",
              128 / g.iteration.seconds(), g.depth, g.stages[0].config.micro_batch,
              128 / l.iteration.seconds(), l.depth, l.stages[0].config.micro_batch,
              l.iteration.seconds() / g.iteration.seconds());
  EXPECT_LE(g.iteration.seconds(), graph4->iteration.seconds() * 1.0001);
}

// The paper does not say of how many samples the case study's iteration is. Of B samples, and where
// operators rather than stages wait for each other (as in its runtime), so that the concatenation
// does not hold up the stage it is in, the chain takes B/2 + 7 passes of 2 samples and the graph
// B/4 + 3 of 4: the gain over that of efficiency is (B/2 + 7) / (B/2 + 6), and 20 % need B of 8
// or 16.
TEST(GraphPipeStudy, TwoBranchCaseByBatch) {
  const auto w = BuildTwoBranchCaseStudy();
  const auto kernels = LoadKernelModels(FORETRACE_SOURCE_DIR "/calibration/v100-pcie/kernels.yaml");
  ASSERT_TRUE(w.ok() && kernels.ok());
  for (const int32_t batch : {8, 16, 32, 128}) {
    GraphPipeProblem graph = GraphPipeProblemOf(*w, Summit(8), batch);
    UseMeasuredKernels(kernels->models, graph, [&](size_t op, int64_t x) {
      return op + 1 == graph.ops.size() ? std::vector<OperatorCall::Shape>{} : LayerCalls(op, x);
    });
    GraphPipeProblem chain = graph;
    chain.sequential = true;
    // The other branch's end feeds the concatenation; without that edge its stage does not wait.
    std::erase_if(graph.edges, [](const GraphPipeEdge& e) { return e.from == 11 && e.to == 24; });
    const auto chain2 = EvaluateStages(chain, CaseStudyStages(2));
    const auto graph2 = EvaluateStages(graph, CaseStudyStages(2));
    const auto graph4 = EvaluateStages(graph, CaseStudyStages(4));
    ASSERT_TRUE(chain2.ok() && graph2.ok() && graph4.ok());
    const double efficiency = graph2->bottleneck.seconds() / graph4->bottleneck.seconds();
    const double all = chain2->iteration.seconds() / graph4->iteration.seconds();
    std::printf("two branches, %3d samples: efficiency %.3f, in all %.3f\n", batch, efficiency,
                all);
    EXPECT_NEAR(all, efficiency * (batch / 2.0 + 7) / (batch / 2.0 + 6), 0.04) << batch;
  }
}

}  // namespace
}  // namespace foretrace
