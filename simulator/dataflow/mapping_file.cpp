#include <algorithm>
#include <map>

#include "simulator/base/error.h"
#include "simulator/dataflow/file_parts.h"

namespace foretrace::dataflow {
namespace {

std::map<std::string, size_t> IdsOf(const Workload& workload) {
  std::map<std::string, size_t> ids;
  for (size_t i = 0; i < workload.kernels.size(); ++i) ids[workload.kernels[i].name] = i;
  return ids;
}

std::vector<int> ReadPartitions(const YamlReader& in, const Workload& workload) {
  const auto ids = IdsOf(workload);
  std::vector<int> partition_of(workload.kernels.size(), -1);
  int next = 0;
  for (const YamlReader& part : in.Items()) {
    for (const YamlReader& item : part.Items()) {
      const std::string name = item.AsString();
      const auto found = ids.find(name);
      if (!in.ok()) return partition_of;
      if (found == ids.end()) {
        item.Fail("", fmt::format("workload {} has no kernel '{}'", workload.name, name));
        return partition_of;
      }
      int& of = partition_of[found->second];
      if (of >= 0) item.Fail("", fmt::format("kernel {} is in two partitions", name));
      of = next;
    }
    ++next;
  }
  for (size_t i = 0; i < partition_of.size() && in.ok(); ++i) {
    if (partition_of[i] < 0)
      in.Fail("", fmt::format("kernel {} is in no partition", workload.kernels[i].name));
  }
  return partition_of;
}

// Each kernel its own partition, in a topological order within each pass.
std::vector<int> EachAlone(const Workload& workload) {
  const std::vector<int> level = Levels(workload);
  std::vector<size_t> order(level.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Kernel &x = workload.kernels[a], &y = workload.kernels[b];
    return x.pass != y.pass ? x.pass < y.pass : level[a] != level[b] ? level[a] < level[b] : a < b;
  });
  std::vector<int> partition_of(level.size());
  for (size_t i = 0; i < order.size(); ++i) partition_of[order[i]] = static_cast<int>(i);
  return partition_of;
}

Shardings ReadShardings(const YamlReader& in, const Workload& workload) {
  const auto ids = IdsOf(workload);
  Shardings out(workload.kernels.size(), Loop::kCount);
  for (const auto& [name, value] : in.Entries()) {
    const auto found = ids.find(name);
    if (found == ids.end()) {
      in.Fail(name, fmt::format("workload {} has no such kernel", workload.name));
      return out;
    }
    out[found->second] = ShardingOf(in.Choice(name, kShardingNames));
  }
  return out;
}

}  // namespace

GivenMapping ReadMapping(const YamlReader& in, const Workload& workload) {
  constexpr std::array<std::string_view, 12> kKeys = {
      "description", "source", "roles",     "micro_batch", "recompute",         "chunks",
      "zero",        "tiles",  "shardings", "partitions",  "overlap_gradients", "kernel_by_kernel"};
  constexpr std::array<std::string_view, 3> kRecompute = {"none", "selective", "full"};
  constexpr std::array<std::string_view, 4> kRoles = {"tensor", "pipeline", "data", "all"};
  in.ExpectKeys(kKeys);
  GivenMapping given;
  given.limits.micro_batch = in.Integer("micro_batch", 0, 1 << 30, 0);
  if (in.Has("recompute"))
    given.limits.recompute = static_cast<Recompute>(in.Choice("recompute", kRecompute));
  given.limits.scheme.chunks = in.Integer("chunks", 1, 1 << 20, 1);
  given.limits.scheme.zero = static_cast<int>(in.Integer("zero", 0, 1, 0));
  given.limits.scheme.overlap_gradients = in.Bool("overlap_gradients", false);
  given.limits.tiles = in.Integer("tiles", 0, 1 << 30, 0);
  for (const std::string& role : Strings(in, "roles")) {
    const auto found = std::find(kRoles.begin(), kRoles.end(), role);
    if (found == kRoles.end())
      in.Fail("roles", fmt::format("'{}' is none; allowed: {}", role, fmt::join(kRoles, ", ")));
    given.roles.push_back(static_cast<Role>(found - kRoles.begin()));
  }
  if (in.Has("shardings")) {
    const YamlReader shardings = in.Child("shardings");
    if (shardings.IsMap()) {
      given.limits.shardings = ReadShardings(shardings, workload);
    } else {
      given.limits.megatron =
          static_cast<SearchLimits::Megatron>(in.Choice("shardings", kSolvedShardings));
    }
  }
  const bool alone = in.Bool("kernel_by_kernel", false);
  if (alone) given.limits.partition_of = EachAlone(workload);
  if (in.Has("partitions")) {
    if (alone) in.Fail("partitions", "kernel_by_kernel gives them already; give one of the two");
    given.limits.partition_of = ReadPartitions(in.Child("partitions"), workload);
  }
  return given;
}

absl::StatusOr<GivenMapping> LoadMapping(const Workload& workload, const std::string& file) {
  return LoadYaml<GivenMapping>(ReadYamlFile(file), file,
                                [&](const YamlReader& in) -> absl::StatusOr<GivenMapping> {
                                  GivenMapping given = ReadMapping(in, workload);
                                  if (!in.ok()) return in.status();
                                  return given;
                                });
}

}  // namespace foretrace::dataflow
