#include "simulator/optimise/evolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace foretrace {
namespace {

// Ones where the target has them.
int64_t Distance(const Genome& genome) {
  int64_t wrong = 0;
  for (size_t i = 0; i < genome.size(); ++i) wrong += genome[i] != (i % 3 == 0 ? 1 : 0);
  return wrong;
}

TEST(Evolution, FindsATargetOf24Bits) {
  const EvolutionResult result = Evolve(24, {}, Distance);
  EXPECT_EQ(result.cost, 0);
  EXPECT_EQ(Distance(result.best), 0);
  EXPECT_TRUE(std::ranges::is_sorted(result.best_cost, std::greater<>()));
}

TEST(Evolution, BeginsWithAllZeroesAndAllOnesAndAsksOnceForEach) {
  std::vector<Genome> asked;
  std::set<Genome> distinct;
  const EvolutionResult result = Evolve(9, {}, [&](const Genome& genome) {
    asked.push_back(genome);
    distinct.insert(genome);
    return Distance(genome);
  });
  EXPECT_EQ(asked[0], Genome(9, 0));
  EXPECT_EQ(asked[1], Genome(9, 1));
  EXPECT_EQ(asked.size(), distinct.size());
  EXPECT_EQ(result.evaluations, static_cast<int64_t>(asked.size()));
}

TEST(Evolution, SameSeedSameSearch) {
  std::vector<Genome> first, second, other;
  const auto record = [](std::vector<Genome>& asked) {
    return [&asked](const Genome& genome) {
      asked.push_back(genome);
      return Distance(genome);
    };
  };
  Evolve(30, {}, record(first));
  Evolve(30, {}, record(second));
  EvolutionSettings settings;
  settings.seed = 65;
  Evolve(30, settings, record(other));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
}

TEST(Evolution, NoBitsIsOneEvaluation) {
  const EvolutionResult result = Evolve(0, {}, [](const Genome&) { return int64_t{7}; });
  EXPECT_EQ(result.cost, 7);
  EXPECT_EQ(result.evaluations, 1);
}

}  // namespace
}  // namespace foretrace
