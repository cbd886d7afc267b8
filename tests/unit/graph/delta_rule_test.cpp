// Kernels of the gated delta rule, by hand and against published times.
#include "simulator/graph/delta_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

// Of every token: 4 heads of keys of 32 elements, 16 heads of values of 24; chunks of 16.
StateScan Rule() {
  StateScan s;
  s.delta = true;
  s.tokens = 64;
  s.groups = 4;
  s.width = 4 * 24;
  s.heads = 16;
  s.state = 32;
  s.chunk = 16;
  s.taps = 4;
  return s;
}
constexpr double kTokens = 64, kHeads = 16, kKey = 32, kValue = 24, kChunk = 16;

KernelList Work(const CallList& calls) {
  KernelList list;
  for (const OperatorCall& call : calls) {
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

// Of each token and head of values: products of keys within the chunk (Q K); keys and values
// through the inverse (Q (K + V)); what states take off the values and what is added to them (2 K
// V); results from the states (K V), and within the chunk products (Q K) and values (Q V).
TEST(DeltaRuleTest, ForwardFlop) {
  const double each = kChunk * kKey + kChunk * (kKey + kValue) + 2 * kKey * kValue + kKey * kValue +
                      kChunk * kKey + kChunk * kValue;
  EXPECT_EQ(Gemms(Work(DeltaCalls(Rule(), Direction::kForward))), 2 * kTokens * kHeads * each);
  EXPECT_EQ(Gemms(Work(ScanCalls(Rule(), Direction::kForward))), 2 * kTokens * kHeads * each);
}

// Again keys and values through the inverse and the states. Gradients: of values within chunks (Q K
// + Q V); of states from results, values and what was taken off (3 K V); of queries, keys and what
// the inverse made of keys from states (3 K V) and within chunks (Q V + 2 Q K); through the inverse
// (5 Q K + 2 Q V), and twice by it (2 Q Q).
TEST(DeltaRuleTest, BackwardFlop) {
  const double again = kChunk * (kKey + kValue) + 2 * kKey * kValue;
  const double each = again + kChunk * (kKey + kValue) + 6 * kKey * kValue + kChunk * kValue +
                      2 * kChunk * kKey + 5 * kChunk * kKey + 2 * kChunk * kValue +
                      2 * kChunk * kChunk;
  EXPECT_EQ(Gemms(Work(DeltaCalls(Rule(), Direction::kBackward))), 2 * kTokens * kHeads * each);
}

// GEMMs forward, of 64 tokens of a head: keys and the inverse (K + Q); the inverse, keys, values
// and both results (Q + 2 K + 2 V); keys and what the inverse made, values of both kinds, and a
// state of 32 x 24 a chunk (2 K + 2 V + K V / Q); queries, keys, states, values and results (2 K +
// K V / Q + 2 V): 2 bytes each. Steps of 4 bytes twice in each of the four.
TEST(DeltaRuleTest, ForwardBytes) {
  const int64_t k = 32, v = 24, q = 16, state = k * v / q;
  const int64_t head =
      (k + q) + (q + 2 * k + 2 * v) + (2 * k + 2 * v + state) + (2 * k + state + 2 * v);
  int64_t bytes = 0;
  for (const KernelWork& work : Work(DeltaCalls(Rule(), Direction::kForward))) {
    if (work.kind == KernelKind::kBatchedGemm) bytes += work.total_bytes();
  }
  EXPECT_EQ(bytes, 64 * 16 * (2 * head + 4 * 8));
}

// Engines read a key once for the four heads of values that share it, and the gate; states are
// copied in and out in 32 bits.
TEST(DeltaRuleTest, PromptsOfAnEngine) {
  const PromptScan prompts{4, 2, 1, 4, 3};
  int64_t gemms = 0, turns = 0;
  for (const KernelWork& work : Work(PromptScanCalls(Rule(), prompts))) {
    if (work.kind != KernelKind::kBatchedGemm) continue;
    gemms += work.total_bytes();
    turns = std::max(turns, work.turns);
  }
  const int64_t k = 32, v = 24, q = 16, state = k * v / q, shared = k / 4;
  const int64_t head = (shared + q) + (q + shared + k + 2 * v) + (shared + k + 2 * v + state) +
                       (2 * shared + state + 2 * v);
  EXPECT_EQ(gemms, 64 * 16 * (2 * head + 4 * 8) + 64 * 16 * v * 2);
  EXPECT_EQ(turns, 3);
  EXPECT_EQ(SequenceStateBytes(Rule(), 4), 4 * 16 * 24 * 32 + 3 * (16 * 24 + 2 * 4 * 32) * 2);
}

// A token of each of two sequences: 7 FLOP a state; gate and values, keys and queries, two numbers
// a head.
TEST(DeltaRuleTest, Updates) {
  const KernelList list = UpdateKernels(Rule(), 2, 1, 4);
  const int64_t values = 16 * 24, keys = 4 * 32, states = values * 32;
  EXPECT_EQ(list[1].flop.count(), 2.0 * 7 * static_cast<double>(states));
  EXPECT_EQ(list[1].read.count(), 2 * (4 * states + 2 * (2 * values + 2 * keys + 2 * 16)));
}

// FlashQLA, benchmark/benchmark_results_H200.txt, fla 0.5.1, in us: heads of keys and of values,
// tokens of each of so many sequences.
struct Measured {
  int64_t keys, values, tokens, sequences;
  double us;
};

// Kernels take what LeastSecondsOfDecays says, or their bytes at nine tenths of 4.8 TB/s, and 2 us
// each.
double Predicted(const Measured& m, Direction pass) {
  StateScan s;
  s.delta = true;
  s.samples = m.sequences;
  s.tokens = m.tokens;
  s.groups = m.keys;
  s.width = m.values / m.keys * 128;
  s.heads = m.values;
  s.state = 128;
  s.chunk = 64;
  s.taps = 4;
  double seconds = 0;
  for (const KernelWork& work : Work(DeltaCalls(s, pass))) {
    if (work.kind != KernelKind::kBatchedGemm) continue;
    const double bytes = static_cast<double>(work.total_bytes()) / (0.9 * 4.8e12);
    seconds += 2e-6 + std::max(bytes, LeastSecondsOfDecays(s, work, 132));
  }
  return 1e6 * seconds;
}

// Printed with the largest.
double MedianError(const std::vector<Measured>& rows, Direction pass) {
  std::vector<double> errors;
  for (const Measured& m : rows) errors.push_back(std::abs(Predicted(m, pass) / m.us - 1));
  std::ranges::sort(errors);
  std::cout << (pass == Direction::kForward ? "forward" : "backward") << ": median "
            << 100 * errors[errors.size() / 2] << " %, at most " << 100 * errors.back() << " %\n";
  return errors[errors.size() / 2];
}

// What a chunk takes at least is set by one row of either table; the rate is that of Mamba-2's
// scans. All others are held out.
TEST(DeltaRuleTest, PublishedTimesOfAnH200) {
  const Measured fitted = {2, 8, 32768, 1, 902}, fitted_backward = {2, 4, 32768, 1, 2311};
  EXPECT_NEAR(Predicted(fitted, Direction::kForward) / fitted.us, 1, 0.05);
  EXPECT_NEAR(Predicted(fitted_backward, Direction::kBackward) / fitted_backward.us, 1, 0.05);
  const std::vector<Measured> forward = {
      {2, 8, 8192, 1, 234},   {2, 8, 8192, 4, 467},   {4, 16, 32768, 1, 1241},
      {4, 16, 8192, 1, 316},  {4, 16, 8192, 4, 935},  {8, 32, 32768, 1, 1885},
      {8, 32, 8192, 1, 466},  {8, 32, 8192, 4, 1886}, {16, 64, 32768, 1, 3331},
      {16, 64, 8192, 1, 814}, {16, 64, 1024, 8, 854}, {16, 32, 8192, 1, 472},
      {16, 48, 8192, 1, 665}, {16, 16, 8192, 1, 334}, {32, 32, 8192, 1, 500}};
  const std::vector<Measured> backward = {{16, 32, 8192, 1, 1444}, {16, 32, 32768, 1, 5697},
                                          {8, 16, 8192, 1, 957},   {8, 16, 32768, 1, 3701},
                                          {4, 8, 8192, 1, 722},    {4, 8, 32768, 1, 2743}};
  EXPECT_LT(MedianError(forward, Direction::kForward), 0.06);
  EXPECT_LT(MedianError(backward, Direction::kBackward), 0.06);
  for (const Measured& m : forward) {
    EXPECT_NEAR(Predicted(m, Direction::kForward) / m.us, 1, 0.2) << m.values << " " << m.tokens;
  }
  for (const Measured& m : backward) {
    EXPECT_NEAR(Predicted(m, Direction::kBackward) / m.us, 1, 0.1) << m.values << " " << m.tokens;
  }
}

// A chain of 4 chunks of 16 tokens with keys of 32: 1.2 us each of 64 x 128, so that 0.075 of
// these.
TEST(DeltaRuleTest, TheChainGoesByChunksAndKeys) {
  double chain = 0, unknown = 0;
  for (const KernelWork& work : Work(DeltaCalls(Rule(), Direction::kForward))) {
    if (work.turns == 0) continue;
    chain += LeastSecondsOfDelta(Rule(), work, 1'000'000);
    unknown += LeastSecondsOfDelta(Rule(), work, 0);
  }
  EXPECT_DOUBLE_EQ(chain, 4 * 1.2e-6 * (16 * 32) / (64 * 128));
  EXPECT_EQ(unknown, 0);
}

// Sizes as large as a file may state: no bytes are negative.
TEST(DeltaRuleTest, ExtremeSizes) {
  constexpr int64_t kMost = 1'000'000'000;
  for (const bool delta : {true, false}) {
    StateScan s = Rule();
    s.delta = delta;
    s.samples = s.tokens = s.groups = s.width = s.state = s.heads = s.chunk = kMost;
    KernelList all = Work(ScanCalls(s, Direction::kForward));
    for (const KernelList& more : {Work(ScanCalls(s, Direction::kBackward)),
                                   Work(PromptScanCalls(s, {kMost, kMost, kMost, 4, kMost})),
                                   UpdateKernels(s, kMost, 2, 4)}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    for (const KernelWork& work : all) {
      EXPECT_GE(work.read.count(), 0);
      EXPECT_GE(work.written.count(), 0);
      EXPECT_GE(work.flop.count(), 0);
    }
    EXPECT_GT(SequenceStateBytes(s, 4), 0);
  }
}

}  // namespace
}  // namespace foretrace
