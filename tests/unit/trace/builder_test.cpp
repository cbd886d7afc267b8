#include "simulator/trace/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace foretrace {
namespace {

using testing::HasSubstr;

SimTime Us(double us) { return SimTime::FromUs(us); }

// Adds nodes by few arguments; source ids count from 1.
class Script {
 public:
  Script() : builder(Info()) {}

  NodeIndex Cpu(std::string_view name, double start, double end, int64_t thread = 1) {
    return Add(NodeKind::kCpuOp, name, builder.AddLane(Lane::Kind::kCpuThread, thread), start, end);
  }
  NodeIndex Kernel(std::string_view name, double start, double end, int64_t stream = 7) {
    return Add(NodeKind::kKernel, name, builder.AddLane(Lane::Kind::kStream, stream), start, end);
  }
  NodeIndex Add(NodeKind kind, std::string_view name, LaneIndex lane, double start, double end) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.name = name;
    spec.lane = lane;
    spec.start = Us(start);
    spec.duration = Us(end - start);
    spec.source_id = builder.size() + 1;
    return builder.AddNode(spec);
  }
  absl::StatusOr<RankTraceBuilder::Result> Build(RankTraceBuilder::Options options = {}) {
    return builder.Build(options);
  }
  std::string Refusal(RankTraceBuilder::Options options = {}) {
    return std::string(Build(options).status().message());
  }

  RankTraceBuilder builder;

 private:
  static RankInfo Info() {
    RankInfo info;
    info.source = "a.json";
    info.has_times = true;
    return info;
  }
};

std::string NameOf(const RankTraceBuilder::Result& result, uint32_t node) {
  return std::string(result.strings->Get(result.trace.name(NodeIndex(node))));
}

TEST(Builder, OrdersByStartAndBringsReferencesAlong) {
  Script script;
  const NodeIndex kernel = script.Kernel("k", 30, 40);
  const NodeIndex call = script.Cpu("call", 10, 12);
  const NodeIndex early = script.Cpu("early", 0, 5);
  script.builder.SetLauncher(kernel, call);
  script.builder.AddDependency(call, early, DependencyKind::kData);
  script.builder.SetWaves(kernel, 1500);
  const auto built = script.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(NameOf(*built, 0), "early");
  EXPECT_EQ(NameOf(*built, 1), "call");
  EXPECT_EQ(NameOf(*built, 2), "k");
  EXPECT_EQ(built->trace.launcher(NodeIndex(2)), NodeIndex(1));
  ASSERT_EQ(built->trace.dependencies(NodeIndex(1)).size(), 1u);
  EXPECT_EQ(built->trace.dependencies(NodeIndex(1))[0].producer, NodeIndex(0));
}

TEST(Builder, AtEqualStartsWhatEnclosesComesFirst) {
  Script script;
  const LaneIndex thread = script.builder.AddLane(Lane::Kind::kCpuThread, 1);
  script.Add(NodeKind::kRuntimeCall, "call", thread, 0, 10);
  script.Add(NodeKind::kCpuOp, "inner", thread, 0, 10);
  script.Add(NodeKind::kCpuOp, "outer", thread, 0, 20);
  script.Add(NodeKind::kAnnotation, "step", thread, 0, 20);
  const auto built = script.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(NameOf(*built, 0), "step");
  EXPECT_EQ(NameOf(*built, 1), "outer");
  EXPECT_EQ(NameOf(*built, 2), "inner");
  EXPECT_EQ(NameOf(*built, 3), "call");
  for (uint32_t n = 1; n < 4; ++n) EXPECT_EQ(built->trace.parent(NodeIndex(n)), NodeIndex(n - 1));
}

// Four values of scattered tensors, then as many with each of up to eight dimensions: 3 + 36.
TEST(Builder, DetailsOfCallsThatThereAreNotAreNotKnown) {
  const auto trace = [](uint8_t detail) {
    Script script;
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kCpuOp;
    spec.name = "call";
    spec.lane = script.builder.AddLane(Lane::Kind::kCpuThread, 1);
    spec.detail = detail;
    script.builder.AddNode(spec);
    auto built = script.Build();
    EXPECT_TRUE(built.ok()) << built.status();
    return std::move(*built);
  };
  const NodeIndex call(0);
  EXPECT_EQ(trace(38).trace.scattered_tensors(call), 3);
  EXPECT_EQ(trace(38).trace.index_dimensions(call), 8);
  for (const uint8_t none : {uint8_t{39}, uint8_t{255}}) {
    EXPECT_EQ(trace(none).trace.scattered_tensors(call), std::nullopt);
    EXPECT_EQ(trace(none).trace.index_dimensions(call), 0);
    EXPECT_EQ(trace(none).trace.raw_detail(call), none);  // as the file has it
  }
}

TEST(Builder, NestsByTimeWithinAThread) {
  Script script;
  script.Cpu("a", 0, 100);
  script.Cpu("b", 10, 20);
  script.Cpu("c", 20, 30);                // begins where b ends: beside it
  script.Cpu("d", 12, 14, /*thread=*/2);  // another thread: in nothing
  const auto built = script.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  // In order of start: a, b, d, c.
  EXPECT_EQ(built->trace.parent(NodeIndex(1)), NodeIndex(0));
  EXPECT_FALSE(built->trace.parent(NodeIndex(2)).valid());
  EXPECT_EQ(built->trace.parent(NodeIndex(3)), NodeIndex(0));
}

TEST(Builder, OpsThatOverlapInPartAreCounted) {
  Script script;
  script.Cpu("a", 0, 20);
  script.Cpu("b", 10, 30);
  const auto built = script.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_FALSE(built->trace.parent(NodeIndex(1)).valid());
  EXPECT_TRUE(built->diagnostics.entries().contains(Repair::kOverlappingOps));
}

TEST(Builder, SourceIdsResolveForwardsAndUnknownOnesAreCounted) {
  Script script;
  const NodeIndex first = script.Cpu("first", 0, 1);
  script.builder.AddDependencyBySourceId(first, 2, DependencyKind::kControl);
  script.builder.AddDependencyBySourceId(first, 99, DependencyKind::kControl);
  script.builder.AddDependencyBySourceId(first, 1, DependencyKind::kControl);
  script.Cpu("second", 0, 1, /*thread=*/2);
  const auto built = script.Build({.sort_by_start = false});
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_EQ(built->trace.dependencies(NodeIndex(0)).size(), 1u);
  EXPECT_EQ(built->trace.dependencies(NodeIndex(0))[0].producer, NodeIndex(1));
  EXPECT_TRUE(built->diagnostics.entries().contains(Repair::kDanglingDependency));
  EXPECT_TRUE(built->diagnostics.entries().contains(Repair::kSelfDependency));
}

TEST(Builder, StepMarksWithinOthersAreCountedAndLeftOut) {
  Script script;
  const LaneIndex thread = script.builder.AddLane(Lane::Kind::kCpuThread, 1);
  script.builder.AddIteration(3, script.Add(NodeKind::kAnnotation, "inner", thread, 10, 20));
  script.builder.AddIteration(2, script.Add(NodeKind::kAnnotation, "outer", thread, 0, 50));
  script.builder.AddIteration(4, script.Add(NodeKind::kAnnotation, "next", thread, 50, 90));
  const auto built = script.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_EQ(built->trace.iterations().size(), 2u);
  EXPECT_EQ(built->trace.iterations()[0].number, 2);
  EXPECT_EQ(built->trace.iterations()[1].number, 4);
  EXPECT_TRUE(built->diagnostics.entries().contains(Repair::kNestedStepMark));
}

TEST(Builder, WhatCannotBeATraceIsRefusedWithItsPlace) {
  EXPECT_THAT(Script().Refusal(), HasSubstr("a.json: the trace holds no nodes"));
  {
    Script script;
    script.Cpu("backwards", 10, 5);
    EXPECT_THAT(script.Refusal(), HasSubstr("a.json: node 1 (backwards): negative duration -5 us"));
  }
  {
    Script script;
    script.Cpu("late", 3e12, 3e12 + 1);
    EXPECT_THAT(script.Refusal(), HasSubstr("time out of range"));
  }
  {
    Script script;
    const NodeIndex a = script.Cpu("a", 0, 1);
    const NodeIndex b = script.Cpu("b", 2, 3);
    script.builder.AddDependency(a, b, DependencyKind::kData);
    script.builder.AddDependency(b, a, DependencyKind::kData);
    EXPECT_THAT(script.Refusal(), HasSubstr("a.json: "));
  }
}

TEST(Builder, ParentsInACircleAreRefused) {
  Script script;
  const NodeIndex a = script.Cpu("a", 0, 1);
  const NodeIndex b = script.Cpu("b", 2, 3);
  script.builder.SetParent(a, b);
  script.builder.SetParent(b, a);
  EXPECT_FALSE(script.Build().ok());
}

TEST(Builder, ASourceIdGivenTwiceIsRefusedWhereItMatters) {
  const auto twice = [](bool referred, bool unique) {
    Script script;
    RankTraceBuilder::NodeSpec spec;
    spec.lane = script.builder.AddLane(Lane::Kind::kCpuThread, 1);
    spec.name = "n";
    spec.source_id = 5;
    script.builder.AddNode(spec);
    const NodeIndex second = script.builder.AddNode(spec);
    if (referred) script.builder.AddDependencyBySourceId(second, 5, DependencyKind::kData);
    return script.Build({.unique_source_ids = unique}).ok();
  };
  EXPECT_TRUE(twice(false, false));
  EXPECT_FALSE(twice(true, false));
  EXPECT_FALSE(twice(false, true));
}

}  // namespace
}  // namespace foretrace
