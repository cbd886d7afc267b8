// GraphPipe's evaluation as a study: tables and figures of chapter 3 on a model of its devices. What
// is compared is the direction and rough size of effects; the published throughputs were measured
// on other software.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

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
    EXPECT_GE(gpp.throughput, spp.throughput * 0.99);
    previous = gpp.throughput / spp.throughput;
  }
  EXPECT_GE(previous, 0.99);
}

// Figure 3.9: two branches of four on eight devices.
TEST(GraphPipeStudy, TwoBranchCase) {
  const auto w = BuildTwoBranchCaseStudy();
  ASSERT_TRUE(w.ok());
  for (const int32_t b : {1, 2, 4, 8}) {
    const Outcome gpp = Partition(*w, 8, 128, false, {b});
    const Outcome spp = Partition(*w, 8, 128, true, {b});
    Report("two_branch", 8, gpp, spp);
    EXPECT_GE(gpp.throughput, spp.throughput * 0.999);
  }
}

}  // namespace
}  // namespace foretrace
