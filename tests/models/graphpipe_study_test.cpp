// GraphPipe's evaluation as a study: tables and figures of chapter 3 on a model of its devices. What
// is compared is the direction and rough size of effects; the published throughputs were measured
// on other software.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "simulator/cost/kernel/kernel_file.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/search/graphpipe.h"
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

Outcome Partition(const Workload& w, int32_t devices, int32_t batch, bool sequential,
            std::vector<int32_t> sizes = {}) {
  GraphPipeProblem p = GraphPipeProblemOf(w, Summit(devices), batch);
  p.sequential = sequential;
  p.micro_batches = std::move(sizes);
  const std::clock_t start = std::clock();
  const auto plan = PartitionGraphPipe(p);
  Outcome o;
  o.cpu_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (plan.ok()) {
    o.plan = *plan;
    o.throughput = batch / plan->iteration_s;
  }
  return o;
}

// PipeDream's own partition at every micro-batch size, run as a 1F1B pipeline; the fastest that fits
// in memory.
Outcome PipeDream(const Workload& w, int32_t devices, int32_t batch, std::vector<int32_t> sizes = {}) {
  GraphPipeProblem p = GraphPipeProblemOf(w, Summit(devices), batch);
  p.sequential = true;
  if (sizes.empty()) {
    for (int32_t b = 1; b <= batch; b *= 2) sizes.push_back(b);
  }
  Outcome o;
  for (const int32_t b : sizes) {
    if (batch / b > 4096) continue;
    PipeDreamProblem linear = PipeDreamProblemOf(p, b);
    const std::vector<int32_t> order(linear.graph.topological_order().begin(),
                                     linear.graph.topological_order().end());
    std::vector<std::pair<int32_t, int32_t>> chain;
    for (size_t i = 0; i + 1 < order.size(); ++i) chain.emplace_back(order[i], order[i + 1]);
    linear.graph = *OpGraph::Create(static_cast<int32_t>(order.size()), chain);
    PipeDreamOptions options;
    options.levels = {{devices, p.bandwidth}};
    options.activation_compression_ratio = 1.0;
    const std::clock_t start = std::clock();
    const auto partition = PartitionPipeDream(linear, options);
    o.cpu_s += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (!partition.ok()) continue;
    std::vector<GraphPipeStage> stages;
    for (const PipeDreamStage& s : partition->stages) {
      GraphPipeStage stage;
      stage.ops = s.nodes;
      stage.devices = s.replicas;
      stage.config = {b, 1};
      stages.push_back(stage);
    }
    const auto plan = EvaluateStages(p, stages);
    if (plan.ok() && batch / plan->iteration_s > o.throughput) {
      o.plan = *plan;
      o.throughput = batch / plan->iteration_s;
    }
  }
  return o;
}

void Report(const char* name, int32_t devices, const Outcome& gpp, const Outcome& spp) {
  std::printf("%-10s %2d devices: graph %8.1f/s depth %2d b %5d in %.2f s; sequential %8.1f/s depth "
              "%2d b %5d in %.2f s; ratio %.3f\n",
              name, devices, gpp.throughput, gpp.plan.depth, gpp.plan.stages[0].config.micro_batch,
              gpp.cpu_s, spp.throughput, spp.plan.depth, spp.plan.stages[0].config.micro_batch,
              spp.cpu_s, gpp.throughput / spp.throughput);
}

// Figure 3.6 and table 3.1. The sequential plans are optimal for the same formulas, so at least as
// good as PipeDream's.
TEST(GraphPipeStudy, EndToEnd) {
  const auto mmt = BuildMultiModalTransformer({});
  const auto dlrm = BuildDlrm({});
  const auto uno = BuildCandleUno({});
  ASSERT_TRUE(mmt.ok() && dlrm.ok() && uno.ok());
  for (const int32_t devices : {4, 8, 16, 32}) {
    for (const auto& [name, w, batch] :
         {std::tuple("mmt", &*mmt, 16), std::tuple("dlrm", &*dlrm, 64),
          std::tuple("candle_uno", &*uno, 1024)}) {
      const Outcome gpp = Partition(*w, devices, batch * devices, false);
      const Outcome spp = Partition(*w, devices, batch * devices, true);
      Report(name, devices, gpp, spp);
      const Outcome pipedream = PipeDream(*w, devices, batch * devices);
      std::printf("    PipeDream %8.1f/s depth %2d in %.2f s; graph over PipeDream %.3f\n",
                  pipedream.throughput, pipedream.plan.depth, pipedream.cpu_s,
                  gpp.throughput / pipedream.throughput);
      EXPECT_GE(gpp.throughput, pipedream.throughput * 0.99);
      EXPECT_GE(gpp.throughput, spp.throughput * 0.99);
      EXPECT_LE(gpp.plan.depth, spp.plan.depth);
    }
  }
}

// Figure 3.7, left: throughput by number of branches. The published gain over PipeDream grows to 2;
// against sequential plans that are optimal for the same costs most of it disappears.
TEST(GraphPipeStudy, NumberOfBranches) {
  double previous = 0;
  for (const int64_t branches : {2, 4, 8, 16}) {
    CandleUnoConfig c;
    c.branches = branches;
    const auto w = BuildCandleUno(c);
    ASSERT_TRUE(w.ok());
    const Outcome gpp = Partition(*w, 16, 16384, false);
    const Outcome spp = Partition(*w, 16, 16384, true);
    std::printf("%lld branches: ", static_cast<long long>(branches));
    Report("candle_uno", 16, gpp, spp);
    const Outcome pipedream = PipeDream(*w, 16, 16384);
    std::printf("    graph over PipeDream %.3f\n", gpp.throughput / pipedream.throughput);
    // With 16 branches PipeDream's partition runs 4 % faster: GraphPipe minimises the bottleneck, not
    // the simulated iteration.
    EXPECT_GE(gpp.throughput, pipedream.throughput * 0.95);
    EXPECT_GE(gpp.throughput, spp.throughput * 0.99);
    previous = gpp.throughput / spp.throughput;
  }
  EXPECT_GE(previous, 0.99);
}

// Times of the case study's operators from kernels as measured on a V100: products of 512 rows fill
// the device worse than those of 1,024. Micro-batch sizes beyond what is measured are extrapolated.
void UseMeasuredKernels(const KernelModels& kernels, GraphPipeProblem& p) {
  const MultiModalConfig c;
  const auto seconds = [&](OperatorCall::Shape shape, Direction pass) {
    double sum = 0;
    for (const KernelWork& work : Kernels({std::move(shape), DType::kFloat32, pass})) {
      sum += kernels.Predict(work, Precision::kFloat32).time.seconds();
    }
    return sum;
  };
  const int64_t heads = c.heads, head = c.hidden / c.heads, s = c.sequence;
  for (size_t op = 0; op + 1 < p.ops.size(); ++op) {
    for (size_t i = 0; i < p.ops[op].forward_s.size(); ++i) {
      const int64_t x = int64_t{1} << i;
      for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
        double t = SimTime::FromUs(30).seconds();
        if (op % 3 == 0) {
          t += 4 * seconds(LinearOp{x * s, c.hidden, c.hidden, true}, pass) +
               seconds(BatchedMatmulOp{x * heads, s, s, head}, pass) +
               seconds(SoftmaxOp{x * heads * s, s}, pass) +
               seconds(BatchedMatmulOp{x * heads, s, head, s}, pass);
        } else {
          const bool up = op % 3 == 1;
          t += seconds(LinearOp{x * s, up ? c.ffn : c.hidden, up ? c.hidden : c.ffn, true}, pass);
        }
        (pass == Direction::kForward ? p.ops[op].forward_s : p.ops[op].backward_s)[i] = t;
      }
    }
  }
}

// Figure 3.9: two branches of four on eight devices. Both searches cut the model alike, a stage a
// sequence of attention and two linear layers. The paper names two sources of its 20 %, of 10 % each:
// the shallower pipeline, and the efficiency of the larger micro-batch that fits because fewer are in
// flight. It states neither the layers' sizes (here those of its other transformer) nor a memory
// limit; the one here lies half-way between what the chain's first stage needs for micro-batches of
// 4 (8 in flight) and what the graph's needs (5, as the concatenation shares a branch's last stage).
TEST(GraphPipeStudy, TwoBranchCase) {
  const auto w = BuildTwoBranchCaseStudy();
  ASSERT_TRUE(w.ok());
  const auto stages = [](int32_t b) {
    std::vector<GraphPipeStage> all(8);
    for (int32_t s = 0; s < 8; ++s) {
      GraphPipeStage& stage = all[static_cast<size_t>(s)];
      stage.ops = {3 * s, 3 * s + 1, 3 * s + 2};
      if (s == 7) stage.ops.push_back(24);
      stage.config = {b, 1};
    }
    return all;
  };
  GraphPipeProblem graph = GraphPipeProblemOf(*w, Summit(8), 128);
  const auto kernels = LoadKernelModels(FORETRACE_SOURCE_DIR "/calibration/v100-pcie/kernels.yaml");
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  UseMeasuredKernels(kernels->models, graph);
  GraphPipeProblem chain = graph;
  chain.sequential = true;
  const auto needs = [](const absl::StatusOr<GraphPipePlan>& plan) {
    EXPECT_TRUE(plan.ok()) << plan.status();
    double most = 0;
    for (const GraphPipeStage& s : plan->stages) most = std::max(most, s.memory_bytes);
    return most;
  };
  const double limit =
      (needs(EvaluateStages(graph, stages(4))) + needs(EvaluateStages(chain, stages(4)))) / 2;
  graph.memory_bytes = chain.memory_bytes = limit;
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
  roomy.memory_bytes = 1e12;
  const auto chain4 = EvaluateStages(roomy, stages(4));
  ASSERT_TRUE(chain4.ok());
  const double depth = chain4->iteration_s / graph4->iteration_s;
  // Time a sample of the slowest stage: what a full pipeline processes.
  const double efficiency = graph2->bottleneck_s / graph4->bottleneck_s;
  const double all = chain2->iteration_s / graph4->iteration_s;
  std::printf("two branches, %.2f GB a device: chain b 2 %.1f/s, graph b 2 %.1f/s, chain b 4 without limit "
              "%.1f/s, graph b 4 %.1f/s: gain %.3f by depth at b 4, %.3f by efficiency, %.3f in all "
              "(published 1.1, 1.1, 1.2)\n",
              limit * 1e-9, 128 / chain2->iteration_s, 128 / graph2->iteration_s,
              128 / chain4->iteration_s, 128 / graph4->iteration_s, depth, efficiency, all);
  EXPECT_NEAR(depth, 1.1, 0.03);
  EXPECT_NEAR(efficiency, 1.1, 0.04);
  // They do not multiply: the chain with micro-batches of 2 has 64 of them, so that its bubble of 7 is
  // 14 samples long, and the graph's with 4 of 4 samples is 16. In all, (64 + 7) / (2 (32 + 4)) = 0.986
  // times the efficiency is left, for any model of equal stages.
  EXPECT_NEAR(all, 0.986 * efficiency, 0.02);
  // The searches themselves, under the same limit.
  const auto gpp = PartitionGraphPipe(graph), spp = PartitionGraphPipe(chain);
  ASSERT_TRUE(gpp.ok() && spp.ok());
  std::printf("searched: graph %.1f/s depth %d b %d, chain %.1f/s depth %d b %d, ratio %.3f\n",
              128 / gpp->iteration_s, gpp->depth, gpp->stages[0].config.micro_batch,
              128 / spp->iteration_s, spp->depth, spp->stages[0].config.micro_batch,
              spp->iteration_s / gpp->iteration_s);
  // By hand 1 % better: the search minimises the bottleneck alone.
  EXPECT_LE(gpp->iteration_s, graph4->iteration_s * 1.02);
}

}  // namespace
}  // namespace foretrace
