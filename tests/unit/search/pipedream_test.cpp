#include "simulator/search/pipedream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "tests/unit/search/partition_fixture.h"
#include "tests/unit/search/partitioner_files.h"

namespace foretrace {
namespace {

PipeDreamOptions::Level Level(int32_t machines, double bytes_per_second) {
  return {machines, Bandwidth::BytesPerSecond(bytes_per_second)};
}

double Bottleneck(const std::string& profile, std::vector<PipeDreamOptions::Level> levels,
                  bool communication = false, bool straight = false) {
  auto problem = LoadPipeDreamProfile(PartitioningData() + "/pipedream/" + profile);
  EXPECT_TRUE(problem.ok()) << problem.status();
  PipeDreamOptions options;
  options.levels = std::move(levels);
  options.straight_pipeline = straight;
  if (communication) options.activation_compression_ratio = 1.0;
  const auto plan = PartitionPipeDream(*problem, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->bottleneck.seconds();
}

constexpr double kRounding = 1 + 1e-12;

// What the published optimizer answers; ours must be equal or better under the same formulas.
TEST(PipeDreamTest, EqualOrBetterThanPublishedOptimizer) {
  FORETRACE_SKIP_WITHOUT_PARTITIONING_DATA();
  struct Row {
    const char* model;
    int machines;
    double published;
  };
  for (const Row& r :
       {Row{"vgg16", 4, 0.17449849920000002}, Row{"vgg16", 8, 0.09335713400000002},
        Row{"alexnet", 4, 0.022901201599999997}, Row{"alexnet", 8, 0.011619999999999998},
        Row{"resnet50", 4, 0.11149699999999985}, Row{"resnet50", 8, 0.056220000000000034},
        Row{"resnet101", 4, 0.10394100000000045}, Row{"resnet101", 8, 0.05212500000000031},
        Row{"resnext50", 4, 0.1507195576}, Row{"resnext50", 8, 0.07503982826666665},
        Row{"squeezenet1_0", 4, 0.07213960746666666}, Row{"squeezenet1_0", 8, 0.035913728895999995},
        Row{"gnmt", 4, 0.025868000000000002}, Row{"gnmt", 8, 0.019032000000000007},
        Row{"gnmt_large", 4, 0.1371289999999999}, Row{"gnmt_large", 8, 0.08284500000000002}}) {
    const double ours =
        Bottleneck(std::string(r.model) + ".graph.txt", {Level(r.machines, 1.25e9)});
    EXPECT_LE(ours, r.published * kRounding) << r.model << " on " << r.machines;
    RecordProperty(std::string(r.model) + "_" + std::to_string(r.machines), std::to_string(ours));
  }
  // A chain leaves no choice of downsets: equal.
  EXPECT_NEAR(Bottleneck("vgg16.graph.txt", {Level(4, 1.25e9)}), 0.17449849920000002, 1e-12);
  EXPECT_NEAR(Bottleneck("alexnet.graph.txt", {Level(8, 1.25e9)}), 0.011619999999999998, 1e-12);
}

TEST(PipeDreamTest, CommunicationAndStraightPipelines) {
  FORETRACE_SKIP_WITHOUT_PARTITIONING_DATA();
  EXPECT_NEAR(Bottleneck("vgg16.graph.txt", {Level(8, 1.25e9)}, true), 0.10084139337142857, 1e-12);
  EXPECT_NEAR(Bottleneck("vgg16.graph.txt", {Level(8, 12.5e9)}, true), 0.0896272821942857, 1e-12);
  EXPECT_NEAR(Bottleneck("alexnet.graph.txt", {Level(4, 1.25e9)}, true), 0.032460913066666666,
              1e-12);
  EXPECT_NEAR(Bottleneck("alexnet.graph.txt", {Level(8, 1.25e9)}, true), 0.0150994944, 1e-12);
  EXPECT_LE(Bottleneck("resnet50.graph.txt", {Level(8, 1.25e9)}, true), 0.0822083584 * kRounding);
  EXPECT_NEAR(Bottleneck("vgg16.graph.txt", {Level(4, 1.25e9)}, false, true), 0.21645, 1e-12);
  EXPECT_NEAR(Bottleneck("vgg16.graph.txt", {Level(8, 1.25e9)}, false, true), 0.159531, 1e-12);
  EXPECT_LE(Bottleneck("resnet50.graph.txt", {Level(8, 1.25e9)}, false, true),
            0.056684 * kRounding);
}

TEST(PipeDreamTest, Hierarchies) {
  FORETRACE_SKIP_WITHOUT_PARTITIONING_DATA();
  EXPECT_LE(Bottleneck("vgg16.graph.txt", {Level(4, 12e9), Level(4, 1.25e9)}),
            0.04400841546666668 * kRounding);
  EXPECT_LE(Bottleneck("alexnet.graph.txt", {Level(4, 12e9), Level(4, 1.25e9)}),
            0.005933732000000005 * kRounding);
  EXPECT_LE(Bottleneck("resnet50.graph.txt", {Level(4, 12e9), Level(4, 1.25e9)}),
            0.028667352 * kRounding);
}

PipeDreamProblem Problem(const std::vector<double>& compute, const std::vector<double>& weights,
                         const std::vector<std::pair<int32_t, int32_t>>& edges) {
  PipeDreamProblem p;
  p.graph = *OpGraph::Create(static_cast<int32_t>(compute.size()), edges);
  for (size_t i = 0; i < compute.size(); ++i) {
    p.layers.push_back({"", RealSeconds(compute[i]), RealBytes(), RealBytes(weights[i])});
  }
  return p;
}

// Four equal layers of 3 s: three replicas of all take 12 / 3 = 4 s, a straight pipeline of three
// has one stage of two layers, 6 s; four machines 3 s. With 4e9 bytes of weights in the last of
// three 2 s layers and 1e9 bytes/s: two layers on three machines and one on its own take
// max(4 / 3, 2) = 2.
TEST(PipeDreamTest, TinyChains) {
  const auto chain4 = Problem({3, 3, 3, 3}, {0, 0, 0, 0}, {{0, 1}, {1, 2}, {2, 3}});
  PipeDreamOptions o;
  o.levels = {Level(3, 1e9)};
  EXPECT_DOUBLE_EQ(PartitionPipeDream(chain4, o)->bottleneck.seconds(), 4.0);
  o.straight_pipeline = true;
  EXPECT_DOUBLE_EQ(PartitionPipeDream(chain4, o)->bottleneck.seconds(), 6.0);
  o.straight_pipeline = false;
  o.levels = {Level(4, 1e9)};
  EXPECT_DOUBLE_EQ(PartitionPipeDream(chain4, o)->bottleneck.seconds(), 3.0);
  const auto chain3 = Problem({2, 2, 2}, {0, 0, 4e12}, {{0, 1}, {1, 2}});
  EXPECT_DOUBLE_EQ(PartitionPipeDream(chain3, o)->bottleneck.seconds(), 2.0);
}

// Every sequence of nested node sets and replica counts.
double BruteForce(const PipeDreamProblem& p, int machines, double bandwidth) {
  const int n = p.graph.size();
  const auto closed = [&](unsigned set) {
    for (int v = 0; v < n; ++v) {
      if (!(set >> v & 1)) continue;
      for (const int32_t u : p.graph.predecessors(v)) {
        if (!(set >> u & 1)) return false;
      }
    }
    return true;
  };
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(unsigned, int, double)> extend = [&](unsigned done, int left,
                                                                double worst) {
    if (done == (1u << n) - 1) {
      best = std::min(best, worst);
      return;
    }
    for (unsigned next = done + 1; next < 1u << n; ++next) {
      if ((next & done) != done || !closed(next)) continue;
      double c = 0, w = 0;
      for (int v = 0; v < n; ++v) {
        if (!((next & ~done) >> v & 1)) continue;
        c += p.layers[static_cast<size_t>(v)].compute.seconds();
        w += p.layers[static_cast<size_t>(v)].parameter_bytes.count();
      }
      for (int m = 1; m <= left; ++m) {
        extend(next, left - m, std::max(worst, (c + 4 * (m - 1) * w / (bandwidth * m)) / m));
      }
    }
  };
  extend(0, machines, 0);
  return best;
}

TEST(PipeDreamTest, EqualsBruteForce) {
  std::mt19937 rng(7);
  for (int round = 0; round < 60; ++round) {
    const int n = 2 + static_cast<int>(rng() % 4);
    std::vector<double> c, w;
    for (int i = 0; i < n; ++i) {
      c.push_back(1 + rng() % 9);
      w.push_back(rng() % 3 * 1e9);
    }
    const auto p = Problem(c, w, RandomDag(rng, n));
    const int machines = 1 + static_cast<int>(rng() % 4);
    PipeDreamOptions o;
    o.levels = {Level(machines, 1e9)};
    EXPECT_NEAR(PartitionPipeDream(p, o)->bottleneck.seconds(), BruteForce(p, machines, 1e9),
                1e-12);
  }
}

TEST(PipeDreamTest, BadInputs) {
  EXPECT_FALSE(LoadPipeDreamProfile("/nonexistent").ok());
  PipeDreamOptions o;
  EXPECT_FALSE(PartitionPipeDream({}, o).ok());
  EXPECT_FALSE(OpGraph::Create(2, {{0, 1}, {1, 0}}).ok());
  EXPECT_FALSE(OpGraph::Create(2, {{0, 2}}).ok());
  // 20 independent nodes have 2^20 downsets.
  const auto wide = Problem(std::vector<double>(20, 1), std::vector<double>(20, 0), {});
  o.levels = {Level(2, 1e9)};
  EXPECT_EQ(PartitionPipeDream(wide, o).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace foretrace
