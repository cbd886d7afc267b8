#include "simulator/dataflow/pass_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

constexpr size_t kMostKernels = 64, kMostLayouts = 8;
using Bytes64 = std::array<uint8_t, kMostKernels>;

// What one choice of a kernel adds to its partition.
struct Added {
  double compute = 0, memory = 0, network = 0, sram = 0;
  double once = 0;              // of an iteration
  double result = 0;            // ns to write or read the result off chip
  double tile = 0;              // bytes
  std::vector<double> convert;  // ns, by layout that consumers read
};

// An edge within the pass.
struct Edge {
  const Tensor* tensor = nullptr;
  size_t from = 0, to = 0;
  double depth = 0;
  std::vector<uint8_t> read;  // by the consumer's choice: index of the producer's layouts
};

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
      : problem_(problem),
        workload_(problem.workload()),
        system_(system),
        mapping_(mapping),
        mask_(mask),
        limits_(limits),
        terms_(workload_, system, formulas, mapping),
        overlaps_(Overlaps(system, formulas)),
        pass_(pass) {
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (workload_.kernels[i].pass == pass) all_ |= KernelSet{1} << i;
    }
    AddEdges();
    AddKernels();
  }

  // The limit grows until there is a pass below it: near the least there are few labels.
  PassFound Solve() {
    PassFound found;
    double slack = 1e-3;
    const double least = RestCompute(0);
    for (const auto& read : layouts_) {
      if (read.size() > kMostLayouts) return found;
    }
    for (bool last = false; !last; slack *= 3) {
      below_ns_ = std::min(least * (1 + slack), limits_.below_ns);
      last = below_ns_ == limits_.below_ns;
      const std::optional<Label> best = Search();
      if (made_ > limits_.labels) return found;
      found.bound_ns = best ? best->done : below_ns_;
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

  void AddEdges() {
    const std::vector<int> level = Levels(workload_);
    needs_.assign(workload_.kernels.size(), 0);
    layouts_.resize(workload_.kernels.size());
    into_.resize(workload_.kernels.size());
    out_.resize(workload_.kernels.size());
    const auto add = [&](const Tensor& t) {
      Edge e;
      e.tensor = &t;
      e.from = static_cast<size_t>(t.from), e.to = static_cast<size_t>(t.to);
      e.depth = level[e.to] - level[e.from] + 1;
      for (const Sharding s : problem_.choices()[e.to]) {
        const std::string read = LayoutOf(workload_, t, Sharding(), s).read;
        auto& known = layouts_[e.from];
        const auto at = std::find(known.begin(), known.end(), read);
        e.read.push_back(static_cast<uint8_t>(at - known.begin()));
        if (at == known.end()) known.push_back(read);
      }
      return e;
    };
    for (const Tensor& t : workload_.tensors) {
      if (!Has(all_, static_cast<size_t>(t.from)) || !Has(all_, static_cast<size_t>(t.to)))
        continue;
      const Edge e = add(t);
      needs_[e.to] |= KernelSet{1} << e.from;
      into_[e.to].push_back(edges_.size());
      out_[e.from].push_back(edges_.size());
      edges_.push_back(e);
    }
    for (const Tensor& t : workload_.next_layer) {
      if (Has(all_, static_cast<size_t>(t.from)) && Has(all_, static_cast<size_t>(t.to)) &&
          t.to < t.from)
        next_.push_back(add(t));
    }
  }

  void AddKernels() {
    added_.resize(workload_.kernels.size());
    ForEach(all_, [&](size_t i) {
      for (size_t c = 0; c < problem_.choices()[i].size(); ++c) added_[i].push_back(AddedBy(i, c));
      double least = std::numeric_limits<double>::infinity();
      for (size_t c = 0; c < added_[i].size(); ++c)
        least = mask_[i][c] ? std::min(least, added_[i][c].compute) : least;
      least_compute_.resize(workload_.kernels.size(), 0);
      least_compute_[i] = least;
    });
    for (const Tensor& t : workload_.tensors) {
      // What the other pass makes is read, in the smallest share that it may come in.
      if (Has(all_, static_cast<size_t>(t.from)) || !Has(all_, static_cast<size_t>(t.to))) continue;
      const auto from = static_cast<size_t>(t.from), to = static_cast<size_t>(t.to);
      double bytes = std::numeric_limits<double>::infinity(), tile = bytes;
      for (size_t c = 0; c < problem_.choices()[from].size(); ++c) {
        if (!mask_[from][c]) continue;
        bytes = std::min(bytes, problem_.sharded(from, c).output_bytes);
        tile = std::min(
            tile, TileBytes(workload_.kernels[from], problem_.sharded(from, c), mapping_.tiles));
      }
      for (Added& a : added_[to]) {
        a.memory += terms_.Times(to) * terms_.CrossingNs(bytes) / 2;
        a.sram += 2 * tile;
      }
    }
  }

  Added AddedBy(size_t i, size_t choice) const {
    const ShardedKernel& k = problem_.sharded(i, choice);
    const Kernel& kernel = workload_.kernels[i];
    Added a;
    const double times = terms_.Times(i);
    a.compute = times * terms_.SharedNs(i, k);
    a.network = times * terms_.NetworkNs(k.reduce_ns);
    a.memory = times * (terms_.WeightNs(k) + terms_.StoredNs(k) +
                        NsOf(kernel.memory_bytes * mapping_.micro_batch, system_.memory.bandwidth));
    a.result = times * terms_.CrossingNs(k.output_bytes) / 2;
    a.tile = TileBytes(kernel, k, mapping_.tiles);
    const double tiles = kernel.tiled == Loop::kCount ? 1 : static_cast<double>(mapping_.tiles);
    a.sram = k.weight_bytes + 2 * k.stored_bytes / tiles;
    a.once = terms_.IterationNs(i, k);
    // Every tensor of its own crosses, until its consumer joins the partition.
    for (const Tensor& t : workload_.tensors) {
      if (static_cast<size_t>(t.from) != i) continue;
      a.memory += a.result;
      a.sram += 2 * a.tile;
    }
    a.network += times * terms_.NetworkNs(ForcedNs(i, choice));
    a.convert.assign(layouts_[i].size(), 0);
    const Sharding made = problem_.choices()[i][choice];
    const auto price = [&](const Edge& e) {
      for (size_t c = 0; c < e.read.size(); ++c) {
        a.convert[e.read[c]] =
            times *
            terms_.NetworkNs(ShardTensor(workload_, *e.tensor, made, problem_.choices()[e.to][c],
                                         k.output_bytes, problem_.group())
                                 .convert_ns);
      }
    };
    for (const size_t e : out_[i]) price(edges_[e]);
    for (const Edge& e : next_) {
      if (e.from == i) price(e);
    }
    return a;
  }

  // Of conversions for the other pass: one of them at least, in the cheapest layout for it.
  double ForcedNs(size_t i, size_t choice) const {
    double forced = 0;
    for (const Tensor& t : workload_.tensors) {
      const auto to = static_cast<size_t>(t.to);
      if (static_cast<size_t>(t.from) != i || Has(all_, to)) continue;
      double least = std::numeric_limits<double>::infinity();
      for (size_t c = 0; c < problem_.choices()[to].size(); ++c) {
        if (!mask_[to][c]) continue;
        const ShardedTensor s =
            ShardTensor(workload_, t, problem_.choices()[i][choice], problem_.choices()[to][c],
                        problem_.sharded(i, choice).output_bytes, problem_.group());
        least = std::min(least, s.convert_ns);
      }
      forced = std::max(forced, least);
    }
    return forced;
  }

  // Of what is done, kernels whose choice matters to what is not.
  KernelSet Frontier(KernelSet set) const {
    KernelSet frontier = 0;
    for (const Edge& e : edges_) {
      if (Has(set, e.from) && !Has(set, e.to)) frontier |= KernelSet{1} << e.from;
    }
    for (const Edge& e : next_) {
      if (Has(set, e.to) && !Has(set, e.from)) frontier |= KernelSet{1} << e.to;
    }
    return frontier;
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

  double RestCompute(KernelSet set) const {
    double ns = 0;
    ForEach(all_ & ~set, [&](size_t i) { ns += least_compute_[i]; });
    return ns;
  }

  // Kernels join the partition that follows `before` in ascending order; what has joined is closed,
  // and grows further.
  bool Grow(KernelSet before, KernelSet set, size_t next, const std::vector<Label>& labels) {
    if (set != before) Close(before, set, labels);
    if (made_ > limits_.labels) return false;
    for (size_t i = next; i < workload_.kernels.size(); ++i) {
      if (!Has(all_, i) || Has(set, i) || (needs_[i] & ~set) != 0) continue;
      Joining joining = {before, set, set | KernelSet{1} << i, 0, 0, {}};
      joining.frontier = Frontier(joining.larger);
      joining.rest = RestCompute(joining.larger);
      if (!Fits(joining.frontier)) return GiveUp();
      for (const Label& l : labels) {
        const bool streams = set != before && l.sram > CountOf(system_.chip.sram);
        if (streams) continue;
        for (size_t c = 0; c < added_[i].size(); ++c) {
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
    const Added& a = added_[i][c];
    l.choice[i] = static_cast<uint8_t>(c);
    l.converted[i] = 0;
    l.done += a.once;
    l.compute += a.compute, l.memory += a.memory, l.network += a.network, l.sram += a.sram;
    for (const size_t id : into_[i]) {
      const Edge& e = edges_[id];
      const Added& producer = added_[e.from][l.choice[e.from]];
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
    for (const Edge& e : next_) {
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
    Closing closing = {set, Frontier(set), RestCompute(set), {}};
    ForEach(closing.frontier & ~before, [&](size_t i) {
      std::vector<uint8_t> read;
      for (const size_t id : out_[i]) {
        if (Has(set, edges_[id].to)) continue;
        read.insert(read.end(), edges_[id].read.begin(), edges_[id].read.end());
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
      const double ns = added_[i][l.choice[i]].convert[read];
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

  const ShardingProblem& problem_;
  const Workload& workload_;
  const System& system_;
  const Mapping& mapping_;
  const ShardingProblem::Mask& mask_;
  const PassLimits& limits_;
  PassTerms terms_;
  bool overlaps_ = false;
  Direction pass_;
  KernelSet all_ = 0;
  std::vector<KernelSet> needs_;                   // by kernel
  std::vector<std::vector<std::string>> layouts_;  // by producer
  std::vector<Edge> edges_, next_;
  std::vector<std::vector<size_t>> into_, out_;  // by kernel
  std::vector<std::vector<Added>> added_;        // by kernel and choice
  std::vector<double> least_compute_;
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
