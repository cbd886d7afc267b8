#include "simulator/cost/kernel/kernel_cost_model.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "simulator/cost/kernel/kernel_names.h"

namespace foretrace {
namespace {

// How far up from a launch an operator is looked for: aten::to > aten::_to_copy > aten::copy_ is
// typical, the innermost call knows most.
constexpr int kMaxLevels = 6;

bool IsModelled(const RankTrace& rank, NodeIndex n) {
  const NodeKind kind = rank.kind(n);
  return kind == NodeKind::kKernel || kind == NodeKind::kMemset ||
         (kind == NodeKind::kMemcpy && rank.memcpy_kind(n) == MemcpyKind::kDeviceToDevice);
}

std::optional<TracedOperator> OperatorOfCall(const TraceStore& store, const RankTrace& rank,
                                             NodeIndex call) {
  absl::InlinedVector<TensorShape, 8> inputs, outputs;
  for (const Tensor& tensor : rank.tensors(call)) {
    (tensor.is_output ? outputs : inputs).push_back({rank.dims(tensor), tensor.dtype});
  }
  return OperatorFromTrace(store.name(rank, call), inputs, outputs);
}

// The innermost enclosing call that is an operator; invalid when there is none.
NodeIndex OperatorCallOf(const TraceStore& store, const RankTrace& rank, NodeIndex device,
                         absl::flat_hash_map<uint32_t, std::optional<TracedOperator>>& known) {
  const NodeIndex launcher = rank.launcher(device);
  NodeIndex at = launcher.valid() ? rank.parent(launcher) : rank.parent(device);
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank.parent(at)) {
    if (rank.kind(at) != NodeKind::kCpuOp) continue;
    const auto [it, inserted] = known.try_emplace(at.value);
    if (inserted) it->second = OperatorOfCall(store, rank, at);
    if (it->second) return at;
  }
  return NodeIndex();
}

// A helper moves the result of its operator once in and once out.
KernelWork HelperWork(const KernelWork& main) {
  KernelWork work;
  work.kind = KernelKind::kCopy;
  work.read = work.written = main.written;
  return work;
}

bool IsHelper(KernelRole role) {
  return role == KernelRole::kTransform || role == KernelRole::kSplitReduce;
}

}  // namespace

KernelCostModel::KernelCostModel(std::shared_ptr<const KernelModels> models,
                                 const TraceStore& store)
    : models_(std::move(models)), store_(&store) {
  for (const RankTrace& rank : store.ranks()) {
    entries_.emplace(rank.info().rank, Prepare(store, rank));
  }
}

std::vector<KernelCostModel::Entry> KernelCostModel::Prepare(const TraceStore& store,
                                                             const RankTrace& rank) const {
  std::vector<Entry> entries(rank.size());
  absl::flat_hash_map<uint32_t, std::optional<TracedOperator>> known;
  std::map<uint32_t, Op> ops;  // by call, so that the order is the trace's
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (!IsModelled(rank, node)) continue;
    const NodeIndex call = OperatorCallOf(store, rank, node, known);
    if (!call.valid()) continue;
    Op& op = ops[call.value];
    op.call = call;
    op.kernels.push_back(node);
  }
  for (const auto& [call, op] : ops) Assign(store, rank, *known[call], op, entries);
  return entries;
}

void KernelCostModel::Assign(const TraceStore& store, const RankTrace& rank,
                             const TracedOperator& traced, const Op& op,
                             std::vector<Entry>& entries) const {
  OperatorCall call = traced.op;
  std::vector<NodeIndex> mains;
  bool tf32 = false, half = false;
  for (NodeIndex node : op.kernels) {
    const KernelTraits traits = TraitsOfKernel(store.name(rank, node));
    tf32 |= traits.precision == Precision::kTensorFloat32;
    half |= traits.precision == Precision::kHalf;
    if (rank.kind(node) != NodeKind::kMemset && !IsHelper(traits.role)) mains.push_back(node);
    // Shapes do not say whether a copy is contiguous; the kernel that was chosen does.
    CopyOp* copy = std::get_if<CopyOp>(&call.shape);
    if (copy != nullptr && traits.role == KernelRole::kStrided) copy->strided = true;
  }
  const KernelList list = Kernels(call);
  if (list.empty()) return;
  const KernelWork& first = list[0];
  const Precision precision = half ? Precision::kHalf : PrecisionOf(call.dtype, tf32);
  const auto predict = [&](const KernelWork& work) {
    Estimate estimate = models_->Predict(work, precision);
    estimate.extrapolated |= traced.assumed;
    return estimate;
  };
  Estimate total;
  total.source = EstimateSource::kCalibrated;
  for (const KernelWork& work : list) {
    const Estimate estimate = predict(work);
    total.time += estimate.time;
    total.extrapolated |= estimate.extrapolated;
    total.source = std::max(total.source, estimate.source);
  }
  const Estimate helper = models_->Predict(HelperWork(first), Precision::kFloat32);
  const auto helpers = static_cast<int64_t>(op.kernels.size() - mains.size());
  // A memset clears at most what the operator writes, and split reductions are within the GEMM's
  // own estimate; what helpers take must leave the main kernels something.
  const SimTime helper_time =
      helpers == 0 ? SimTime()
                   : std::min(helper.time, total.time.ScaledBy(mains.empty() ? 1.0 / static_cast<double>(helpers)
                                                               : 0.5 / static_cast<double>(helpers)));
  const bool paired = helpers == 0 && mains.size() == list.size();
  for (NodeIndex node : op.kernels) {
    Entry& entry = entries[node.value];
    entry.kind = first.kind;
    entry.estimate = total;
    const auto at = std::find(mains.begin(), mains.end(), node);
    if (at == mains.end()) {
      entry.estimate.time = helper_time;
    } else if (paired) {
      entry.estimate = predict(list[static_cast<size_t>(at - mains.begin())]);
    } else {
      const SimTime rest = total.time - SimTime::FromPs(helper_time.ps() * helpers);
      entry.estimate.time = rest.ScaledBy(1.0 / static_cast<double>(mains.size()));
    }
  }
}

std::optional<Estimate> KernelCostModel::Predict(const TraceStore& store, const RankTrace& rank,
                                                 NodeIndex node) const {
  if (&store != store_) return std::nullopt;
  const auto it = entries_.find(rank.info().rank);
  if (it == entries_.end() || node.value >= it->second.size()) return std::nullopt;
  const Estimate& estimate = it->second[node.value].estimate;
  if (estimate.source == EstimateSource::kMissing) return std::nullopt;
  return estimate;
}

KernelKind KernelCostModel::KindOf(const RankTrace& rank, NodeIndex node) const {
  const auto it = entries_.find(rank.info().rank);
  if (it == entries_.end() || node.value >= it->second.size()) return KernelKind::kOther;
  return it->second[node.value].kind;
}

}  // namespace foretrace
