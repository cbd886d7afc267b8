#include "simulator/architect/design_space.h"

#include <algorithm>
#include <functional>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr int32_t kMaxCores = 1 << 20;
constexpr int32_t kMaxSize = 1 << 16;
constexpr size_t kMaxDesigns = 10'000'000;
constexpr double kBucketArea = 10'000;  // um^2 (appendix C.1)

std::vector<int32_t> Sizes(const YamlReader& cores, std::string_view key, int32_t most) {
  std::vector<int32_t> sizes = cores.Integers(key, 1, most);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  if (sizes.empty()) cores.Fail(key, "lists no size");
  if (std::adjacent_find(sizes.begin(), sizes.end()) != sizes.end()) {
    cores.Fail(key, "lists a size twice");
  }
  return sizes;
}

absl::Status ReadArea(const YamlReader& area, DesignSpace& space) {
  static constexpr std::string_view kKeys[] = {"cap", "cap_mm2", "smallest_share"};
  area.ExpectKeys(kKeys);
  space.smallest_share = area.Number("smallest_share", 0, 1);
  if (area.Has("cap") == area.Has("cap_mm2")) {
    area.Fail("cap", "give either cap (a design) or cap_mm2");
    return area.status();
  }
  if (area.Has("cap_mm2")) {
    space.cap = Area::SquareMillimetres(area.Number("cap_mm2", 1e-6, 1e6));
    return area.status();
  }
  const std::vector<int32_t> d = area.Integers("cap", 1, kMaxCores);
  if (d.size() != 5) {
    area.Fail("cap", "a design is [tensor cores, vector cores, width, depth, buffer MB]");
  }
  if (!area.ok()) return area.status();
  space.cap_design = AcceleratorDesign{d[0], d[1], d[2], d[3], d[4]};
  const absl::StatusOr<Area> cap = AreaOf(*space.cap_design);
  if (cap.ok()) {
    space.cap = *cap;
  } else {
    area.Fail("cap", std::string(cap.status().message()));
  }
  return area.status();
}

void ReadMachine(const YamlReader& machine, DesignSpace& space) {
  MachineBase& base = space.machine;
  static constexpr std::string_view kKeys[] = {
      "clock_MHz",       "hbm_GBps", "link_GBps",     "fill_words_per_cycle",
      "vector_operands", "source",   "memories_GBps", "links_GBps"};
  static constexpr std::string_view kOperands[] = {"on_chip", "hbm"};
  machine.ExpectKeys(kKeys);
  base.clock_Hz = machine.Number("clock_MHz", 1, 1e6) * 1e6;
  base.hbm = Bandwidth::GBps(machine.Number("hbm_GBps", 1e-3, 1e9));
  base.link = Bandwidth::GBps(machine.Number("link_GBps", 1e-3, 1e9));
  base.fill_words_per_cycle = machine.Number("fill_words_per_cycle", 1, 1e9);
  base.vectors_from_hbm = machine.Choice("vector_operands", kOperands) == 1;
  machine.String("source");
  std::vector<Bandwidth> memories = {base.hbm}, links = {base.link};
  for (const auto& [key, list] : {std::pair("memories_GBps", &memories), {"links_GBps", &links}}) {
    if (!machine.ok() || !machine.Has(key)) continue;
    for (const int32_t gbps : machine.Integers(key, 1, 1 << 30)) {
      list->push_back(Bandwidth::GBps(gbps));
    }
  }
  for (const Bandwidth hbm : memories) {
    for (const Bandwidth link : links) {
      space.machines.push_back(base);
      space.machines.back().hbm = hbm;
      space.machines.back().link = link;
    }
  }
}

CostRates ReadRates(const YamlReader& node, const std::string& unit) {
  const std::string logic = "logic_" + unit + "_per_mm2", hbm = "hbm_" + unit + "_per_GBps",
                    link = "link_" + unit + "_per_GBps", size = "hbm_" + unit + "_per_GiB",
                    cap = "cap_" + unit;
  const std::string_view keys[] = {logic, hbm, link, size, cap, "source"};
  node.ExpectKeys(keys);
  CostRates rates{node.Number(logic, 1e-9, 1e9), node.Number(hbm, 0, 1e9),
                  node.Number(link, 0, 1e9), node.Number(size, 0, 1e9, 0)};
  if (node.Has(cap)) rates.cap = node.Number(cap, 1e-9, 1e12);
  node.String("source");
  return rates;
}

absl::StatusOr<DesignSpace> ReadSpace(const YamlReader& root) {
  static constexpr std::string_view kKeys[] = {"name",    "cores", "area",
                                               "machine", "power", "price"};
  static constexpr std::string_view kCores[] = {"tensor", "vector", "width", "depth", "buffer_MB"};
  root.ExpectKeys(kKeys);
  DesignSpace space;
  space.name = root.String("name");
  const YamlReader cores = root.Child("cores");
  cores.ExpectKeys(kCores);
  if (!root.ok()) return root.status();
  space.tensor_cores = Sizes(cores, "tensor", kMaxCores);
  space.vector_cores = Sizes(cores, "vector", kMaxCores);
  space.widths = Sizes(cores, "width", kMaxSize);
  space.depths = Sizes(cores, "depth", kMaxSize);
  space.buffers_MB = Sizes(cores, "buffer_MB", kMaxSize);
  const YamlReader area = root.Child("area");
  const YamlReader machine = root.Child("machine");
  if (!root.ok()) return root.status();
  FORETRACE_RETURN_IF_ERROR(ReadArea(area, space));
  ReadMachine(machine, space);
  if (root.ok() && root.Has("power")) space.watts = ReadRates(root.Child("power"), "W");
  if (root.ok() && root.Has("price")) space.dollars = ReadRates(root.Child("price"), "USD");
  if (!root.ok()) return root.status();
  return space;
}

bool IsFeasible(const DesignSpace& space, const AcceleratorDesign& d, Area area) {
  if (area > space.cap) return false;
  return d.tensor_cores == 1 || d.vector_cores == 1 ||
         area.um2() >= space.smallest_share * space.cap.um2();
}

}  // namespace

absl::StatusOr<DesignSpace> LoadDesignSpace(const std::string& file) {
  return LoadYaml<DesignSpace>(ReadYamlFile(file), file, ReadSpace);
}
absl::StatusOr<DesignSpace> ParseDesignSpace(const std::string& text, const std::string& source) {
  return LoadYaml<DesignSpace>(ParseYamlText(text, source), source, ReadSpace);
}

absl::StatusOr<std::vector<SizedDesign>> FeasibleDesigns(const DesignSpace& s) {
  size_t all = 1;
  for (const auto* sizes :
       {&s.tensor_cores, &s.vector_cores, &s.widths, &s.depths, &s.buffers_MB}) {
    all *= std::max<size_t>(sizes->size(), 1);
    if (all > kMaxDesigns) {
      return InvalidInput("space {}: more than {} designs; list fewer sizes", s.name, kMaxDesigns);
    }
  }
  std::vector<SizedDesign> designs;
  for (size_t i = 0; i < all; ++i) {
    size_t rest = i;
    const auto pick = [&rest](const std::vector<int32_t>& sizes) {
      const int32_t size = sizes[rest % sizes.size()];
      rest /= sizes.size();
      return size;
    };
    AcceleratorDesign d;
    d.buffer_MB = pick(s.buffers_MB);
    d.depth = pick(s.depths);
    d.width = pick(s.widths);
    d.vector_cores = pick(s.vector_cores);
    d.tensor_cores = pick(s.tensor_cores);
    FORETRACE_ASSIGN_OR_RETURN(const Area area, AreaOf(d));
    if (!IsFeasible(s, d, area)) continue;
    designs.push_back({d, area, static_cast<int32_t>(area.um2() / kBucketArea)});
  }
  if (designs.empty()) {
    return Infeasible(
        "space {}: no design has an area between {:.1f} and {:.1f} mm2; list smaller or larger "
        "cores and buffers, or change the cap",
        s.name, s.smallest_share * s.cap.mm2(), s.cap.mm2());
  }
  std::stable_sort(designs.begin(), designs.end(),
                   [](const SizedDesign& a, const SizedDesign& b) { return a.bucket > b.bucket; });
  return designs;
}

absl::StatusOr<std::vector<SizedDesign>> OnMachine(std::vector<SizedDesign> designs,
                                                   const DesignSpace& space,
                                                   const MachineBase& machine, Bytes hbm) {
  const auto cost = [&](const SizedDesign& design, const std::optional<CostRates>& rates) {
    if (!rates.has_value()) return 0.0;
    return design.area.mm2() * rates->logic_per_mm2 + machine.hbm.gbps() * rates->hbm_per_GBps +
           machine.link.gbps() * rates->link_per_GBps + Gib(hbm) * rates->hbm_per_GiB;
  };
  for (SizedDesign& design : designs) {
    design.watts = cost(design, space.watts);
    design.dollars = cost(design, space.dollars);
  }
  const auto most = [](const std::optional<CostRates>& rates) {
    return rates ? rates->cap : std::numeric_limits<double>::infinity();
  };
  if (designs.empty()) return designs;
  const SizedDesign least =
      *std::ranges::min_element(designs, {}, [](const SizedDesign& d) { return d.area.um2(); });
  std::erase_if(designs, [&](const SizedDesign& d) {
    return d.watts > most(space.watts) || d.dollars > most(space.dollars);
  });
  if (!designs.empty()) return designs;
  std::string over;
  if (least.watts > most(space.watts)) {
    over = fmt::format("{:.1f} W, cap_W is {:g}", least.watts, space.watts->cap);
  }
  if (least.dollars > most(space.dollars)) {
    over += fmt::format("{}{:.0f} USD, cap_USD is {:g}", over.empty() ? "" : "; ", least.dollars,
                        space.dollars->cap);
  }
  return Infeasible(
      "space {}: no design is within its caps of power and price with {:g} GB/s of memory and "
      "links of {:g} GB/s: the smallest, {}, takes {}",
      space.name, machine.hbm.gbps(), machine.link.gbps(), Describe(least.design), over);
}

}  // namespace foretrace
