// Experts whose activation and casts their GEMMs' kernels do, by hand: bytes over the memory's
// rate, where nothing else takes time.
#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"
#include "tests/unit/mapping/small_model.h"

namespace foretrace {
namespace {

PassTimes Times(bool fused, const char* words) {
  ClusterParameters p = MemoryAlone();
  p.four_bit_share = 0.25;
  p.forms.fused_experts = fused;
  const auto mapping = ParseMapping(words, 1, "test");
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  const auto times = TimePasses(SmallMixture(), *mapping, p);
  EXPECT_TRUE(times.ok()) << times.status();
  return times.value_or(PassTimes());
}

// In n = 1,024 x 1,024 values: the activation reads 16 and writes 8 of 2 bytes, backward it reads 8
// and 16 and writes 16. Casts of what it gives, 8, and backward of its gradient, 16, read 2 bytes
// and write 33/32 twice.
TEST(FusedExpertsTest, NeitherActivationNorItsCasts) {
  const PassTimes apart = Times(false, "tp1 mxfp8"), fused = Times(true, "tp1 mxfp8");
  const double n = 1024.0 * 1024, cast = 2 + 2 * 33.0 / 32;
  EXPECT_NEAR((apart.layer_forward - fused.layer_forward).seconds() * 1e9 / n, 24 * 2 + 8 * cast,
              0.01);
  EXPECT_NEAR((apart.layer_backward - fused.layer_backward).seconds() * 1e9 / n, 40 * 2 + 16 * cast,
              0.01);
}

TEST(FusedExpertsTest, OfMxfp8Alone) {
  for (const char* words : {"tp1", "tp1 fp8", "tp1 nvfp4"}) {
    EXPECT_EQ(Times(false, words).layer_forward, Times(true, words).layer_forward) << words;
    EXPECT_EQ(Times(false, words).layer_backward, Times(true, words).layer_backward) << words;
  }
}

}  // namespace
}  // namespace foretrace
