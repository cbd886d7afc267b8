#include "simulator/hardware/accelerator_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <regex>

#include "absl/strings/ascii.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr double kMaxRate = 1e9;  // TFLOPS, GB/s, MB: far beyond what there is

std::string Month(const YamlReader& root) {
  std::string month = root.String("available", "");
  static const std::regex kMonth("(19|20)[0-9][0-9]-(0[1-9]|1[0-2])");
  if (!month.empty() && !std::regex_match(month, kMonth)) {
    root.Fail("available", "no month ('2022-10')");
  }
  return month;
}

std::vector<std::string> Aliases(const YamlReader& root) {
  std::vector<std::string> aliases;
  if (!root.Has("aliases")) return aliases;
  for (const YamlReader& item : root.Child("aliases").Items()) {
    aliases.push_back(LowerCase(item.AsString()));
  }
  return aliases;
}

// The lines of the keys `name` and `aliases` of a mapping in block style, and of what belongs to
// them: a value's lines are indented, or items of a list. Empty where keys are written otherwise.
std::string LinesOfNames(std::string_view text) {
  std::string lines;
  bool wanted = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    text.remove_prefix(line.size());
    if (std::string_view(" -#\r\n").find(line[0]) == std::string_view::npos) {
      if (!absl::ascii_isalpha(static_cast<unsigned char>(line[0]))) return "";
      wanted = line.starts_with("name:") || line.starts_with("aliases:");
    }
    if (wanted) lines += line;
  }
  return lines;
}

template <size_t N>
using Keys = std::array<std::string_view, N>;

// Decimal figures times a power of ten are whole numbers: without the rounding of the product.
double Whole(double value, double unit) { return std::round(value * unit); }

class Loader {
 public:
  explicit Loader(const YamlReader& root) : root_(root) {}

  absl::StatusOr<Accelerator> Load(const std::string& file) {
    root_.ListMissing();
    root_.ExpectKeys(Keys<15>{"name", "description", "vendor", "chip", "available", "aliases",
                              "compute", "memory", "occupancy", "driver", "winograd",
                              "instructions", "interconnect", "physical", "notes"});
    out_.file = file;
    out_.name = root_.String("name");
    out_.description = root_.String("description");
    out_.vendor = root_.String("vendor");
    out_.chip = root_.String("chip");
    out_.available = Month(root_);
    out_.aliases = Aliases(root_);
    if (root_.Has("compute")) LoadUnits(root_.Child("compute"));
    if (root_.Has("memory")) LoadMemory(root_.Child("memory"));
    if (root_.Has("occupancy")) LoadOccupancy(root_.Child("occupancy"));
    if (root_.Has("driver")) LoadDriver(root_.Child("driver"));
    if (root_.Has("winograd")) LoadWinograd(root_.Child("winograd"));
    if (root_.Has("instructions")) LoadInstructions(root_.Child("instructions"));
    if (root_.Has("interconnect")) LoadLinks(root_.Child("interconnect"));
    if (root_.Has("physical")) LoadPhysical(root_.Child("physical"));
    if (root_.ok()) Check();
    if (!root_.ok()) return root_.status();
    return out_;
  }

 private:
  static void LoadRates(const YamlReader& rates,
                        std::array<FlopRate, static_cast<size_t>(RateKind::kCount)>& to) {
    rates.ExpectKeys(EnumNames<RateKind>());
    for (int i = 0; i < static_cast<int>(RateKind::kCount); ++i) {
      const auto kind = static_cast<RateKind>(i);
      if (!rates.Has(Name(kind))) continue;
      to[static_cast<size_t>(i)] =
          FlopRate::PerSecond(Whole(rates.Number(Name(kind), 1e-6, kMaxRate), 1e12));
    }
  }

  void LoadUnits(const YamlReader& units) {
    for (const auto& [name, unit] : units.Entries()) {
      unit.ExpectKeys(Keys<8>{"kind", "count", "width", "depth", "clock_MHz", "rates_TFLOPS",
                              "sustained_TFLOPS", "source"});
      ComputeUnit u;
      u.name = name;
      u.kind = static_cast<UnitKind>(unit.Choice("kind", EnumNames<UnitKind>()));
      u.count = unit.Integer("count", 1, 1 << 24, 0);
      u.width = unit.Integer("width", 1, 1 << 20, 0);
      u.depth = unit.Integer("depth", 1, 1 << 20, 0);
      u.clock_hz = unit.Number("clock_MHz", 10, 1e5, 0) * 1e6;
      u.source = unit.String("source");
      LoadRates(unit.Child("rates_TFLOPS"), u.rates);
      if (unit.Has("sustained_TFLOPS")) LoadRates(unit.Child("sustained_TFLOPS"), u.sustained);
      if (unit.ok() && u.kind == UnitKind::kSystolic && (u.width == 0 || u.depth == 0)) {
        unit.Fail("kind", "a systolic array needs width and depth");
      }
      out_.units.push_back(std::move(u));
    }
  }

  // A capacity stated once, in the unit that its key names.
  std::optional<Bytes> Capacity(const YamlReader& level) {
    constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {
        {{"capacity_KB", 1e3}, {"capacity_MB", 1e6}, {"capacity_GB", 1e9}}};
    std::optional<Bytes> capacity;
    std::string_view stated;
    for (const auto& [key, unit] : kUnits) {
      if (!level.Has(key)) continue;
      if (capacity)
        level.Fail(key, fmt::format("the capacity is stated twice, also as {}", stated));
      capacity =
          Bytes(static_cast<int64_t>(Whole(level.Number(key, 1e-3, 1e9 / unit * 1e6), unit)));
      stated = key;
    }
    return capacity;
  }

  void LoadMemory(const YamlReader& memory) {
    for (const auto& [name, level] : memory.Entries()) {
      level.ExpectKeys(Keys<11>{"kind", "capacity_KB", "capacity_MB", "capacity_GB", "visible_GB",
                                "partitions", "bandwidth_GBps", "latency_us", "efficiency",
                                "staging_GBps", "source"});
      MemoryLevel m;
      m.name = name;
      m.kind = static_cast<MemoryKind>(level.Choice("kind", EnumNames<MemoryKind>()));
      m.capacity = Capacity(level).value_or(Bytes());
      m.visible = Bytes(std::llround(level.Number("visible_GB", 1e-3, 1e6, 0) * 1e9));
      m.partitions = level.Integer("partitions", 1, 4096, 1);
      m.bandwidth = Bandwidth::GBps(level.Number("bandwidth_GBps", 1e-6, kMaxRate, 0));
      m.latency = SimTime::FromUs(level.Number("latency_us", 0, 1e6, 0));
      m.efficiency = level.Number("efficiency", 1e-6, 1, 1);
      m.staging = Bandwidth::GBps(level.Number("staging_GBps", 1e-6, kMaxRate, 0));
      m.source = level.String("source");
      const bool host = m.kind == MemoryKind::kHost;
      if (!host && m.capacity.count() == 0) level.Fail("", "needs capacity_MB or capacity_GB");
      if ((host || m.kind == MemoryKind::kDevice) && m.bandwidth == Bandwidth()) {
        level.FailMissing("bandwidth_GBps");
      }
      if (m.visible.count() > 0 && m.kind != MemoryKind::kDevice) {
        level.Fail("visible_GB", "is of kind: device alone");
      }
      CheckVisible(level, m);
      if (!host && m.staging != Bandwidth()) level.Fail("staging_GBps", "is of kind: host alone");
      CheckOrder(level, m);
      out_.memory.push_back(std::move(m));
    }
  }

  // Capacities are named in thousands or in 1,024s; error correction within the memory takes a
  // sixteenth, and drivers keep some.
  static void CheckVisible(const YamlReader& level, const MemoryLevel& m) {
    constexpr double kMost = 1.0737418241, kLeast = 0.8;
    const auto visible = static_cast<double>(m.visible.count());
    const auto capacity = static_cast<double>(m.capacity.count());
    if (visible == 0 || (visible >= kLeast * capacity && visible <= kMost * capacity)) return;
    level.Fail("visible_GB", fmt::format("{:.1f} is not of a capacity of {:.1f} GB, of which a "
                                         "driver reports {:.1f} to {:.1f}",
                                         visible * 1e-9, capacity * 1e-9, kLeast * capacity * 1e-9,
                                         kMost * capacity * 1e-9));
  }

  // Nearer to the units, memory is smaller and faster; a figure in the wrong unit breaks that.
  void CheckOrder(const YamlReader& level, const MemoryLevel& m) {
    if (!level.ok()) return;
    for (const MemoryLevel& nearer : out_.memory) {
      if (nearer.kind >= m.kind && nearer.kind != MemoryKind::kCache) {
        return level.Fail("kind",
                          fmt::format("comes after '{}': caches, device memory and host "
                                      "memory in this order, each kind of the last two once",
                                      nearer.name));
      }
      if (m.capacity != Bytes() && nearer.capacity > m.capacity) {
        return level.Fail("", fmt::format("holds less than '{}', which is nearer to the units; "
                                          "check their units",
                                          nearer.name));
      }
      if (nearer.bandwidth != Bandwidth() && m.bandwidth > nearer.bandwidth) {
        return level.Fail("bandwidth_GBps",
                          fmt::format("is faster than '{}', which is nearer to the units; check "
                                      "their units",
                                      nearer.name));
      }
    }
  }

  void LoadOccupancy(const YamlReader& o) {
    o.ExpectKeys(Keys<7>{"threads", "blocks", "registers", "shared_memory_KiB", "warp",
                         "reserved_shared_memory_KiB", "source"});
    const auto kib = [](int64_t n) { return Bytes(n * 1024); };
    OccupancyLimits& limits = out_.occupancy;
    limits.threads = o.Integer("threads", 1, 1 << 20);
    limits.blocks = o.Integer("blocks", 1, 1 << 16);
    limits.registers = o.Integer("registers", 1, 1 << 28);
    limits.shared_memory = kib(o.Integer("shared_memory_KiB", 1, 1 << 24));
    limits.warp = o.Integer("warp", 1, 1024);
    limits.reserved_shared_memory = kib(o.Integer("reserved_shared_memory_KiB", 0, 1 << 10, 0));
    o.String("source");
    if (o.ok() && out_.occupancy.threads % out_.occupancy.warp != 0) {
      o.Fail("threads", "must be a multiple of warp");
    }
  }

  void LoadDriver(const YamlReader& driver) {
    driver.ExpectKeys(Keys<6>{"launch_queue_depth", "staged_copy_KiB", "launch_us", "stream_gap_us",
                              "event_us", "source"});
    const auto us = [](const YamlReader& of, std::string_view key) {
      return SimTime::FromUs(of.Number(key, 0, 1e6));
    };
    DriverLimits& d = out_.driver;
    d.launch_queue_depth =
        static_cast<uint32_t>(driver.Integer("launch_queue_depth", 2, 1 << 24, 0));
    d.staged_copy = Bytes(int64_t{driver.Integer("staged_copy_KiB", 0, 1 << 24, 0)} * 1024);
    const YamlReader launch = driver.Child("launch_us");
    launch.ExpectKeys(
        Keys<5>{"kernel", "memset", "copy_pinned", "copy_from_pageable", "copy_to_pageable"});
    d.latencies = {us(launch, "kernel"),           us(launch, "memset"),
                   us(launch, "copy_pinned"),      us(launch, "copy_from_pageable"),
                   us(launch, "copy_to_pageable"), us(driver, "stream_gap_us"),
                   us(driver, "event_us")};
    driver.String("source");
  }

  template <size_t N>
  std::vector<std::array<double, N>> Tiles(const YamlReader& list) {
    std::vector<std::array<double, N>> tiles;
    for (const YamlReader& item : list.Items()) {
      const std::vector<YamlReader> sizes = item.Items();
      if (item.ok() && sizes.size() != N) item.Fail("", fmt::format("needs {} sizes", N));
      if (!item.ok()) return tiles;
      std::array<double, N> tile;
      for (size_t i = 0; i < N; ++i) tile[i] = sizes[i].AsInteger(1, 1 << 16);
      tiles.push_back(tile);
    }
    if (list.ok() && tiles.empty()) list.Fail("", "needs at least one tile");
    return tiles;
  }

  void LoadWinograd(const YamlReader& winograd) {
    winograd.ExpectKeys(Keys<3>{"fused_tiles", "gemm_tiles", "source"});
    out_.winograd = {Tiles<3>(winograd.Child("fused_tiles")),
                     Tiles<2>(winograd.Child("gemm_tiles"))};
    winograd.String("source");
  }

  void LoadInstructions(const YamlReader& facts) {
    facts.ExpectKeys(Keys<6>{"fetched_on_demand", "warp_gemm_share", "split_accumulation",
                             "asynchronous_matrices", "shortest_kernel_us", "source"});
    const InstructionFacts most;
    out_.instructions = {
        facts.Bool("fetched_on_demand", false), facts.Number("warp_gemm_share", 0.01, 1, 1),
        facts.Number("split_accumulation", 1, 100, 1), facts.Bool("asynchronous_matrices", false),
        SimTime::FromUs(facts.Number("shortest_kernel_us", 0.01, 1000, most.shortest_kernel.us()))};
    facts.String("source");
  }

  void LoadLinks(const YamlReader& links) {
    links.ExpectKeys(Keys<5>{"kind", "links", "link_GBps", "fence_us", "source"});
    out_.links = {links.String("kind"), links.Integer("links", 1, 4096),
                  Bandwidth::GBps(links.Number("link_GBps", 1e-6, kMaxRate)), FenceWaits()};
    if (links.Has("fence_us")) {
      const YamlReader fences = links.Child("fence_us");
      fences.ExpectKeys(Keys<2>{"ring", "sends"});
      out_.links.fences = {SimTime::FromUs(fences.Number("ring", 0, 1e6)),
                           SimTime::FromUs(fences.Number("sends", 0, 1e6))};
    }
    links.String("source");
  }

  void LoadPhysical(const YamlReader& physical) {
    physical.ExpectKeys(Keys<5>{"die_mm2", "power_W", "price_USD", "of", "source"});
    constexpr std::array<std::string_view, 2> kOf = {"board", "chip"};
    out_.physical = {physical.Number("die_mm2", 1e-3, 1e6, 0),
                     physical.Number("power_W", 1e-3, 1e6, 0),
                     physical.Number("price_USD", 0, 1e9, 0),
                     physical.Has("of") && physical.Choice("of", kOf) == 1};
    physical.String("source");
  }

  void Check() {
    const std::string stem = std::filesystem::path(out_.file).stem().string();
    if (out_.name != LowerCase(out_.name)) root_.Fail("name", "must be in lower case");
    if (!out_.file.empty() && stem != out_.name) {
      root_.Fail("name", fmt::format("must be that of the file, '{}'", stem));
    }
    if (!out_.units.empty() && out_.level(MemoryKind::kDevice) == nullptr) {
      root_.Fail("memory", "has no level of kind: device, where operands lie");
    }
    const auto first = [this](const YamlReader& root, RateKind low, RateKind high) {
      const FlopRate a = out_.peak(low), b = out_.peak(high);
      if (a == FlopRate() || b == FlopRate() || a <= b) return;
      root.Fail("compute", fmt::format("{} is faster than {}, of half its width; check the units",
                                       Name(low), Name(high)));
    };
    first(root_, RateKind::kTf32, RateKind::kFp16);
    first(root_, RateKind::kFp16, RateKind::kFp8);
    first(root_, RateKind::kFp8, RateKind::kFp4);
  }

  YamlReader root_;
  Accelerator out_;
};

absl::StatusOr<Accelerator> Load(const absl::StatusOr<YamlReader>& root, const std::string& file) {
  return LoadYaml<Accelerator>(root, file,
                               [&](const YamlReader& reader) { return Loader(reader).Load(file); });
}

}  // namespace

absl::StatusOr<Accelerator> LoadAccelerator(const std::string& file) {
  return Load(ReadYamlFile(file), file);
}

absl::StatusOr<Accelerator> ParseAccelerator(const std::string& text, const std::string& file) {
  return Load(ParseYamlText(text, file), file);
}

absl::StatusOr<AcceleratorNames> LoadAcceleratorNames(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxYamlBytes));
  const std::string lines = LinesOfNames(text);
  const auto names =
      LoadYaml<AcceleratorNames>(ParseYamlText(lines, file), file,
                                 [&](const YamlReader& root) -> absl::StatusOr<AcceleratorNames> {
                                   AcceleratorNames out{file, root.String("name"), Aliases(root)};
                                   if (!root.ok()) return root.status();
                                   return out;
                                 });
  if (names.ok()) return names;
  FORETRACE_ASSIGN_OR_RETURN(const Accelerator whole, ParseAccelerator(text, file));
  return AcceleratorNames{file, whole.name, whole.aliases};
}

}  // namespace foretrace
