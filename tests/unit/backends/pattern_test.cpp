#include "simulator/backends/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/backends/pattern_generator.h"

namespace foretrace {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// x -> conv -> add(*, conv) -> relu -> out; the operand of add that is no convolution comes first.
OperatorView ResidualDag(bool conv_read_twice) {
  std::vector<ViewedOp> ops = {
      {"conv", "conv2d", {-1, -1}, "1x3x8x8", {{"data_layout", "NCHW"}}},
      {"add", "add", {-1, 0}, "1x4x8x8", {}},
      {"relu", "relu", {1}, "1x4x8x8", {}},
  };
  if (conv_read_twice) ops.push_back({"tanh", "tanh", {0}, "1x4x8x8", {}});
  return OperatorView("residual", std::move(ops));
}

Pattern Parsed(std::string_view text) {
  auto pattern = ParsePattern(text);
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  return *pattern;
}

TEST(Pattern, OperandsOfAddMatchInEitherOrder) {
  const Pattern pattern = Parsed("relu(add(conv2d(*, *), *))");
  EXPECT_EQ(MatchAt(pattern, ResidualDag(false), 2).ops, (Ids{0, 1, 2}));
  EXPECT_FALSE(MatchAt(pattern, ResidualDag(false), 1).ops.has_value());
}

TEST(Pattern, AnyOperatorIsInsideAndAWildcardIsNot) {
  EXPECT_EQ(MatchAt(Parsed("relu(?)"), ResidualDag(false), 2).ops, (Ids{1, 2}));
  EXPECT_EQ(MatchAt(Parsed("relu(*)"), ResidualDag(false), 2).ops, (Ids{2}));
}

// conv -> relu and tanh, which are added; in the second graph each of two convolutions has one.
TEST(Pattern, ANameIsOneOperatorReadTwice) {
  const auto diamond = [](int32_t of_tanh) {
    return OperatorView("diamond", {{"conv", "conv2d", {-1, -1}, "1x3x8x8", {}},
                                    {"other", "conv2d", {-1, -1}, "1x3x8x8", {}},
                                    {"relu", "relu", {0}, "1x4x8x8", {}},
                                    {"tanh", "tanh", {of_tanh}, "1x4x8x8", {}},
                                    {"add", "add", {3, 2}, "1x4x8x8", {}}});
  };
  const Pattern pattern = Parsed("add(relu($c=conv2d(*, *)), tanh($c))");
  EXPECT_EQ(MatchAt(pattern, diamond(0), 4).ops, (Ids{0, 2, 3, 4}));
  EXPECT_FALSE(MatchAt(pattern, diamond(1), 4).ops.has_value());
  // A wildcard's name: the same operand from outside.
  const OperatorView silu("silu", {{"x", "relu", {-1}, "8", {}},
                                   {"sigmoid", "sigmoid", {0}, "8", {}},
                                   {"product", "multiply", {1, 0}, "8", {}},
                                   {"square", "multiply", {-1, -1}, "8", {}}});
  EXPECT_EQ(MatchAt(Parsed("multiply($x=*, sigmoid($x))"), silu, 2).ops, (Ids{1, 2}));
  // Which of the graph's inputs is which is not known.
  EXPECT_FALSE(MatchAt(Parsed("multiply($x=*, $x)"), silu, 3).ops.has_value());
}

TEST(Pattern, SecondOutputIsRefusedWithItsReason) {
  const MatchResult match = MatchAt(Parsed("add(conv2d(*, *), *)"), ResidualDag(true), 1);
  EXPECT_FALSE(match.ops.has_value());
  EXPECT_EQ(match.why, Mismatch::kSecondOutput);
}

TEST(Pattern, ConstraintsOnAttributesAndRank) {
  Pattern pattern = Parsed("conv2d(*, *)");
  pattern.constraints = {{"conv2d", "data_layout", {"NCHW"}}, {"conv2d", "rank", {"4"}}};
  EXPECT_EQ(MatchAt(pattern, ResidualDag(false), 0).ops, (Ids{0}));
  pattern.constraints[0].values = {"NHWC"};
  EXPECT_EQ(MatchAt(pattern, ResidualDag(false), 0).why, Mismatch::kConstraint);
}

TEST(Pattern, WhatIsNoPatternIsRefused) {
  for (const auto& [text, why] : {std::pair("", "an operator, * or ? is expected"),
                                  {"*", "wildcard"},
                                  {"relu(conv2d(*)", ") is missing"},
                                  {"relu(*) x", "text after its end"},
                                  {"add($a, $a=relu(*))", "$a names nothing before it"},
                                  {"add($a=relu(*), $a=relu(*))", "another operator already"},
                                  {"add($=relu(*), *)", "a name is expected"},
                                  {"relu(*), add(*, *)", "several outputs"}}) {
    EXPECT_THAT(std::string(ParsePattern(text).status().message()), HasSubstr(why)) << text;
  }
  EXPECT_FALSE(ParsePattern(std::string(100'000, '(')).ok());
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a(";
  EXPECT_THAT(std::string(ParsePattern(deep).status().message()), HasSubstr("nested"));
}

Backend Tvm() {
  Backend backend;
  backend.name = "tvm";
  backend.rule.classes = {{"conv2d", FusionClass::kFusable},
                          {"add", FusionClass::kBroadcast},
                          {"relu", FusionClass::kElementwise},
                          {"tanh", FusionClass::kElementwise}};
  backend.rule.fuses = {
      {FusionClass::kFusable, {FusionClass::kElementwise, FusionClass::kBroadcast}}};
  return backend;
}

// conv -> {relu, tanh} -> add: the diamond of figure 2.4 is one group or none.
TEST(PatternGenerator, GroupsAreThePrefixesOfThePostDominatorChain) {
  const OperatorView dag("diamond", {{"conv", "conv2d", {-1, -1}, "1x3x8x8", {}},
                                     {"relu", "relu", {0}, "1x4x8x8", {}},
                                     {"tanh", "tanh", {0}, "1x4x8x8", {}},
                                     {"add", "add", {1, 2}, "1x4x8x8", {}},
                                     {"last", "relu", {3}, "1x4x8x8", {}}});
  EXPECT_EQ(PostDominators(dag), (Ids{3, 3, 3, 4, -1}));
  std::vector<Ids> groups;
  for (const BackendMatch& match : GenerateMatches(dag, {Tvm()}).matches)
    groups.push_back(match.ops);
  EXPECT_THAT(groups, testing::UnorderedElementsAre(Ids{0}, Ids{1}, Ids{2}, Ids{3}, Ids{4},
                                                    Ids{0, 1, 2, 3}, Ids{0, 1, 2, 3, 4}));
}

TEST(PatternGenerator, OperatorsThatFailAReadOrARuleEndTheGroup) {
  Backend tvm = Tvm();
  tvm.rule.classes.erase("tanh");
  const OperatorView dag("diamond", {{"conv", "conv2d", {-1, -1}, "1x3x8x8", {}},
                                     {"relu", "relu", {0}, "1x4x8x8", {}},
                                     {"tanh", "tanh", {0}, "1x4x8x8", {}},
                                     {"add", "add", {1, 2}, "1x4x8x8", {}}});
  for (const BackendMatch& match : GenerateMatches(dag, {tvm}).matches) {
    EXPECT_EQ(match.ops.size(), 1U);
  }
}

TEST(PatternGenerator, RefusalsSayWhy) {
  Backend cudnn;
  cudnn.patterns = {Parsed("add(conv2d(*, *), *)")};
  const GeneratedMatches found = GenerateMatches(ResidualDag(true), {cudnn});
  EXPECT_TRUE(found.matches.empty());
  ASSERT_EQ(found.refused.size(), 1U);
  EXPECT_THAT(found.refused.front().why, HasSubstr("several outputs"));
}

}  // namespace
}  // namespace foretrace
