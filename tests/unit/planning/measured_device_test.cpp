// Kernels of a searched mapping on a device of which nothing was measured: the analytic chain.
#include "simulator/planning/mappings/measured_device.h"

#include <gtest/gtest.h>

#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

// Far from bounded by memory, so that times are to one another as the peaks are.
KernelWork Product(KernelKind kind) {
  KernelWork work;
  work.kind = kind;
  work.flop = Flop(2 * int64_t{8192} * 8192 * 8192);
  work.read = Bytes(2 * 4 * int64_t{8192} * 8192);
  work.written = Bytes(4 * int64_t{8192} * 8192);
  work.batch = 1;
  work.m = work.n = work.k = 8192;
  return work;
}

double Microseconds(const std::string& gpu, KernelKind kind) {
  NodeSpec node;
  const auto accelerator = FindAccelerator(gpu);
  EXPECT_TRUE(accelerator.ok()) << accelerator.status();
  node.accelerator = accelerator.value_or(Accelerator());
  std::vector<std::string> notes, files;
  const auto device = FindMeasurements("auto", node, notes, files);
  EXPECT_TRUE(device.ok()) << device.status();
  return (*device)->KernelTime(Product(kind)).time.us();
}

// PyTorch's defaults since 1.12: TF32 for convolutions alone. An A10's datasheet has 31.2 TFLOP/s
// without and 62.5 with it; of a P4, which has no tensor cores, both are the same.
TEST(MeasuredDeviceTest, ThirtyTwoBits) {
  const double a10 =
      Microseconds("a10", KernelKind::kGemm) / Microseconds("a10", KernelKind::kConvolution);
  const double p4 =
      Microseconds("p4", KernelKind::kGemm) / Microseconds("p4", KernelKind::kConvolution);
  EXPECT_NEAR(a10 / p4, 62.5 / 31.2, 0.2);  // tiles fill both devices unlike
}

}  // namespace
}  // namespace foretrace
