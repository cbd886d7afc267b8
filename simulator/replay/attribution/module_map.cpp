#include "simulator/replay/attribution/module_map.h"

#include <map>
#include <utility>

#include "simulator/base/error.h"

namespace foretrace {

absl::StatusOr<std::shared_ptr<const ModuleMap>> ModuleMap::Make(
    const TraceStore& store, std::span<const ProfileExtras> extras) {
  constexpr uint32_t kTop = SpanIndex::kNone;
  const auto map = std::make_shared<ModuleMap>();
  std::map<std::pair<uint32_t, std::string>, uint32_t> known;  // path around, and module
  for (const RankTrace& rank : store.ranks()) {
    const ProfileExtras* of = ExtrasOf(rank, extras);
    if (of == nullptr || of->modules == 0) continue;
    auto entries =
        std::make_unique<OfRank>(OfRank{FrameIndex(rank, FramesOf(rank, *of, true), of), {}});
    for (const SpanIndex::Entry& entry : entries->frames.spans().entries()) {
      const uint32_t around = entry.parent == SpanIndex::kNone ? kTop : entries->path[entry.parent];
      const std::string& name = of->names[entry.span.name];
      const auto next = static_cast<uint32_t>(map->paths_.size());
      const auto [it, added] = known.try_emplace({around, name}, next);
      if (added) map->paths_.push_back(around == kTop ? name : map->paths_[around] + "." + name);
      entries->path.push_back(it->second);
    }
    map->ranks_.emplace(rank.info().rank, std::move(entries));
  }
  if (!map->ranks_.empty()) return map;
  return Infeasible(
      "{}: no modules are recorded, so module= selects nothing; record with "
      "profile(with_stack=True, with_modules=True), or select by op= or name=",
      store.ranks().front().info().source);
}

std::string_view ModuleMap::PathOf(const RankTrace& rank, NodeIndex node) const {
  const auto found = ranks_.find(rank.info().rank);
  if (found == ranks_.end()) return "";
  const uint32_t entry = found->second->frames.EntryOf(node);
  return entry == SpanIndex::kNone ? std::string_view() : paths_[found->second->path[entry]];
}

}  // namespace foretrace
