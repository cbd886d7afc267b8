#include "simulator/reconstruct/comm_grouping.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

struct Overlap {
  int64_t begin;  // in a
  int64_t end;
};

Overlap CommonPart(const CommSequence& a, const CommSequence& b, int64_t shift) {
  const auto na = static_cast<int64_t>(a.nodes.size());
  const auto nb = static_cast<int64_t>(b.nodes.size());
  return {std::max<int64_t>(0, -shift), std::min(na, nb - shift)};
}

// When a rank's recording holds device work: the first and the last start.
struct Recorded {
  SimTime first = SimTime::Max();
  SimTime last = SimTime::Min();
};

Recorded DeviceWork(const RankTrace& rank) {
  Recorded recorded;
  // Rows of a recorded trace are in order of start.
  uint32_t first = 0, end = rank.size();
  while (first < end && !IsDeviceKind(rank.kind(NodeIndex(first)))) ++first;
  while (end > first && !IsDeviceKind(rank.kind(NodeIndex(end - 1)))) --end;
  if (first < end) recorded = {rank.start(NodeIndex(first)), rank.start(NodeIndex(end - 1))};
  return recorded;
}

// Operations of `s` before `begin` and from `end` on have no partner in the recording of the rank
// `other`, whose clock is `ahead` of that of `s`. That recording must have begun after them, or
// have ended before: what it ran meanwhile it would hold.
bool CutOff(const TraceStore& store, const CommSequence& s, int64_t begin, int64_t end,
            uint32_t other, SimTime ahead) {
  const RankTrace& rank = store.ranks()[s.rank];
  const Recorded recorded = DeviceWork(store.ranks()[other]);
  const auto size = static_cast<int64_t>(s.nodes.size());
  if (begin > 0 && rank.start(s.nodes[begin - 1]) + ahead >= recorded.first) return false;
  return end >= size || rank.end(s.nodes[end]) + ahead > recorded.last;
}

// Operations that a step issued, by its number.
struct OfStep {
  int64_t first = 0;  // position in the sequence
  int64_t count = 0;
};

std::map<int64_t, OfStep> BySteps(const TraceStore& store, const CommSequence& s) {
  const RankTrace& rank = store.ranks()[s.rank];
  std::map<int64_t, OfStep> steps;
  if (rank.iterations().empty()) return steps;
  for (size_t k = 0; k < s.nodes.size(); ++k) {
    const NodeIndex call = rank.launcher(s.nodes[k]);
    const int64_t step = call.valid() ? rank.iteration_at(rank.start(call)) : -1;
    if (step < 0) continue;
    ++steps.emplace(step, OfStep{static_cast<int64_t>(k), 0}).first->second.count;
  }
  return steps;
}

// The shift at which operations of one step meet those of the step of the same number; nullopt: no
// step of which both recorded as many, or steps that say different things.
std::optional<int64_t> ShiftBySteps(const TraceStore& store, const CommSequence& a,
                                    const CommSequence& b) {
  const auto steps_a = BySteps(store, a), steps_b = BySteps(store, b);
  std::optional<int64_t> shift;
  for (const auto& [step, of_a] : steps_a) {
    const auto of_b = steps_b.find(step);
    if (of_b == steps_b.end() || of_a.count != of_b->second.count) continue;
    const int64_t says = of_b->second.first - of_a.first;
    if (shift.value_or(says) != says) return std::nullopt;
    shift = says;
  }
  return shift;
}

// Ends of every `step`-th operation.
EndSpread FitEveryNth(const TraceStore& store, const CommSequence& a, const CommSequence& b,
                      int64_t shift, int64_t step) {
  const Overlap common = CommonPart(a, b, shift);
  std::vector<int64_t> differences;
  for (int64_t k = common.begin; k < common.end; k += step) {
    differences.push_back(
        (store.ranks()[a.rank].end(a.nodes[k]) - store.ranks()[b.rank].end(b.nodes[k + shift]))
            .ps());
  }
  if (differences.empty()) return {SimTime::Max(), SimTime()};
  return SpreadOfEnds(std::move(differences));
}

// Better is less: sizes differ, the shift is not that of the steps, how far ends lie apart, and how
// far clocks do: operations at regular intervals fit at every shift, then the least clock offset is
// the likely one.
using Fit = std::tuple<bool, bool, SimTime, SimTime>;

Fit FitOf(const EndSpread& ends, bool sizes_agree, bool other_step) {
  return {!sizes_agree, other_step, std::max(ends.distance, kEndResolution),
          std::max(ends.offset, -ends.offset)};
}

// Of many shifts of long sequences those that fit best by some hundreds of their operations: trying
// each by all of them would take time by the square of their number.
std::vector<int64_t> LikelyShifts(const TraceStore& store, const CommSequence& a,
                                  const CommSequence& b, std::vector<int64_t> shifts,
                                  std::optional<int64_t> by_steps) {
  constexpr int64_t kSamples = 256;
  constexpr size_t kTried = 32;
  const auto longest = static_cast<int64_t>(std::max(a.nodes.size(), b.nodes.size()));
  if (shifts.size() <= kTried || longest <= 2 * kSamples) return shifts;
  std::vector<std::pair<Fit, int64_t>> fits;
  for (const int64_t shift : shifts) {
    const Overlap common = CommonPart(a, b, shift);
    // Odd, so that what recurs at even intervals is not always the same operation.
    const int64_t step = (common.end - common.begin) / kSamples | 1;
    bool same = true, sizes_agree = true;
    for (int64_t k = common.begin; k < common.end && same; k += step) {
      const auto i = static_cast<size_t>(k), j = static_cast<size_t>(k + shift);
      same = Agree(a, i, b, j);
      sizes_agree = sizes_agree && AgreeInSize(a, i, b, j);
    }
    if (!same || common.end <= common.begin) continue;
    fits.emplace_back(FitOf(FitEveryNth(store, a, b, shift, step), sizes_agree,
                            by_steps.has_value() && shift != *by_steps),
                      shift);
  }
  const size_t tried = std::min(kTried, fits.size());
  std::partial_sort(fits.begin(), fits.begin() + static_cast<ptrdiff_t>(tried), fits.end());
  shifts.clear();
  for (size_t i = 0; i < tried; ++i) shifts.push_back(fits[i].second);
  return shifts;
}

}  // namespace

EndSpread FitEnds(const TraceStore& store, const CommSequence& a, const CommSequence& b,
                  int64_t shift) {
  return FitEveryNth(store, a, b, shift, 1);
}

bool SizesAgree(const CommSequence& a, const CommSequence& b, int64_t shift) {
  const Overlap common = CommonPart(a, b, shift);
  for (int64_t k = common.begin; k < common.end; ++k) {
    if (!AgreeInSize(a, static_cast<size_t>(k), b, static_cast<size_t>(k + shift))) return false;
  }
  return true;
}

std::optional<int64_t> AlignSequences(const TraceStore& store, const CommSequence& a,
                                      const CommSequence& b) {
  const bool alike = a.ops == b.ops;
  if (!store.ranks()[a.rank].info().has_times)
    return alike ? std::optional<int64_t>(0) : std::nullopt;
  const std::optional<int64_t> by_steps = ShiftBySteps(store, a, b);
  if (alike && by_steps.value_or(0) == 0 && SizesAgree(a, b, 0)) return 0;
  const auto na = static_cast<int64_t>(a.nodes.size());
  const auto nb = static_cast<int64_t>(b.nodes.size());
  const int64_t reach = std::abs(na - nb) + 4;
  std::vector<int64_t> shifts;
  for (int64_t shift = -reach; shift <= reach; ++shift) shifts.push_back(shift);
  if (by_steps.has_value() && std::abs(*by_steps) > reach) shifts.push_back(*by_steps);
  std::optional<int64_t> best;
  Fit best_fit{true, true, SimTime::Max(), SimTime::Max()};
  for (const int64_t shift : LikelyShifts(store, a, b, std::move(shifts), by_steps)) {
    const Overlap common = CommonPart(a, b, shift);
    const bool other_step = by_steps.has_value() && shift != *by_steps;
    // At most the edges may be cut off, unless steps say more.
    if (common.end <= common.begin) continue;
    if (shift != by_steps && 2 * (common.end - common.begin) < std::max(na, nb)) continue;
    bool same = true;
    for (int64_t k = common.begin; k < common.end && same; ++k) {
      same = Agree(a, static_cast<size_t>(k), b, static_cast<size_t>(k + shift));
    }
    if (!same) continue;
    const EndSpread ends = FitEnds(store, a, b, shift);
    const bool whole = alike && shift == 0;
    if (!whole && shift != by_steps &&
        (!CutOff(store, a, common.begin, common.end, b.rank, -ends.offset) ||
         !CutOff(store, b, common.begin + shift, common.end + shift, a.rank, ends.offset))) {
      continue;
    }
    const Fit fit = FitOf(ends, SizesAgree(a, b, shift), other_step);
    if (fit < best_fit) {
      best = shift;
      best_fit = fit;
    }
  }
  return best;
}

bool MayEndTogether(const TraceStore& store, const CommSequence& a, const CommSequence& b,
                    int64_t shift) {
  const Overlap common = CommonPart(a, b, shift);
  return common.end - common.begin < static_cast<int64_t>(kEnoughForSpread) ||
         FitEnds(store, a, b, shift).distance <= kFarthestEnds;
}

}  // namespace foretrace
