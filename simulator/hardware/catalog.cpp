#include "simulator/hardware/catalog.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/hardware/accelerator_file.h"

namespace foretrace {
namespace {

std::string Normal(std::string_view name) {
  std::string text = LowerCase(name);
  std::replace(text.begin(), text.end(), ' ', '-');
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// By name or alias, of an Accelerator or its AcceleratorNames.
template <typename Named, typename Visit>
void ForEachName(const Named& accelerator, const Visit& visit) {
  visit(accelerator.name);
  for (const std::string& alias : accelerator.aliases) visit(Normal(alias));
}

template <typename Named>
absl::Status CheckNames(const std::vector<Named>& all) {
  std::map<std::string, const Named*> owner;
  absl::Status status;
  for (const Named& accelerator : all) {
    ForEachName(accelerator, [&](const std::string& name) {
      const auto [it, added] = owner.try_emplace(name, &accelerator);
      if (added || it->second == &accelerator || !status.ok()) return;
      status = InvalidInput("{}: the name '{}' is also that of {}", accelerator.file, name,
                            it->second->file);
    });
  }
  return status;
}

template <typename Named>
std::vector<std::string> KnownNames(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& accelerator : all) {
    if (accelerator.name != kUnnamedAccelerator) names.push_back(accelerator.name);
  }
  return names;
}

}  // namespace

absl::StatusOr<AcceleratorCatalog> AcceleratorCatalog::Load() {
  std::vector<Accelerator> all;
  for (const ShippedFile& file : ListShipped(kAccelerators)) {
    FORETRACE_ASSIGN_OR_RETURN(Accelerator accelerator, LoadAccelerator(file.path));
    all.push_back(std::move(accelerator));
  }
  return Of(std::move(all));
}

absl::StatusOr<AcceleratorCatalog> AcceleratorCatalog::LoadNamed(
    std::span<const std::string> names) {
  std::vector<AcceleratorNames> all;
  for (const ShippedFile& file : ListShipped(kAccelerators)) {
    FORETRACE_ASSIGN_OR_RETURN(AcceleratorNames found, LoadAcceleratorNames(file.path));
    all.push_back(std::move(found));
  }
  FORETRACE_RETURN_IF_ERROR(CheckNames(all));
  std::set<std::string> wanted = {std::string(kUnnamedAccelerator)};
  for (const std::string& name : names) wanted.insert(Normal(name));
  AcceleratorCatalog catalog;
  for (const AcceleratorNames& of : all) {
    bool asked_for = false;
    ForEachName(of, [&](const std::string& name) { asked_for |= wanted.contains(name); });
    if (!asked_for) continue;
    FORETRACE_ASSIGN_OR_RETURN(Accelerator accelerator, LoadAccelerator(of.file));
    catalog.all_.push_back(std::move(accelerator));
  }
  catalog.known_ = KnownNames(all);
  return catalog;
}

absl::StatusOr<AcceleratorCatalog> AcceleratorCatalog::Of(std::vector<Accelerator> accelerators) {
  FORETRACE_RETURN_IF_ERROR(CheckNames(accelerators));
  AcceleratorCatalog catalog;
  catalog.all_ = std::move(accelerators);
  catalog.known_ = KnownNames(catalog.all_);
  return catalog;
}

const Accelerator* AcceleratorCatalog::Find(std::string_view name) const {
  const std::string wanted = Normal(name);
  const Accelerator* found = nullptr;
  for (const Accelerator& accelerator : all_) {
    ForEachName(accelerator, [&](const std::string& known) {
      if (known == wanted) found = &accelerator;
    });
  }
  return found;
}

const Accelerator* AcceleratorCatalog::FindLabel(std::string_view label) const {
  const std::string wanted = Normal(label);
  const Accelerator* found = nullptr;
  size_t longest = 0;
  for (const Accelerator& accelerator : all_) {
    ForEachName(accelerator, [&](const std::string& known) {
      if (!wanted.starts_with(known) || known.size() <= longest) return;
      if (wanted.size() > known.size() && wanted[known.size()] != '-') return;
      found = &accelerator;
      longest = known.size();
    });
  }
  return found;
}

DriverLimits AcceleratorCatalog::DriverOf(std::string_view name) const {
  const Accelerator* found = Find(name);
  if (found == nullptr) found = Find(kUnnamedAccelerator);
  return found == nullptr ? DriverLimits() : found->driver;
}

DeviceLinks AcceleratorCatalog::LinksOf(std::string_view name) const {
  const Accelerator* found = Find(name);
  return found == nullptr ? DeviceLinks() : found->links;
}

OccupancyLimits AcceleratorCatalog::OccupancyOf(std::string_view name) const {
  const Accelerator* found = Find(name);
  if (found == nullptr) found = Find(kUnnamedAccelerator);
  return found == nullptr ? OccupancyLimits() : found->occupancy;
}

absl::Status AcceleratorCatalog::Unknown(std::string_view name) const {
  std::vector<std::string> folders = DataFolders();
  for (std::string& folder : folders) folder += fmt::format("/{}", kAccelerators.folder);
  const std::string nearest = NearestName(Normal(name), known_);
  return InvalidInput(
      "accelerator \"{}\": no file of {} has that name or alias{}; there are {}; a new one is a "
      "file there (topologies/accelerators/README.md)",
      Excerpt(name, 60), fmt::join(folders, " or "),
      nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), fmt::join(known_, ", "));
}

absl::StatusOr<Accelerator> FindAccelerator(std::string_view name) {
  const std::string names[] = {std::string(name)};
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog,
                             AcceleratorCatalog::LoadNamed(names));
  const Accelerator* found = catalog.Find(name);
  if (found == nullptr) return catalog.Unknown(name);
  return *found;
}

}  // namespace foretrace
