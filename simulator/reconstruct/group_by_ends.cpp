// Groups of streams that no file names: GroupByEnds of comm_grouping.h.

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "simulator/reconstruct/comm_grouping.h"
#include "simulator/reconstruct/end_spread.h"
#include "simulator/reconstruct/rank_mesh.h"

namespace foretrace {
namespace {

using Groups = std::vector<std::vector<CommSequence*>>;

class Grouping {
 public:
  Grouping(const TraceStore& store, const std::vector<CommSequence*>& open)
      : store_(store), open_(open), nearest_(open.size(), SimTime::Max()) {
    for (size_t a = 0; a < open.size(); ++a) {
      for (size_t b = a + 1; b < open.size(); ++b) Compare(a, b);
    }
  }

  Groups Run() {
    std::map<std::string_view, std::vector<size_t>> streams;
    for (size_t i = 0; i < open_.size(); ++i) {
      streams[store_.ranks()[open_[i]->rank].lane_at(open_[i]->lane).label].push_back(i);
    }
    std::vector<size_t> rest;
    for (auto& [label, sequences] : streams) {
      if (GroupAlongAxis(sequences, true)) continue;
      // Groups of unequal size are wrong: then an axis although not all of its ends lie close.
      const auto closest = GroupByDistance(sequences);
      const auto size = closest.front().size();
      const bool equal =
          std::ranges::all_of(closest, [&](const auto& group) { return group.size() == size; });
      if (!equal && GroupAlongAxis(sequences, false)) continue;
      rest.insert(rest.end(), sequences.begin(), sequences.end());
    }
    const auto closest = GroupByDistance(rest);
    groups_.insert(groups_.end(), closest.begin(), closest.end());
    std::ranges::sort(groups_, {}, [](const auto& group) { return group.front(); });
    Groups groups;
    for (const std::vector<size_t>& indices : groups_) {
      auto& group = groups.emplace_back();
      for (const size_t i : indices) group.push_back(open_[i]);
      std::ranges::sort(group, {}, &CommSequence::rank);
    }
    return groups;
  }

 private:
  // How the operations of two sequences lie if they meet.
  struct Fit {
    int64_t shift = 0;
    EndSpread ends;
  };

  void Compare(size_t a, size_t b) {
    if (open_[a]->rank == open_[b]->rank) return;
    const auto shift = AlignSequences(store_, *open_[a], *open_[b]);
    if (!shift.has_value()) return;
    const EndSpread ends = FitEnds(store_, *open_[a], *open_[b], *shift);
    if (ends.distance > kFarthestEnds) return;
    fits_[{a, b}] = {*shift, ends};
    nearest_[a] = std::min(nearest_[a], ends.distance);
    nearest_[b] = std::min(nearest_[b], ends.distance);
  }

  // Members are about as close as each one's nearest; replicas are several times further.
  bool AreClose(size_t a, size_t b) const {
    const auto fit = fits_.find({std::min(a, b), std::max(a, b)});
    if (fit == fits_.end()) return false;
    const SimTime near = std::max(nearest_[a], nearest_[b]);
    return fit->second.ends.distance <= std::max(kEndResolution, near + near + near);
  }

  // The mesh is that of the sequences, one a rank; or, if all ranks at hand have one but some have
  // no trace, of all ranks of the job.
  bool GroupAlongAxis(std::vector<size_t>& sequences, bool closely) {
    std::ranges::sort(sequences, {}, [&](size_t i) { return open_[i]->rank; });
    std::vector<size_t> place;  // in the mesh, by sequence
    const bool whole = sequences.size() == store_.ranks().size();
    for (size_t k = 0; k < sequences.size(); ++k) {
      const uint32_t rank = open_[sequences[k]]->rank;
      if (k > 0 && rank == open_[sequences[k - 1]]->rank) return false;
      place.push_back(whole ? static_cast<size_t>(store_.ranks()[rank].info().rank) : k);
    }
    const size_t n = whole ? static_cast<size_t>(store_.world_size()) : sequences.size();
    struct Candidate {
      std::vector<std::vector<size_t>> lines;
      double unexplained;
    };
    std::vector<Candidate> candidates;  // the shortest lines first
    for (const MeshAxis& axis : MeshAxes(n)) {
      std::map<size_t, std::vector<size_t>> lines;
      for (size_t k = 0; k < sequences.size(); ++k) {
        lines[axis.LineOf(place[k])].push_back(sequences[k]);
      }
      Candidate candidate{{}, 0};
      for (auto& [line, members] : lines) candidate.lines.push_back(std::move(members));
      if (!std::ranges::all_of(candidate.lines,
                               [&](const auto& l) { return MayBeOne(l, closely); }))
        continue;
      for (const auto& line : candidate.lines) candidate.unexplained += Unexplained(line);
      candidate.unexplained /= static_cast<double>(sequences.size());
      candidates.push_back(std::move(candidate));
    }
    if (candidates.empty()) return false;
    const double least = std::ranges::min(candidates, {}, &Candidate::unexplained).unexplained;
    const auto chosen = std::ranges::find_if(candidates, [&](const Candidate& c) {
      return c.unexplained <= least + static_cast<double>(kEndResolution.ps());
    });
    groups_.insert(groups_.end(), chosen->lines.begin(), chosen->lines.end());
    return true;
  }

  bool MayBeOne(const std::vector<size_t>& line, bool closely) const {
    for (size_t i = 0; i < line.size(); ++i) {
      for (size_t j = i + 1; j < line.size(); ++j) {
        const auto pair = std::minmax(line[i], line[j]);
        if (closely ? !AreClose(line[i], line[j]) : !fits_.contains(pair)) return false;
      }
    }
    return true;
  }

  // What an operation takes after the last of the line has arrived, in picoseconds and in the mean,
  // times the members: where others are waited for, they are not on the line.
  double Unexplained(const std::vector<size_t>& line) const {
    const CommSequence& first = *open_[line.front()];
    double sum = 0;
    int64_t operations = 0;
    for (size_t k = 0; k < first.nodes.size(); ++k) {
      SimTime arrival = SimTime::Min(), end = SimTime::Min();
      bool whole = true;
      for (const size_t m : line) {
        const CommSequence& s = *open_[m];
        int64_t at = static_cast<int64_t>(k);
        SimTime offset;
        if (m != line.front()) {
          const bool swap = m < line.front();
          const Fit& fit = fits_.at({std::min(m, line.front()), std::max(m, line.front())});
          at += swap ? -fit.shift : fit.shift;
          offset = swap ? -fit.ends.offset : fit.ends.offset;
        }
        whole = whole && at >= 0 && at < static_cast<int64_t>(s.nodes.size());
        if (!whole) break;
        const NodeIndex node = s.nodes[static_cast<size_t>(at)];
        arrival = std::max(arrival, store_.ranks()[s.rank].start(node) + offset);
        end = std::max(end, store_.ranks()[s.rank].end(node) + offset);
      }
      if (!whole) continue;
      sum += static_cast<double>((end - arrival).ps());
      ++operations;
    }
    return operations == 0
               ? 0
               : sum / static_cast<double>(operations) * static_cast<double>(line.size());
  }

  // The closest first, whatever ranks they are of.
  std::vector<std::vector<size_t>> GroupByDistance(std::vector<size_t> sequences) const {
    std::ranges::sort(sequences);
    std::vector<std::tuple<SimTime, size_t, size_t>> pairs;
    for (const auto& [pair, fit] : fits_) {
      const auto [a, b] = pair;
      if (!std::ranges::binary_search(sequences, a) || !std::ranges::binary_search(sequences, b)) {
        continue;
      }
      if (AreClose(a, b)) pairs.emplace_back(fit.ends.distance, a, b);
    }
    std::ranges::sort(pairs);
    std::map<size_t, size_t> cluster;
    for (const size_t i : sequences) cluster[i] = i;
    const auto share_rank = [&](size_t x, size_t y) {
      for (const auto& [i, of_i] : cluster) {
        for (const auto& [j, of_j] : cluster) {
          if (of_i == x && of_j == y && open_[i]->rank == open_[j]->rank) return true;
        }
      }
      return false;
    };
    for (const auto& [distance, a, b] : pairs) {
      const size_t keep = std::min(cluster[a], cluster[b]),
                   merge = std::max(cluster[a], cluster[b]);
      if (keep == merge || share_rank(keep, merge)) continue;
      for (auto& [i, of_i] : cluster) of_i = of_i == merge ? keep : of_i;
    }
    std::map<size_t, std::vector<size_t>> groups;
    for (const auto& [i, of_i] : cluster) groups[of_i].push_back(i);
    std::vector<std::vector<size_t>> found;
    for (auto& [first, group] : groups) found.push_back(std::move(group));
    return found;
  }

  const TraceStore& store_;
  const std::vector<CommSequence*>& open_;
  std::vector<SimTime> nearest_;
  std::map<std::pair<size_t, size_t>, Fit> fits_;  // the lower index first
  std::vector<std::vector<size_t>> groups_;
};

}  // namespace

std::vector<std::vector<CommSequence*>> GroupByEnds(const TraceStore& store,
                                                    const std::vector<CommSequence*>& open) {
  return Grouping(store, open).Run();
}

}  // namespace foretrace
