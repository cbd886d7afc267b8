#include "simulator/replay/what_if/node_selector.h"

#include <gtest/gtest.h>

#include <string>

#include "simulator/replay/what_if/what_if.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr auto kAll = SelectorScope::kAllWork;

struct OneRank {
  TraceStore store;
  bool Selects(std::string_view text, std::string_view node) const {
    const auto selector = ParseSelector("test", text, kAll);
    EXPECT_TRUE(selector.ok()) << selector.status();
    return selector.ok() &&
           selector->Selects(store, store.ranks()[0], FindNode(store, 0, node), "");
  }
};

OneRank Job() {
  JobScript job(1);
  job.rank(0)
      .Step(3, {0, 100})
      .Op("aten::mm", {0, 20})
      .Kernel("void gemm<128, 4>", {5, 9}, 7, {15, 25})
      .Op("aten::relu", {30, 50})
      .Kernel("elementwise", {35, 39}, 20, {45, 55});
  return {job.Build()};
}

TEST(NodeSelector, SelectsByKernelOpStreamAndStep) {
  const OneRank job = Job();
  EXPECT_TRUE(job.Selects("", "elementwise"));
  EXPECT_TRUE(job.Selects("name=\"GEMM<128, 4>\",step=3", "void gemm<128, 4>"));  // in any case
  EXPECT_FALSE(job.Selects("name=(?-i)GEMM", "void gemm<128, 4>"));
  EXPECT_TRUE(job.Selects("op=aten::mm", "void gemm<128, 4>"));
  EXPECT_FALSE(job.Selects("op=aten::mm", "elementwise"));
  EXPECT_TRUE(job.Selects("stream=7,19-21", "elementwise"));
  EXPECT_FALSE(job.Selects("stream=7", "elementwise"));
  EXPECT_FALSE(job.Selects("step=4", "elementwise"));
}

// aten::mm runs in Layer_0.MLP_1, its backward work after the modules; aten::relu in Layer_0 alone.
TEST(NodeSelector, SelectsByModuleForwardAndBackward) {
  JobScript script(1);
  script.rank(0)
      .Op("aten::mm", {0, 20})
      .Kernel("gemm", {5, 9}, 7, {15, 25})
      .Op("aten::relu", {30, 50})
      .Kernel("relu", {35, 39}, 7, {45, 55})
      .Op("MmBackward", {70, 90})
      .Kernel("gemm_backward", {75, 79}, 7, {85, 95})
      .Op("aten::add", {100, 120})
      .Kernel("add", {105, 109}, 7, {115, 125});
  const TraceStore store = script.Build();
  const RankTrace& rank = store.ranks()[0];
  const NodeIndex gemm = FindNode(store, 0, "gemm");
  const int64_t thread = rank.lane_at(rank.lane(rank.launcher(gemm))).id;
  const int64_t origin = rank.info().origin_ns;
  const auto span = [&](int64_t from_us, int64_t to_us) {
    return ThreadSpan{thread, origin + from_us * 1000, origin + to_us * 1000};
  };
  ProfileExtras extras;
  extras.source = rank.info().source;
  extras.names = {"Layer_0", "MLP_1"};
  extras.frames = {{span(0, 60), 0, true}, {span(1, 21), 1, true}};
  extras.modules = 2;
  extras.autograd = {{span(2, 12), 7, false}, {span(70, 90), 7, true}};
  const auto modules = ModuleMap::Make(store, {&extras, 1});
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_EQ((*modules)->PathOf(rank, gemm), "Layer_0.MLP_1");
  const auto selects = [&](std::string_view text, std::string_view node) {
    auto selector = ParseSelector("test", text, kAll);
    EXPECT_TRUE(selector.ok()) << selector.status();
    selector->modules = *modules;
    return selector->Selects(store, rank, FindNode(store, 0, node), "");
  };
  EXPECT_TRUE(selects("module=mlp", "gemm"));
  EXPECT_TRUE(selects("module=layer_0", "gemm"));
  EXPECT_FALSE(selects("module=mlp", "relu"));
  EXPECT_TRUE(selects("module=^Layer_0$", "relu"));
  EXPECT_TRUE(selects("module=Layer_0.MLP", "gemm_backward"));
  EXPECT_FALSE(selects("module=.", "add"));  // in no module
  EXPECT_FALSE(ParseSelector("test", "module=a,cpu=b", kAll).ok());
}

TEST(NodeSelector, ModulesThatAreNotRecordedAreAnError) {
  const OneRank job = Job();
  const auto none = ModuleMap::Make(job.store, {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("with_modules=True"), std::string::npos);
}

TEST(NodeSelector, RefusesKeysGivenTwiceAndMixedWork) {
  EXPECT_FALSE(ParseSelector("test", "name=a,name=b", kAll).ok());
  EXPECT_FALSE(ParseSelector("test", "rank=0,rank=1", kAll).ok());
  EXPECT_TRUE(ParseSelector("test", "rank=0,1", kAll).ok());
  EXPECT_FALSE(ParseSelector("test", "cpu=a,name=b", kAll).ok());
  EXPECT_FALSE(ParseSelector("test", "cpu=a", SelectorScope::kDeviceWork).ok());
}

TEST(NodeSelector, HostileExpressionsEnd) {
  EXPECT_FALSE(ParseSelector("test", "name=" + std::string(100'000, 'a'), kAll).ok());
  EXPECT_FALSE(ParseSelector("test", "name=(", kAll).ok());
  const auto selector = ParseSelector("test", "name=(.*)*(.*)*x$", kAll);
  ASSERT_TRUE(selector.ok());
  EXPECT_FALSE(Matches(*selector->name, std::string(1'000'000, 'b')));
}

TEST(WhatIf, RefusesFactorsAndTimesThatWouldOverflow) {
  EXPECT_FALSE(WhatIf::Parse({":x1e12"}).ok());
  EXPECT_FALSE(WhatIf::Parse({":=2000000s"}).ok());
  EXPECT_TRUE(WhatIf::Parse({":x1000"}).ok());
}

}  // namespace
}  // namespace foretrace
