#include "simulator/reconstruct/declared_edges.h"

#include "absl/container/flat_hash_set.h"

namespace foretrace {
namespace {

// Chains of views are short; hostile input may chain further than is useful to follow.
constexpr int kMaxDepth = 32;

void CollectProducers(const RankTrace& rank, const DeviceIndex& index, NodeIndex op, int depth,
                      absl::flat_hash_set<uint32_t>& seen, std::vector<NodeIndex>& out) {
  if (depth > kMaxDepth || !seen.insert(op.value).second) return;
  for (const Dependency& d : rank.dependencies(op)) {
    if (d.kind != DependencyKind::kData || IsDeviceKind(rank.kind(d.producer))) continue;
    const NodeIndex device = index.last_of(d.producer);
    if (device.valid()) {
      out.push_back(device);
    } else {
      CollectProducers(rank, index, d.producer, depth + 1, seen, out);
    }
  }
}

}  // namespace

std::vector<SyncEdge> DataDependencies(const RankTrace& rank, const DeviceIndex& index) {
  std::vector<SyncEdge> edges;
  std::vector<NodeIndex> producers;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex op(i);
    if (rank.kind(op) != NodeKind::kCpuOp && rank.kind(op) != NodeKind::kAnnotation) continue;
    const NodeIndex consumer = index.first_of(op);
    if (!consumer.valid() || rank.dependencies(op).empty()) continue;
    producers.clear();
    absl::flat_hash_set<uint32_t> seen;
    CollectProducers(rank, index, op, 0, seen, producers);
    for (const NodeIndex producer : producers) {
      if (rank.lane(producer) == rank.lane(consumer)) continue;
      edges.push_back({consumer, producer, SyncRule::kDataDependency});
    }
  }
  return edges;
}

std::vector<SyncEdge> DeclaredDependencies(const RankTrace& rank) {
  std::vector<SyncEdge> edges;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n))) continue;
    for (const Dependency& d : rank.dependencies(n)) {
      if (IsDeviceKind(rank.kind(d.producer)) && rank.lane(d.producer) != rank.lane(n)) {
        edges.push_back({n, d.producer, SyncRule::kDeclaredDependency});
      }
    }
  }
  return edges;
}

}  // namespace foretrace
