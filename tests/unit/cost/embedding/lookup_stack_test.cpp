#include "simulator/cost/embedding/lookup_stack.h"

#include <gtest/gtest.h>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

constexpr std::string_view kHead =
    "name: s\nsource: test\nkernel_us: 4\nread_us: 0.5\nstream_efficiency: 0.5\n"
    "scatter_efficiency: 0.25\nblocks_per_sm_us: 10\ninstructions_per_sm_clock: 64\n"
    "sort_efficiency: 0.5\nsort_pass_us: 10\nsort_digit_bits: 8\none_block_keys: 1000\n";

LookupStack Stack(const std::string& forward,
                  const std::string& backward = "{name: b, each: table}") {
  const auto stack = ParseLookupStack(
      std::string(kHead) + "forward: [" + forward + "]\nbackward: [" + backward + "]\n", "s.yaml");
  FORETRACE_CHECK(stack.ok());
  return *stack;
}

// 100 multiprocessors of 1,000 MHz with 32 blocks each, 1,000 GB/s: 1 us moves 1 MB.
GpuPeaks Device() {
  GpuPeaks device;
  device.name = "test";
  device.sms = 100;
  device.dram_gbps = 1000;
  ComputeUnit unit;
  unit.clock_hz = 1e9;
  device.accelerator.units.push_back(unit);
  device.accelerator.occupancy.blocks = 32;
  return device;
}

// 10,000 samples of two inputs with 1 and 9 lookups, rows of 16 floats.
StackTable Table(std::span<const double> poolings) {
  StackTable table;
  table.lookup.batch = 10'000.0 * static_cast<double>(poolings.size());
  table.lookup.dim = 16;
  double sum = 0;
  for (const double p : poolings) sum += p;
  table.lookup.pooling = sum / static_cast<double>(poolings.size());
  table.lookup.unique_rows = 5'000;
  table.poolings = poolings;
  return table;
}

constexpr double kTwo[] = {1, 9};
constexpr double kOne[] = {10};

double Us(const LookupStack& stack, std::span<const double> poolings, bool several_ranks = true) {
  return StackTime(stack, Device(), Table(poolings), LookupPass::kForward, several_ranks).us();
}

TEST(LookupStackTest, BytesAreOfSamplesLookupsAndDistinctRows) {
  // 100,000 lookups of 64 bytes and 8 more at half of 1,000 GB/s: 7.2 MB in 14.4 us, and 4 to
  // start.
  EXPECT_NEAR(Us(Stack("{name: k, each: table, lookup_rows: 1, lookup_bytes: 8}"), kOne), 18.4,
              1e-6);
  // Scattered, at a quarter; 5,000 rows twice.
  EXPECT_NEAR(Us(Stack("{name: k, each: table, scattered: true, unique_rows: 2}"), kOne),
              4 + 5'000 * 128 * 4e-6, 1e-6);
}

TEST(LookupStackTest, EachInputHasKernelsOfItsOwn) {
  const LookupStack stack = Stack("{name: k, each: input, lookup_rows: 1}");
  // 640 kB and 5.76 MB: both kernels' starts, the same bytes together.
  EXPECT_NEAR(Us(stack, kTwo), 8 + 12.8, 1e-6);
  EXPECT_NEAR(Us(stack, kOne), 4 + 12.8, 1e-6);
}

TEST(LookupStackTest, ConditionsLeaveKernelsOut) {
  const LookupStack stack = Stack(
      "{name: a, each: table, if: several_inputs}, {name: b, each: table, if: several_ranks}");
  EXPECT_NEAR(Us(stack, kTwo), 8, 1e-9);
  EXPECT_NEAR(Us(stack, kOne), 4, 1e-9);
  EXPECT_NEAR(Us(stack, kOne, false), 0, 1e-9);
}

TEST(LookupStackTest, ManySmallBlocksAreBoundByTheirBeginnings) {
  // 10,000 blocks, 1,000 begin in a microsecond.
  EXPECT_NEAR(Us(Stack("{name: k, each: input, sample_blocks: 1}"), kOne), 14, 1e-6);
  // 3,200 at once, each for two reads and, of ten rows four at a time, two more: 0.5 us each.
  EXPECT_NEAR(
      Us(Stack("{name: k, each: input, sample_blocks: 1, chained_reads: 8, rows_at_once: 4}"),
         kOne),
      4 + 10'000.0 / 3'200 * 10 * 0.5, 1e-6);
}

TEST(LookupStackTest, SortsByDigits) {
  // 100,000 keys of 64 bits: 8 passes of 10 us, counts and sums of digits, 8 + 8 x 24 bytes a key
  // at half the bandwidth.
  EXPECT_NEAR(
      Us(Stack(
             "{name: k, each: table, sorts: lookups, key_bytes: 8, value_bytes: 4, key_bits: 64}"),
         kOne),
      8 + 80 + 100'000 * 200 * 2e-6, 1e-6);
  // 5,000 keys of as many bits as number 100,000 lookups: 17, three digits.
  EXPECT_NEAR(
      Us(Stack("{name: k, each: table, sorts: unique, key_bytes: 4, value_bytes: 4}"), kOne),
      8 + 30 + 5'000 * 52 * 2e-6, 1e-6);
}

TEST(LookupStackTest, InstructionsBound) {
  // 1.6 million elements of 64 instructions, 6.4 million a microsecond.
  EXPECT_NEAR(Us(Stack("{name: k, each: table, lookup_instructions: 64}"), kOne), 4 + 16, 1e-6);
}

TEST(LookupStackTest, ErrorsNameTheKey) {
  const auto bad = ParseLookupStack(std::string(kHead) + "forward: []\nbackward: []\n", "s.yaml");
  EXPECT_NE(bad.status().message().find("forward"), std::string::npos);
  const auto each = ParseLookupStack(
      std::string(kHead) + "forward: [{name: k, each: rank}]\nbackward: []\n", "s.yaml");
  EXPECT_NE(each.status().message().find("each"), std::string::npos);
  GpuPeaks device = Device();
  device.accelerator.occupancy.blocks = 0;
  EXPECT_FALSE(CheckStackDevice(device).ok());
}

TEST(LookupStackTest, TheShippedOneLoads) {
  const auto stack = LoadLookupStack(std::string(FORETRACE_SOURCE_DIR) +
                                     "/topologies/lookups/distributed-embeddings-0.1.yaml");
  ASSERT_TRUE(stack.ok()) << stack.status().message();
  EXPECT_TRUE(stack->deals_by_size);
}

}  // namespace
}  // namespace foretrace
