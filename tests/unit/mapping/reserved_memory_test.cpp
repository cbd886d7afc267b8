#include "simulator/mapping/reserved_memory.h"

#include <gtest/gtest.h>

#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

AllocatorMemory Followed(const TransformerConfig& c, const ParallelMapping& m, int32_t stage = 0) {
  const auto followed = FollowAllocations(c, m, stage);
  EXPECT_TRUE(followed.ok()) << followed.status();
  return followed.value_or(AllocatorMemory());
}

// What is followed operator by operator is, at most, what the ledger of the stage adds up, and the
// results and gradients of the operators at work, which it does not count: of this model at most
// scores and their gradients, 3 x 16 x 1,024 x 1,024 of two bytes, and some of h or 4 h a token.
TEST(ReservedMemoryTest, AgreesWithTheLedger) {
  TransformerConfig c = Model();
  for (const char* words :
       {"tp1 pp1 dp1 mb1", "tp1 pp1 dp1 mb1 full", "tp1 pp1 dp1 mb1 full uniform2",
        "tp2 pp2 dp1 mb1 full partition-activations", "tp1 pp2 dp1 mb1 full offload-activations",
        "tp2 pp2 dp1 mb1 sp zero1", "tp1 pp2 dp2 mb1 v2 zero1", "tp1 pp1 dp2 mb1 last1",
        "tp1 pp4 dp1 mb1 gpipe"}) {
    const auto m = ParseMapping(words, 8, "test");
    ASSERT_TRUE(m.ok()) << m.status();
    for (int32_t s = 0; s < m->pipeline; ++s) {
      const AllocatorMemory followed = Followed(c, *m, s);
      const double ledger = static_cast<double>(StageMemoryOf(c, *m, s).total().count());
      const auto allocated = static_cast<double>(followed.allocated.count());
      EXPECT_GT(allocated, 0.95 * ledger) << words << " stage " << s;
      EXPECT_LT(allocated, ledger + (3 * 16 + 16) * 2 * kH2) << words << " stage " << s;
      EXPECT_GE(followed.reserved, followed.allocated);
      EXPECT_EQ(followed.reserved.count() % (2 << 20), 0);
    }
  }
}

// Nothing that one iteration allocates is kept: more micro-batches than are in flight, or another
// iteration, take no more.
TEST(ReservedMemoryTest, IterationsTakeNoMore) {
  ParallelMapping m = Mapping(1, 1);
  m.global_batch = 4;
  const AllocatorMemory four = Followed(Model(), m);
  m.global_batch = 64;
  EXPECT_EQ(Followed(Model(), m).reserved, four.reserved);
  m.data = 3;
  EXPECT_FALSE(FollowAllocations(Model(), m, 0).ok());
}

TEST(ReservedMemoryTest, TheFullestStageIsTaken) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  m.global_batch = 4;
  Bytes most;
  for (int32_t s = 0; s < 2; ++s) {
    most =
        std::max(most, StageMemoryOf(Model(), m, s).total() + Followed(Model(), m, s).Fragments());
  }
  const auto reserved = ReservedMemoryOf(Model(), m);
  ASSERT_TRUE(reserved.ok());
  EXPECT_EQ(*reserved, most);
  EXPECT_GT(*reserved, MemoryOf(Model(), m).total());
}

}  // namespace
}  // namespace foretrace
