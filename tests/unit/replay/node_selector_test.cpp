#include "simulator/replay/node_selector.h"

#include <gtest/gtest.h>

#include <string>

#include "simulator/replay/what_if.h"
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
