#include "simulator/network/link_study.h"

#include <gtest/gtest.h>

#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

PlatformSpec Pair() {
  const auto spec = ParsePlatform(
      "name: pair\nlinks:\n  l: {class: nvlink, bandwidth_GBps: 100, latency_us: 1, source: t}\n"
      "node: {devices: 2, interconnect: {kind: switch, link: l}}\n",
      "pair.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

// All-reduces of two at half the platform's bandwidth: twice its time and no latency.
std::vector<StudyTable> Tables() {
  std::vector<MeasuredCollective> rows;
  for (int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
    MeasuredCollective row;
    row.op = CollectiveOp::kAllReduce;
    row.ranks = 2;
    row.bytes = Bytes(bytes);
    row.time = RealUs(static_cast<double>(bytes) / 50e3);
    rows.push_back(row);
  }
  return MakeTables(rows, Bytes(1 << 20));
}

TEST(LinkStudy, FitsWhatWasMeasured) {
  std::vector<StudyTable> tables = Tables();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_FALSE(tables[0].held_out);
  int64_t last = -1;
  const auto fitted = FitLinks(Pair(), {}, tables, {.links = true},
                               [&](std::string_view, int64_t done, int64_t total) {
                                 EXPECT_GE(done, last);
                                 EXPECT_LE(done, total);
                                 last = done;
                                 return true;
                               });
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_GT(last, 3);
  EXPECT_NEAR(fitted->links[0].efficiency, 0.5, 0.02);
  ASSERT_TRUE(PredictTables(*fitted, NetworkTier::kFitted, {}, tables).ok());
  EXPECT_LT(tables[0].errors.gmae_percent, 2);
}

TEST(LinkStudy, CanBeInterrupted) {
  std::vector<StudyTable> tables = Tables();
  const StudyProgress stop = [](std::string_view, int64_t done, int64_t) { return done < 1; };
  EXPECT_TRUE(absl::IsCancelled(PredictTables(Pair(), NetworkTier::kFluid, {}, tables, stop)));
  EXPECT_TRUE(absl::IsCancelled(FitLinks(Pair(), {}, tables, {.links = true}, stop).status()));
}

// Two nodes of one device each, with a NIC of 25 GB/s and 5 us.
PlatformSpec TwoNodes() {
  const auto spec = ParsePlatform(
      "name: two\nlinks:\n"
      "  bus: {class: pcie, bandwidth_GBps: 32, latency_us: 1, source: t}\n"
      "  net: {class: network, bandwidth_GBps: 25, latency_us: 5, source: t}\n"
      "node: {devices: 1, interconnect: {kind: none}, pcie: {link: bus, devices_per_switch: 1},\n"
      "       nics: {count: 1}}\n"
      "nodes: 2\nfabric: {kind: switch, link: net}\n",
      "two.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

// Sends that take 40 us and a third of what the NIC of the platform would: 8 GB/s, where every
// size was measured twice.
std::vector<MeasuredCollective> SlowSends() {
  std::vector<MeasuredCollective> rows;
  for (int64_t mib = 1; mib <= 16; ++mib) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      MeasuredCollective row;
      row.op = CollectiveOp::kSendRecv;
      row.ranks = 2;
      row.nodes = 2;
      row.one_way = true;
      row.bytes = Bytes(mib << 20);
      row.time = RealUs(40 + RealBytes(row.bytes).count() / 8e3);
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(LinkStudy, SizesCanBeHeldOut) {
  const std::vector<StudyTable> tables = MakeTables(SlowSends(), Bytes(1 << 20), HoldOut::kSizes);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_FALSE(tables[0].held_out);
  EXPECT_TRUE(tables[1].held_out);
  ASSERT_EQ(tables[0].rows.size(), 16u);
  ASSERT_EQ(tables[1].rows.size(), 16u);
  for (const MeasuredCollective& row : tables[0].rows) EXPECT_EQ((row.bytes.count() >> 20) % 2, 1);
  for (const MeasuredCollective& row : tables[1].rows) EXPECT_EQ((row.bytes.count() >> 20) % 2, 0);
}

// A NIC that no source names is found from half of the sizes, and says the other half.
TEST(LinkStudy, SendsBetweenNodesFitTheirNetwork) {
  std::vector<StudyTable> tables = MakeTables(SlowSends(), Bytes(1 << 20), HoldOut::kSizes);
  ASSERT_TRUE(PredictTables(TwoNodes(), NetworkTier::kFitted, {}, tables).ok());
  EXPECT_GT(tables[1].errors.gmae_percent, 50);
  const auto fitted = FitLinks(TwoNodes(), {}, tables, {.links = true});
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_EQ(fitted->links[0].efficiency, 1) << "PCIe is not what was slow";
  EXPECT_NEAR(fitted->links[1].efficiency * 25, 8, 0.4);
  ASSERT_TRUE(PredictTables(*fitted, NetworkTier::kFitted, {}, tables).ok());
  EXPECT_LT(tables[1].errors.gmae_percent, 2);
}

}  // namespace
}  // namespace foretrace
