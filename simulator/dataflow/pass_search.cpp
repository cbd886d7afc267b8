#include "simulator/dataflow/pass_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "simulator/dataflow/pass_table.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

constexpr size_t kMostKernels = 64, kMostLayouts = 8;
using Bytes64 = std::array<uint8_t, kMostKernels>;

using Edge = PassTable::Edge;
using Added = PassTable::Added;

struct Label {
  double done = 0;  // ns of the partitions before
  double compute = 0, memory = 0, network = 0, sram = 0;
  Bytes64 choice = {}, converted = {};  // by kernel; layouts as bits

  bool Dominates(const Label& o) const {
    return done <= o.done && compute <= o.compute && memory <= o.memory && network <= o.network &&
           sram <= o.sram;
  }
};

// Choices and conversions of up to 16 kernels.
using Key = std::array<uint64_t, 4>;

class PassSearch {
 public:
  PassSearch(const ShardingProblem& problem, const System& system, const Formulas& formulas,
             const Mapping& mapping, const ShardingProblem::Mask& mask, Direction pass,
             const PassLimits& limits)
      : workload_(problem.workload()),
        system_(system),
        mask_(mask),
        limits_(limits),
        table_(problem, system, formulas, mapping, mask, pass),
        all_(table_.all()),
        overlaps_(Overlaps(system, formulas)) {}

  // The limit grows until there is a pass below it: near the least there are few labels.
  PassFound Solve() {
    PassFound found;
    double slack = 1e-3;
    const double least = table_.RestCompute(0);
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (table_.layouts(i).size() > kMostLayouts) return found;
    }
    for (bool last = false; !last; slack *= 3) {
      below_ns_ = std::min(least * (1 + slack), limits_.below.ns());
      last = below_ns_ == limits_.below.ns();
      const std::optional<Label> best = Search();
      if (made_ > limits_.labels) return found;
      found.bound = RealNs(best ? best->done : below_ns_);
      if (!best) continue;
      found.chosen.assign(workload_.kernels.size(), 0);
      ForEach(all_, [&](size_t i) { found.chosen[i] = best->choice[i]; });
      break;
    }
    return found;
  }

 private:
  double Combined(const Label& l) const {
    return overlaps_ ? std::max({l.compute, l.memory, l.network})
                     : l.compute + l.memory + l.network;
  }

  // nullopt: none below the limit, or too many labels.
  std::optional<Label> Search() {
    states_.clear();
    states_[0][Key{}] = {};
    while (states_.begin()->first != all_) {
      const auto first = states_.extract(states_.begin());
      std::vector<Label> labels;
      for (const auto& [key, s] : first.mapped()) labels.push_back(s);
      if (!Grow(first.key(), first.key(), 0, labels)) return std::nullopt;
      if (states_.empty()) return std::nullopt;
    }
    std::optional<Label> best;
    for (const auto& [key, s] : states_.begin()->second) {
      if (!best || s.done < best->done) best = s;
    }
    return best;
  }

  bool GiveUp() {
    made_ = limits_.labels + 1;
    return false;
  }
  static bool Fits(KernelSet frontier) {
    return std::popcount(frontier) <= static_cast<int>(4 * std::tuple_size_v<Key>);
  }
  static Key KeyOf(const Label& l, KernelSet frontier) {
    Key key = {};
    size_t at = 0;
    ForEach(frontier, [&](size_t i) {
      const uint64_t both = static_cast<uint64_t>(l.choice[i]) << 8 | l.converted[i];
      key[at / 4] |= both << (16 * (at % 4));
      ++at;
    });
    return key;
  }

  // Kernels join the partition that follows `before` in ascending order; what has joined is closed,
  // and grows further.
  bool Grow(KernelSet before, KernelSet set, size_t next, const std::vector<Label>& labels) {
    if (set != before) Close(before, set, labels);
    if (made_ > limits_.labels) return false;
    for (size_t i = next; i < workload_.kernels.size(); ++i) {
      if (!Has(all_, i) || Has(set, i) || (table_.needs(i) & ~set) != 0) continue;
      Joining joining = {before, set, set | KernelSet{1} << i, 0, 0, {}};
      joining.frontier = table_.Frontier(joining.larger);
      joining.rest = table_.RestCompute(joining.larger);
      if (!Fits(joining.frontier)) return GiveUp();
      for (const Label& l : labels) {
        const bool streams = set != before && l.sram > CountOf(system_.chip.sram);
        if (streams) continue;
        for (size_t c = 0; c < table_.added(i).size(); ++c) {
          if (mask_[i][c]) Join(i, c, l, joining);
        }
      }
      std::vector<Label> grown;
      for (auto& [key, of] : joining.labels) grown.insert(grown.end(), of.begin(), of.end());
      made_ += static_cast<int64_t>(grown.size());
      if (made_ > limits_.labels) return false;
      if (!grown.empty() && !Grow(before, joining.larger, i + 1, grown)) return false;
    }
    return true;
  }

  struct Joining {
    KernelSet before = 0, set = 0, larger = 0, frontier = 0;
    double rest = 0;
    std::map<Key, std::vector<Label>> labels;
  };
  void Join(size_t i, size_t c, Label l, Joining& joining) const {
    const Added& a = table_.added(i)[c];
    l.choice[i] = static_cast<uint8_t>(c);
    l.converted[i] = 0;
    l.done += a.once;
    l.compute += a.compute, l.memory += a.memory, l.network += a.network, l.sram += a.sram;
    for (const size_t id : table_.into(i)) {
      const Edge& e = table_.edge(id);
      const Added& producer = table_.added(e.from)[l.choice[e.from]];
      const bool inside = !Has(joining.before, e.from);
      if (inside) {
        l.memory -= producer.result;
        l.sram += producer.tile * (e.depth - 2);
      } else {
        l.memory += producer.result;
        l.sram += 2 * producer.tile;
      }
      const uint8_t read = e.read[c];
      if (producer.convert[read] == 0 || ((l.converted[e.from] >> read) & 1) != 0) continue;
      if (!inside) return;  // its partition has not converted it
      l.network += producer.convert[read];
      l.converted[e.from] |= static_cast<uint8_t>(1 << read);
    }
    for (const Edge& e : table_.next_layer()) {
      if (e.from == i) l.network += a.convert[e.read[l.choice[e.to]]];
    }
    if (l.sram > CountOf(system_.chip.sram)) {
      const bool streams =
          joining.set == joining.before && (workload_.kernels[i].has_weights() ||
                                            system_.chip.execution == Execution::kKernelByKernel);
      if (!streams) return;
    }
    const double longest = overlaps_ ? std::max(l.network, l.compute + joining.rest)
                                     : l.network + l.compute + joining.rest;
    if (l.done + longest >= below_ns_) return;
    std::vector<Label>& group = joining.labels[KeyOf(l, joining.frontier)];
    for (const Label& o : group) {
      if (o.Dominates(l)) return;
    }
    std::erase_if(group, [&](const Label& o) { return l.Dominates(o); });
    group.push_back(l);
  }

  // What consumers may read later is converted now or never.
  void Close(KernelSet before, KernelSet set, const std::vector<Label>& labels) {
    Closing closing = {set, table_.Frontier(set), table_.RestCompute(set), {}};
    ForEach(closing.frontier & ~before, [&](size_t i) {
      std::vector<uint8_t> read;
      for (const size_t id : table_.out_of(i)) {
        if (Has(set, table_.edge(id).to)) continue;
        read.insert(read.end(), table_.edge(id).read.begin(), table_.edge(id).read.end());
      }
      std::sort(read.begin(), read.end());
      read.erase(std::unique(read.begin(), read.end()), read.end());
      for (const uint8_t r : read) closing.later.emplace_back(i, r);
    });
    for (const Label& l : labels) Convert(l, closing, 0);
  }
  struct Closing {
    KernelSet set = 0, frontier = 0;
    double rest = 0;
    std::vector<std::pair<size_t, uint8_t>> later;  // kernel, layout
  };
  void Convert(const Label& l, const Closing& closing, size_t next) {
    const double took = Combined(l);
    if (l.done + took + closing.rest >= below_ns_) return;
    for (; next < closing.later.size(); ++next) {
      const auto [i, read] = closing.later[next];
      const double ns = table_.added(i)[l.choice[i]].convert[read];
      if (ns == 0 || ((l.converted[i] >> read) & 1) != 0) continue;
      Label with = l;
      with.network += ns;
      with.converted[i] |= static_cast<uint8_t>(1 << read);
      Convert(with, closing, next + 1);
      if (Combined(with) == took) return;  // it costs nothing
    }
    if (++made_ > limits_.labels) return;
    Label closed = l;
    closed.done += took;
    closed.compute = closed.memory = closed.network = closed.sram = 0;
    const auto [at, added] =
        states_[closing.set].try_emplace(KeyOf(closed, closing.frontier), closed);
    if (!added && closed.done < at->second.done) at->second = closed;
  }

  const Workload& workload_;
  const System& system_;
  const ShardingProblem::Mask& mask_;
  const PassLimits& limits_;
  PassTable table_;
  KernelSet all_ = 0;
  bool overlaps_ = false;
  std::map<KernelSet, std::map<Key, Label>> states_;
  double below_ns_ = 0;
  int64_t made_ = 0;
};

}  // namespace

PassFound SolvePass(const ShardingProblem& problem, const System& system, const Formulas& formulas,
                    const Mapping& mapping, const ShardingProblem::Mask& mask, Direction pass,
                    const PassLimits& limits) {
  return PassSearch(problem, system, formulas, mapping, mask, pass, limits).Solve();
}

}  // namespace foretrace::dataflow
