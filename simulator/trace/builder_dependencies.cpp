// Dependencies, parents and launchers of RankTraceBuilder: resolved, checked, put into columns.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/trace/builder.h"

namespace foretrace {

// From source id to row. Ids are mostly consecutive, with gaps: then a table indexed by id takes a
// tenth of the memory of a hash map, and of the time.
class RankTraceBuilder::SourceIdIndex {
 public:
  // Returns the row of a second node with an id that was there before, else NodeIndex::kNone.
  uint32_t Fill(const std::vector<uint64_t>& ids) {
    const auto [least, greatest] = std::minmax_element(ids.begin(), ids.end());
    first_ = *least;
    const bool dense = *greatest - *least < 4 * ids.size();
    if (dense) {
      table_.assign(*greatest - *least + 1, NodeIndex::kNone);
    } else {
      map_.reserve(ids.size());
    }
    for (uint32_t n = 0; n < ids.size(); ++n) {
      if (dense) {
        uint32_t& row = table_[ids[n] - first_];
        if (row != NodeIndex::kNone) return n;
        row = n;
      } else if (!map_.emplace(ids[n], n).second) {
        return n;
      }
    }
    return NodeIndex::kNone;
  }
  // NodeIndex::kNone when there is no such id.
  uint32_t Find(uint64_t id) const {
    if (!table_.empty()) {
      // Ids below first_ wrap around to large ones.
      return id - first_ < table_.size() ? table_[id - first_] : NodeIndex::kNone;
    }
    const auto it = map_.find(id);
    return it == map_.end() ? NodeIndex::kNone : it->second;
  }

 private:
  uint64_t first_ = 0;
  std::vector<uint32_t> table_;
  absl::flat_hash_map<uint64_t, uint32_t> map_;
};

bool RankTraceBuilder::ResolveDependency(const SourceIdIndex& index,
                                         PendingDependency& dependency) {
  const Reference reference = dependency.reference;
  if (reference != Reference::kIndex) {
    const uint32_t row = index.Find(dependency.producer);
    if (row == NodeIndex::kNone) {
      diagnostics_.Add(Repair::kDanglingDependency, [&] {
        return fmt::format("{} depends on node {}, which is not in the file",
                           Where(dependency.consumer), dependency.producer);
      });
      return false;
    }
    dependency.producer = row;
    dependency.reference = Reference::kIndex;
  }
  if (dependency.producer == dependency.consumer) {
    diagnostics_.Add(Repair::kSelfDependency, [&] {
      return fmt::format("{} depends on itself", Where(dependency.consumer));
    });
    return false;
  }
  if (reference != Reference::kIssuerSourceId) return true;
  const NodeKind issuer = trace_.kind_[dependency.producer];
  if (!IsDeviceKind(trace_.kind_[dependency.consumer])) {
    const bool earlier = source_id_[dependency.producer] < source_id_[dependency.consumer];
    if (!IsDeviceKind(issuer) && earlier) {
      trace_.parent_[dependency.consumer] = static_cast<uint32_t>(dependency.producer);
    } else {
      diagnostics_.Add(Repair::kImplausibleParent, [&] {
        return fmt::format("{} is said to be issued by {}", Where(dependency.consumer),
                           Where(static_cast<uint32_t>(dependency.producer)));
      });
    }
    return false;
  }
  if (IsDeviceKind(issuer)) return true;
  (issuer == NodeKind::kRuntimeCall ? trace_.launcher_ : trace_.parent_)[dependency.consumer] =
      static_cast<uint32_t>(dependency.producer);
  return false;
}

absl::Status RankTraceBuilder::ResolveDependencies(bool unique_source_ids) {
  const bool by_source_id =
      std::any_of(pending_dependencies_.begin(), pending_dependencies_.end(),
                  [](const PendingDependency& d) { return d.reference != Reference::kIndex; });
  SourceIdIndex index;
  if (by_source_id || unique_source_ids) {
    const uint32_t duplicate = index.Fill(source_id_);
    if (duplicate != NodeIndex::kNone) {
      return InvalidInput("{}: another node has the same id; ids must be unique in a file",
                          Where(duplicate));
    }
  }
  size_t kept = 0;
  for (PendingDependency dependency : pending_dependencies_) {
    if (ResolveDependency(index, dependency)) pending_dependencies_[kept++] = dependency;
  }
  pending_dependencies_.resize(kept);
  return absl::OkStatus();
}

void RankTraceBuilder::BuildDependencyColumns() {
  const uint32_t nodes = trace_.size();
  std::vector<PendingDependency>& pending = pending_dependencies_;
  const auto before = [](const PendingDependency& a, const PendingDependency& b) {
    return std::tie(a.consumer, a.producer, a.kind) < std::tie(b.consumer, b.producer, b.kind);
  };
  // Importers add a node's dependencies together, so that mostly only short runs need sorting.
  const bool grouped = std::is_sorted(pending.begin(), pending.end(),
                                      [](const PendingDependency& a, const PendingDependency& b) {
                                        return a.consumer < b.consumer;
                                      });
  if (grouped) {
    for (auto run = pending.begin(); run != pending.end();) {
      const auto end = std::find_if(run, pending.end(), [run](const PendingDependency& d) {
        return d.consumer != run->consumer;
      });
      std::sort(run, end, before);
      run = end;
    }
  } else {
    std::sort(pending.begin(), pending.end(), before);
  }
  pending.erase(std::unique(pending.begin(), pending.end(),
                            [](const PendingDependency& a, const PendingDependency& b) {
                              return a.consumer == b.consumer && a.producer == b.producer;
                            }),
                pending.end());
  trace_.dependencies_.Reserve(nodes, pending.size());
  for (const PendingDependency& d : pending) {
    trace_.dependencies_.Add(d.consumer, {NodeIndex(static_cast<uint32_t>(d.producer)), d.kind});
  }
  trace_.dependencies_.Close(nodes);
  std::vector<PendingDependency>().swap(pending);
}

// Kahn's algorithm, iterative: deep graphs must not overflow the stack.
absl::Status RankTraceBuilder::CheckAcyclic() const {
  const uint32_t nodes = trace_.size();
  bool forward_only = true;
  for (uint32_t n = 0; n < nodes && forward_only; ++n) {
    for (const Dependency& d : trace_.dependencies(NodeIndex(n))) {
      if (d.producer.value >= n) forward_only = false;
    }
  }
  if (forward_only) return absl::OkStatus();
  std::vector<uint32_t> waiting(nodes, 0);
  std::vector<uint32_t> consumer_begin(nodes + 1, 0);
  for (uint32_t n = 0; n < nodes; ++n) {
    for (const Dependency& d : trace_.dependencies(NodeIndex(n))) {
      ++waiting[n];
      ++consumer_begin[d.producer.value + 1];
    }
  }
  std::partial_sum(consumer_begin.begin(), consumer_begin.end(), consumer_begin.begin());
  std::vector<uint32_t> consumers(consumer_begin.back());
  std::vector<uint32_t> fill(consumer_begin.begin(), consumer_begin.end() - 1);
  for (uint32_t n = 0; n < nodes; ++n) {
    for (const Dependency& d : trace_.dependencies(NodeIndex(n))) {
      consumers[fill[d.producer.value]++] = n;
    }
  }
  std::vector<uint32_t> ready;
  for (uint32_t n = 0; n < nodes; ++n) {
    if (waiting[n] == 0) ready.push_back(n);
  }
  uint32_t done = 0;
  while (!ready.empty()) {
    const uint32_t n = ready.back();
    ready.pop_back();
    ++done;
    for (uint32_t i = consumer_begin[n]; i < consumer_begin[n + 1]; ++i) {
      if (--waiting[consumers[i]] == 0) ready.push_back(consumers[i]);
    }
  }
  if (done == nodes) return absl::OkStatus();
  return absl::InvalidArgumentError(CycleAmong(waiting));
}

// Follows unfinished producers until a node repeats: that is a cycle, and names its members.
std::string RankTraceBuilder::CycleAmong(const std::vector<uint32_t>& waiting) const {
  uint32_t at = 0;
  while (waiting[at] == 0) ++at;
  std::vector<uint32_t> path;
  std::vector<bool> seen(waiting.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (const Dependency& d : trace_.dependencies(NodeIndex(at))) {
      if (waiting[d.producer.value] > 0) {
        at = d.producer.value;
        break;
      }
    }
  }
  std::string message = fmt::format("{}: cyclic dependencies:", trace_.info_.source);
  int listed = 0;
  for (auto it = std::find(path.begin(), path.end(), at); it != path.end() && listed < 5;
       ++it, ++listed) {
    message += fmt::format("{} node {} ({})", listed ? " needs" : "", source_id_[*it],
                           strings_->Get(trace_.name_[*it]).substr(0, 40));
  }
  message += fmt::format(" needs node {}", source_id_[at]);
  return message;
}

absl::Status RankTraceBuilder::CheckParents() const {
  bool earlier_only = true;
  for (uint32_t n = 0; n < trace_.size(); ++n) {
    const uint32_t parent = trace_.parent_[n];
    const uint32_t launcher = trace_.launcher_[n];
    if ((parent != NodeIndex::kNone && IsDeviceKind(trace_.kind_[parent])) ||
        (launcher != NodeIndex::kNone && IsDeviceKind(trace_.kind_[launcher]))) {
      return InvalidInput("{}: device work is given as what issued it", Where(n));
    }
    if (parent != NodeIndex::kNone && parent >= n) earlier_only = false;
  }
  if (earlier_only) return absl::OkStatus();
  // Each node is followed upwards until one that is known to end.
  std::vector<uint32_t> visit(trace_.size(), NodeIndex::kNone);  // by which start
  for (uint32_t start = 0; start < trace_.size(); ++start) {
    uint32_t at = start;
    while (at != NodeIndex::kNone && visit[at] == NodeIndex::kNone) {
      visit[at] = start;
      at = trace_.parent_[at];
    }
    if (at != NodeIndex::kNone && visit[at] == start) {
      return InvalidInput("{}: is nested in itself", Where(at));
    }
  }
  return absl::OkStatus();
}

}  // namespace foretrace
