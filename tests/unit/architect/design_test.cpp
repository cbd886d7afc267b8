#include <gtest/gtest.h>

#include <set>

#include "simulator/architect/accelerator_design.h"
#include "simulator/architect/design_space.h"

namespace foretrace {
namespace {

constexpr AcceleratorDesign kTpuV4{8, 2, 128, 128, 128};

DesignSpace Published() {
  const auto space =
      LoadDesignSpace(std::string(FORETRACE_SOURCE_DIR) + "/topologies/spaces/phaze.yaml");
  EXPECT_TRUE(space.ok()) << space.status();
  return *space;
}

// GLB(128 MB) 175423000; 8 tensor cores of L2(256 KB) 446565 and 16384 units of 760.041386; 2
// vector cores of L2(2 KB) 8248.43 and 128 lanes of 759.823853: the published cap.
TEST(AreaTest, CapIsExact) {
  const auto area = AreaOf(kTpuV4);
  ASSERT_TRUE(area.ok()) << area.status();
  EXPECT_DOUBLE_EQ(area->um2(), 278826676.31216);
}

// Smallest buffers are 1 KB: 16 * 2 * 2 = 64 bytes, and 32.
// 3338220 + (6133.98 + 4 * 760.041386) + (6133.98 + 2 * 759.823853) = 3355047.773250.
TEST(AreaTest, SmallestBuffer) {
  EXPECT_NEAR(AreaOf({1, 1, 2, 2, 2})->um2(), 3355047.773250, 1e-6);
}

TEST(AreaTest, RatiosOfNamedDesigns) {
  const double cap = AreaOf(kTpuV4)->um2();
  EXPECT_NEAR(AreaOf({2, 512, 256, 256, 32})->um2() / cap, 0.917, 5e-4);  // common
  EXPECT_NEAR(AreaOf({4, 256, 256, 256, 4})->um2() / cap, 0.950, 5e-4);   // OPT
  EXPECT_NEAR(AreaOf({1, 1024, 256, 256, 8})->um2() / cap, 0.988, 5e-4);  // GPT2, Megatron
  EXPECT_NEAR(AreaOf({4, 1024, 256, 64, 8})->um2() / cap, 0.9886, 5e-5);  // Llama2
}

TEST(AreaTest, BeyondTheTables) {
  for (const AcceleratorDesign d :
       {AcceleratorDesign{1, 1, 512, 256, 8}, AcceleratorDesign{1, 1, 128, 128, 3},
        AcceleratorDesign{1, 1, 100, 7, 8}, AcceleratorDesign{0, 1, 128, 128, 8}}) {
    EXPECT_EQ(AreaOf(d).status().code(), absl::StatusCode::kInvalidArgument) << Describe(d);
  }
}

TEST(SpaceTest, PublishedCountAndOrder) {
  const DesignSpace space = Published();
  const auto designs = FeasibleDesigns(space);
  ASSERT_TRUE(designs.ok()) << designs.status();
  EXPECT_EQ(designs->size(), 29360u);
  EXPECT_EQ(designs->front().design, kTpuV4);
  EXPECT_EQ(designs->front().bucket, 27882);
  for (size_t i = 1; i < designs->size(); ++i) {
    ASSERT_LE((*designs)[i].bucket, (*designs)[i - 1].bucket);
  }
  for (const SizedDesign& d : *designs) {
    ASSERT_LE(d.area, space.cap);
    if (d.design.tensor_cores > 1 && d.design.vector_cores > 1) {
      ASSERT_GE(d.area.um2(), 0.3 * space.cap.um2());
    }
  }
}

constexpr char kSmall[] =
    "name: s\ncores: {tensor: [1], vector: [1], width: [4], depth: [4], buffer_MB: [2]}\n"
    "area: {cap_mm2: 10, smallest_share: 0.3}\n"
    "machine: {clock_MHz: 1000, hbm_GBps: 100, link_GBps: 1, fill_words_per_cycle: 64, "
    "vector_operands: hbm, source: test}\n";

std::string With(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  return text.replace(text.find(from), from.size(), to);
}

TEST(SpaceTest, FileIsRead) {
  const auto space = ParseDesignSpace(kSmall, "s.yaml");
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_TRUE(space->machine.vectors_from_hbm);
  EXPECT_EQ(FeasibleDesigns(*space)->size(), 1u);
}

TEST(SpaceTest, BadFilesAreNamed) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"width: [4]", "width: []"},
           {"width: [4]", "width: [4, 4]"},
           {"width: [4]", "width: [-4]"},
           {"width: [4]", "width: [nan]"},
           {"width: [4]", "wide: [4]"},
           {"cap_mm2: 10", "cap: [8, 2, 128]"},
           {"cap_mm2: 10", "cap: [8, 2, 512, 256, 128]"},
           {"cap_mm2: 10", "cap_mm2: -1"},
           {"cap_mm2: 10", "cap_mm2: 10, cap: [1, 1, 2, 2, 2]"},
           {"clock_MHz: 1000", "clock_MHz: 0"},
           {"vector_operands: hbm", "vector_operands: cache"},
           {", source: test", ""}}) {
    const auto space = ParseDesignSpace(With(from, to), "s.yaml");
    EXPECT_EQ(space.status().code(), absl::StatusCode::kInvalidArgument) << from << " " << to;
  }
}

TEST(SpaceTest, NothingWithinTheCap) {
  const auto space = ParseDesignSpace(With("cap_mm2: 10", "cap_mm2: 1"), "s.yaml");
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(FeasibleDesigns(*space).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace foretrace
