#include "simulator/dataflow/partition.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "simulator/base/error.h"

namespace foretrace::dataflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A kernel, or several that always run together.
struct Units {
  std::vector<KernelSet> members;
  std::vector<KernelSet> needs;  // kernels of other units that come before
};

Units SingleUnits(const PartitionCosts& costs, KernelSet subset) {
  Units units;
  for (size_t i = 0; i < costs.size(); ++i) {
    const KernelSet bit = KernelSet{1} << i;
    if ((subset & bit) == 0) continue;
    units.members.push_back(bit);
    units.needs.push_back(costs.predecessors()[i] & subset);
  }
  return units;
}

// Kernels that nothing reads join the last of those that they read.
Units GluedUnits(const PartitionCosts& costs, KernelSet subset) {
  KernelSet read = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (((subset >> i) & 1) != 0) read |= costs.predecessors()[i];
  }
  Units units = SingleUnits(costs, subset);
  for (size_t i = units.members.size(); i-- > 0;) {
    if ((units.members[i] & read) != 0 || units.needs[i] == 0) continue;
    const KernelSet host = KernelSet{1} << (63 - std::countl_zero(units.needs[i]));
    for (size_t j = 0; j < units.members.size(); ++j) {
      if (j == i || (units.members[j] & host) == 0) continue;
      const KernelSet merged = units.members[j] | units.members[i];
      if (!costs.Of(merged)) break;
      units.members[j] = merged;
      units.needs[j] = (units.needs[j] | units.needs[i]) & ~merged;
      units.members.erase(units.members.begin() + static_cast<std::ptrdiff_t>(i));
      units.needs.erase(units.needs.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  return units;
}

// Sets of kernels with all that comes before them, smaller ones first; empty: too many.
std::vector<KernelSet> Downsets(const Units& units) {
  absl::flat_hash_set<KernelSet> seen = {0};
  std::vector<KernelSet> out = {0};
  for (size_t next = 0; next < out.size(); ++next) {
    const KernelSet set = out[next];
    for (size_t u = 0; u < units.members.size(); ++u) {
      if ((set & units.members[u]) != 0 || (units.needs[u] & ~set) != 0) continue;
      const KernelSet larger = set | units.members[u];
      if (!seen.insert(larger).second) continue;
      if (out.size() == kMaxDownsets) return {};
      out.push_back(larger);
    }
  }
  std::sort(out.begin(), out.end(), [](KernelSet a, KernelSet b) {
    const int na = std::popcount(a), nb = std::popcount(b);
    return na != nb ? na < nb : a < b;
  });
  return out;
}

// What the first kernels are, in their order.
std::vector<KernelSet> InOrder(KernelSet subset) {
  std::vector<KernelSet> out = {0};
  for (; subset != 0; subset &= subset - 1) out.push_back(out.back() | (subset & -subset));
  return out;
}

struct Path {
  double time = kNever;
  int before = -1;  // index of the downset that its last partition begins from
};

class LatticeSearch {
 public:
  LatticeSearch(const PartitionCosts& costs, const PartitionLimits& limits, KernelSet done)
      : costs_(costs), limits_(limits), done_(done) {}

  // Cuts of the fastest path from nothing to all of `downsets` with at most `most` partitions;
  // empty: there is none.
  std::vector<KernelSet> Solve(const std::vector<KernelSet>& downsets, int most) {
    const size_t n = downsets.size();
    sums_.clear();
    for (const KernelSet set : downsets) sums_.push_back(costs_.SumOf(set));
    const auto layers = static_cast<size_t>(most);
    // paths[l][j]: at most l partitions; without a limit one layer is enough, since a downset's
    // best path is final before any larger one is looked at.
    const bool limited = most < std::popcount(downsets.back());
    std::vector<std::vector<Path>> paths(limited ? layers + 1 : 1, std::vector<Path>(n));
    paths[0][0].time = 0;
    if (!limited) {
      for (size_t i = 0; i < n; ++i) Extend(downsets, i, paths[0], paths[0], i + 1);
    } else {
      for (size_t l = 1; l <= layers; ++l) {
        paths[l][0].time = 0;
        const size_t from = l == layers ? n - 1 : 1;  // the last partition has to reach the end
        for (size_t i = 0; i < n; ++i) Extend(downsets, i, paths[l - 1], paths[l], from);
      }
    }
    return Cuts(downsets, paths);
  }

 private:
  void Extend(const std::vector<KernelSet>& downsets, size_t i, const std::vector<Path>& before,
              std::vector<Path>& after, size_t from) {
    if (before[i].time == kNever) return;
    for (size_t j = std::max(from, i + 1); j < downsets.size(); ++j) {
      if ((downsets[i] & ~downsets[j]) != 0) continue;
      // Of equal times the one found first, which has fewer partitions, but for rounding.
      const double limit = after[j].time * (1 - 1e-12) - before[i].time;
      if (!(limit > 0)) continue;
      const KernelSet part = downsets[j] & ~downsets[i];
      // One kernel alone may have more weights than fit.
      if (!std::has_single_bit(part) && !costs_.MayTakeLess(sums_[i], sums_[j], limit)) continue;
      const double time = costs_.TimeBelow(part, limit);
      if (time == kNever) continue;
      if (!FitsDram(downsets[i], downsets[j])) continue;
      after[j] = {before[i].time + time, static_cast<int>(i)};
    }
  }

  bool FitsDram(KernelSet before, KernelSet after) const {
    return limits_.dram_bytes <= RealBytes() ||
           costs_.LiveBytes(before | done_, after | done_) <= limits_.dram_bytes.count();
  }

  std::vector<KernelSet> Cuts(const std::vector<KernelSet>& downsets,
                              const std::vector<std::vector<Path>>& paths) const {
    size_t layer = 0, at = downsets.size() - 1;
    for (size_t l = 0; l < paths.size(); ++l) {
      if (paths[l][at].time < paths[layer][at].time) layer = l;
    }
    if (paths[layer][at].time == kNever) return {};
    std::vector<KernelSet> sets;
    while (at != 0) {
      const auto before = static_cast<size_t>(paths[layer][at].before);
      sets.push_back(downsets[at] & ~downsets[before]);
      at = before;
      if (paths.size() > 1) --layer;
    }
    std::reverse(sets.begin(), sets.end());
    return sets;
  }

  const PartitionCosts& costs_;
  const PartitionLimits& limits_;
  std::vector<PartitionCosts::Additive> sums_;  // by downset
  KernelSet done_;
};

double GigaBytes(double bytes) { return bytes * 1e-9; }

absl::Status NothingFits(const PartitionCosts& costs, const PartitionLimits& limits,
                         const Workload& workload, KernelSet subset) {
  for (size_t i = 0; i < costs.size(); ++i) {
    const KernelSet one = KernelSet{1} << i;
    if ((subset & one) == 0 || costs.Of(one)) continue;
    return Infeasible(
        "kernel {} needs {:.6g} MB of SRAM in {} tiles; give more tiles or a larger chip",
        workload.kernels[i].name, costs.SramBytes(one) * 1e-6, costs.rules().tiles);
  }
  return Infeasible(
      "no partitioning into {} partitions fits into SRAM and {:.6g} GB of DRAM for tensors",
      limits.partitions, GigaBytes(limits.dram_bytes.count()));
}

}  // namespace

absl::StatusOr<Partitioning> EvaluatePartitions(const Workload& workload,
                                                const PartitionCosts& costs,
                                                const std::vector<int>& partition_of) {
  if (partition_of.size() != workload.kernels.size()) {
    return InvalidInput("a mapping of {} kernels for a workload of {}", partition_of.size(),
                        workload.kernels.size());
  }
  for (const Tensor& t : workload.tensors) {
    if (partition_of[static_cast<size_t>(t.from)] > partition_of[static_cast<size_t>(t.to)]) {
      return InvalidInput("kernel {} reads what {} makes in a later partition",
                          workload.kernels[static_cast<size_t>(t.to)].name,
                          workload.kernels[static_cast<size_t>(t.from)].name);
    }
  }
  std::vector<int> ids = partition_of;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Partitioning out;
  KernelSet done = 0;
  for (const int id : ids) {
    KernelSet set = 0;
    for (size_t i = 0; i < partition_of.size(); ++i)
      set |= partition_of[i] == id ? KernelSet{1} << i : 0;
    auto partition = costs.Of(set);
    if (!partition) {
      return Infeasible("partition {}: {:.6g} MB of SRAM are more than the chip has, in {} tiles",
                        id, costs.SramBytes(set) * 1e-6, costs.rules().tiles);
    }
    out.dram_bytes = std::max(out.dram_bytes, RealBytes(costs.LiveBytes(done, done | set)));
    out.time += partition->time;
    out.partitions.push_back(*std::move(partition));
    done |= set;
  }
  out.bound = RealNs(costs.LowerBoundNs());
  return out;
}

PassPartitions PassesOf(const Workload& workload, const PartitionLimits& limits) {
  const size_t n = workload.kernels.size();
  KernelSet forward = 0, backward = 0;
  for (size_t i = 0; i < n; ++i) {
    (workload.kernels[i].pass == Direction::kForward ? forward : backward) |= KernelSet{1} << i;
  }
  PassPartitions out = {{forward, backward}, 0};
  int& most = out.most;
  most = limits.partitions > 0 ? limits.partitions : static_cast<int>(n);
  if (!limits.apart || most == 1) {
    out.passes = {forward | backward};
  } else if (backward != 0) {
    most = limits.partitions > 0 ? (most + 1) / 2 : most;
  }
  return out;
}

absl::StatusOr<Partitioning> SolvePartitions(const Workload& workload, const PartitionCosts& costs,
                                             const PartitionLimits& limits) {
  const size_t n = workload.kernels.size();
  const auto [passes, most] = PassesOf(workload, limits);
  std::vector<int> partition_of(n, 0);
  bool exact = true;
  int next = 0;
  KernelSet done = 0;
  for (const KernelSet pass : passes) {
    if (pass == 0) continue;
    std::vector<KernelSet> sets;
    if (most == 1) {
      if (costs.Of(pass)) sets = {pass};
    } else if (limits.kernel_by_kernel) {
      for (const KernelSet one : SingleUnits(costs, pass).members) {
        if (!costs.Of(one)) return NothingFits(costs, limits, workload, pass);
        sets.push_back(one);
      }
    } else {
      std::vector<KernelSet> downsets = Downsets(SingleUnits(costs, pass));
      if (downsets.empty()) {
        exact = false;
        downsets = Downsets(GluedUnits(costs, pass));
      }
      if (downsets.empty()) downsets = InOrder(pass);
      sets = LatticeSearch(costs, limits, done).Solve(downsets, most);
    }
    if (sets.empty()) return NothingFits(costs, limits, workload, pass);
    for (const KernelSet set : sets) {
      for (size_t i = 0; i < n; ++i) {
        if (((set >> i) & 1) != 0) partition_of[i] = next;
      }
      ++next;
    }
    done |= pass;
  }
  if (limits.kernel_by_kernel) {
    // One after another: passes in order, each by levels.
    const std::vector<int> level = Levels(workload);
    const auto count = static_cast<int>(n);
    for (size_t i = 0; i < n; ++i) {
      const int pass = workload.kernels[i].pass == Direction::kBackward ? 1 : 0;
      partition_of[i] = (pass * count + level[i]) * count + static_cast<int>(i);
    }
  }
  auto out = EvaluatePartitions(workload, costs, partition_of);
  if (!out.ok()) return out;
  if (exact) out->bound = out->time;
  if (limits.dram_bytes > RealBytes() && out->dram_bytes > limits.dram_bytes) {
    return Infeasible(
        "tensors between partitions take {:.6g} GB of DRAM on each chip, which has {:.6g} GB",
        GigaBytes(out->dram_bytes.count()), GigaBytes(limits.dram_bytes.count()));
  }
  return out;
}

}  // namespace foretrace::dataflow
