// Kernels of a state-space mixer's scan, by hand.
#include "simulator/graph/state_scan.h"

#include <gtest/gtest.h>

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

// 4 chunks of 16 tokens; 4 groups of 4 heads of 32 elements; states of 32.
StateScan Scan() {
  StateScan s;
  s.tokens = 64;
  s.groups = 4;
  s.width = 128;
  s.heads = 16;
  s.state = 32;
  s.chunk = 16;
  s.taps = 4;
  return s;
}
constexpr double kTokens = 64, kInputs = 4 * 128, kState = 32, kChunk = 16, kGroups = 4;

KernelList Work(const StateScan& scan, Direction pass) {
  KernelList list;
  for (const OperatorCall& call : ScanCalls(scan, pass)) {
    for (const KernelWork& work : Kernels(call)) list.push_back(work);
  }
  return list;
}

double Gemms(const KernelList& list) {
  double flop = 0;
  for (const KernelWork& work : list) {
    if (work.kind == KernelKind::kBatchedGemm) flop += work.flop.count();
  }
  return flop;
}

int64_t MovedBytes(const KernelList& list) {
  int64_t bytes = 0;
  for (const KernelWork& work : list) bytes += work.total_bytes();
  return bytes;
}

// Of each token: every element of the input is multiplied with what writes it to a state of N, and
// the state with what reads it; within a chunk of Q tokens Q products of N for each group weigh Q
// inputs. 2 FLOP each.
TEST(StateScanTest, ForwardFlop) {
  const double expected =
      2 * kTokens * kInputs * (kState + kState + kChunk) + 2 * kTokens * kGroups * kChunk * kState;
  EXPECT_EQ(Gemms(Work(Scan(), Direction::kForward)), expected);
}

// Again the states (N) and the products within chunks. Gradients: of the states (N); of the input,
// by both ways (N + Q); of what writes and what reads by states (2 N) and by products (2 Q N of a
// group); of the products (Q); of the decays (Q).
TEST(StateScanTest, BackwardFlop) {
  const double inputs = 5 * kState + 3 * kChunk, groups = 3 * kGroups * kChunk * kState;
  EXPECT_EQ(Gemms(Work(Scan(), Direction::kBackward)), 2 * kTokens * (kInputs * inputs + groups));
}

// Forward, of each of 64 tokens with X = 512, B = C = 128 elements and 16 steps; states of a chunk
// are 4 x 128 x 32, 1,024 elements a token; products within it 4 x 16 x 16, 64 a token.
// Convolution: reads and writes X + 2 B, 2 bytes each. Sums: 2 bytes a step to two of 4. Chunk
// states: X and B, steps twice in 4 bytes, states in 4. Passing: 4 bytes to 2. Products: B and C,
// 4 bytes written. Results: C, states in 2, products in 4, X, the gate, steps; X twice.
TEST(StateScanTest, ForwardBytes) {
  const int64_t x = 512, b = 128, steps = 16, states = 1024, products = 64;
  const int64_t token = 2 * 2 * (x + 2 * b) + (2 + 8) * steps +
                        (2 * x + 2 * b + 8 * steps + 4 * states) + (4 + 2) * states +
                        (2 * b + 2 * b + 4 * products) +
                        (2 * b + 2 * states + 4 * products + 2 * x + 2 * x + 8 * steps + 4 * x);
  EXPECT_EQ(MovedBytes(Work(Scan(), Direction::kForward)), 64 * token);
}

// Forward the results; backward the gradients of input, products and decays.
TEST(StateScanTest, GemmsWithDecays) {
  const auto count = [](Direction pass) {
    int weighed = 0;
    for (const KernelWork& work : Work(Scan(), pass)) weighed += WeighsByDecays(Scan(), work);
    return weighed;
  };
  EXPECT_EQ(count(Direction::kForward), 1);
  EXPECT_EQ(count(Direction::kBackward), 3);
}

// A group's heads are one GEMM: its bytes are read once for all of them.
TEST(StateScanTest, MoreHeadsOfAGroupMoveOnlyTheirSteps) {
  StateScan more = Scan();
  more.heads *= 2;
  const int64_t steps =
      MovedBytes(Work(more, Direction::kForward)) - MovedBytes(Work(Scan(), Direction::kForward));
  EXPECT_EQ(steps, 64 * 16 * (10 + 8 + 8));
}

// Two tokens more than chunks hold are a chunk of their own, which runs as whole ones do.
TEST(StateScanTest, PartOfAChunkIsAChunk) {
  StateScan longer = Scan(), whole = Scan();
  longer.tokens = 66;
  whole.tokens = 80;
  EXPECT_EQ(Gemms(Work(longer, Direction::kForward)), Gemms(Work(whole, Direction::kForward)));
}

// Of several samples tokens and samples change places before and after: all that is projected,
// 2 X + 2 B + steps, and the result, X, there and back.
TEST(StateScanTest, SeveralSamplesAreTransposed) {
  StateScan two = Scan();
  two.samples = 2;
  for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
    EXPECT_EQ(MovedBytes(Work(two, pass)) - 2 * MovedBytes(Work(Scan(), pass)),
              2 * 64 * 4 * (3 * 512 + 2 * 128 + 16));
  }
}

// Of an H100 of 132 multiprocessors 100 TFLOP/s.
TEST(StateScanTest, LeastTimeOfDecays) {
  for (const KernelWork& work : Work(Scan(), Direction::kForward)) {
    const double least = LeastSecondsOfDecays(Scan(), work, 132);
    EXPECT_DOUBLE_EQ(least, WeighsByDecays(Scan(), work) ? work.flop.count() / 100.32e12 : 0);
    EXPECT_EQ(LeastSecondsOfDecays(Scan(), work, 0), 0);
  }
}

// 5 chunks of 64 tokens of two prompts, one of which goes on. Beside training: states of 4 x 128 x
// 32 elements are written in 4 bytes and read in these, copied in once and out twice; the result is
// written once, the gate still read.
TEST(StateScanTest, PromptsOfAnEngine) {
  const auto bytes = [](int64_t state_width) {
    KernelList list;
    for (const OperatorCall& call : PromptScanCalls(Scan(), {5, 2, 1, state_width})) {
      for (const KernelWork& work : Kernels(call)) list.push_back(work);
    }
    return MovedBytes(list);
  };
  const int64_t x = 512, b = 128, steps = 16, tokens = 64, state = 4 * 128 * 32;
  // Tensors of a chunk's tokens are counted whole: 5 chunks of 16.
  const int64_t rows = 80, products = 64;
  const int64_t training = tokens * (2 * 2 * (x + 2 * b) + (2 + 8) * steps) +
                           rows * (2 * x + 2 * b) + tokens * 8 * steps + 5 * 4 * state +
                           5 * (4 + 2) * state + rows * (2 * b + 2 * b + 4 * products) +
                           rows * (2 * b + 4 * products + 2 * x + 2 * x) + 5 * 2 * state +
                           tokens * (2 * x + 8 * steps);
  EXPECT_EQ(bytes(2), training + 3 * 2 * 2 * state);
  EXPECT_EQ(bytes(4), training + 5 * (2 + 2) * state + 3 * 2 * 4 * state);
}

// Two sequences that take a token each: of the convolution the last 3 tokens are read and written
// as well; states are read and written in 4 bytes, 5 FLOP an element.
TEST(StateScanTest, UpdatesOfAnEngine) {
  const KernelList list = UpdateKernels(Scan(), 2, 1, 4);
  ASSERT_EQ(list.size(), 2u);
  const int64_t x = 512, b = 128, steps = 16, state = 512 * 32;
  EXPECT_EQ(list[0].total_bytes(), 2 * (2 + 2 * 3) * (x + 2 * b) * 2);
  EXPECT_EQ(list[1].read.count(), 2 * (4 * state + 2 * (2 * x + 2 * b + steps)));
  EXPECT_EQ(list[1].written.count(), 2 * (4 * state + 2 * x));
  EXPECT_EQ(list[1].flop.count(), 2.0 * 5 * state);
  // Of three tokens each, states after each one are kept.
  EXPECT_EQ(UpdateKernels(Scan(), 2, 3, 4)[1].written.count(), 3 * list[1].written.count());
  EXPECT_EQ(SequenceStateBytes(Scan(), 4), 4 * state + 3 * (x + 2 * b) * 2);
}

}  // namespace
}  // namespace foretrace
