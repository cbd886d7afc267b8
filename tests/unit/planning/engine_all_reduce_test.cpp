#include <gtest/gtest.h>

#include <cmath>

#include "simulator/base/statistics.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/planning/serving/serving_costs.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/engine_exchanges.h"
#include "simulator/topology/platform_loader.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

// The engines' own kernel against its benchmark in graphs on one H100 node, of 256 bytes to 8 MiB
// on 2, 4 and 8 devices. Both engines' constants are of these tables; NCCL takes 3 to 5 times as
// long where messages are small.
TEST(EngineAllReduce, MeasuredOnH100) {
  const std::string file = RealData("aiconfigurator/custom-allreduce-h100.csv.xz");
  FORETRACE_SKIP_WITHOUT(file);
  const auto text = ReadTableText(file);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto platform =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-h100.yaml");
  ASSERT_TRUE(platform.ok()) << platform.status();
  std::vector<std::string> notes;
  const auto costs = MakeDeviceCosts(*platform, "auto", false, notes);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const std::pair<const char*, const char*> engines[] = {{"vllm-0.19", "0.19.0"},
                                                         {"sglang-0.5", "0.5.10"}};
  for (const auto& [name, version] : engines) {
    const auto engine = serve::LoadEngine(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    auto rows = serve::CsvColumns::Parse(
        file, *text,
        {"table_version", "kernel_source", "num_gpus", "message_size_elements", "latency_ms"});
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::vector<double> errors;
    while (rows->Next()) {
      const auto& row = rows->row();
      const Bytes bytes(2 * int64_t{row.Integer(3, 1, 1 << 30)});
      if (row.Text(0) != version || !row.Text(1).ends_with("_graph") || bytes > Bytes(8 << 20)) {
        continue;
      }
      const Estimate sum = serve::SumOverRanks(*engine, **costs, row.Integer(2, 1, 8), bytes);
      errors.push_back(std::abs(sum.time.us() / (row.Number(4, 0, 1e6) * 1e3) - 1));
    }
    ASSERT_GT(errors.size(), 40) << name;
    EXPECT_LT(Quantile(errors, 0.5), 0.04) << name;
    EXPECT_LT(Quantile(errors, 0.9), 0.12) << name;
  }
}

// A B200 has twice an H100's links: sums over its ranks take no longer, whatever their size.
TEST(EngineAllReduce, FasterLinksAreNotSlower) {
  const auto costs_of = [](const std::string& name) {
    const auto platform =
        LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + name + ".yaml");
    EXPECT_TRUE(platform.ok()) << platform.status();
    std::vector<std::string> notes;
    return MakeDeviceCosts(*platform, "auto", false, notes).value();
  };
  const auto h100 = costs_of("dgx-h100"), b200 = costs_of("dgx-b200");
  for (const char* name : {"vllm-0.19", "sglang-0.5"}) {
    const auto engine = serve::LoadEngine(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const serve::EngineConfig on_h100 = engine->On("h100-sxm5-80gb", Bytes(int64_t{80} << 30));
    const serve::EngineConfig on_b200 = engine->On("b200-sxm", Bytes(int64_t{180} << 30));
    for (const int32_t ranks : {2, 4, 8}) {
      for (int64_t bytes = 1 << 10; bytes <= 8 << 20; bytes *= 2) {
        EXPECT_LE(serve::SumOverRanks(on_b200, *b200, ranks, Bytes(bytes)).time,
                  serve::SumOverRanks(on_h100, *h100, ranks, Bytes(bytes)).time)
            << name << ' ' << ranks << ' ' << bytes;
      }
    }
  }
}

// Curves of an A100 begin at 1 MiB, which takes 44 us among two ranks and 93 among eight: of 8 KiB
// eight take what two do and as much more as the network has it, 23.6 us for 9.1.
TEST(EngineAllReduce, FewBytesTakeNotWhatManyDid) {
  const auto platform =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-a100-80gb.yaml");
  ASSERT_TRUE(platform.ok()) << platform.status();
  std::vector<std::string> notes;
  const auto costs = MakeDeviceCosts(*platform, "auto", false, notes);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const auto us = [&](int32_t ranks, int64_t bytes) {
    return (*costs)->Collective(CollectiveOp::kAllReduce, ranks, Bytes(bytes)).time.us();
  };
  EXPECT_NEAR(us(8, 8 << 10) - us(2, 8 << 10), 23.6 - 9.1, 1);
  EXPECT_NEAR(us(8, 1 << 20), 92.8, 2);
  double last = 0;
  for (int64_t bytes = 1 << 10; bytes <= 8 << 20; bytes *= 2) {
    EXPECT_LE(last, us(8, bytes)) << bytes;
    last = us(8, bytes);
  }
}

}  // namespace
}  // namespace foretrace
