#include "simulator/trace/process_groups.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

bool SharesMember(const ProcessGroup& a, const ProcessGroup& b) {
  return a.ranks.empty() || std::ranges::any_of(a.ranks, [&](int32_t r) { return b.Has(r); });
}

}  // namespace

bool ProcessGroup::Has(int32_t rank) const {
  return ranks.empty() || std::ranges::find(ranks, rank) != ranks.end();
}

std::span<const ProcessGroup> ProcessGroups::named(std::string_view name) const {
  const auto first = std::lower_bound(
      groups_.begin(), groups_.end(), name,
      [](const ProcessGroup& group, std::string_view wanted) { return group.name < wanted; });
  const auto last = std::find_if(first, groups_.end(),
                                 [&](const ProcessGroup& group) { return group.name != name; });
  return {first, last};
}

const ProcessGroup* ProcessGroups::Find(std::string_view name,
                                        std::span<const int32_t> ranks) const {
  for (const ProcessGroup& group : named(name)) {
    if (std::ranges::equal(group.ranks, ranks)) return &group;
  }
  return nullptr;
}

void ProcessGroups::Add(ProcessGroup group) {
  const std::span<const ProcessGroup> same = named(group.name);
  const auto first = groups_.begin() + (same.data() - groups_.data());
  const auto last = first + static_cast<ptrdiff_t>(same.size());
  const auto there = std::find_if(
      first, last, [&](const ProcessGroup& other) { return other.ranks == group.ranks; });
  if (there == last) {
    groups_.insert(last, std::move(group));
  } else {
    there->description = std::move(group.description);
  }
}

void ProcessGroups::RemoveLike(const ProcessGroup& group) {
  std::erase_if(groups_, [&](const ProcessGroup& other) {
    return other.name == group.name && SharesMember(other, group);
  });
}

}  // namespace foretrace
