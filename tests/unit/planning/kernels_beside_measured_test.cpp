#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernels_beside.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/serve/csv_columns.h"

namespace foretrace {
namespace {

// A kernel of an H100 beside another one.
struct Beside {
  std::string op, shape;
  KernelDemand demand;
  HeldDevice held;
  double times = 1;     // over what it takes alone, measured
  bool fitted = false;  // every second shape of an operator
};

int64_t Size(const std::string& shape, const std::string& key) {
  const size_t at = (";" + shape).find(";" + key + "=");
  return at == std::string::npos ? 0 : std::stoll(shape.substr(at + key.size() + 1));
}

KernelWork WorkOf(const std::string& op, const std::string& shape) {
  const auto size = [&](const char* key) { return Size(shape, key); };
  OperatorCall call{ElementwiseOp{size("elements"), size("elements")}, DType::kBFloat16};
  if (op == "gemm") call.shape = LinearOp{size("m"), size("n"), size("k")};
  if (op.starts_with("attention")) {
    call.shape =
        AttentionOp{size("b"), size("h"), size("h"), size("s"), size("s"), size("d"), true, true};
    if (op == "attention_backward") call.pass = Direction::kBackward;
  }
  if (op == "layer_norm") call.shape = LayerNormOp{size("rows"), size("cols")};
  if (op == "softmax") call.shape = SoftmaxOp{size("rows"), size("cols")};
  if (op == "sum") call.shape = ReductionOp{size("cols"), size("rows"), true};
  if (op == "adam") call.shape = OptimizerOp{size("params"), 1, OptimizerKind::kAdam};
  return Kernels(call).front();
}

// calibration/h100-sxm5-nvswitch/measurements/beside.csv.xz (scripts/capture/bench_beside.py)
// beside 4 to 32 blocks, as many as NCCL has, that move nothing or at a set rate. Without
// transposes, which transformers have none of, and an addition of 1 us.
std::vector<Beside> Measured(const GpuPeaks& device) {
  const std::string file = std::string(FORETRACE_SOURCE_DIR) +
                           "/calibration/h100-sxm5-nvswitch/measurements/beside.csv.xz";
  std::vector<Beside> kernels;
  const auto text = ReadTableText(file);
  EXPECT_TRUE(text.ok()) << text.status();
  auto rows = serve::CsvColumns::Parse(file, text.value_or(""),
                                       {"op", "shape", "blocks", "moves", "GBps", "time_us"});
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::map<std::string, std::map<std::string, double>> alone;
  std::map<std::string, bool> fitted;
  while (rows.ok() && rows->Next()) {
    const auto& row = rows->row();
    const std::string op(row.Text(0)), shape(row.Text(1));
    const auto blocks = static_cast<double>(row.Integer(2, 0, 132));
    const bool moves = row.Integer(3, 0, 1) == 1;
    const double gbps = row.Number(4, 0, 1e4), us = row.Number(5, 0, 1e9);
    if (op == "transpose" || shape == "elements=65536") continue;
    if (blocks == 0) {
      fitted[op + shape] = alone[op].size() % 2 == 0;
      alone[op][shape] = us;
      continue;
    }
    if (blocks < 4 || blocks > 32 || (moves && gbps == 0)) continue;
    // Blocks of no cluster; what they read they write too.
    kernels.push_back({op,
                       shape,
                       DemandOf(device, Precision::kHalf, WorkOf(op, shape)),
                       {blocks, false, Bandwidth::GBps(2 * gbps)},
                       us / alone[op][shape],
                       fitted[op + shape]});
  }
  return kernels;
}

struct Errors {
  double count = 0, sum = 0, absolute = 0;
  void Add(double error) {
    ++count;
    sum += error;
    absolute += std::abs(error);
  }
  double mean() const { return sum / count; }
  double mean_absolute() const { return absolute / count; }
};

class KernelsBesideMeasured : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = FindGpuPeaks("h100-sxm5-80gb");
    ASSERT_TRUE(device.ok()) << device.status();
    shared_ = SharedBy(*device);
    kernels_ = Measured(*device);
  }
  double Predicted(const Beside& b) const { return TimesBeside(b.demand, shared_, b.held); }
  Errors Of(const std::string& op, bool fitted, bool moves) const {
    Errors errors;
    for (const Beside& b : kernels_) {
      if (b.op != op || b.fitted != fitted || (b.held.memory > Bandwidth()) != moves) continue;
      errors.Add(Predicted(b) / b.times - 1);
    }
    return errors;
  }

  SharedDevice shared_;
  std::vector<Beside> kernels_;
};

TEST_F(KernelsBesideMeasured, ErrorsByGroup) {
  struct Group {
    const char* op;
    double spinning, moving;  // mean absolute errors
  };
  // Norms, sums and additions of the other half are small enough for the second-level cache, which
  // what the blocks copy then clears.
  for (const Group& g :
       {Group{"gemm", 0.04, 0.06}, Group{"attention", 0.02, 0.04},
        Group{"attention_backward", 0.03, 0.06}, Group{"softmax", 0.02, 0.08},
        Group{"layer_norm", 0.12, 0.19}, Group{"add", 0.05, 0.35}, Group{"sum", 0.07, 0.17}}) {
    for (const bool fitted : {true, false}) {
      const Errors spinning = Of(g.op, fitted, false), moving = Of(g.op, fitted, true);
      ASSERT_GT(spinning.count, 0) << g.op;
      ASSERT_GT(moving.count, 0) << g.op;
      const std::string name = fmt::format("{} {}", g.op, fitted ? "fitted" : "held out");
      std::printf("%-28s spinning %3.0f: %4.1f %% (%+.1f), moving %3.0f: %4.1f %% (%+.1f)\n",
                  name.c_str(), spinning.count, 100 * spinning.mean_absolute(),
                  100 * spinning.mean(), moving.count, 100 * moving.mean_absolute(),
                  100 * moving.mean());
      EXPECT_LT(spinning.mean_absolute(), g.spinning) << name;
      EXPECT_LT(moving.mean_absolute(), g.moving) << name;
    }
  }
}

// Least squares of the logarithms on what is left of both.
std::pair<double, double> PowersOf(const std::vector<std::array<double, 3>>& rows) {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;
  for (const auto& [a, b, y] : rows) {
    aa += a * a, ab += a * b, bb += b * b, ay += a * y, by += b * y;
  }
  const double det = aa * bb - ab * ab;
  if (aa == 0) return {0, by / bb};
  return {(ay * bb - ab * by) / det, (aa * by - ab * ay) / det};
}

// Powers are those of the fitted half.
TEST_F(KernelsBesideMeasured, PowersAreTheHalfs) {
  for (const std::string op :
       {"gemm", "attention", "attention_backward", "softmax", "layer_norm"}) {
    std::vector<std::array<double, 3>> rows;
    KernelDemand demand;
    for (const Beside& b : kernels_) {
      if (b.op != op || !b.fitted) continue;
      demand = b.demand;
      const double left =
          1 - b.held.memory.bytes_per_second() / (0.9 * shared_.memory.bytes_per_second());
      HeldDevice still = b.held;
      still.memory = Bandwidth();
      const bool gemm = op == "gemm";
      const double compute = gemm ? TimesBeside(b.demand, shared_, still) : 1;
      const double share = 1 - b.held.multiprocessors / shared_.multiprocessors;
      rows.push_back({gemm ? 0 : -std::log(share), -std::log(left), std::log(b.times / compute)});
    }
    const auto [multiprocessors, memory] = PowersOf(rows);
    EXPECT_NEAR(demand.multiprocessors, multiprocessors, 0.03) << op;
    EXPECT_NEAR(demand.memory, memory, 0.03) << op;
  }
}

// A wave that runs on fewer multiprocessors is shorter: without that GEMMs of the fitted half are
// predicted too long.
TEST_F(KernelsBesideMeasured, WavesOnFewerMultiprocessorsAreShorter) {
  EXPECT_LT(std::abs(Of("gemm", true, false).mean()), 0.015);
}

}  // namespace
}  // namespace foretrace
