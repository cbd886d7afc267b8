// What mappings share: each result by exactly what it depends on.
#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <vector>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/pass_costs.h"
#include "tests/support/random_mapping.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

ClusterParameters Cluster() {
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  SetExpertLinks(cluster);
  cluster.host_link = Bandwidth::GBps(12);
  cluster.host_memory = Bandwidth::GBps(200);
  cluster.reduces_scales = true;
  cluster.per_parameter_sharding = true;
  cluster.sustained = FlopRate::Teraflops(250);
  cluster.cpu = {SimTime::FromUs(1), SimTime::FromUs(2), SimTime(),          SimTime::FromUs(3),
                 SimTime::FromUs(5), SimTime::FromUs(7), SimTime::FromUs(11)};
  return cluster;
}

// All times of a micro-batch and of what ends an iteration.
std::vector<int64_t> TimesIn(const PassTimes& t) {
  std::vector<int64_t> all;
  for (const SimTime time : {t.layer_forward,
                             t.layer_backward,
                             t.layer_weight,
                             t.embedding_forward,
                             t.embedding_backward,
                             t.head_forward,
                             t.head_backward,
                             t.gradient.time,
                             t.expert_gradient.time,
                             t.reduce_behind,
                             t.copies_behind,
                             t.gradient.copies,
                             t.expert_gradient.copies,
                             t.forward_gather.dense,
                             t.forward_gather.experts,
                             t.backward_gather.dense,
                             t.backward_gather.experts,
                             t.gathers_forward,
                             t.gathers_backward,
                             t.scale_reduction,
                             t.first_root.gather,
                             t.first_root.gradient.All(),
                             t.last_root.gather,
                             t.last_root.gradient.All(),
                             t.transfer,
                             t.gradient_reduction,
                             t.expert_reduction,
                             t.tied_reduction,
                             t.optimizer,
                             t.cpu.forward,
                             t.cpu.backward,
                             t.cpu.first,
                             t.cpu.last,
                             t.cpu.update}) {
    all.push_back(time.ps());
  }
  for (const KeptInput& input : {t.kept_forward, t.kept_backward}) {
    for (const SimTime time :
         {input.kernels, input.gather.time, input.waited, input.beside, input.room}) {
      all.push_back(time.ps());
    }
  }
  for (const PassExchanges* exchanges :
       {&t.layer_exchanges, &t.embedding_exchanges, &t.head_exchanges}) {
    for (const bool forward : {true, false}) {
      for (const PassExchange& e : exchanges->of(forward)) {
        all.insert(all.end(), {static_cast<int64_t>(e.op), e.time.ps(), e.bytes.count(), e.count,
                               e.beside, e.goes_on, e.cover.ps()});
      }
    }
  }
  std::vector<std::shared_ptr<const PassTimes>> others = t.others;
  others.push_back(t.lone);
  for (const auto& other : others) {
    if (other == nullptr) continue;
    const std::vector<int64_t> times = TimesIn(*other);
    all.insert(all.end(), times.begin(), times.end());
  }
  return all;
}

// Views leave out only what changes nothing.
TEST(SharedPassesTest, ViewsOfMappingsTakeTheSame) {
  std::mt19937 rng(21);
  TransformerConfig model = TinyTransformer();
  const ClusterParameters cluster = Cluster();
  int compared = 0;
  for (int round = 0; round < 1500; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    if (rng() % 6 == 0) m.lora = 4;
    if (DenseLayers(model) > 0 || !CheckMapping(model, m, 0).ok()) continue;
    ++compared;
    const MappedLayer whole(model, m), seen(model, LayerView(m));
    EXPECT_EQ(std::tuple(whole.dense(), whole.expert(), whole.embedding(), whole.head(),
                         whole.trained(), whole.trained_expert(), whole.RootWeights(),
                         whole.stash().whole, whole.stash().input, whole.gradient_bytes()),
              std::tuple(seen.dense(), seen.expert(), seen.embedding(), seen.head(), seen.trained(),
                         seen.trained_expert(), seen.RootWeights(), seen.stash().whole,
                         seen.stash().input, seen.gradient_bytes()))
        << ToString(m);
    const auto all = PassesOfLayers(model, m, cluster, whole);
    const auto view = PassesOfLayers(model, PassView(m), cluster, seen);
    ASSERT_TRUE(all.ok() && view.ok());
    EXPECT_EQ(TimesIn(*all), TimesIn(*view)) << ToString(m);
    EXPECT_EQ(all->sources.seconds, view->sources.seconds) << ToString(m);
  }
  EXPECT_GT(compared, 150);
}

// A model that saw other mappings before says what one says that did not.
TEST(SharedPassesTest, OrderOfMappingsDoesNotMatter) {
  std::mt19937 rng(22);
  for (int of_model = 0; of_model < 6; ++of_model) {
    TransformerConfig model = TinyTransformer();
    DrawMapping(rng, model);
    const IterationModel shared(model, Cluster());
    int compared = 0;
    for (int round = 0; round < 300; ++round) {
      TransformerConfig other = model;
      const ParallelMapping m = DrawMapping(rng, other);
      const auto alone = EstimateIteration(model, m, Cluster());
      const auto again = shared.Estimate(m);
      ASSERT_EQ(alone.ok(), again.ok()) << ToString(m);
      if (!alone.ok()) continue;
      ++compared;
      EXPECT_EQ(alone->time, again->time) << ToString(m);
      EXPECT_EQ(alone->exposed_communication, again->exposed_communication) << ToString(m);
      EXPECT_EQ(TimesIn(alone->passes), TimesIn(again->passes)) << ToString(m);
      EXPECT_EQ(MemoryOf(model, m).total(), MemoryOf(shared.layers(), m).total()) << ToString(m);
    }
    EXPECT_GT(compared, 15);
  }
}

// The more runs again the longer a layer's backward pass, whatever else the mapping says; what runs
// forward is the same.
TEST(SharedPassesTest, WhatRunsAgainTakesLonger) {
  std::mt19937 rng(31);
  TransformerConfig model = TinyTransformer();
  const ClusterParameters cluster = Cluster();
  int compared = 0;
  for (int round = 0; round < 600; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    // Where only some layers run again, the others are timed apart.
    m.recomputed_layers = -1;
    m.recomputed_every = m.recomputed_together = 0;
    m.divided_inputs = m.inputs_on_host = false;
    std::vector<PassTimes> by_more;
    for (const Recompute more : {Recompute::kNone, Recompute::kOperators, Recompute::kFull}) {
      m.modules = {};
      m.recompute = more;
      const auto times = TimePasses(model, m, cluster);
      if (times.ok()) by_more.push_back(*times);
    }
    if (by_more.size() < 3) continue;
    ++compared;
    for (size_t i = 1; i < by_more.size(); ++i) {
      EXPECT_EQ(by_more[i].layer_forward, by_more[0].layer_forward) << ToString(m);
      EXPECT_GE(by_more[i].layer_backward, by_more[i - 1].layer_backward) << ToString(m);
      EXPECT_GT(by_more[i].cpu.backward, by_more[0].cpu.backward) << ToString(m);
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace foretrace
