#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/file_parts.h"

namespace foretrace::dataflow {
namespace {

void ReadWorkloads(const YamlReader& in, Space& space) {
  for (const YamlReader& item : in.Child("workloads").Items()) {
    Space::WorkloadChoice choice;
    choice.workload = ReadWorkload(item);
    choice.chips = Strings(item, "chips");
    choice.topologies = Strings(item, "topologies");
    if (!item.ok()) return;
    if (absl::Status valid = Validate(choice.workload); !valid.ok())
      return item.Fail("", std::string(valid.message()));
    space.workloads.push_back(std::move(choice));
  }
}

void CheckRoles(const YamlReader& in, const Space& space, const GivenMapping& given) {
  for (const Space::Topology& t : space.topologies) {
    if (given.roles.empty() || given.roles.size() == t.dimensions.size()) continue;
    in.Fail("mapping", fmt::format("{} roles; topology {} has {} dimensions", given.roles.size(),
                                   t.name, t.dimensions.size()));
  }
}

void ReadVariants(const YamlReader& in, Space& space) {
  if (!in.Has("variants")) {
    space.variants = {{"machine", space.formulas.overlap, {}}};
    return;
  }
  constexpr std::array<std::string_view, 3> kNames = {"machine", "overlap", "nonoverlap"};
  constexpr std::array<std::string_view, 3> kKeys = {"name", "overlap", "mapping"};
  for (const YamlReader& item : in.Child("variants").Items()) {
    Space::Variant variant;
    std::string overlap;
    if (item.IsMap()) {
      item.ExpectKeys(kKeys);
      variant.name = item.String("name");
      overlap = item.String("overlap", "machine");
      for (size_t i = 0; item.Has("mapping") && i < space.workloads.size(); ++i) {
        variant.given.push_back(ReadMapping(item.Child("mapping"), space.workloads[i].workload));
        CheckRoles(item, space, variant.given.back());
      }
    } else {
      variant.name = overlap = item.AsString();
    }
    if (!in.ok()) return;
    const auto found = std::find(kNames.begin(), kNames.end(), overlap);
    if (found == kNames.end())
      return in.Fail("variants",
                     fmt::format("'{}' is none; allowed: {}", overlap, fmt::join(kNames, ", ")));
    variant.overlap = static_cast<Overlap>(found - kNames.begin());
    space.variants.push_back(std::move(variant));
  }
}

void ReadSearch(const YamlReader& in, Space& space) {
  constexpr std::array<std::string_view, 3> kKeys = {"shardings", "tiles", "micro_batch"};
  in.ExpectKeys(kKeys);
  if (in.Has("shardings"))
    space.limits.megatron =
        static_cast<SearchLimits::Megatron>(in.Choice("shardings", kSolvedShardings));
  space.limits.tiles = in.Integer("tiles", 0, 1 << 30, 0);
  space.limits.micro_batch = in.Integer("micro_batch", 0, 1 << 30, 0);
}

void ReadTopologies(const YamlReader& in, Space& space) {
  constexpr std::array<std::string_view, 2> kKeys = {"name", "network"};
  for (const YamlReader& item : in.Child("topologies").Items()) {
    item.ExpectKeys(kKeys);
    space.topologies.push_back(
        {item.String("name"), ReadDimensions(item.Child("network"), space.links)});
  }
}

void CheckNames(const YamlReader& in, const Space& space) {
  const auto is_topology = [&](const std::string& name) {
    return std::any_of(space.topologies.begin(), space.topologies.end(),
                       [&](const auto& t) { return t.name == name; });
  };
  const auto is_chip = [&](const std::string& name) {
    return std::any_of(space.chips.begin(), space.chips.end(),
                       [&](const auto& c) { return c.chip.name == name; });
  };
  for (const Space::WorkloadChoice& w : space.workloads) {
    for (const std::string& name : w.chips) {
      if (!is_chip(name)) in.Fail("workloads", fmt::format("'{}' is no chip of this file", name));
    }
    for (const std::string& name : w.topologies) {
      if (!is_topology(name))
        in.Fail("workloads", fmt::format("'{}' is no topology of this file", name));
    }
  }
  const std::array<std::pair<std::string_view, size_t>, 6> parts = {
      {{"workloads", space.workloads.size()},
       {"variants", space.variants.size()},
       {"chips", space.chips.size()},
       {"topologies", space.topologies.size()},
       {"memories", space.memories.size()},
       {"links", space.links.size()}}};
  double points = 1;
  for (const auto& [key, size] : parts) {
    if (size == 0) in.Fail(key, "at least one is needed: the space is empty");
    points *= static_cast<double>(size);
  }
  if (points > 1e7) in.Fail("", fmt::format("{:.0f} points; up to ten million", points));
}

}  // namespace

absl::StatusOr<Space> LoadSpace(const std::string& file, const AcceleratorCatalog& accelerators) {
  return LoadYaml<Space>(
      ReadYamlFile(file), file, [&](const YamlReader& in) -> absl::StatusOr<Space> {
        constexpr std::array<std::string_view, 14> kKeys = {
            "name",     "description", "source",     "single_precision",
            "columns",  "formulas",    "search",     "workloads",
            "variants", "chips",       "topologies", "memories",
            "links",    "switch"};
        constexpr std::array<std::string_view, 2> kColumns = {"systems", "training"};
        in.ExpectKeys(kKeys);
        Space space;
        space.name = in.String("name");
        const NumberReader number = {in.Bool("single_precision", false)};
        if (in.Has("columns"))
          space.columns = static_cast<Space::Columns>(in.Choice("columns", kColumns));
        if (in.Has("formulas")) space.formulas = ReadFormulas(in.Child("formulas"), number);
        if (in.Has("search")) ReadSearch(in.Child("search"), space);
        for (const YamlReader& item : in.Child("chips").Items()) {
          space.chips.push_back({ReadChip(item, number, accelerators), Strings(item, "variants")});
        }
        for (const YamlReader& item : in.Child("memories").Items())
          space.memories.push_back(ReadMemory(item, number));
        for (const YamlReader& item : in.Child("links").Items())
          space.links.push_back(ReadLink(item, number));
        ReadTopologies(in, space);
        ReadWorkloads(in, space);
        if (in.ok()) ReadVariants(in, space);
        ReadSwitch(in, number, space.switch_usd_per_gbps, space.switch_watt_per_gbps);
        if (in.ok()) CheckNames(in, space);
        if (!in.ok()) return in.status();
        return space;
      });
}

}  // namespace foretrace::dataflow
