#include "simulator/hardware/accelerator_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"(name: x1
description: a device
vendor: v
chip: c
available: 2022-10
aliases: [X One]
compute:
  sms: {kind: simt, count: 10, clock_MHz: 1000, rates_TFLOPS: {fp32: 2.3, fp16: 4.6}, source: s}
  mma: {kind: matrix, rates_TFLOPS: {tf32: 18.4, fp16: 36.8}, source: s}
memory:
  l2: {kind: cache, capacity_MB: 40, partitions: 2, source: s}
  hbm: {kind: device, capacity_GB: 80, bandwidth_GBps: 2039, source: s}
  host: {kind: host, bandwidth_GBps: 31.5, efficiency: 0.85, latency_us: 1.5, staging_GBps: 6, source: s}
occupancy: {threads: 2048, blocks: 32, registers: 65536, shared_memory_KiB: 164, warp: 32, source: s}
driver:
  launch_queue_depth: 1021
  staged_copy_KiB: 64
  launch_us: {kernel: 8, memset: 8, copy_pinned: 9, copy_from_pageable: 10, copy_to_pageable: 12}
  stream_gap_us: 1.2
  event_us: 2
  source: s
physical: {power_W: 400, source: s}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(AcceleratorFile, ReadsValues) {
  const auto device = ParseAccelerator(kGood, "x1.yaml");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->multiprocessors(), 10);
  EXPECT_EQ(device->available, "2022-10");
  // Decimal figures of a file come back as they are written.
  EXPECT_EQ(device->peak(RateKind::kFp16).per_second() / 1e12, 36.8);
  EXPECT_EQ(device->simt_peak(RateKind::kFp16).per_second() / 1e12, 4.6);
  EXPECT_EQ(device->peak(RateKind::kFp8), FlopRate());
  EXPECT_EQ(device->memory_bandwidth().bytes_per_second(), 2039e9);
  EXPECT_EQ(device->memory_capacity(), Bytes(80'000'000'000));
  EXPECT_EQ(device->visible_memory(), device->memory_capacity());
  const auto reported = ParseAccelerator(
      Replaced(kGood, "capacity_GB: 80,", "capacity_GB: 80, visible_GB: 85.018279936,"), "x1.yaml");
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->visible_memory(), Bytes(85'018'279'936));
  EXPECT_EQ(device->level(MemoryKind::kCache)->partitions, 2);
  EXPECT_EQ(device->driver.staged_copy, Bytes(65536));
  EXPECT_EQ(device->driver.latencies.stream_gap, SimTime::FromNs(1200));
  EXPECT_EQ(device->aliases[0], "x one");
  EXPECT_FALSE(device->instructions.fetched_on_demand);
  EXPECT_EQ(device->instructions.warp_gemms, 1);
  const auto other =
      ParseAccelerator(std::string(kGood) +
                           "instructions: {fetched_on_demand: true, warp_gemm_share: 0.5, "
                           "split_accumulation: 1.2, shortest_kernel_us: 0.5, source: s}\n",
                       "x1.yaml");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->instructions.fetched_on_demand);
  EXPECT_EQ(other->instructions.warp_gemms, 0.5);
  EXPECT_EQ(other->instructions.split_accumulation, 1.2);
  EXPECT_EQ(device->instructions.shortest_kernel, SimTime::FromUs(2));
  EXPECT_EQ(other->instructions.shortest_kernel, SimTime::FromUs(0.5));
}

TEST(AcceleratorFile, NamesFileLineKeyAndWhatIsWrong) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"2022-10", "2022", "key 'available': no month ('2022-10')"},
      {"2022-10", "2022-13", "key 'available': no month"},
      {"vendor: v", "vendor: v\nspeed: 3", "unknown key; allowed: name, description"},
      {"name: x1", "name: x2", "x1.yaml:1: key 'name': must be that of the file, 'x1'"},
      {"name: x1", "name: X1", "must be in lower case"},
      {"capacity_GB: 80,", "", "x1.yaml:12: key 'memory.hbm': needs capacity_MB or capacity_GB"},
      {"capacity_GB: 80,", "capacity_GB: 80, capacity_MB: 80000,",
       "the capacity is stated twice, also as capacity_MB"},
      {"capacity_MB: 40,", "capacity_MB: 40, visible_GB: 1,",
       "visible_GB': is of kind: device alone"},
      {"capacity_GB: 80,", "capacity_GB: 160, visible_GB: 85,",
       "visible_GB': 85.0 is not of a capacity of 160.0 GB"},
      {"capacity_GB: 80,", "capacity_GB: 80, visible_GB: 86,",
       "visible_GB': 86.0 is not of a capacity of 80.0 GB"},
      {"bandwidth_GBps: 2039,", "", "key 'memory.hbm.bandwidth_GBps': missing"},
      {"capacity_MB: 40", "capacity_GB: 100", "holds less than 'l2', which is nearer to the units"},
      {"bandwidth_GBps: 31.5", "bandwidth_GBps: 31500", "is faster than 'hbm'"},
      {"kind: device", "kind: dram", "'dram' is not known; allowed: cache, scratchpad, device"},
      {"  hbm: {kind: device, capacity_GB: 80, bandwidth_GBps: 2039, source: s}\n", "",
       "has no level of kind: device"},
      {"fp16: 36.8", "fp16: 9.2", "tf32 is faster than fp16, of half its width"},
      {"fp16: 36.8", "fp15: 36.8", "unknown key; allowed: fp64"},
      {"kind: matrix", "kind: systolic", "a systolic array needs width and depth"},
      {"threads: 2048", "threads: 2047", "must be a multiple of warp"},
      {"event_us: 2", "event_us: -2", "outside the allowed range"},
      {"{kernel: 8, ", "{", "key 'driver.launch_us.kernel': missing"},
      {"rates_TFLOPS: {fp32: 2.3, fp16: 4.6}, source: s", "rates_TFLOPS: {fp32: 2.3}",
       "key 'compute.sms.source': missing"},
  };
  for (const auto& bad : cases) {
    const auto device = ParseAccelerator(Replaced(kGood, bad.from, bad.to), "x1.yaml");
    ASSERT_FALSE(device.ok()) << bad.to;
    EXPECT_THAT(std::string(device.status().message()), HasSubstr(bad.message)) << bad.to;
  }
  EXPECT_FALSE(LoadAccelerator("/nonexistent.yaml").ok());
  EXPECT_FALSE(ParseAccelerator("", "empty.yaml").ok());
  EXPECT_FALSE(ParseAccelerator("- a\n", "list.yaml").ok());
}

// Whatever the style of the file and the place of the keys in it.
TEST(AcceleratorFile, ReadsLinksAndWhatFencesWaitForThem) {
  const std::string links = R"(interconnect: {kind: nvlink, links: 12, link_GBps: 25, source: s}
physical:)";
  const Accelerator plain = *ParseAccelerator(Replaced(kGood, "physical:", links), "x1.yaml");
  EXPECT_EQ(plain.links.total(), Bandwidth::GBps(300));
  EXPECT_EQ(plain.links.fences.ring, SimTime());
  const std::string with_fences =
      Replaced(links, "source: s", "fence_us: {ring: 20, sends: 11}, source: s");
  const Accelerator fenced =
      *ParseAccelerator(Replaced(kGood, "physical:", with_fences), "x1.yaml");
  EXPECT_EQ(fenced.links.fences.ring, SimTime::FromUs(20));
  EXPECT_EQ(fenced.links.fences.sends, SimTime::FromUs(11));
}

TEST(AcceleratorNames, AreThoseOfTheWholeFile) {
  const std::string compute =
      "compute: {sm: {kind: simt, count: 4, clock_MHz: 1000, rates_TFLOPS: {fp32: 1}, source: "
      "s}}\n";
  const std::string memory =
      "memory: {dram: {kind: device, capacity_GB: 1, bandwidth_GBps: 10, source: s}}\n";
  const std::string rest = "description: x\nvendor: v\nchip: c\n" + compute + memory;
  const TempFolder folder;
  const std::string file = folder.path() + "/mine.yaml";
  for (const std::string& text :
       {"name: mine\n" + rest + "aliases:\n  - A b\n  - c\n",
        "# name: no\naliases:\n- A b\n# two\n\n- c\n" + rest + "name: 'mine'  # so\n",
        "aliases: [A b,\n  c]\n" + rest + "name: mine", rest + "name: mine\naliases: [A b, c]",
        "name: mine\n" + rest + "'aliases': [A b, c]\n",
        std::string(
            "{name: mine, description: x, vendor: v, chip: c, aliases: [A b, c], compute: {sm: "
            "{kind: simt, count: 4, clock_MHz: "
            "1000, rates_TFLOPS: {fp32: 1}, source: s}},\nmemory: {dram: {kind: device, "
            "capacity_GB: 1, bandwidth_GBps: 10, "
            "source: s}}}\n")}) {
    std::ofstream(file) << text;
    const auto whole = LoadAccelerator(file);
    const auto names = LoadAcceleratorNames(file);
    ASSERT_TRUE(whole.ok()) << whole.status() << text;
    ASSERT_TRUE(names.ok()) << names.status() << text;
    EXPECT_EQ(names->name, whole->name) << text;
    EXPECT_EQ(names->aliases, whole->aliases) << text;
    EXPECT_THAT(names->aliases, testing::ElementsAre("a b", "c")) << text;
  }
  std::ofstream(file) << rest;  // no name
  EXPECT_EQ(LoadAcceleratorNames(file).status(), LoadAccelerator(file).status());
}

// Keys of keys that are missing are not told; what else is wrong is, after these are there.
TEST(AcceleratorFile, AllMissingKeysAreTold) {
  const auto message = [](const std::string& text) {
    return std::string(ParseAccelerator(text, "mine.yaml").status().message());
  };
  EXPECT_EQ(message("name: mine\ncompute: {a: {kind: simt}, b: {count: -1, source: s}}\n"
                    "driver: {source: s}\n"),
            "mine.yaml:1: key 'description': missing; so are 'vendor', 'chip', "
            "'compute.a.source', 'compute.a.rates_TFLOPS', 'compute.b.kind', "
            "'compute.b.rates_TFLOPS', 'driver.launch_us', 'driver.stream_gap_us', "
            "'driver.event_us'");
  EXPECT_EQ(message("name: mine\ndescription: d\nvendor: v\nchip: c\n"
                    "memory: {hbm: {kind: device, capacity_GB: 80, source: s}}\n"),
            "mine.yaml:5: key 'memory.hbm.bandwidth_GBps': missing");
  EXPECT_EQ(message("name: mine\ndescription: d\nvendor: v\n"
                    "memory: {hbm: {kind: device, capacity_GB: 80, source: s}}\n"),
            "mine.yaml:1: key 'chip': missing; so is 'memory.hbm.bandwidth_GBps'");
}

}  // namespace
}  // namespace foretrace
