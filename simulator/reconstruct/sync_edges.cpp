#include "simulator/reconstruct/sync_edges.h"

#include <array>
#include <tuple>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(SyncRule rule) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "event_id",        "data_dependency", "declared_dependency",  "collective_input",
      "collective_wait", "stream_hand_off", "blocking_last_stream", "earlier_event",
      "graph_branch"};
  return EnumName(kNames, rule);
}

void SortEdges(std::vector<SyncEdge>& edges) {
  std::stable_sort(edges.begin(), edges.end(), [](const SyncEdge& a, const SyncEdge& b) {
    return std::tie(a.consumer, a.producer, a.rule) < std::tie(b.consumer, b.producer, b.rule);
  });
  edges.erase(std::unique(edges.begin(), edges.end(),
                          [](const SyncEdge& a, const SyncEdge& b) {
                            return a.consumer == b.consumer && a.producer == b.producer;
                          }),
              edges.end());
}

}  // namespace foretrace
