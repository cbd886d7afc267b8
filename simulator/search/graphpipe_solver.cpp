#include "simulator/search/graphpipe_solver.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace foretrace::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond this many ways to choose from the branches, groups hold one kind of branch only.
constexpr int64_t kMaxGroups = 256;

}  // namespace

RealSeconds TimeAt(const std::vector<RealSeconds>& table, int64_t samples) {
  const auto log = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(samples)) - 1);
  const int64_t below = int64_t{1} << log;
  if (log >= table.size() || (below < samples && log + 1 >= table.size())) {
    return RealSeconds::Infinite();
  }
  if (below == samples) return table[log];
  const double share = static_cast<double>(samples - below) / static_cast<double>(below);
  return table[log] + share * (table[log + 1] - table[log]);
}

RealSeconds LinkPerSample(const GraphPipeProblem& problem, RealBytes border, int32_t devices) {
  return border / devices / problem.bandwidth;
}

RealSeconds TimePerSample(const GraphPipeProblem& problem, const StageLoad& load,
                          StageConfig config, int32_t devices) {
  const int32_t b = config.micro_batch;
  const RealSeconds reduce =
      2.0 * (devices - 1) / devices * load.gradient_bytes / problem.bandwidth;
  return std::max(TimeAt(load.times, (b + devices - 1) / devices) / b,
                  LinkPerSample(problem, load.in_bytes + load.out_bytes, devices)) +
         reduce / problem.mini_batch;
}

RealBytes StageMemory(const StageLoad& load, int64_t in_flight, int32_t micro_batch,
                      int32_t devices) {
  return load.fixed_bytes +
         (static_cast<double>(in_flight) * load.stash_bytes + micro_batch * load.repeated_bytes) /
             devices;
}

GraphPipeSolver::GraphPipeSolver(const GraphPipeProblem& problem, GraphPipeModel& model,
                                 std::vector<StageConfig> configs)
    : problem_(problem), model_(model), configs_(std::move(configs)) {
  total_work_ = model_.SequenceWork(model_.root(), 0);
}

int64_t GraphPipeSolver::Delta(int32_t config, int32_t next) const {
  const StageConfig c = configs_[static_cast<size_t>(config)];
  if (next == kEnd) return LastStageInFlight(c);
  return ComputeInFlight(c, configs_[static_cast<size_t>(next)], 0);
}

// Devices that a part may use when the rest of the graph gets what its work needs at least.
int32_t GraphPipeSolver::MostDevices(RealSeconds work) const {
  const double rest = (total_work_ - work) / bound_ * (1 - 1e-9);
  return problem_.devices - static_cast<int32_t>(std::min(std::ceil(rest - 1e-6), 1e9));
}

bool GraphPipeSolver::Dominated(const Front& front, const PartEntry& entry) {
  return std::any_of(front.begin(), front.end(), [&](const PartEntry& e) {
    return e.devices <= entry.devices && e.offset <= entry.offset && e.cap >= entry.cap;
  });
}

void GraphPipeSolver::Insert(Front& front, PartEntry entry, PartRecord record) {
  if (Dominated(front, entry)) return;
  std::erase_if(front, [&](const PartEntry& e) {
    return entry.devices <= e.devices && entry.offset <= e.offset && entry.cap >= e.cap;
  });
  entry.record = static_cast<int32_t>(records_.size());
  records_.push_back(std::move(record));
  front.push_back(entry);
}

Front GraphPipeSolver::Solve(RealSeconds bound) {
  bound_ = bound;
  sequence_memo_.clear();
  branch_memo_.clear();
  records_.clear();
  Front best;
  for (const Front& front : Sequence(model_.root(), kEnd, kFree)) {
    for (const PartEntry& e : front) {
      if (e.cap >= 0 && !Dominated(best, e)) best.push_back(e);
    }
  }
  return best;
}

void GraphPipeSolver::AddStages(const StageLoad& load, int32_t next, int32_t only, int32_t most,
                                PartRecord record, ByConfig& out) {
  for (int32_t c = 0; c < static_cast<int32_t>(configs_.size()); ++c) {
    if (only != kFree && only != c) continue;
    const int64_t delta = Delta(c, next);
    for (int32_t d = 1; d <= most; d *= 2) {
      if (configs_[static_cast<size_t>(c)].micro_batch % d != 0) break;
      if (TimePerSample(problem_, load, configs_[static_cast<size_t>(c)], d) > bound_) continue;
      const RealBytes room = problem_.memory - load.fixed_bytes;
      if (room < RealBytes()) return;
      const double samples =
          load.stash_bytes > RealBytes() ? d * room / load.stash_bytes : kInfinity;
      const int64_t most_in_flight =
          samples > 1e15 ? int64_t{1} << 50 : static_cast<int64_t>(samples);
      if (most_in_flight < delta) continue;
      record.config = c;
      record.devices = d;
      Insert(out[static_cast<size_t>(c)], {d, delta, most_in_flight - delta, -1}, record);
    }
  }
}

const GraphPipeSolver::ByConfig& GraphPipeSolver::Sequence(int32_t sequence, int32_t next,
                                                           int32_t tail) {
  const std::array<int32_t, 3> key = {sequence, next, tail};
  const auto found = sequence_memo_.find(key);
  if (found != sequence_memo_.end()) return found->second;
  ByConfig solved = SolveSequence(sequence, next, tail);
  return sequence_memo_.emplace(key, std::move(solved)).first->second;
}

void GraphPipeSolver::Join(const Front& piece, const Front& rest, Place place, Front& out) {
  for (const PartEntry& r : rest) {
    for (const PartEntry& p : piece) {
      const PartEntry entry{p.devices + r.devices, p.offset + r.offset,
                            std::min(r.cap, p.cap - r.offset), -1};
      if (entry.devices > place.most || (place.next == kEnd && entry.cap < 0)) continue;
      if (Dominated(out, entry)) continue;
      PartRecord record;
      record.kind = PartRecord::Kind::kSeries;
      record.first = p.record;
      record.second = r.record;
      Insert(out, entry, std::move(record));
    }
  }
}

const StageLoad& GraphPipeSolver::RangeLoad(int32_t sequence, size_t begin, size_t end) {
  const std::array<int32_t, 3> key = {sequence, static_cast<int32_t>(begin),
                                      static_cast<int32_t>(end)};
  auto range = range_memo_.find(key);
  if (range == range_memo_.end()) {
    range = range_memo_.emplace(key, model_.RangeLoad(sequence, begin, end)).first;
  }
  return range->second;
}

void GraphPipeSolver::AddFirstStages(Place place, const std::vector<ByConfig>& suffix) {
  ByConfig& out = *place.out;
  const size_t n = suffix.size() - 1;
  for (size_t end = place.begin + 1; end <= n; ++end) {
    const StageLoad& load = RangeLoad(place.sequence, place.begin, end);
    if (load.work > problem_.devices * bound_ || load.fixed_bytes > problem_.memory) break;
    PartRecord record;
    record.begin = static_cast<int32_t>(place.begin);
    record.end = static_cast<int32_t>(end);
    if (end == n) {
      AddStages(load, place.next, place.tail, place.most, record, out);
      continue;
    }
    for (size_t c = 0; c < configs_.size(); ++c) {
      if (suffix[end][c].empty()) continue;
      ByConfig stage(configs_.size());
      AddStages(load, static_cast<int32_t>(c), kFree, place.most, record, stage);
      for (size_t f = 0; f < configs_.size(); ++f) Join(stage[f], suffix[end][c], place, out[f]);
    }
  }
}

void GraphPipeSolver::AddBranches(Place place, int32_t item, int32_t next, const Front* rest) {
  std::vector<int32_t> counts;
  for (const auto& [kind, count] : model_.item(item).branches) counts.push_back(count);
  const ByConfig& branches = Branches(item, counts, next);
  for (size_t f = 0; f < configs_.size(); ++f) {
    Front& out = (*place.out)[f];
    Front piece;
    for (const PartEntry& e : branches[f]) {
      PartRecord record;
      record.kind = PartRecord::Kind::kParallelItem;
      record.begin = static_cast<int32_t>(place.begin);
      record.first = e.record;
      Insert(piece, e, std::move(record));
    }
    if (rest != nullptr) {
      Join(piece, *rest, place, out);
    } else {
      for (const PartEntry& e : piece) Insert(out, e, PartRecord(record(e.record)));
    }
  }
}

GraphPipeSolver::ByConfig GraphPipeSolver::SolveSequence(int32_t sequence, int32_t next,
                                                         int32_t tail) {
  const std::vector<int32_t> items = model_.sequence(sequence);
  const size_t n = items.size();
  std::vector<ByConfig> suffix(n + 1, ByConfig(configs_.size()));
  for (size_t begin = n; begin-- > 0;) {
    ByConfig& out = suffix[begin];
    const Place place{
        sequence, begin, next, tail, MostDevices(model_.SequenceWork(sequence, begin)), &out};
    AddFirstStages(place, suffix);
    if (model_.item(items[begin]).leaf) continue;
    if (begin + 1 == n) {
      if (tail == kFree) AddBranches(place, items[begin], next, nullptr);
      continue;
    }
    for (size_t c = 0; c < configs_.size(); ++c) {
      const Front& rest = suffix[begin + 1][c];
      if (!rest.empty()) AddBranches(place, items[begin], static_cast<int32_t>(c), &rest);
    }
    if (!model_.item(items[begin + 1]).leaf) continue;
    if (begin + 2 == n) {
      AddAbsorbed(sequence, begin, next, tail, true, out);
      continue;
    }
    for (size_t c = 0; c < configs_.size(); ++c) {
      if (suffix[begin + 2][c].empty()) continue;
      ByConfig piece(configs_.size());
      AddAbsorbed(sequence, begin, static_cast<int32_t>(c), kFree, false, piece);
      for (size_t f = 0; f < configs_.size(); ++f) {
        Join(piece[f], suffix[begin + 2][c], place, out[f]);
      }
    }
  }
  return std::move(suffix[0]);
}

// The operator after the branches joins the last stage of one branch; the other branches feed that
// stage.
void GraphPipeSolver::AddAbsorbed(int32_t sequence, size_t at, int32_t next, int32_t tail,
                                  bool last, ByConfig& out) {
  const std::vector<int32_t> items = model_.sequence(sequence);
  const std::vector<std::pair<int32_t, int32_t>> branches = model_.item(items[at]).branches;
  const int32_t item = items[at];
  const int32_t most =
      MostDevices(model_.item(item).load.work + model_.item(items[at + 1]).load.work);
  for (size_t kind = 0; kind < branches.size(); ++kind) {
    const int32_t extended = model_.Extended(branches[kind].first, items[at + 1]);
    std::vector<int32_t> others;
    for (const auto& [unused, count] : branches) others.push_back(count);
    --others[kind];
    for (int32_t t = 0; t < static_cast<int32_t>(configs_.size()); ++t) {
      if (last && tail != kFree && tail != t) continue;
      const int64_t delta = Delta(t, next);
      const ByConfig carrier = Sequence(extended, next, t);
      const ByConfig& rest = Branches(item, others, t);
      for (size_t f = 0; f < configs_.size(); ++f) {
        for (const PartEntry& a : carrier[f]) {
          for (const PartEntry& b : rest[f]) {
            const PartEntry entry{a.devices + b.devices, std::max(a.offset, b.offset + delta),
                                  std::min(a.cap, b.cap - delta), -1};
            if (entry.devices > most || (next == kEnd && entry.cap < 0)) continue;
            if (Dominated(out[f], entry)) continue;
            PartRecord record;
            record.kind = PartRecord::Kind::kAbsorb;
            record.begin = static_cast<int32_t>(at);
            record.counts = {static_cast<int32_t>(kind)};
            record.first = a.record;
            record.second = b.record;
            Insert(out[f], entry, std::move(record));
          }
        }
      }
    }
  }
}

std::vector<std::vector<int32_t>> GraphPipeSolver::Pieces(
    const std::vector<int32_t>& counts) const {
  size_t first = 0;
  while (counts[first] == 0) ++first;
  int64_t ways = 1;
  for (const int32_t c : counts) ways = std::min(ways * (c + 1), kMaxGroups + 1);
  std::vector<std::vector<int32_t>> pieces;
  if (ways > kMaxGroups) {
    std::vector<int32_t> piece(counts.size(), 0);
    for (int32_t i = 1; i <= counts[first]; ++i) {
      piece[first] = i;
      pieces.push_back(piece);
    }
    pieces.push_back(counts);
    return pieces;
  }
  // All vectors up to `counts` with at least one of the first kind.
  std::vector<int32_t> piece(counts.size(), 0);
  piece[first] = 1;
  while (true) {
    pieces.push_back(piece);
    size_t i = piece.size();
    while (i-- > first) {
      if (piece[i] < counts[i]) break;
      piece[i] = i == first ? 1 : 0;
    }
    if (i + 1 == first || i >= piece.size()) return pieces;
    ++piece[i];
  }
}

const GraphPipeSolver::ByConfig& GraphPipeSolver::Branches(int32_t item,
                                                           const std::vector<int32_t>& counts,
                                                           int32_t next) {
  const std::pair<std::array<int32_t, 2>, std::vector<int32_t>> key = {{item, next}, counts};
  const auto found = branch_memo_.find(key);
  if (found != branch_memo_.end()) return found->second;
  ByConfig solved = SolveBranches(item, counts, next);
  return branch_memo_.emplace(key, std::move(solved)).first->second;
}

// Splits off one piece at a time: a single branch with stages of its own, or a group of whole
// branches in one stage.
GraphPipeSolver::ByConfig GraphPipeSolver::SolveBranches(int32_t item,
                                                         const std::vector<int32_t>& counts,
                                                         int32_t next) {
  ByConfig out(configs_.size());
  if (std::all_of(counts.begin(), counts.end(), [](int32_t c) { return c == 0; })) {
    for (Front& front : out) front.push_back({0, 0, int64_t{1} << 50, -1});
    return out;
  }
  const int32_t most = MostDevices(model_.GroupLoad(model_.item(item), counts).work);
  for (const std::vector<int32_t>& piece : Pieces(counts)) {
    ByConfig part(configs_.size());
    int32_t size = 0, kind = 0;
    for (size_t i = 0; i < piece.size(); ++i) {
      size += piece[i];
      if (piece[i] > 0) kind = static_cast<int32_t>(i);
    }
    if (size == 1) {
      const ByConfig& branch =
          Sequence(model_.item(item).branches[static_cast<size_t>(kind)].first, next, kFree);
      for (size_t f = 0; f < configs_.size(); ++f) {
        for (const PartEntry& e : branch[f]) {
          PartRecord record;
          record.kind = PartRecord::Kind::kBranch;
          record.counts = {kind};
          record.first = e.record;
          Insert(part[f], e, std::move(record));
        }
      }
    } else {
      PartRecord record;
      record.kind = PartRecord::Kind::kGroupStage;
      record.counts = piece;
      AddStages(model_.GroupLoad(model_.item(item), piece), next, kFree, most, record, part);
    }
    std::vector<int32_t> left = counts;
    for (size_t i = 0; i < left.size(); ++i) left[i] -= piece[i];
    const ByConfig& rest = Branches(item, left, next);
    for (size_t f = 0; f < configs_.size(); ++f) {
      for (const PartEntry& a : part[f]) {
        for (const PartEntry& b : rest[f]) {
          const PartEntry entry{a.devices + b.devices, std::max(a.offset, b.offset),
                                std::min(a.cap, b.cap), -1};
          if (entry.devices > most || Dominated(out[f], entry)) continue;
          PartRecord record;
          record.kind = PartRecord::Kind::kSplit;
          record.first = a.record;
          record.second = b.record;
          Insert(out[f], entry, std::move(record));
        }
      }
    }
  }
  return out;
}

}  // namespace foretrace::internal
