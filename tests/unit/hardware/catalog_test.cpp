#include "simulator/hardware/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using ::testing::HasSubstr;

AcceleratorCatalog Shipped() {
  auto catalog = AcceleratorCatalog::Load();
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return *std::move(catalog);
}

std::string Found(const AcceleratorCatalog& catalog, std::string_view name) {
  const Accelerator* found = catalog.Find(name);
  return found == nullptr ? "" : found->name;
}

TEST(Catalog, FindsWhatDriversAndPeopleSay) {
  const AcceleratorCatalog catalog = Shipped();
  EXPECT_EQ(Found(catalog, "NVIDIA H100 80GB HBM3"), "h100-sxm5-80gb");
  EXPECT_EQ(Found(catalog, "h100-sxm"), "h100-sxm5-80gb");
  EXPECT_EQ(Found(catalog, "NVIDIA A100-PG509-200"), "a100-sxm4-40gb");
  EXPECT_EQ(Found(catalog, "Tesla V100-SXM2-32GB"), "v100-sxm2-32gb");
  EXPECT_EQ(Found(catalog, "NVIDIA B200"), "b200-sxm");
  EXPECT_EQ(Found(catalog, "NVIDIA L4"), "l4");
  EXPECT_EQ(Found(catalog, "NVIDIA L40S"), "l40s");
  // A whole name, not a part of one: these are other devices.
  EXPECT_EQ(Found(catalog, "NVIDIA GeForce RTX 3090 Ti"), "");
  EXPECT_EQ(Found(catalog, "NVIDIA A100-SXM4-80GB MIG 1g.10gb"), "");
  EXPECT_EQ(Found(catalog, "AMD Radeon Graphics"), "");
  EXPECT_EQ(Found(catalog, ""), "");
}

TEST(Catalog, OneAcceleratorIsFoundByNameOrAliasAsAmongAll) {
  const AcceleratorCatalog catalog = Shipped();
  for (const char* name : {"h100-sxm5-80gb", "H100_SXM5 80GB", "nvidia h100 80gb hbm3", "sn10"}) {
    const auto found = FindAccelerator(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->file, catalog.Find(name)->file) << name;
  }
  EXPECT_EQ(FindAccelerator("h1000").status(), catalog.Unknown("h1000"));
}

TEST(Catalog, SomeAreFoundByNameOrAliasAsAmongAll) {
  const AcceleratorCatalog catalog = Shipped();
  for (const Accelerator& device : catalog.all()) {
    const std::string names[] = {"Voodoo 2",
                                 device.aliases.empty() ? device.name : device.aliases.back(), ""};
    const auto some = AcceleratorCatalog::LoadNamed(names);
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_LE(some->all().size(), 2u);  // and the unnamed one
    EXPECT_EQ(Found(*some, device.name), device.name);
    for (const std::string& alias : device.aliases) EXPECT_EQ(Found(*some, alias), device.name);
    EXPECT_EQ(some->DriverOf("Voodoo 2").launch_queue_depth, 1021u);
    EXPECT_EQ(some->Unknown("h1000"), catalog.Unknown("h1000"));
  }
}

TEST(Catalog, LabelsOfMeasurementsBeginWithTheDevice) {
  const AcceleratorCatalog catalog = Shipped();
  EXPECT_EQ(catalog.FindLabel("a100-sxm4-nvswitch")->name, "a100-sxm4-80gb");
  EXPECT_EQ(catalog.FindLabel("a100-pcie-pairwise-nvlink")->name, "a100-pcie-40gb");
  EXPECT_EQ(catalog.FindLabel("h100-pcie-pairwise-nvlink")->name, "h100-pcie-80gb");
  EXPECT_EQ(catalog.FindLabel("l40something"), nullptr);
}

TEST(Catalog, UnknownNamesSayWhatThereIs) {
  const std::string message(Shipped().Unknown("h10O-sxm").message());
  EXPECT_THAT(message, HasSubstr("topologies/accelerators"));
  EXPECT_THAT(message, HasSubstr("mi300x"));
  EXPECT_EQ(message.find("unnamed"), std::string::npos);
}

TEST(Catalog, ADeviceWithoutAFileHasLimitsAlone) {
  const AcceleratorCatalog catalog = Shipped();
  EXPECT_EQ(catalog.DriverOf("Voodoo 2").launch_queue_depth, 1021u);
  EXPECT_EQ(catalog.DriverOf("").staged_copy, Bytes(65536));
  EXPECT_EQ(catalog.OccupancyOf("Voodoo 2").threads, 2048);
  EXPECT_EQ(catalog.OccupancyOf("Tesla T4").threads, 1024);
  EXPECT_EQ(catalog.DriverOf("AMD Instinct MI300X").launch_queue_depth, 0u);  // no limit
  EXPECT_EQ(catalog.Find(kUnnamedAccelerator)->peak(RateKind::kFp32), FlopRate());
  EXPECT_EQ(AcceleratorCatalog().DriverOf("Tesla T4").launch_queue_depth, 0u);
}

TEST(Catalog, RefusesOneAliasOfTwo) {
  Accelerator a, b;
  a.name = "a";
  b.name = "b";
  b.file = "b.yaml";
  b.aliases = {"a"};
  EXPECT_FALSE(AcceleratorCatalog::Of({a, b}).ok());
}

// What is asked for by name in the project's issues is there, with what models need.
TEST(Catalog, ShippedDevicesAreWhole) {
  const AcceleratorCatalog catalog = Shipped();
  for (const char* name : {"v100-sxm2-16gb",
                           "v100-pcie-32gb",
                           "p100-pcie",
                           "a100-pcie-40gb",
                           "a100-pcie-80gb",
                           "a100-sxm4-40gb",
                           "a100-sxm4-80gb",
                           "h100-sxm5-80gb",
                           "h100-pcie-80gb",
                           "a10",
                           "a40",
                           "a800",
                           "a6000",
                           "rtx-a6000",
                           "h20",
                           "h200",
                           "h800",
                           "b200",
                           "gb200",
                           "l4",
                           "l40s",
                           "p4",
                           "t4",
                           "rtx-3090",
                           "rtx-4090",
                           "mi250",
                           "mi300x",
                           "mi325x"}) {
    const Accelerator* device = catalog.Find(name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_GT(device->multiprocessors(), 0) << name;
    EXPECT_GT(device->simt_peak(RateKind::kFp32), FlopRate()) << name;
    EXPECT_GT(device->memory_bandwidth(), Bandwidth()) << name;
    EXPECT_NE(device->level(MemoryKind::kHost), nullptr) << name;
    EXPECT_GT(device->occupancy.threads, 0) << name;
    EXPECT_GT(device->physical.power_w, 0) << name;
  }
}

TEST(Compare, ByWhatDecidesDurations) {
  const AcceleratorCatalog catalog = Shipped();
  const auto compare = [&](std::string_view a, std::string_view b) {
    return Compare(*catalog.Find(a), *catalog.Find(b));
  };
  // Capacity and links to others decide no kernel.
  EXPECT_EQ(compare("v100-sxm2-16gb", "v100-sxm2-32gb"), DeviceMatch::kSame);
  EXPECT_EQ(compare("a100-sxm4-80gb", "a800"), DeviceMatch::kSame);
  EXPECT_EQ(compare("h100", "h800"), DeviceMatch::kSame);
  // Memory or clocks do.
  EXPECT_EQ(compare("a100-sxm4-80gb", "a100-sxm4-40gb"), DeviceMatch::kSibling);
  EXPECT_EQ(compare("h100", "h200"), DeviceMatch::kSibling);
  EXPECT_EQ(compare("v100-sxm2", "quadro-gv100"), DeviceMatch::kSibling);
  EXPECT_EQ(compare("a100-pcie-40gb", "a100-sxm4-40gb"), DeviceMatch::kSibling);  // power
  // One chip with other multiprocessors enabled: waves differ.
  EXPECT_EQ(compare("h100", "h20"), DeviceMatch::kOther);
  EXPECT_EQ(compare("h100", "h100-pcie"), DeviceMatch::kOther);
  EXPECT_EQ(compare("v100-sxm2", "h100"), DeviceMatch::kOther);
}

}  // namespace
}  // namespace foretrace
