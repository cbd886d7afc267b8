#include "simulator/backends/operator_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "op,shape,time_us,backend\n";

OperatorView ShortcutDag() {
  return OperatorView("shortcut", {{"main", "conv2d", {-1, -1}, "1x3x8x8", {{"groups", "1"}}},
                                   {"down", "conv2d", {-1, -1}, "1x5x8x8", {{"groups", "1"}}},
                                   {"add", "add", {0, 1}, "1x4x8x8", {}}});
}

TEST(OperatorCosts, KeysHaveTheShapeOfTheLeftmostInput) {
  EXPECT_EQ(CostKeys(ShortcutDag(), {0, 2}).front(),
            "add(conv2d(*,*),*)|data=1x3x8x8;conv2d.groups=1");
  EXPECT_EQ(CostKeys(ShortcutDag(), {1, 2}).front(),
            "add(*,conv2d(*,*))|data=1x4x8x8;conv2d.groups=1");
  EXPECT_EQ(CostKeys(ShortcutDag(), {1, 2}).back(), "conv2d+add|data=1x4x8x8;conv2d.groups=1");
}

TEST(OperatorCosts, AliasesAndMedianOfRepeats) {
  OperatorCosts costs;
  ASSERT_TRUE(costs
                  .Parse(std::string(kHeader) +
                             "\"add(*,*)\",data=1x4x8x8,2,old\n\"add(*,*)\",data=1x4x8x8,4,old\n"
                             "\"add(*,*)\",data=1x4x8x8,5,other\n",
                         "t.csv")
                  .ok());
  Backend backend;
  backend.name = "new";
  EXPECT_EQ(costs.Find(ShortcutDag(), {2}, backend), std::nullopt);
  backend.aliases = {"old"};
  EXPECT_EQ(costs.Find(ShortcutDag(), {2}, backend), SimTime::FromUs(3));
}

TEST(OperatorCosts, RowsWithoutATimeAreRefusedByLine) {
  for (const char* time : {"", "-1", "0", "nan", "inf", "x", "1e300"}) {
    OperatorCosts costs;
    const absl::Status status =
        costs.Parse(std::string(kHeader) + "relu(*),data=1," + time + ",tvm\n", "t.csv");
    EXPECT_THAT(std::string(status.message()), HasSubstr("t.csv: line 2: time_us")) << time;
  }
  OperatorCosts costs;
  EXPECT_THAT(std::string(costs.Parse("op,shape,time_us\n", "t.csv").message()),
              HasSubstr("no column 'backend'"));
  EXPECT_THAT(std::string(costs.Parse(kHeader, "t.csv").message()), HasSubstr("no measured"));
}

TEST(OperatorCosts, RowsOfTwoDevicesAreRefused) {
  OperatorCosts costs;
  const std::string head = "op,platform,shape,time_us,backend\n";
  ASSERT_TRUE(costs.Parse(head + "relu(*),rtx2070,data=1,2,tvm\n", "a.csv").ok());
  ASSERT_TRUE(costs.Parse(head + "relu(*),unnamed,data=2,2,tvm\n", "b.csv").ok());
  EXPECT_THAT(std::string(costs.Parse(head + "relu(*),jetson,data=3,9,tvm\n", "c.csv").message()),
              HasSubstr("c.csv: line 2: measured on jetson, other rows on rtx2070"));
}

TEST(OperatorCosts, TypesThatNoBackendNamesAreTold) {
  OperatorCosts costs;
  ASSERT_TRUE(costs
                  .Parse(std::string(kHeader) +
                             "\"add(*,frobnicate(*))\",data=1,2,x\nrelu+add,data=1,4,x\n",
                         "t.csv")
                  .ok());
  Backend backend;
  backend.rule.classes = {{"add", FusionClass::kBroadcast}};
  EXPECT_THAT(costs.UnknownTypes({backend}), testing::ElementsAre("frobnicate", "relu"));
}

// Two backends take 2 us each for the sum; one's own launch of 1 us is less than the other's 10.
TEST(OperatorCosts, ABackendMayHaveALaunchOfItsOwn) {
  const auto own = ParseBackend(
      "name: own\nsource: s\nkind: compiler\ndevice: cuda\nlaunch_us: 1\n"
      "patterns: [{match: 'add(*, *)'}]\n",
      "own.yaml");
  ASSERT_TRUE(own.ok()) << own.status();
  const auto plain = ParseBackend(
      "name: plain\nsource: s\nkind: library\ndevice: cuda\npatterns: [{match: 'add(*, *)'}]\n",
      "plain.yaml");
  ASSERT_TRUE(plain.ok()) << plain.status();
  OperatorCosts costs;
  ASSERT_TRUE(costs
                  .Parse(std::string(kHeader) +
                             "\"add(*,*)\",data=1x4x8x8,2,plain\n\"add(*,*)\",data=1x4x8x8,2,own\n",
                         "t.csv")
                  .ok());
  const OperatorView sum("sum", {{"a", "add", {-1, -1}, "1x4x8x8", {}}});
  const std::vector<Backend> backends = {*plain, *own};
  const std::vector<KernelChoice> choices =
      TimedChoices(sum, backends, GenerateMatches(sum, backends).matches, costs, {});
  const auto placed = PlaceOps(sum, choices, kPublishedLaunch);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->cost, SimTime::FromUs(3));
  EXPECT_THAT(std::string(ParseBackend("name: own\nsource: s\nkind: compiler\ndevice: cuda\n"
                                       "launch_us: -1\npatterns: [{match: 'add(*, *)'}]\n",
                                       "own.yaml")
                              .status()
                              .message()),
              HasSubstr("launch_us"));
}

TEST(BackendFile, WhatCouldNeverMatchIsRefused) {
  const std::string head = "name: x\nsource: s\nkind: library\ndevice: cuda\n";
  for (const auto& [rest, why] :
       {std::pair("", "neither patterns nor a rule"),
        {"patterns: [{match: 'relu('}]\n", "an operator, * or ? is expected"},
        {"patterns: [{match: relu(*), where: {conv2d: {groups: [1]}}}]\n", "no operator 'conv2d'"},
        {"patterns: [{match: relu(*), where: {relu: {rank: []}}}]\n", "nothing could match"},
        {"rule: {classes: {opaque: [a], tuple: [a]}}\n", "in another class"},
        {"rule: {classes: {opaque: [a]}, fuses: {opaque: [b]}}\n", "no class of operators"}}) {
    EXPECT_THAT(std::string(ParseBackend(head + rest, "x.yaml").status().message()),
                HasSubstr(why));
  }
}

}  // namespace
}  // namespace foretrace
