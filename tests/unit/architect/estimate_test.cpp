#include "simulator/architect/estimate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/architect/core_schedule.h"

namespace foretrace {
namespace {

constexpr Direction kForward = Direction::kForward, kBackward = Direction::kBackward;

// Published cycles of [2, 1024, 1024] on two cores of 128 lanes: 8192 groups.
TEST(VectorCyclesTest, PublishedValues) {
  struct Row {
    VectorKind kind;
    int64_t forward, backward;
  };
  for (const Row& row : {Row{VectorKind::kAdd, 8192, 16384},
                         {VectorKind::kMul, 8192, 16384},
                         {VectorKind::kSub, 8192, 16384},
                         {VectorKind::kDiv, 81920, 172032},
                         {VectorKind::kTanh, 221184, 16384},
                         {VectorKind::kSigmoid, 98304, 180224},
                         {VectorKind::kDropout, 16384, 8192},
                         {VectorKind::kLayerNorm, 8192, 8192},
                         {VectorKind::kRelu, 8192, 8192},
                         {VectorKind::kNeg, 8192, 8192},
                         {VectorKind::kPow, 122880, 131072},
                         {VectorKind::kSqrt, 122880, 131072},
                         {VectorKind::kErf, 122880, 122880},
                         {VectorKind::kMean, 28672, 28672},
                         {VectorKind::kFused, 32768, 32768}}) {
    const auto cycles = [&](Direction pass) {
      return VectorCycles(2 * 1024 * 1024, CostOf(row.kind, pass), 2, 128);
    };
    EXPECT_EQ(cycles(kForward), row.forward) << static_cast<int>(row.kind);
    EXPECT_EQ(cycles(kBackward), row.backward) << static_cast<int>(row.kind);
  }
  const int64_t scores = int64_t{2} * 16 * 1024 * 1024;
  EXPECT_EQ(VectorCycles(scores, CostOf(VectorKind::kSoftmax, kForward), 2, 128), 1441802);
  EXPECT_EQ(VectorCycles(scores, CostOf(VectorKind::kSoftmax, kBackward), 2, 128), 262144);
}

MachineBase Machine() {
  MachineBase m;
  m.clock_Hz = 1.05e9;
  m.hbm = Bandwidth::GBps(1200);
  m.link = Bandwidth::BytesPerSecond(4.0 * (1 << 30));
  m.fill_words_per_cycle = 64;
  return m;
}

// Sunstone's published cycles of a GEMM of 1024^3. Ours: the L2 buffers get 64 words a cycle.
// {1}: 512 Ki words of results of 1 Mi fit, so one operand is read twice: 3 Mi words, 49152 cycles.
// {2}: halves of the columns fit, the other operand goes to both: 3 Mi words.
// {8}: eight tiles of 512 x 256, each 0.75 Mi words: 6 Mi words, 98304 cycles.
TEST(TensorCyclesTest, AgainstSunstone) {
  struct Row {
    AcceleratorDesign design;
    int64_t ours;
    double sunstone, factor;
  };
  for (const Row& row : {Row{{1, 256, 256, 256, 32}, 49152, 32768, 1.52},
                         Row{{2, 512, 256, 256, 32}, 49152, 49152, 1.02},
                         Row{{8, 2, 128, 128, 128}, 98304, 81920, 1.21}}) {
    const int64_t cycles =
        TensorCycles({1, 1024, 1024, 1024}, row.design, Machine(), row.design.tensor_cores);
    EXPECT_EQ(cycles, row.ours + row.design.width + row.design.depth) << Describe(row.design);
    EXPECT_LE(static_cast<double>(cycles) / row.sunstone, row.factor) << Describe(row.design);
    EXPECT_GE(static_cast<double>(cycles) / row.sunstone, 1) << Describe(row.design);
  }
}

// With bandwidth to spare the array decides: 4 x 4 tiles of 256 x 256 and 1024 steps.
TEST(TensorCyclesTest, ArrayBound) {
  MachineBase fast = Machine();
  fast.fill_words_per_cycle = 1e9;
  fast.hbm = Bandwidth::GBps(1e9);
  EXPECT_EQ(TensorCycles({1, 1024, 1024, 1024}, {1, 1, 256, 256, 32}, fast, 1), 16384 + 512);
  EXPECT_EQ(TensorCycles({1, 1024, 1024, 1024}, {4, 1, 256, 256, 32}, fast, 4), 4096 + 512);
  EXPECT_EQ(TensorCycles({8, 128, 128, 128}, {4, 1, 128, 128, 32}, fast, 4), 2 * 128 + 256);
}

// HBM alone: operands and results once, 3 Mi words of 2 bytes at 2.1 GB/s of 1.05 GHz: 1 a cycle.
TEST(TensorCyclesTest, HbmBound) {
  MachineBase slow = Machine();
  slow.hbm = Bandwidth::GBps(2.1);
  EXPECT_EQ(TensorCycles({1, 1024, 1024, 1024}, {1, 1, 256, 256, 32}, slow, 1), 3 * 1048576 + 512);
}

TransformerConfig Gpt() {
  TransformerConfig c;
  c.name = "gpt";
  c.hidden = 1024;
  c.layers = 4;
  c.heads = 16;
  c.vocabulary = 1000;
  c.sequence = 512;
  return WithDefaults(c);
}

int64_t TensorFlop(const LayerWork& work) {
  int64_t flop = 0;
  for (const LayerOp& op : work.ops) {
    flop += 2 * op.gemm.batch * op.gemm.m * op.gemm.n * op.gemm.k;
  }
  return flop;
}

// Forward: 2 (4 h^2 + 2 h ffn) tokens of weights and 4 s h tokens of attention; backward twice
// that.
TEST(LayerWorkTest, FlopOfABlock) {
  for (const int32_t width : {1, 2, 4}) {
    const auto model = SliceModel(Gpt(), width, 2);
    ASSERT_TRUE(model.ok()) << model.status();
    const int64_t tokens = 2 * 512, h = 1024;
    const int64_t flop = tokens * (2 * 12 * h * h + 4 * 512 * h) / width;
    EXPECT_EQ(TensorFlop(model->kinds[1].forward), flop);
    EXPECT_EQ(TensorFlop(model->kinds[1].backward), 2 * flop);
    EXPECT_EQ(TensorFlop(Recomputed(model->kinds[1])), 3 * flop);
  }
}

// Megatron-LM's: two all-reduces in a block's forward pass and two in its backward pass.
TEST(LayerWorkTest, AllReduces) {
  const auto count = [](const LayerWork& work) {
    int n = 0;
    for (const LayerOp& op : work.ops) n += op.collective.count() > 0 ? 1 : 0;
    return n;
  };
  const auto one = SliceModel(Gpt(), 1, 1), two = SliceModel(Gpt(), 2, 1);
  EXPECT_EQ(count(one->kinds[1].forward) + count(one->kinds[1].backward), 0);
  EXPECT_EQ(count(two->kinds[1].forward), 2);
  EXPECT_EQ(count(two->kinds[1].backward), 2);
  for (const LayerOp& op : two->kinds[1].forward.ops) {
    if (op.collective.count() > 0) {
      EXPECT_EQ(op.collective.count(), 512 * 1024 * 2);
    }
  }
}

// 100 elements a group, 2 of 4 devices' 4 MiB: 2 * 3/4 * 4 MiB over 4 GiB/s, and the sum.
TEST(EstimateTest, AllReduceTime) {
  CoreEstimator estimator(Machine());
  estimator.SetDesign({1, 2, 128, 128, 8});
  LayerOp op;
  op.core = CoreClass::kVector;
  op.elements = 2 << 20;
  op.cost = CostOf(VectorKind::kAdd, kForward);
  op.collective = Bytes(4 << 20);
  const OpTimes times = estimator.Of(op, 4);
  const double sent = 1.5 / 1024;
  EXPECT_NEAR(times.one.seconds(), sent + 16384 / 1.05e9, 1e-11);
  EXPECT_NEAR(times.all.seconds(), sent + 8192 / 1.05e9, 1e-11);
}

TEST(LayerWorkTest, BadWidths) {
  EXPECT_EQ(SliceModel(Gpt(), 3, 1).status().code(), absl::StatusCode::kInvalidArgument);
  TransformerConfig t5 = Gpt();
  t5.family = TransformerFamily::kT5;
  EXPECT_EQ(SliceModel(t5, 1, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// The cheap bound is one, and with few large cores, as searches choose them, layers are proven
// optimal. Many small cores leave a gap within the limit: the schedule says so.
TEST(EstimateTest, BoundsAndProofs) {
  const auto model = SliceModel(Gpt(), 2, 1);
  ASSERT_TRUE(model.ok());
  CoreEstimator estimator(Machine());
  for (const AcceleratorDesign& d :
       {AcceleratorDesign{8, 2, 128, 128, 128}, AcceleratorDesign{2, 512, 256, 256, 32},
        AcceleratorDesign{64, 4, 32, 32, 8}, AcceleratorDesign{1, 1, 256, 256, 8}}) {
    estimator.SetDesign(d);
    for (const LayerSlice* layer : {&model->kinds[0], &model->kinds[1], &model->kinds[2]}) {
      for (const LayerWork* work : {&layer->forward, &layer->backward}) {
        const CoreGraph graph = estimator.Timed(*work, 2);
        const CoreCounts cores{d.tensor_cores, d.vector_cores};
        const auto schedule = ScheduleCores(graph, cores, {2000});
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        EXPECT_EQ(ViolationIn(graph, cores, *schedule), "");
        EXPECT_LE(schedule->bound, schedule->makespan);
        EXPECT_LE(estimator.Bound(*work, 2), schedule->makespan);
        if (d.tensor_cores <= 2) {
          EXPECT_TRUE(schedule->optimal()) << Describe(d);
        }
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
