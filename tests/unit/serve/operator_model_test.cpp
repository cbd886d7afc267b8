// Times of operators by a model of a table's rows, for shapes that lie between none of them.
#include "simulator/serve/operator_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "simulator/serve/expert_load.h"
#include "simulator/serve/operator_features.h"
#include "simulator/serve/operator_rows.h"
#include "simulator/serve/operator_table.h"

namespace foretrace::serve {
namespace {

using serve::FeaturesOf;
using testing::HasSubstr;

// 4,096 tokens go to 8 of 256 experts each: 32,768, an eighth of them to each of 8 devices, which
// has 32 experts.
TEST(ExpertLoads, EvenOnesAreShared) {
  ExpertLoads loads;
  const ExpertLoad load = loads.Of({256, 8, 8, 4096, 0});
  EXPECT_DOUBLE_EQ(load.tokens, 4096);
  EXPECT_DOUBLE_EQ(load.experts, 32);
  EXPECT_DOUBLE_EQ(load.fullest, 128);
  // Fewer tokens than experts: each goes to its own.
  EXPECT_DOUBLE_EQ(loads.Of({256, 8, 8, 2, 0}).experts, 2);
}

// One device has all tokens whoever is popular, but for rounding and what one expert cannot take
// (a token goes to it once); of 64 devices the most loaded has more than its share, and the more
// the steeper the law. The figures of the data's own table: 1.96 times as long at 16, 2.8 at 64.
TEST(ExpertLoads, PopularOnesFillOneDevice) {
  ExpertLoads loads;
  EXPECT_NEAR(loads.Of({256, 1, 8, 4096, 1.2}).tokens, 32768, 2500);
  const double even = loads.Of({256, 64, 8, 4096, 0}).tokens;
  const double flat = loads.Of({256, 64, 8, 4096, 1.01}).tokens;
  const double steep = loads.Of({256, 64, 8, 4096, 1.2}).tokens;
  EXPECT_GT(flat, 1.5 * even);
  EXPECT_GT(steep, 1.1 * flat);
  EXPECT_LT(steep, 6 * even);
  EXPECT_GT(steep / even, 1.3 * (loads.Of({256, 16, 8, 4096, 1.2}).tokens /
                                 loads.Of({256, 16, 8, 4096, 0}).tokens));
  EXPECT_DOUBLE_EQ(ExpertLoads().Of({256, 64, 8, 4096, 1.2}).tokens, steep) << "same draws";
}

OperatorFeatures FeaturesOf(const OperatorRow& row) {
  ExpertLoads loads;
  return FeaturesOf(row.sizes, row.work, loads);
}

constexpr std::string_view kExperts =
    "kernel_source,moe_dtype,hidden_size,inter_size,num_experts,topk,moe_tp_size,moe_ep_size,"
    "distribution,num_tokens,latency_ms\n";

// 128 tokens to 2 of 8 experts: 32 tokens each, which take one tile of 64. Of 1,024 x 512 in 16
// bits: gate and up have 8 x 1,024 x 1,024 weights, down half; 256 tokens of 1,024 come in and
// 1,024 go out of the first, 512 and 1,024 of the second.
TEST(OperatorFeatures, ExpertsAreTwoGemmsOfWholeTiles) {
  const auto rows = ReadOperatorRows(
      "a.csv", std::string(kExperts) + "cutlass,bfloat16,1024,512,8,2,1,1,balanced,128,0.1\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  const OperatorFeatures f = FeaturesOf(rows->rows.front());
  ASSERT_EQ(f.kernels.size(), 3u);
  EXPECT_DOUBLE_EQ(f.kernels[0].flop.count(), 2.0 * 8 * 64 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(f.kernels[0].bytes.count(), 2.0 * (8 * 1024 * 1024 + 256 * (1024 + 1024)));
  EXPECT_DOUBLE_EQ(f.kernels[1].flop.count(), 2.0 * 8 * 64 * 1024 * 512);
  EXPECT_DOUBLE_EQ(f.kernels[1].bytes.count(), 2.0 * (8 * 1024 * 512 + 256 * (512 + 1024)));
  // What arrives is read and written (128 tokens, twice 2 bytes), spread in 16 bits and added up
  // again (256), and the activation reads gate and up and writes one of 512.
  EXPECT_DOUBLE_EQ(f.kernels[2].bytes.count(),
                   4.0 * 128 * 1024 + 256.0 * 1024 * 4 + 256.0 * 512 * (2 * 2 + 2));
}

// Of each kernel the longer of what memory and arithmetic take: 2 MB at 1 MB/ms, not 1 MFLOP at as
// many a ms, then 3 MFLOP, and the floor.
TEST(OperatorFeatures, EachKernelIsBoundByOneOfBoth) {
  OperatorRates rates;
  rates.floor = RealMs(0.5);
  rates.bytes_per_ms = rates.flop_per_ms = 1e6;
  const std::vector<OperatorWork> kernels = {{RealBytes(2e6), Flop(1e6)},
                                             {RealBytes(1e6), Flop(3e6)}};
  EXPECT_DOUBLE_EQ(rates.Overlapped(kernels).ms(), 5.5);
  EXPECT_DOUBLE_EQ(rates.InSequence(kernels.front()).ms(), 3.5) << "2 + 1 and the floor";
}

// A decode over 1,000 keys whose block takes one after the other, 100 a ms, takes 10 ms however
// little it reads; the steps of one sequence do not grow with the number of sequences.
TEST(OperatorFeatures, BlocksMayTakeKeysOneAfterTheOther) {
  OperatorRates rates;
  rates.bytes_per_ms = 1e9;
  rates.flop_per_ms = 1e12;
  rates.steps_per_ms = 100;
  for (const int sequences : {1, 8}) {
    const auto rows = ReadOperatorRows(
        "a.csv", fmt::format("mla_dtype,kv_cache_dtype,num_heads,batch_size,step,latency_ms\n"
                             "bfloat16,bfloat16,16,{},999,0.1\n",
                             sequences));
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_DOUBLE_EQ(rates.Overlapped(FeaturesOf(rows->rows.front()).kernels).ms(), 10);
  }
}

// A decode of 3 sequences with 128 heads over 1,000 latents of 512 + 64 values: these, and of each
// head a query of as many and a result of 512, of 2 bytes each; 64 heads are a block.
TEST(OperatorFeatures, QueriesAndResultsOfDecodes) {
  const auto rows =
      ReadOperatorRows("a.csv",
                       "mla_dtype,kv_cache_dtype,num_heads,batch_size,step,latency_ms\n"
                       "bfloat16,bfloat16,128,3,999,0.1\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  const OperatorWork& work = rows->rows.front().work;
  EXPECT_DOUBLE_EQ(work.bytes.count(), 3 * 2 * (1000 * 576 + 128 * (576 + 512)));
  EXPECT_DOUBLE_EQ(work.blocks, 3 * 2);
  // 10 blocks a ms.
  OperatorRates rates;
  rates.blocks_per_ms = 10;
  EXPECT_DOUBLE_EQ(rates.Overlapped(std::span(&work, 1)).ms(), 0.6);
}

// A size whose bytes no number holds is refused; one below 0 says that there is none.
TEST(OperatorFeatures, SizesAreOfTensors) {
  const auto read = [](std::string_view step, std::string_view window) {
    return ReadOperatorRows("a.csv",
                            fmt::format("attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,"
                                        "head_dim,window_size,batch_size,isl,step,latency_ms\n"
                                        "bfloat16,bfloat16,8,8,128,{},4,0,{},0.1\n",
                                        window, step));
  };
  for (const char* size : {"1e300", "2e9"}) {
    EXPECT_EQ(read(size, "0").status().message(),
              fmt::format("a.csv:2: step '{}' is more than 1e+09", size));
  }
  const auto none = read("999", "0"), below = read("999", "-1");
  ASSERT_TRUE(none.ok() && below.ok()) << below.status();
  EXPECT_EQ(std::get<CallSizes>(below->rows.front().sizes).window, 0);
  EXPECT_EQ(below->rows.front().work.steps, none->rows.front().work.steps);
}

// Twice as many blocks go through their keys as fast as one where each takes its own in turn, and
// half as fast where all keys are divided among the blocks of the device.
TEST(OperatorFeatures, KeysInTurnOrDivided) {
  const auto rates = [](double of_two) {
    std::vector<MeasuredWork> rows;
    for (const double keys : {1000.0, 2000.0, 4000.0}) {
      rows.push_back({{RealBytes(1), Flop(1), keys, 1}, RealMs(keys / 1000)});
      rows.push_back({{RealBytes(2), Flop(2), keys, 2}, RealMs(keys / 1000 * of_two)});
    }
    return RatesOf(rows);
  };
  EXPECT_NEAR(rates(1).steps_per_ms, 1000, 1e-9);
  EXPECT_EQ(rates(2).steps_per_ms, 0);
}

// What one learns that looks for the nearest row.
absl::StatusOr<LearntResidual> Nearest(std::span<const float> features, int count,
                                       std::span<const float> targets, bool) {
  return LearntResidual([features = std::vector(features.begin(), features.end()),
                         targets = std::vector(targets.begin(), targets.end()),
                         count](std::span<const float> x) {
    double least = std::numeric_limits<double>::infinity();
    float found = 0;
    for (size_t i = 0; i < targets.size(); ++i) {
      double away = 0;
      for (size_t j = 0; j < static_cast<size_t>(count); ++j) {
        away += std::abs(features[i * static_cast<size_t>(count) + j] - x[j]);
      }
      if (away < least) {
        least = away;
        found = targets[i];
      }
    }
    return found;
  });
}

// Times of experts on a device of 3 GB/ms and 600 GFLOP/ms, twice its work's; `slow`: of one
// division of the widths, whose tuning has failed.
std::string Experts(std::initializer_list<int> hidden, double slow = 1) {
  std::string text(kExperts);
  OperatorRates rates;
  rates.floor = RealMs(0.01);
  rates.bytes_per_ms = 3e9;
  rates.flop_per_ms = 6e11;
  for (const int size : hidden) {
    for (const int widths : {1, 2, 4}) {
      for (int tokens = 1; tokens <= 16384; tokens *= 2) {
        const std::string row = fmt::format("cutlass,bfloat16,{},{},32,4,{},1,balanced,{},", size,
                                            size / 2, widths, tokens);
        const auto read = ReadOperatorRows("row", std::string(kExperts) + row + "1\n");
        const double ms = 2 * rates.Overlapped(FeaturesOf(read->rows.front()).kernels).ms();
        text += fmt::format("{}{}\n", row, ms * (widths == 2 && size == 2048 ? slow : 1));
      }
    }
  }
  return text;
}

// 11 models of 45 rows. A twelfth, of a width that the table lacks, lies between none of its rows;
// the nearest say that times are those of the work.
TEST(OperatorModel, PredictsModelsThatTheTableLacks) {
  const std::string known =
      Experts({1024, 1280, 1536, 1792, 2048, 2304, 2560, 3072, 3584, 4096, 5120});
  const std::string other = Experts({2816});
  const auto without = TestOperators("a.csv", known, "b.csv", other);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->front().held_out, 0u);
  const auto errors = TestOperators("a.csv", known, "b.csv", other, {}, {}, Nearest);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->front().held_out, 45u);
  EXPECT_EQ(errors->front().beyond, 45u);
  EXPECT_LT(errors->front().median_percent, 6);
  const std::vector<std::string> notes = OperatorNotes(*errors);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes.front(), HasSubstr("45 of 45 rows lie between no measured ones"));
}

// Lines whose tuning failed are three times as slow as others like them, which other models' rows
// show: what is learnt is none of it.
TEST(OperatorModel, DoesNotLearnFromLinesWhoseTuningFailed) {
  const auto sizes = {1024, 1280, 1536, 1792, 2048, 2304, 2560, 3072, 3584, 4096, 5120};
  const auto rows = ReadOperatorRows("a.csv", Experts(sizes, 3));
  const auto same = ReadOperatorRows("b.csv", Experts({2048}));
  ASSERT_TRUE(rows.ok() && same.ok());
  auto model = OperatorModel::Fit(rows->rows, Nearest);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const OperatorRow& row : same->rows) {
    EXPECT_NEAR(model->TimesOf(row)->time / row.time, 1, 0.3) << row.lines.front().key;
  }
}

// Decodes whose times are those of their queries' bytes, 0.1 GB/ms, times their heads: of more
// sequences than the table has, the end of the line of these heads and keys says more than what one
// learns that learns nothing.
TEST(OperatorModel, LinesThatEndGoOnWithTheirWork) {
  const auto decodes = [](std::initializer_list<int> sequences) {
    std::string text = "mla_dtype,kv_cache_dtype,num_heads,batch_size,step,latency_ms\n";
    for (const int count : sequences) {
      for (int heads = 1; heads <= 64; heads *= 2) {
        for (const int step : {1, 3, 7, 15, 31, 63}) {
          const double bytes = count * 2.0 * ((step + 1) * 576 + heads * 1088);
          text += fmt::format("bfloat16,bfloat16,{},{},{},{}\n", heads, count, step,
                              heads * bytes / 1e8);
        }
      }
    }
    return text;
  };
  const auto nothing = [](std::span<const float>, int, std::span<const float>, bool) {
    return absl::StatusOr<LearntResidual>([](std::span<const float>) { return 0.0F; });
  };
  const auto errors = TestOperators("a.csv", decodes({8, 16, 32, 64, 128, 256}), "b.csv",
                                    decodes({1024}), {}, {}, nothing);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->front().beyond, 42u);
  EXPECT_LT(errors->front().p90_percent, 10);
}

// Measured shapes stay exact, and too few rows make no model.
TEST(OperatorModel, MeasuredShapesAreExactAndFewRowsMakeNone) {
  const std::string known =
      Experts({1024, 1280, 1536, 1792, 2048, 2304, 2560, 3072, 3584, 4096, 5120}, 3);
  const auto own = TestOperators("a.csv", known, "b.csv", known, {}, {}, Nearest);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_NEAR(own->front().p90_percent, 0, 1e-9);
  EXPECT_EQ(own->front().beyond, 0u);
  const auto few =
      TestOperators("a.csv", Experts({1024}), "b.csv", Experts({2816}), {}, {}, Nearest);
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(few->front().held_out, 0u);
}

}  // namespace
}  // namespace foretrace::serve
