#include "simulator/base/split_mix.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// The first numbers of the published generator (Vigna's splitmix64.c) from the seed 1234567.
TEST(SplitMix, PublishedSequence) {
  uint64_t state = 1234567;
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                  4593380528125082431u, 16408922859458223821u}) {
    EXPECT_EQ(SplitMix64(state), expected);
    state += kSplitMixStep;
  }
  EXPECT_EQ(SplitMix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(UnitInterval(~uint64_t{0}), 1 - 0x1p-53);
}

}  // namespace
}  // namespace foretrace
