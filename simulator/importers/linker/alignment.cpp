#include "simulator/importers/linker/alignment.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace foretrace {
namespace {

constexpr size_t kRun = 12;  // consecutive names that make an anchor
// A run that occurs more often than this in the haystack says little about the shift.
constexpr size_t kMaxOccurrences = 64;

uint64_t RunHash(std::span<const uint32_t> names, size_t at, size_t length) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a over 32-bit words
  for (size_t i = at; i < at + length; ++i) hash = (hash ^ names[i]) * 1099511628211ull;
  return hash;
}

// The position of needle[0] in the haystack that most runs vote for; may be negative.
int64_t BestShift(std::span<const uint32_t> needle, std::span<const uint32_t> haystack) {
  const size_t run = std::min({kRun, needle.size(), haystack.size()});
  if (run == 0) return 0;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> positions;
  for (size_t i = 0; i + run <= haystack.size(); ++i) {
    std::vector<uint32_t>& list = positions[RunHash(haystack, i, run)];
    if (list.size() < kMaxOccurrences) list.push_back(static_cast<uint32_t>(i));
  }
  absl::flat_hash_map<int64_t, int32_t> votes;
  for (size_t i = 0; i + run <= needle.size(); ++i) {
    const auto it = positions.find(RunHash(needle, i, run));
    if (it == positions.end()) continue;
    for (const uint32_t p : it->second) ++votes[static_cast<int64_t>(p) - static_cast<int64_t>(i)];
  }
  int64_t best = 0;
  int32_t most = 0;
  for (const auto& [shift, count] : votes) {
    // Ties go to the first iteration, whatever the order of the map.
    if (count > most || (count == most && shift < best)) {
      best = shift;
      most = count;
    }
  }
  return best;
}

// Myers' O(ND) greedy difference ("An O(ND) Difference Algorithm and Its Variations", 1986,
// figure 2): positions of `a` in `b` along the path that gets furthest with max_edits edits. Unlike
// there, the end of `b` is free: the path may stop once all of `a` is used.
std::vector<int32_t> Difference(std::span<const uint32_t> a, std::span<const uint32_t> b,
                                int max_edits) {
  const auto n = static_cast<int>(a.size());
  const auto m = static_cast<int>(b.size());
  const int limit = std::min(max_edits, n + m);
  std::vector<int> furthest(2 * static_cast<size_t>(limit) + 3, 0);
  std::vector<std::vector<int>> trace;
  const auto at = [limit](int k) { return static_cast<size_t>(k + limit + 1); };
  int end_k = 0;
  int used = 0;
  bool done = false;
  int best_x = -1;
  for (int d = 0; d <= limit && !done; ++d) {
    trace.emplace_back(furthest.begin() + (limit - d), furthest.begin() + (limit + d + 3));
    for (int k = -d; k <= d; k += 2) {
      int x = 0;
      if (d > 0) {
        x = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)])
                ? furthest[at(k + 1)]
                : furthest[at(k - 1)] + 1;
      }
      int y = x - k;
      while (x < n && y < m && y >= 0 && a[static_cast<size_t>(x)] == b[static_cast<size_t>(y)]) {
        ++x;
        ++y;
      }
      furthest[at(k)] = x;
      if (x <= n && y <= m && x > best_x) {
        best_x = x;
        end_k = k;
        used = d;
      }
      if (x == n && y <= m) {
        end_k = k;
        used = d;
        done = true;
        break;
      }
    }
  }
  std::vector<int32_t> match(a.size(), -1);
  // Walk back; `trace[d]` holds the furthest points before round d, for diagonals -d-1 .. d+1.
  int x = best_x < 0 ? 0 : (done ? n : best_x);
  int k = end_k;
  for (int d = used; d >= 0; --d) {
    const std::vector<int>& before = trace[static_cast<size_t>(d)];
    const auto point = [&](int diagonal) { return before[static_cast<size_t>(diagonal + d + 1)]; };
    int start_x = 0;
    int previous_k = k;
    if (d > 0) {
      const bool down = k == -d || (k != d && point(k - 1) < point(k + 1));
      previous_k = down ? k + 1 : k - 1;
      start_x = down ? point(previous_k) : point(previous_k) + 1;
    }
    for (; x > start_x; --x) match[static_cast<size_t>(x - 1)] = x - 1 - k;
    x = d > 0 ? point(previous_k) : 0;
    k = previous_k;
  }
  return match;
}

}  // namespace

std::vector<int32_t> AlignNames(std::span<const uint32_t> needle,
                                std::span<const uint32_t> haystack, int max_edits) {
  std::vector<int32_t> match(needle.size(), -1);
  if (needle.empty() || haystack.empty()) return match;
  const int64_t shift = BestShift(needle, haystack);
  const size_t skip_needle = shift < 0 ? static_cast<size_t>(-shift) : 0;
  const size_t skip_haystack = shift > 0 ? static_cast<size_t>(shift) : 0;
  if (skip_needle >= needle.size() || skip_haystack >= haystack.size()) return match;
  const std::vector<int32_t> aligned =
      Difference(needle.subspan(skip_needle), haystack.subspan(skip_haystack), max_edits);
  for (size_t i = 0; i < aligned.size(); ++i) {
    if (aligned[i] >= 0) {
      match[skip_needle + i] = aligned[i] + static_cast<int32_t>(skip_haystack);
    }
  }
  return match;
}

}  // namespace foretrace
