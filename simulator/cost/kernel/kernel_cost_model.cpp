#include "simulator/cost/kernel/kernel_cost_model.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "simulator/cost/embedding/embedding_operator.h"
#include "simulator/cost/kernel/call_pairs.h"
#include "simulator/cost/kernel/call_signatures.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/kernel_likes.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/observed_kernels.h"
#include "simulator/cost/kernel/tiled_convolution.h"

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

// The tensors of a call.
struct CallTensors {
  absl::InlinedVector<TensorShape, 8> inputs, outputs;
  CallTensors(const RankTrace& rank, NodeIndex call) {
    for (const Tensor& tensor : rank.tensors(call)) {
      (tensor.is_output ? outputs : inputs).push_back({rank.dims(tensor), tensor.dtype});
    }
  }
};

std::optional<TracedOperator> OperatorOfCall(const TraceStore& store, const RankTrace& rank,
                                             NodeIndex call) {
  const std::string_view name = store.name(rank, call);
  // cuDNN's and MIOpen's halves of a convolution's backward pass lack one shape each; the call
  // around them has all three.
  const bool input = name.ends_with("convolution_backward_input");
  if (input || name.ends_with("convolution_backward_weight")) {
    const NodeIndex whole = rank.parent(call);
    if (!whole.valid() || rank.kind(whole) != NodeKind::kCpuOp) return std::nullopt;
    const CallTensors tensors(rank, whole);
    auto traced = OperatorFromTrace(store.name(rank, whole), tensors.inputs, tensors.outputs);
    auto* shape = traced ? std::get_if<Conv2dOp>(&traced->op.shape) : nullptr;
    if (shape == nullptr) return std::nullopt;
    shape->needs_input_gradient = input;
    shape->needs_weight_gradient = !input;
    return traced;
  }
  const CallTensors tensors(rank, call);
  return OperatorFromTrace(name, tensors.inputs, tensors.outputs);
}

std::optional<TracedOperator> OpaqueCall(const TraceStore& store, const RankTrace& rank,
                                         NodeIndex call) {
  const CallTensors tensors(rank, call);
  return OpaqueOperator(store.name(rank, call), tensors.inputs, tensors.outputs);
}

// The innermost enclosing call that `find` knows as an operator; invalid when there is none.
template <typename Find>
NodeIndex EnclosingCall(const RankTrace& rank, NodeIndex device, TracedCalls& known, Find find) {
  const NodeIndex launcher = rank.launcher(device);
  NodeIndex at = launcher.valid() ? rank.parent(launcher) : rank.parent(device);
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank.parent(at)) {
    if (rank.kind(at) != NodeKind::kCpuOp) continue;
    const auto [it, inserted] = known.try_emplace(at.value);
    if (inserted) it->second = find(at);
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

// What kernels beside an operator's main ones take.
struct HelperCosts {
  const KernelModels& models;
  const RankTrace& rank;
  const KernelWork& first;  // of the main kernels
  SimTime floor, most;      // of a helper
  bool launched, tiled;     // the main kernel is known by its launch, by its tiles
  bool alone;               // without a main kernel

  // A fill takes what its recorded bytes cost; those of lookups share the sorting's time.
  SimTime Time(NodeIndex node) const {
    const bool kernel = rank.kind(node) == NodeKind::kKernel;
    if (launched && kernel) {
      return std::max(floor, models.Predict(HelperWork(first), Precision::kFloat32).time);
    }
    if (tiled && kernel && rank.waves_milli(node) > 0) {
      return SimTime::FromUs(LayoutTransformUs(models.device(), rank.waves_milli(node) / 1000.0));
    }
    const WorkAttr* recorded = rank.kind(node) == NodeKind::kMemset ? rank.work(node) : nullptr;
    if (recorded == nullptr || alone || first.kind == KernelKind::kEmbedding) return most;
    KernelWork fill;
    fill.kind = KernelKind::kFill;
    fill.written = recorded->bytes;
    return std::min(most, models.Predict(fill, Precision::kFloat32).time);
  }
};

template <typename Predict>
Estimate SumOf(const KernelList& list, Predict predict) {
  Estimate total;
  total.source = EstimateSource::kCalibrated;
  for (const KernelWork& work : list) {
    const Estimate estimate = predict(work);
    total.time += estimate.time;
    total.extrapolated |= estimate.extrapolated;
    total.source = std::max(total.source, estimate.source);
  }
  return total;
}

// Whether a call clears memory before its kernel and lets no other kernel add parts up: what the
// parts of a reduction that take turns need.
bool ClearsForParts(const TraceStore& store, const RankTrace& rank,
                    std::span<const NodeIndex> kernels) {
  bool clears = false;
  for (const NodeIndex node : kernels) {
    clears |= rank.kind(node) == NodeKind::kMemset;
    if (TraitsOfKernel(store.name(rank, node)).role == KernelRole::kSplitReduce) return false;
  }
  return clears;
}

// A kernel counts once: what an inner call is known to have launched is no longer the outer's.
template <typename Op, typename Ops>
void LeaveEnclosing(const RankTrace& rank, const Op& inner, Ops& ops) {
  NodeIndex at = rank.parent(inner.call);
  while (at.valid() && !ops.contains(at.value)) at = rank.parent(at);
  if (!at.valid()) return;
  std::erase_if(ops.at(at.value).kernels, [&](NodeIndex node) {
    return std::ranges::find(inner.kernels, node) != inner.kernels.end();
  });
}

bool HelpersAreWithin(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kBatchedGemm ||
         kind == KernelKind::kConvolution || kind == KernelKind::kAttention;
}

}  // namespace

KernelCostModel::KernelCostModel(std::shared_ptr<const KernelModels> models,
                                 const TraceStore& store,
                                 std::shared_ptr<const EmbeddingModels> embedding)
    : models_(std::move(models)),
      embedding_(embedding != nullptr ? std::move(embedding)
                                      : std::make_shared<const EmbeddingModels>()),
      store_(&store) {
  for (const RankTrace& rank : store.ranks()) {
    entries_.emplace(rank.info().rank, Prepare(store, rank));
  }
}

std::vector<KernelCostModel::Entry> KernelCostModel::Prepare(const TraceStore& store,
                                                             const RankTrace& rank) {
  std::vector<Entry> entries(rank.size());
  const std::string& recorded_on = rank.info().device_name;
  if (!chosen_for_chip_.contains(recorded_on)) {
    chosen_for_chip_[recorded_on] = ChosenForChip(models_->device(), recorded_on);
  }
  TracedCalls known, opaque;
  Ops ops;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (!IsModelled(rank, node)) continue;
    NodeIndex call = EnclosingCall(rank, node, known,
                                   [&](NodeIndex at) { return OperatorOfCall(store, rank, at); });
    if (!call.valid()) {
      call = EnclosingCall(rank, node, opaque,
                           [&](NodeIndex at) { return OpaqueCall(store, rank, at); });
      if (!call.valid()) continue;
      known[call.value] = opaque[call.value];
    }
    Op& op = ops[call.value];
    op.call = call;
    op.kernels.push_back(node);
  }
  BorrowShapes(rank, known, ops);
  CompletePairs(known);
  CompleteFromFollowers(rank, known);
  for (const auto& [call, op] : ops) {
    if (!known[call]) continue;
    Assign(store, rank, *known[call], op, entries);
    const OperatorCall& traced = known[call]->op;
    if (const auto* lookup = std::get_if<EmbeddingOp>(&traced.shape)) {
      lookups_[rank.info().rank].push_back(
          {op.call, *lookup, traced.dtype, traced.pass, op.kernels});
    }
  }
  EstimateByLikes(store, rank, entries);
  AddCodeFetches(store, rank, entries);
  return entries;
}

void KernelCostModel::AddCodeFetches(const TraceStore& store, const RankTrace& rank,
                                     std::vector<Entry>& entries) const {
  const GpuPeaks& device = models_->device();
  if (!FetchesCodeOnDemand(device)) return;
  CodeCache cache;
  // What the recording begins with ran in the iteration before, like all the rest.
  for (const bool before : {true, false}) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (rank.kind(node) != NodeKind::kKernel) continue;
      const std::string_view name = store.name(rank, node);
      const bool fetched = cache.Run(rank.name(node).value, CodeBytes(name));
      Estimate& estimate = entries[i].estimate;
      if (before || !fetched || estimate.source == EstimateSource::kMissing) continue;
      estimate.time += CodeFetchTime(device, name);
    }
  }
}

void KernelCostModel::EstimateByLikes(const TraceStore& store, const RankTrace& rank,
                                      std::vector<Entry>& entries) const {
  std::vector<NodeIndex> unknown;
  const auto is_known = [&](NodeIndex n) {
    return entries[n.value].estimate.source != EstimateSource::kMissing;
  };
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) == NodeKind::kKernel && !is_known(node)) unknown.push_back(node);
  }
  if (unknown.empty()) return;
  KernelLikes likes(rank, unknown);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) != NodeKind::kKernel || !is_known(node)) continue;
    likes.Learn(node, {entries[i].estimate.time, entries[i].kind});
  }
  const MovedElements moved(store, rank, models_->device());
  for (const NodeIndex node : unknown) {
    Entry& entry = entries[node.value];
    if (const auto like = likes.Find(node)) {
      entry.estimate = {like->time, EstimateSource::kAnalytic, true};
      entry.kind = like->kind;
    } else if (const auto launched = EstimateLaunch(
                   *models_, {store.name(rank, node), rank.waves_milli(node)}, moved.Near(node))) {
      entry.estimate = {launched->time, EstimateSource::kAnalytic, true};
      entry.kind = launched->kind;
    }
  }
}

void KernelCostModel::BorrowShapes(const RankTrace& rank, TracedCalls& known, Ops& ops) const {
  Ops shapeless;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i), launcher = rank.launcher(node);
    if (!IsModelled(rank, node) || !launcher.valid()) continue;
    const NodeIndex call = rank.parent(launcher);
    if (!call.valid() || rank.kind(call) != NodeKind::kCpuOp || ops.contains(call.value)) continue;
    const bool has_shapes = std::ranges::any_of(
        rank.tensors(call), [&](const Tensor& t) { return !rank.dims(t).empty(); });
    if (has_shapes) continue;
    Op& op = shapeless[call.value];
    op.call = call;
    op.kernels.push_back(node);
  }
  if (shapeless.empty()) return;
  CallSignatures signatures(rank);
  for (const auto& [call, op] : ops) signatures.Learn(op.call, op.kernels);
  for (const auto& [call, op] : shapeless) {
    const auto like = signatures.Find(op.call, op.kernels);
    const std::string_view name = store_->name(rank, op.call);
    const bool concat = !like.has_value() && (name == "aten::cat" || name == "aten::_cat") &&
                        std::ranges::all_of(op.kernels, [&](NodeIndex n) {
                          return rank.kind(n) == NodeKind::kKernel;  // copies name their bytes
                        });
    if (!like.has_value() && !concat) continue;
    const std::optional<TracedOperator> traced =
        concat ? ConcatFromNeighbours(*store_, rank, op.call) : known[like->value];
    if (!traced.has_value()) continue;
    known[call] = traced;
    known[call]->assumed = true;
    LeaveEnclosing(rank, op, ops);
    ops[call] = op;
  }
}

void KernelCostModel::Assign(const TraceStore& store, const RankTrace& rank,
                             const TracedOperator& traced, const Op& op,
                             std::vector<Entry>& entries) const {
  const ObservedKernels observed = Observe(store, rank, traced, op.kernels);
  const OperatorCall& call = observed.call;
  const KernelList& list = observed.list;
  const std::vector<NodeIndex>& mains = observed.mains;
  if (list.empty()) return;
  const KernelWork& first = list[0];
  bool launched = false;  // by the blocks of the main kernel
  const bool single = list.size() == 1 && mains.size() == 1 &&
                      rank.kind(mains[0]) == NodeKind::kKernel &&
                      chosen_for_chip_.at(rank.info().device_name);
  const auto predict = [&](const KernelWork& work) {
    Estimate estimate = models_->Predict(work, observed.precision);
    if (single) {
      launched |= ByLaunchedProduct(*models_,
                                    {store.name(rank, mains[0]), rank.waves_milli(mains[0]),
                                     ClearsForParts(store, rank, op.kernels)},
                                    work, observed.precision, estimate);
    }
    estimate.extrapolated |= traced.assumed;
    return estimate;
  };
  const auto* table = std::get_if<EmbeddingOp>(&call.shape);
  Estimate total = table != nullptr ? PredictLookup(*table, call.dtype, call.pass).kernels
                                    : SumOf(list, predict);
  total.extrapolated |= traced.assumed;
  const size_t helpers = op.kernels.size() - mains.size();
  const SimTime most = HelperTime(call, list, helpers, mains.empty(), total.time);
  const bool tiled = first.tile.known() || launched;
  const HelperCosts helper{*models_, rank, first, Floor(), most, launched, tiled, mains.empty()};
  // What a tile takes is that of the main kernel alone.
  const bool within = HelpersAreWithin(first.kind) && !tiled;
  const bool lookup = first.kind == KernelKind::kEmbedding;  // its base is that of all its kernels
  if (!within && !lookup) {
    // A kernel takes its floor however little it does.
    const auto more = static_cast<int64_t>(mains.size()) - static_cast<int64_t>(list.size());
    total.time += SimTime::FromPs(Floor().ps() * std::max<int64_t>(more, 0));
  } else if (within) {
    for (NodeIndex node : op.kernels) {
      if (std::ranges::find(mains, node) == mains.end()) total.time -= helper.Time(node);
    }
  }
  const bool paired = helpers == 0 && mains.size() == list.size() && !lookup;
  for (NodeIndex node : op.kernels) {
    Entry& entry = entries[node.value];
    entry.kind = first.kind;
    entry.call = op.call;
    entry.estimate = total;
    const auto at = std::find(mains.begin(), mains.end(), node);
    if (at == mains.end()) {
      entry.estimate.time = helper.Time(node);
    } else if (paired && list.size() > 1) {
      entry.estimate = predict(list[static_cast<size_t>(at - mains.begin())]);
    } else {
      entry.estimate.time = total.time.ScaledBy(1.0 / static_cast<double>(mains.size()));
    }
  }
}

SimTime KernelCostModel::Floor() const {
  KernelWork nothing;
  nothing.kind = KernelKind::kFill;
  nothing.trips = 1;
  return models_->Predict(nothing, Precision::kFloat32).time;
}

// What one of `helpers` kernels takes. Those of matrix products (adding of split reductions, layout
// transforms, clearing) are within the operator's own estimate, at most half of it; a memset clears
// at most what the operator writes. Others come on top, each with the floor of a kernel.
SimTime KernelCostModel::HelperTime(const OperatorCall& call, const KernelList& list,
                                    size_t helpers, bool alone, SimTime total) const {
  if (helpers == 0) return SimTime();
  const auto count = static_cast<double>(helpers);
  if (const auto* lookup = std::get_if<EmbeddingOp>(&call.shape)) {
    return PredictLookup(*lookup, call.dtype, call.pass).sort.time.ScaledBy(1 / count);
  }
  if (alone) return total.ScaledBy(1.0 / count);
  const SimTime own = models_->Predict(HelperWork(list[0]), Precision::kFloat32).time;
  return HelpersAreWithin(list[0].kind) ? std::min(own, total.ScaledBy(0.5 / count)) : own;
}

KernelCostModel::LookupEstimate KernelCostModel::PredictLookup(const EmbeddingOp& op, DType dtype,
                                                               Direction direction) const {
  const EmbeddingQuery query = QueryOf(op, dtype);
  const LookupPass pass =
      direction == Direction::kForward ? LookupPass::kForward : LookupPass::kBackward;
  const EmbeddingModels::Choice choice =
      embedding_->Choose(op.batched ? LookupKernels::kBatched : LookupKernels::kBag, pass);
  const EmbeddingTraffic traffic = TrafficOf(models_->device(), query);
  const EmbeddingTime time = choice.model->Time(models_->device(), query, traffic, pass);
  const bool extrapolated = choice.other_kernels || !choice.model->InRange(traffic);
  return {{SimTime::FromUs(time.kernel_us), choice.source(), extrapolated},
          {SimTime::FromUs(time.sort_us), choice.source(), extrapolated}};
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

NodeIndex KernelCostModel::CallOf(const RankTrace& rank, NodeIndex node) const {
  const auto it = entries_.find(rank.info().rank);
  if (it == entries_.end() || node.value >= it->second.size()) return NodeIndex();
  return it->second[node.value].call;
}

std::span<const KernelCostModel::Lookup> KernelCostModel::lookups(const RankTrace& rank) const {
  const auto it = lookups_.find(rank.info().rank);
  return it == lookups_.end() ? std::span<const Lookup>() : std::span<const Lookup>(it->second);
}

}  // namespace foretrace
