#include "simulator/reconstruct/sequence_numbers.h"

#include <map>
#include <utility>

namespace foretrace {
namespace {

using Number = std::pair<int64_t, int64_t>;  // and which of those that share it

// Positions by number; nullopt: one has none.
std::optional<std::map<Number, size_t>> PositionsByNumber(const TraceStore& store,
                                                          const CommSequence& s) {
  const RankTrace& rank = store.ranks()[s.rank];
  std::map<Number, size_t> positions;
  std::map<int64_t, int64_t> seen;
  for (size_t k = 0; k < s.nodes.size(); ++k) {
    const CommAttr* attr = rank.comm(s.nodes[k]);
    if (attr == nullptr || attr->sequence < 0) return std::nullopt;
    positions.emplace(Number(attr->sequence, seen[attr->sequence]++), k);
  }
  return positions;
}

}  // namespace

std::optional<NumberedOperations> MatchByNumber(const TraceStore& store,
                                                std::span<CommSequence* const> members) {
  std::vector<std::map<Number, size_t>> of_member;
  for (const CommSequence* s : members) {
    auto positions = PositionsByNumber(store, *s);
    if (!positions.has_value()) return std::nullopt;
    of_member.push_back(*std::move(positions));
  }
  NumberedOperations matched;
  for (const auto& [number, first] : of_member.front()) {
    std::vector<size_t> positions;
    for (const auto& other : of_member) {
      const auto at = other.find(number);
      if (at == other.end()) break;
      positions.push_back(at->second);
    }
    if (positions.size() == members.size()) matched.positions.push_back(std::move(positions));
  }
  for (const auto& positions : of_member) {
    matched.unmatched += static_cast<int64_t>(positions.size() - matched.positions.size());
  }
  return matched;
}

}  // namespace foretrace
