#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/file_parts.h"

namespace foretrace::dataflow {
namespace {

// `NAME_bytes`, `NAME_MB`, `NAME_MiB` or `NAME_GB`; one of them. Zero where none is given.
Bytes BytesOf(const YamlReader& in, const std::string& name, const NumberReader& number) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"_bytes", 1.0}, {"_MB", 1e6}, {"_MiB", 1048576.0}, {"_GB", 1e9}}};
  double bytes = 0;
  std::string given;
  for (const auto& [suffix, scale] : kUnits) {
    const std::string key = name + std::string(suffix);
    if (!in.Has(key)) continue;
    if (!given.empty()) in.Fail(key, fmt::format("given in two units, as {} too; give one", given));
    given = key;
    bytes = number(in, key, 0, 1e18 / scale) * scale;
  }
  return Bytes(std::llround(bytes));
}

// Matrix units whose array is not stated (tensor cores): by their 16-bit rate, 16 wide, at a clock
// near that of the multiprocessors that gives exactly this rate.
void TakeMatrixUnits(const Accelerator& accelerator, Chip& chip) {
  constexpr int64_t kWidth = 16;
  const ComputeUnit *matrix = nullptr, *simt = nullptr;
  for (const ComputeUnit& u : accelerator.units) {
    if (u.kind == UnitKind::kMatrix) matrix = &u;
    if (u.kind == UnitKind::kSimt) simt = &u;
  }
  if (matrix == nullptr || simt == nullptr || matrix->count < 1 || !(simt->clock_hz > 0)) return;
  const double rate =
      std::max(matrix->rate(RateKind::kFp16), matrix->rate(RateKind::kBf16)).per_second();
  const double wide = 2.0 * static_cast<double>(matrix->count * kWidth);
  const int64_t depth = std::llround(rate / (wide * simt->clock_hz));
  if (depth < 1) return;
  chip.tiles = matrix->count;
  chip.width = kWidth;
  chip.depth = depth;
  chip.clock_ghz = rate / (wide * static_cast<double>(depth)) * 1e-9;
}

// From its file: the unit with tiles, its memories, price and power.
void TakeAccelerator(const YamlReader& in, const std::string& name,
                     const AcceleratorCatalog& accelerators, Chip& chip) {
  const Accelerator* found = accelerators.Find(name);
  if (found == nullptr)
    return in.Fail("accelerator", std::string(accelerators.Unknown(name).message()));
  chip.name = found->name;
  TakeMatrixUnits(*found, chip);
  for (const ComputeUnit& u : found->units) {
    if (u.kind == UnitKind::kSimt || u.width == 0) continue;
    chip.tiles = u.count;
    chip.width = u.width;
    chip.depth = u.depth;
    chip.clock_ghz = u.clock_hz * 1e-9;
  }
  // GPUs have their working sets in caches.
  for (const MemoryKind kind : {MemoryKind::kCache, MemoryKind::kScratchpad}) {
    if (const MemoryLevel* level = found->level(kind)) chip.sram = level->capacity;
  }
  if (found->physical.price_usd > 0) chip.price_usd = found->physical.price_usd;
  if (found->physical.power_w > 0) chip.power_w = found->physical.power_w;
  chip.board_price = chip.board_power = !found->physical.chip_alone;
}

}  // namespace

double NumberReader::operator()(const YamlReader& in, std::string_view key, double low,
                                double high) const {
  const double v = in.Number(key, low, high);
  return single ? static_cast<double>(static_cast<float>(v)) : v;
}

double NumberReader::operator()(const YamlReader& in, std::string_view key, double low, double high,
                                double fallback) const {
  return in.Has(key) ? (*this)(in, key, low, high) : fallback;
}

Chip ReadChip(const YamlReader& in, const NumberReader& number,
              const AcceleratorCatalog& accelerators) {
  constexpr std::array<std::string_view, 15> kKeys = {
      "name",      "accelerator",    "tiles",     "width",    "depth",
      "clock_GHz", "sram_bytes",     "sram_MB",   "sram_MiB", "sram_GB",
      "execution", "max_partitions", "price_USD", "power_W",  "variants"};
  constexpr std::array<std::string_view, 2> kExecutions = {"kernel-by-kernel", "dataflow"};
  in.ExpectKeys(kKeys);
  Chip chip;
  chip.price_usd = chip.power_w = kNotStated;
  if (in.Has("accelerator")) TakeAccelerator(in, in.String("accelerator"), accelerators, chip);
  chip.name = in.String("name", chip.name.empty() ? "chip" : chip.name);
  const auto size = [&](std::string_view key, int64_t& to) {
    if (in.Has(key)) to = in.Integer(key, 1, 1 << 30);
  };
  size("tiles", chip.tiles);
  size("width", chip.width);
  size("depth", chip.depth);
  chip.clock_ghz = number(in, "clock_GHz", 1e-3, 1e3, chip.clock_ghz);
  const Bytes sram = BytesOf(in, "sram", number);
  if (sram > Bytes(0)) chip.sram = sram;
  chip.execution = static_cast<Execution>(in.Choice("execution", kExecutions));
  chip.max_partitions = in.Integer("max_partitions", 0, 1000, 0);
  chip.price_usd = number(in, "price_USD", 0, 1e12, chip.price_usd);
  chip.power_w = number(in, "power_W", 0, 1e9, chip.power_w);
  // Given here they are the chip's; what is not known holds nothing.
  chip.board_price = chip.board_price && !in.Has("price_USD") && chip.price_usd > 0;
  chip.board_power = chip.board_power && !in.Has("power_W") && chip.power_w > 0;
  return chip;
}

OffChipMemory ReadMemory(const YamlReader& in, const NumberReader& number) {
  constexpr std::array<std::string_view, 8> kKeys = {
      "name",         "bandwidth_GBps", "capacity_bytes", "capacity_MB",
      "capacity_MiB", "capacity_GB",    "USD_per_GBps",   "watt_per_GBps"};
  in.ExpectKeys(kKeys);
  OffChipMemory m;
  m.name = in.String("name", "memory");
  m.bandwidth = Bandwidth::GBps(number(in, "bandwidth_GBps", 1e-3, 1e9));
  m.capacity = BytesOf(in, "capacity", number);
  m.usd_per_gbps = number(in, "USD_per_GBps", 0, 1e9, kNotStated);
  m.watt_per_gbps = number(in, "watt_per_GBps", 0, 1e9, kNotStated);
  return m;
}

LinkTechnology ReadLink(const YamlReader& in, const NumberReader& number) {
  constexpr std::array<std::string_view, 5> kKeys = {"name", "bandwidth_GBps", "latency_us",
                                                     "USD_per_GBps", "watt_per_GBps"};
  in.ExpectKeys(kKeys);
  LinkTechnology l;
  l.name = in.String("name", "link");
  l.bandwidth = Bandwidth::GBps(number(in, "bandwidth_GBps", 1e-3, 1e9));
  l.latency = SimTime::FromUs(number(in, "latency_us", 0, 1e6, 0));
  l.usd_per_gbps = number(in, "USD_per_GBps", 0, 1e9, kNotStated);
  l.watt_per_gbps = number(in, "watt_per_GBps", 0, 1e9, kNotStated);
  return l;
}

void ReadSwitch(const YamlReader& in, const NumberReader& number, double& usd_per_gbps,
                double& watt_per_gbps) {
  constexpr std::array<std::string_view, 2> kKeys = {"USD_per_GBps", "watt_per_GBps"};
  usd_per_gbps = watt_per_gbps = kNotStated;
  if (!in.Has("switch")) return;
  const YamlReader rates = in.Child("switch");
  rates.ExpectKeys(kKeys);
  usd_per_gbps = number(rates, "USD_per_GBps", 0, 1e9, kNotStated);
  watt_per_gbps = number(rates, "watt_per_GBps", 0, 1e9, kNotStated);
}

std::vector<SystemDimension> ReadDimensions(const YamlReader& in,
                                            const std::vector<LinkTechnology>& links) {
  constexpr std::array<std::string_view, 5> kKeys = {"kind", "size", "role", "link", "per_group"};
  constexpr std::array<std::string_view, 3> kKinds = {"ring", "fully-connected", "switch"};
  constexpr std::array<std::string_view, 5> kRoles = {"tensor", "pipeline", "data", "all", "free"};
  std::vector<SystemDimension> out;
  double chips = 1;
  for (const YamlReader& item : in.Items()) {
    item.ExpectKeys(kKeys);
    SystemDimension d;
    d.network.kind = static_cast<NetworkKind>(item.Choice("kind", kKinds));
    d.network.size = item.Integer("size", 1, 1 << 24);
    chips *= static_cast<double>(d.network.size);
    if (chips > 1e9) item.Fail("size", "more than a billion chips together");
    d.network.per_group = item.Bool("per_group", false);
    if (item.Has("role")) d.role = static_cast<Role>(item.Choice("role", kRoles));
    if (item.Has("link")) {
      const std::string name = item.String("link");
      for (const LinkTechnology& l : links) {
        if (l.name == name) d.Use(l);
      }
      if (d.link.name != name) item.Fail("link", fmt::format("'{}' is no link of this file", name));
    }
    out.push_back(std::move(d));
  }
  if (in.ok() && out.empty()) in.Fail("", "at least one dimension is needed");
  return out;
}

Formulas ReadFormulas(const YamlReader& in, const NumberReader& number) {
  constexpr std::array<std::string_view, 5> kKeys = {"iteration", "all_reduce", "overlap",
                                                     "compute_utilisation", "streamed_weights"};
  constexpr std::array<std::string_view, 2> kStreamed = {"least", "each-tile"};
  constexpr std::array<std::string_view, 3> kIterations = {"physical", "dse", "early"};
  constexpr std::array<std::string_view, 5> kAllReduces = {"physical", "paper", "early", "dse",
                                                           "latest"};
  constexpr std::array<std::string_view, 3> kOverlaps = {"machine", "overlap", "nonoverlap"};
  in.ExpectKeys(kKeys);
  Formulas f;
  if (in.Has("iteration"))
    f.iteration = static_cast<IterationRule>(in.Choice("iteration", kIterations));
  if (in.Has("all_reduce"))
    f.all_reduce = static_cast<AllReduceFormula>(in.Choice("all_reduce", kAllReduces));
  if (in.Has("overlap")) f.overlap = static_cast<Overlap>(in.Choice("overlap", kOverlaps));
  f.compute_utilisation = number(in, "compute_utilisation", 0, 1, f.compute_utilisation);
  if (in.Has("streamed_weights"))
    f.streamed = static_cast<StreamedWeights>(in.Choice("streamed_weights", kStreamed));
  return f;
}

absl::StatusOr<System> LoadSystem(const std::string& file, const AcceleratorCatalog& accelerators) {
  return LoadYaml<System>(
      ReadYamlFile(file), file, [&](const YamlReader& in) -> absl::StatusOr<System> {
        constexpr std::array<std::string_view, 8> kKeys = {
            "name", "description", "source", "chip", "memory", "links", "network", "switch"};
        in.ExpectKeys(kKeys);
        const NumberReader number;
        System s;
        s.name = in.String("name");
        s.chip = ReadChip(in.Child("chip"), number, accelerators);
        if (in.Has("memory")) s.memory = ReadMemory(in.Child("memory"), number);
        std::vector<LinkTechnology> links;
        for (const YamlReader& item : in.Child("links").Items())
          links.push_back(ReadLink(item, number));
        s.dimensions = ReadDimensions(in.Child("network"), links);
        for (SystemDimension& d : s.dimensions) {
          if (!d.has_link() && !links.empty()) d.Use(links.front());
        }
        ReadSwitch(in, number, s.switch_usd_per_gbps, s.switch_watt_per_gbps);
        if (!in.ok()) return in.status();
        if (links.empty()) return InvalidInput("{}: links: at least one is needed", file);
        if (absl::Status valid = CheckSystem(s); !valid.ok())
          return InvalidInput("{}: {}", file, std::string(valid.message()));
        return s;
      });
}

}  // namespace foretrace::dataflow
