#include "simulator/cost/collective/expert_exchange_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "simulator/topology/platform_loader.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

std::string Write(const std::string& text) {
  static const TempFolder folder;
  return folder.Write("expert_exchange.yaml", text);
}

std::string Header() {
  CalibrationHeader header;
  header.kind = "expert-exchange";
  header.platform = "p";
  return HeaderYaml(header);
}

TEST(ExpertExchangeFile, IsReadAsItWasWritten) {
  ExpertExchangeModel model;
  model.deduplicated.within[0].copy_us = 0.25;
  model.deduplicated.between[1].notify_share = 0.5;
  model.direct.within[1].sharpness = 12;
  const auto loaded = LoadExpertExchange(Write(Header() + ExpertExchangeYaml(model)));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model.deduplicated.within[0].copy_us, 0.25);
  EXPECT_EQ(loaded->model.deduplicated.within[1].copy_us, 0);
  EXPECT_EQ(loaded->model.deduplicated.between[1].notify_share, 0.5);
  EXPECT_EQ(loaded->model.direct.within[1].sharpness, 12);
}

TEST(ExpertExchangeFile, NamesWhatIsWrong) {
  std::string text = ExpertExchangeYaml({});
  text.replace(text.find("{}"), 2, "{nvlink_share: 1.5}");
  const auto much = LoadExpertExchange(Write(Header() + text));
  ASSERT_FALSE(much.ok());
  EXPECT_NE(much.status().message().find("nvlink_share"), std::string::npos) << much.status();
  text.replace(text.find("nvlink_share: 1.5"), 17, "nvlink: 1");
  const auto unknown = LoadExpertExchange(Write(Header() + text));
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("nvlink"), std::string::npos) << unknown.status();
  EXPECT_FALSE(LoadExpertExchange(Write(Header() + "models: {}\n")).ok());
}

// 18 NVLinks of 25 GB/s, a NIC of 50 for each of 8 GPUs.
TEST(ExpertExchangeFile, LinksOfAPlatform) {
  const auto platform =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-h100.yaml");
  ASSERT_TRUE(platform.ok()) << platform.status();
  const ExpertLinks links = LinksOf(*platform);
  EXPECT_EQ(links.devices, 8);
  EXPECT_DOUBLE_EQ(links.nvlink.gbps(), 450);
  EXPECT_DOUBLE_EQ(links.nic.gbps(), 50);
  EXPECT_EQ(links.multiprocessors, 132);
}

TEST(ExpertExchangeFile, TheShippedOneSaysWhereItComesFrom) {
  const auto loaded = ShippedExpertExchange();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_FALSE(loaded->header.sources.empty());
  EXPECT_TRUE(loaded->header.sources.front().contains("licence"));
  ASSERT_TRUE(loaded->header.held_out.has_value());
  EXPECT_LT(loaded->header.held_out->gmae_percent, 3);
}

ExpertExchange DeepSeekV3(ExpertAlgorithm algorithm, int32_t nodes, double tokens,
                          ExpertDirection direction) {
  ExpertExchange x;
  x.algorithm = algorithm;
  x.direction = direction;
  x.routing.experts = 256;
  x.routing.top_k = 8;
  x.routing.ranks = 8 * nodes;
  x.routing.nodes = nodes;
  if (algorithm == ExpertAlgorithm::kDeduplicated && nodes > 4) {
    x.routing.groups = 8;
    x.routing.groups_of_token = 4;
  }
  x.tokens = tokens;
  x.token_bytes =
      direction == ExpertDirection::kDispatch ? Fp8TokenBytes(7168) : TokenBytes(7168, 2);
  x.multiprocessors = 24;
  return x;
}

// Outside check: what DeepEP publishes of its first version (docs/legacy.md of deepseek-ai/DeepEP),
// measured on H800 (NVLink of 200 GB/s, of which "about 160" are said to be attainable; NICs of
// 50). Constants are of H100 and of another cluster. Low latency, 128 tokens.
TEST(ExpertExchangeFile, PublishedLowLatencyBetweenNodes) {
  const auto loaded = ShippedExpertExchange();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ExpertLinks h800 = {8, Bandwidth::GBps(200), Bandwidth::GBps(50), 132};
  struct Published {
    int32_t nodes;
    double dispatch_us, combine_us;
  };
  for (const Published& p : {Published{2, 118, 195}, Published{4, 155, 273}, Published{8, 173, 314},
                             Published{16, 192, 369}, Published{32, 194, 360}}) {
    const auto time = [&](ExpertDirection direction) {
      return TimeOf(loaded->model, h800,
                    DeepSeekV3(ExpertAlgorithm::kDirect, p.nodes, 128, direction))
          .total()
          .us();
    };
    EXPECT_NEAR(time(ExpertDirection::kDispatch) / p.dispatch_us, 1, 0.15) << p.nodes;
    EXPECT_NEAR(time(ExpertDirection::kCombine) / p.combine_us, 1, 0.15) << p.nodes;
  }
}

// Normal kernels, 4096 tokens on 24 multiprocessors; published is the rate of all bytes that go to
// nodes, the own one included, or that come to a rank within a node.
TEST(ExpertExchangeFile, PublishedNormalKernels) {
  const auto loaded = ShippedExpertExchange();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ExpertLinks h800 = {8, Bandwidth::GBps(200), Bandwidth::GBps(50), 132};
  struct Published {
    int32_t nodes;
    double dispatch_GBps, combine_GBps;
  };
  for (const Published& p :
       {Published{1, 153, 158}, Published{2, 43, 43}, Published{4, 58, 57}, Published{8, 51, 50}}) {
    const auto rate = [&](ExpertDirection direction) {
      const ExpertExchange x = DeepSeekV3(ExpertAlgorithm::kDeduplicated, p.nodes, 4096, direction);
      const ExpertCopies copies = ExpectedCopies(x.routing);
      const RealBytes bytes =
          (p.nodes > 1 ? copies.nodes : copies.ranks) * x.token_bytes * x.tokens;
      return (bytes / RealSeconds(TimeOf(loaded->model, h800, x).transfer)).gbps();
    };
    EXPECT_NEAR(rate(ExpertDirection::kDispatch) / p.dispatch_GBps, 1, 0.3) << p.nodes;
    EXPECT_NEAR(rate(ExpertDirection::kCombine) / p.combine_GBps, 1, 0.3) << p.nodes;
  }
}

}  // namespace
}  // namespace foretrace
