#include <gtest/gtest.h>

#include "simulator/mapping/iteration_model.h"

namespace foretrace {
namespace {

// 4 devices of 100 TFLOP/s do 8e14 FLOP in 2 s; 2e14 of them are the model's.
TEST(ModelFlopUtilisation, IsModelFlopOverWhatTheDevicesCouldDo) {
  EXPECT_DOUBLE_EQ(
      ModelFlopUtilisation(Flop(2e14), SimTime::FromSeconds(2), FlopRate::Teraflops(100), 4), 0.25);
}

}  // namespace
}  // namespace foretrace
