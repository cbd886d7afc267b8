#include "simulator/trace/builder.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr size_t kMaxLanes = 65534;

template <typename T>
void PermuteColumn(std::vector<T>& column, const std::vector<uint32_t>& order) {
  std::vector<T> sorted(column.size());
  for (size_t i = 0; i < order.size(); ++i) sorted[i] = column[order[i]];
  column.swap(sorted);
}

void Renumber(std::vector<uint32_t>& references, const std::vector<uint32_t>& new_index) {
  for (uint32_t& r : references) {
    if (r != NodeIndex::kNone) r = new_index[r];
  }
}

// Tensors share a few shapes: keeps the dimensions of each once.
template <typename PendingTensors>
void ShareShapes(PendingTensors& tensors, std::vector<int64_t>& dims) {
  std::vector<int64_t> kept;
  // From a hash of dimensions to where they are in `kept`; a second shape of one hash is not
  // shared.
  absl::flat_hash_map<uint64_t, uint32_t> shapes;
  for (auto& pending : tensors) {
    Tensor& tensor = pending.tensor;
    const auto begin = dims.begin() + tensor.dims_begin;
    const auto end = begin + tensor.dims_count;
    uint64_t hash = tensor.dims_count;
    for (auto d = begin; d != end; ++d) {
      hash = (hash ^ static_cast<uint64_t>(*d)) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 32;
    }
    const auto [it, inserted] = shapes.try_emplace(hash, static_cast<uint32_t>(kept.size()));
    tensor.dims_begin = it->second;
    if (!inserted && kept.size() - it->second >= tensor.dims_count &&
        std::equal(begin, end, kept.begin() + it->second)) {
      continue;
    }
    tensor.dims_begin = static_cast<uint32_t>(kept.size());
    kept.insert(kept.end(), begin, end);
  }
  dims = std::move(kept);
}

}  // namespace

RankTraceBuilder::RankTraceBuilder(RankInfo info) : strings_(std::make_unique<StringPool>()) {
  trace_.info_ = std::move(info);
}

LaneIndex RankTraceBuilder::AddLane(Lane::Kind kind, int64_t id, int32_t device) {
  const std::pair<int64_t, int64_t> key(
      id, kind == Lane::Kind::kCpuThread ? -1 : static_cast<int64_t>(device));
  if (auto it = lane_index_.find(key); it != lane_index_.end()) return LaneIndex(it->second);
  if (trace_.lanes_.size() >= kMaxLanes) {
    too_many_lanes_ = true;
    return LaneIndex(0);
  }
  const auto index = static_cast<uint32_t>(trace_.lanes_.size());
  Lane lane{kind, id, device, {}};
  lane.label = fmt::format("{} {}", kind == Lane::Kind::kCpuThread ? "thread" : "stream", id);
  trace_.lanes_.push_back(std::move(lane));
  lane_index_.emplace(key, index);
  return LaneIndex(index);
}

void RankTraceBuilder::SetLaneLabel(LaneIndex lane, std::string label) {
  trace_.lanes_[lane.value].label = std::move(label);
}

NodeIndex RankTraceBuilder::AddNode(const NodeSpec& spec) {
  const uint32_t index = trace_.size();
  FORETRACE_CHECK(index < NodeIndex::kNone);
  trace_.kind_.push_back(spec.kind);
  trace_.detail_.push_back(spec.detail);
  trace_.lane_.push_back(static_cast<uint16_t>(spec.lane.value));
  trace_.name_.push_back(strings_->Intern(spec.name));
  trace_.start_.push_back(spec.start);
  trace_.duration_.push_back(spec.duration);
  trace_.parent_.push_back(NodeIndex::kNone);
  trace_.launcher_.push_back(NodeIndex::kNone);
  source_id_.push_back(spec.source_id);
  return NodeIndex(index);
}

void RankTraceBuilder::SetParent(NodeIndex node, NodeIndex parent) {
  trace_.parent_[node.value] = parent.value;
}

void RankTraceBuilder::SetLauncher(NodeIndex node, NodeIndex call) {
  trace_.launcher_[node.value] = call.value;
}

CommAttr RankTraceBuilder::WithSplits(const CommAttr& attr, std::span<const int64_t> in_splits,
                                      std::span<const int64_t> out_splits) {
  CommAttr stored = attr;
  stored.in_splits = static_cast<uint16_t>(in_splits.size());
  stored.out_splits = static_cast<uint16_t>(out_splits.size());
  stored.splits_begin = 0;
  if (in_splits.empty() && out_splits.empty()) return stored;
  stored.splits_begin = static_cast<uint32_t>(trace_.splits_.size());
  trace_.splits_.insert(trace_.splits_.end(), in_splits.begin(), in_splits.end());
  trace_.splits_.insert(trace_.splits_.end(), out_splits.begin(), out_splits.end());
  return stored;
}

void RankTraceBuilder::SetComm(NodeIndex node, const CommAttr& attr,
                               std::span<const int64_t> in_splits,
                               std::span<const int64_t> out_splits) {
  comm_.Add(node.value, WithSplits(attr, in_splits, out_splits));
}

void RankTraceBuilder::ReplaceComm(size_t position, const CommAttr& attr,
                                   std::span<const int64_t> in_splits,
                                   std::span<const int64_t> out_splits) {
  comm_.Replace(position, WithSplits(attr, in_splits, out_splits));
}

void RankTraceBuilder::DropTensors(const std::vector<bool>& drop) {
  std::erase_if(pending_tensors_, [&drop](const PendingTensor& t) { return drop[t.node]; });
}

void RankTraceBuilder::SetSync(NodeIndex node, const SyncAttr& attr) {
  sync_.Add(node.value, attr);
}

void RankTraceBuilder::SetWaves(NodeIndex node, uint32_t waves_milli) {
  waves_.Add(node.value, waves_milli);
}

void RankTraceBuilder::SetLaunch(NodeIndex node, const LaunchAttr& attr) {
  launches_.Add(node.value, attr);
}

void RankTraceBuilder::SetWork(NodeIndex node, const WorkAttr& attr) {
  work_.Add(node.value, attr);
}

void RankTraceBuilder::AddTensor(NodeIndex node, Tensor tensor, std::span<const int64_t> dims) {
  tensor.dims_begin = static_cast<uint32_t>(trace_.dims_.size());
  tensor.dims_count = static_cast<uint16_t>(std::min<size_t>(dims.size(), UINT16_MAX));
  trace_.dims_.insert(trace_.dims_.end(), dims.begin(), dims.begin() + tensor.dims_count);
  pending_tensors_.push_back({node.value, tensor});
}

void RankTraceBuilder::AddDependency(NodeIndex consumer, NodeIndex producer, DependencyKind kind) {
  pending_dependencies_.push_back({consumer.value, kind, Reference::kIndex, producer.value});
}

void RankTraceBuilder::AddDependencyBySourceId(NodeIndex consumer, uint64_t producer,
                                               DependencyKind kind) {
  pending_dependencies_.push_back({consumer.value, kind, Reference::kSourceId, producer});
}

void RankTraceBuilder::AddIssuerBySourceId(NodeIndex node, uint64_t issuer) {
  pending_dependencies_.push_back(
      {node.value, DependencyKind::kControl, Reference::kIssuerSourceId, issuer});
}

void RankTraceBuilder::AddIteration(int64_t number, NodeIndex annotation) {
  trace_.iterations_.push_back({number, annotation});
}

void RankTraceBuilder::AddProcessGroup(ProcessGroup group) {
  if (!group_names_.insert(group.name).second) return;
  trace_.process_groups_.push_back(std::move(group));
}

std::string RankTraceBuilder::Where(uint32_t node) const {
  return fmt::format("{}: node {} ({})", trace_.info_.source, source_id_[node],
                     Excerpt(strings_->Get(trace_.name_[node]), 80));
}

absl::StatusOr<RankTraceBuilder::Result> RankTraceBuilder::Build(const Options& options) {
  if (trace_.size() == 0) {
    return InvalidInput("{}: the trace holds no nodes", trace_.info_.source);
  }
  if (too_many_lanes_) {
    return InvalidInput("{}: more than {} threads and streams in one rank", trace_.info_.source,
                        kMaxLanes);
  }
  FORETRACE_RETURN_IF_ERROR(CheckValues());
  FORETRACE_RETURN_IF_ERROR(ResolveDependencies(options.unique_source_ids));
  if (options.sort_by_start) {
    const std::vector<uint32_t> order = OrderByStart();
    if (!order.empty()) Permute(order);
  }
  if (options.infer_nesting) InferNesting();
  BuildListColumns();
  FORETRACE_RETURN_IF_ERROR(CheckAcyclic());
  FORETRACE_RETURN_IF_ERROR(CheckParents());
  ReduceIterations();
  ReleaseSlack();
  trace_.source_id_ = IdColumn(std::move(source_id_));
  return Result{std::move(trace_), std::move(strings_), std::move(diagnostics_)};
}

absl::Status RankTraceBuilder::CheckValues() const {
  for (uint32_t n = 0; n < trace_.size(); ++n) {
    const SimTime duration = trace_.duration_[n];
    if (duration < SimTime() && duration != RankTrace::kNoDuration) {
      return InvalidInput("{}: negative duration {} us", Where(n), duration.us());
    }
    // 2^61 ps is 26 days; later sums cannot overflow.
    const SimTime limit = SimTime::FromPs(int64_t{1} << 61);
    if (duration > limit || trace_.start_[n] > limit || trace_.start_[n] < -limit) {
      return InvalidInput("{}: time out of range (over 26 days from the trace's origin)", Where(n));
    }
  }
  return absl::OkStatus();
}

std::vector<uint32_t> RankTraceBuilder::OrderByStart() const {
  // At equal starts an enclosing node comes first: annotations, then ops, then calls, and the
  // longer first within a kind.
  const auto level = [this](uint32_t n) {
    switch (trace_.kind_[n]) {
      case NodeKind::kAnnotation:
        return 0;
      case NodeKind::kCpuOp:
        return 1;
      case NodeKind::kRuntimeCall:
        return 2;
      default:
        return 3;
    }
  };
  const auto before = [&](uint32_t a, uint32_t b) {
    if (trace_.start_[a] != trace_.start_[b]) return trace_.start_[a] < trace_.start_[b];
    const int level_a = level(a);
    const int level_b = level(b);
    if (level_a != level_b) return level_a < level_b;
    // On one stream, work of zero length precedes what starts at the same instant.
    if (level_a == 3) return trace_.duration_[a] < trace_.duration_[b];
    return trace_.duration_[a] > trace_.duration_[b];
  };
  bool ordered = true;
  for (uint32_t n = 1; n < trace_.size() && ordered; ++n) ordered = !before(n, n - 1);
  if (ordered) return {};
  std::vector<uint32_t> order(trace_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

void RankTraceBuilder::Permute(const std::vector<uint32_t>& order) {
  std::vector<uint32_t> new_index(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) new_index[order[i]] = i;
  PermuteColumn(trace_.kind_, order);
  PermuteColumn(trace_.detail_, order);
  PermuteColumn(trace_.lane_, order);
  PermuteColumn(trace_.name_, order);
  PermuteColumn(trace_.start_, order);
  PermuteColumn(trace_.duration_, order);
  PermuteColumn(trace_.parent_, order);
  PermuteColumn(trace_.launcher_, order);
  PermuteColumn(source_id_, order);
  Renumber(trace_.parent_, new_index);
  Renumber(trace_.launcher_, new_index);
  comm_.Renumber(new_index);
  sync_.Renumber(new_index);
  work_.Renumber(new_index);
  waves_.Renumber(new_index);
  launches_.Renumber(new_index);
  for (PendingDependency& d : pending_dependencies_) {
    d.consumer = new_index[d.consumer];
    d.producer = new_index[d.producer];
  }
  for (PendingTensor& t : pending_tensors_) t.node = new_index[t.node];
  for (IterationMark& mark : trace_.iterations_) mark.node = NodeIndex(new_index[mark.node.value]);
}

// Nodes are in order of start here. A stack per thread holds the ops that are still open.
void RankTraceBuilder::InferNesting() {
  std::vector<std::vector<uint32_t>> open(trace_.lanes_.size());
  for (uint32_t n = 0; n < trace_.size(); ++n) {
    if (IsDeviceKind(trace_.kind_[n]) || !trace_.has_duration(NodeIndex(n))) continue;
    std::vector<uint32_t>& stack = open[trace_.lane_[n]];
    const SimTime start = trace_.start_[n];
    const SimTime end = trace_.end(NodeIndex(n));
    while (!stack.empty() && (trace_.end(NodeIndex(stack.back())) < end ||
                              trace_.end(NodeIndex(stack.back())) <= start)) {
      // An op that ends at the very start of this one, yet holds an empty one, stays its parent
      // only when this one has no length.
      const SimTime top_end = trace_.end(NodeIndex(stack.back()));
      if (top_end == start && end == start) break;
      if (top_end > start) {
        // Partial overlap: the recording truncated one of them; treat the earlier as closed.
        diagnostics_.Add(Repair::kOverlappingOps, [&] { return Where(n); });
      }
      stack.pop_back();
    }
    if (trace_.parent_[n] == NodeIndex::kNone && !stack.empty()) trace_.parent_[n] = stack.back();
    if (trace_.kind_[n] != NodeKind::kRuntimeCall) stack.push_back(n);
  }
}

void RankTraceBuilder::BuildListColumns() {
  BuildDependencyColumns();
  BuildTensorColumns();
  trace_.comm_ = comm_.Build(trace_.size());
  trace_.sync_ = sync_.Build(trace_.size());
  trace_.work_ = work_.Build(trace_.size());
  trace_.waves_ = waves_.Build(trace_.size());
  trace_.launches_ = launches_.Build(trace_.size());
}

void RankTraceBuilder::BuildTensorColumns() {
  const auto before = [](const PendingTensor& a, const PendingTensor& b) {
    if (a.node != b.node) return a.node < b.node;
    return a.tensor.is_output < b.tensor.is_output;
  };
  if (!std::is_sorted(pending_tensors_.begin(), pending_tensors_.end(), before)) {
    std::stable_sort(pending_tensors_.begin(), pending_tensors_.end(), before);
  }
  ShareShapes(pending_tensors_, trace_.dims_);
  trace_.tensor_begin_.assign(trace_.size() + 1, 0);
  trace_.tensors_.reserve(pending_tensors_.size());
  for (const PendingTensor& t : pending_tensors_) {
    trace_.tensors_.push_back(t.tensor);
    ++trace_.tensor_begin_[t.node + 1];
  }
  std::partial_sum(trace_.tensor_begin_.begin(), trace_.tensor_begin_.end(),
                   trace_.tensor_begin_.begin());
  std::vector<PendingTensor>().swap(pending_tensors_);
}

// Columns grow by doubling; what is kept for the whole run is cut to size.
void RankTraceBuilder::ReleaseSlack() {
  const auto release = [](auto& column) {
    if (column.capacity() > column.size() + column.size() / 32) column.shrink_to_fit();
  };
  // Symbolic traces have no launches, no nesting and no tensors.
  const auto drop_if_none = [](std::vector<uint32_t>& references) {
    if (std::all_of(references.begin(), references.end(),
                    [](uint32_t r) { return r == NodeIndex::kNone; })) {
      std::vector<uint32_t>().swap(references);
    }
  };
  drop_if_none(trace_.parent_);
  drop_if_none(trace_.launcher_);
  if (trace_.tensors_.empty()) std::vector<uint32_t>().swap(trace_.tensor_begin_);
  const auto drop_if_all = [](std::vector<SimTime>& times, SimTime none) {
    if (std::all_of(times.begin(), times.end(), [none](SimTime t) { return t == none; })) {
      std::vector<SimTime>().swap(times);
    }
  };
  if (!trace_.info_.has_times) {
    drop_if_all(trace_.start_, SimTime());
    drop_if_all(trace_.duration_, RankTrace::kNoDuration);
  }
  strings_->ReleaseSlack();
  release(trace_.kind_);
  release(trace_.detail_);
  release(trace_.lane_);
  release(trace_.name_);
  release(trace_.start_);
  release(trace_.duration_);
  release(trace_.parent_);
  release(trace_.launcher_);
  release(trace_.dims_);
  release(trace_.splits_);
}

void RankTraceBuilder::ReduceIterations() {
  std::vector<IterationMark>& marks = trace_.iterations_;
  std::stable_sort(marks.begin(), marks.end(), [this](const auto& a, const auto& b) {
    if (trace_.start_[a.node.value] != trace_.start_[b.node.value]) {
      return trace_.start_[a.node.value] < trace_.start_[b.node.value];
    }
    return trace_.duration_[a.node.value] > trace_.duration_[b.node.value];
  });
  std::vector<IterationMark> outermost;
  for (const IterationMark& mark : marks) {
    if (!outermost.empty() && trace_.end(mark.node) <= trace_.end(outermost.back().node)) {
      diagnostics_.Add(Repair::kNestedStepMark, [&] { return Where(mark.node.value); });
      continue;
    }
    outermost.push_back(mark);
  }
  marks.swap(outermost);
}

}  // namespace foretrace
