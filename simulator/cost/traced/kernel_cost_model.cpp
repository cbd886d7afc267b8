#include "simulator/cost/traced/kernel_cost_model.h"

#include <algorithm>
#include <span>
#include <utility>

#include "simulator/cost/embedding/embedding_operator.h"
#include "simulator/cost/kernel/index_kernels.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/recorded_convolution.h"
#include "simulator/cost/traced/helper_costs.h"
#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/kernel_likes.h"
#include "simulator/cost/traced/launch_estimates.h"
#include "simulator/cost/traced/observed_kernels.h"
#include "simulator/cost/traced/shape_inference.h"

namespace foretrace {
namespace {

// An operator's time among its kernels: a main kernel has its own prediction where each has one,
// else an equal part; helpers take theirs.
template <typename Entries, typename Predict>
void ShareOut(const CallKernels& op, const ObservedKernels& observed, const HelperCosts& helper,
              const Estimate& total, const Predict& predict, Entries& entries) {
  const std::vector<NodeIndex>& mains = observed.mains;
  const KernelKind kind = helper.first.kind;
  const bool paired = op.kernels.size() == mains.size() && mains.size() == observed.list.size() &&
                      kind != KernelKind::kEmbedding;
  for (const NodeIndex node : op.kernels) {
    auto& entry = entries[node.value];
    entry.kind = kind;
    entry.call = op.call;
    entry.estimate = total;
    const auto at = std::find(mains.begin(), mains.end(), node);
    if (at == mains.end()) {
      entry.estimate.time = helper.Time(node);
    } else if (paired && mains.size() > 1) {
      entry.estimate = predict(observed.list[static_cast<size_t>(at - mains.begin())]);
    } else {
      entry.estimate.time = total.time.ScaledBy(1.0 / static_cast<double>(mains.size()));
    }
  }
}

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

// Of a call of which only the tensors are known: whether its kernels' launches say more of each
// than those do. Compiled functions and extensions launch many that pass over what is not among
// their arguments.
bool SayMore(const RankTrace& rank, std::span<const NodeIndex> kernels) {
  constexpr size_t kMany = 8;
  return kernels.size() >= kMany && std::ranges::all_of(kernels, [&](NodeIndex n) {
           return rank.kind(n) != NodeKind::kKernel || rank.waves_milli(n) > 0;
         });
}

}  // namespace

KernelCostModel::KernelCostModel(std::shared_ptr<const KernelModels> models,
                                 const TraceStore& store,
                                 std::shared_ptr<const EmbeddingModels> embedding,
                                 ChosenKernels chosen, AttentionMask mask)
    : models_(std::move(models)),
      embedding_(embedding != nullptr ? std::move(embedding)
                                      : std::make_shared<const EmbeddingModels>()),
      store_(&store),
      chosen_(chosen),
      mask_(mask) {
  for (const RankTrace& rank : store.ranks()) {
    entries_.emplace(rank.info().rank, Prepare(store, rank));
  }
}

std::vector<KernelCostModel::Entry> KernelCostModel::Prepare(const TraceStore& store,
                                                             const RankTrace& rank) {
  std::vector<Entry> entries(rank.size());
  const std::string& recorded_on = rank.info().device_name;
  if (!chosen_for_chip_.contains(recorded_on)) {
    chosen_for_chip_[recorded_on] =
        chosen_ == ChosenKernels::kUsed && ChosenForChip(models_->device(), recorded_on);
    const auto recorded = FindGpuPeaks(recorded_on);
    recorded_.emplace(recorded_on, recorded.ok() ? *recorded : models_->device());
  }
  KernelCalls calls = FindKernelCalls(store, rank);
  std::optional<LaunchFlow> flow = InferShapes(store, rank, recorded_.at(recorded_on), calls);
  for (const auto& [call, op] : calls.launched) {
    const auto known = calls.operators.find(call);
    if (known == calls.operators.end() || !known->second) continue;
    SetMask(store, rank, op, *known->second);
    const OperatorCall& traced = known->second->op;
    const bool opaque = std::holds_alternative<OpaqueOp>(traced.shape);
    const bool has_call = op.call.valid();  // kernels of a graph have none
    if (opaque && has_call && AssignRecurrence(store, rank, op, entries)) continue;
    if (opaque && !known->second->weighed && SayMore(rank, op.kernels)) {
      if (has_call) AssignLosses(store, rank, op, entries);
      continue;
    }
    Assign(store, rank, *known->second, op, entries);
    NameKinds(store, rank, traced, op.kernels, entries);
    if (opaque && has_call) {
      AssignExperts(store, rank, op, entries);
      AssignLosses(store, rank, op, entries);
      AssignPeerReductions(store, rank, op, entries);
      AssignBags(store, rank, std::get<OpaqueOp>(traced.shape), op, entries);
    }
    if (const auto* lookup = std::get_if<EmbeddingOp>(&traced.shape)) {
      lookups_[rank.info().rank].push_back(
          {op.call, *lookup, traced.dtype, traced.pass, op.kernels});
    }
  }
  EstimateByLikes(store, rank, std::move(flow), entries);
  AddCodeFetches(store, rank, entries);
  LimitPower(rank, entries);
  return entries;
}

// FlashAttention-2's kernels name theirs.
void KernelCostModel::SetMask(const TraceStore& store, const RankTrace& rank, const CallKernels& op,
                              TracedOperator& traced) {
  auto* attention = std::get_if<AttentionOp>(&traced.op.shape);
  const bool named = std::ranges::any_of(op.kernels, [&](NodeIndex node) {
    return TraitsOfKernel(store.name(rank, node)).flash_attention_2;
  });
  if (attention == nullptr || !traced.assumed || named) return;
  if (mask_ != AttentionMask::kUnknown) attention->causal = mask_ == AttentionMask::kCausal;
  ++(attention->causal ? assumed_masks_.causal : assumed_masks_.none);
}

void KernelCostModel::EstimateByLikes(const TraceStore& store, const RankTrace& rank,
                                      std::optional<LaunchFlow> flow,
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
  std::optional<MovedElements> moved;
  if (flow) moved = std::move(*flow).TakeMoved();
  LaunchEstimates launches(*models_, store, rank, std::move(moved));
  for (const NodeIndex node : unknown) {
    Entry& entry = entries[node.value];
    if (const auto like = likes.Find(node)) {
      entry.estimate = {like->time, EstimateSource::kAnalytic, true};
      entry.kind = like->kind;
      continue;
    }
    if (const auto launched = launches.Of(node)) {
      entry.estimate = {launched->time, EstimateSource::kAnalytic, true};
      entry.kind = launched->kind;
    }
  }
}

void KernelCostModel::Assign(const TraceStore& store, const RankTrace& rank,
                             const TracedOperator& traced, const CallKernels& op,
                             std::vector<Entry>& entries) const {
  ObservedKernels observed = Observe(models_->device(), store, rank, traced, op.kernels);
  const OperatorCall& call = observed.call;
  const KernelList& list = observed.list;
  const std::vector<NodeIndex>& mains = observed.mains;
  if (list.empty()) return;
  bool launched = false;  // by the blocks of the main kernel
  const bool chosen = chosen_for_chip_.at(rank.info().device_name);
  const bool single =
      list.size() == 1 && mains.size() == 1 && rank.kind(mains[0]) == NodeKind::kKernel && chosen;
  if (single && traced.assumed) {
    BoundByLaunch(LaunchOf(store, rank, mains[0]), models_->device(), observed.list[0]);
  }
  const KernelWork& first = list[0];
  const auto predict = [&](const KernelWork& work) {
    Estimate estimate = models_->Predict(work, observed.precision);
    if (single) {
      Launch launch = LaunchOf(store, rank, mains[0]);
      launch.after_clearing = ClearsForParts(store, rank, op.kernels);
      launched |= ByLaunchedGemm(*models_, launch, work, observed.precision, estimate);
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
  const HelperCosts helper{*models_, store, rank, first, Floor(), most, launched, mains.empty()};
  total.time = WithKernelsAround(total.time, op, observed, helper);
  ShareOut(op, observed, helper, total, predict, entries);
  NoteWork(store, rank, observed, launched, entries);
  if (chosen) {
    AssignIndexedWrites(store, rank, call, mains, entries);
    AssignDenseGradient(store, rank, call, op.kernels, entries);
    AssignConvolution(store, rank, observed, op, entries);
  }
}

void KernelCostModel::NameKinds(const TraceStore& store, const RankTrace& rank,
                                const OperatorCall& call, std::span<const NodeIndex> kernels,
                                std::vector<Entry>& entries) {
  const bool generated =
      kernels.size() == 1 && store.name(rank, kernels.front()).starts_with("triton_");
  const bool opaque = std::holds_alternative<OpaqueOp>(call.shape);
  const bool elements = std::holds_alternative<ElementwiseOp>(call.shape);
  if (!opaque && !elements && !generated) return;
  for (const NodeIndex node : kernels) {
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const auto [named, added] = named_kinds_.try_emplace(rank.name(node).value);
    if (added) named->second = KindOfKernel(store.name(rank, node));
    const bool tells =
        elements ? named->second == KernelKind::kIndex : named->second != KernelKind::kOther;
    if (generated || tells) entries[node.value].kind = named->second;
  }
}

void KernelCostModel::AssignDenseGradient(const TraceStore& store, const RankTrace& rank,
                                          const OperatorCall& call,
                                          std::span<const NodeIndex> kernels,
                                          std::vector<Entry>& entries) const {
  const auto* table = std::get_if<EmbeddingOp>(&call.shape);
  if (table == nullptr || table->batched || call.pass != Direction::kBackward) return;
  KernelWork nothing;
  nothing.kind = KernelKind::kFill;
  const SimTime least = models_->Predict(nothing, Precision::kFloat32).time;
  for (const NodeIndex node : kernels) {
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const auto us = DenseGradientUs(models_->device(), StreamEfficiency(*models_),
                                    LaunchOf(store, rank, node), table->lookups);
    if (!us) continue;
    entries[node.value].estimate = {least + SimTime::FromUs(*us), EstimateSource::kAnalytic, true};
  }
}

void KernelCostModel::AssignIndexedWrites(const TraceStore& store, const RankTrace& rank,
                                          const OperatorCall& call,
                                          std::span<const NodeIndex> mains,
                                          std::vector<Entry>& entries) const {
  const auto* indexed = std::get_if<IndexOp>(&call.shape);
  if (indexed == nullptr || mains.size() < 2) return;
  for (const NodeIndex node : mains) {
    const Launch launch = LaunchOf(store, rank, node);
    const auto us = IndexedWriteUs(models_->device(), StreamEfficiency(*models_), launch,
                                   IndexedWriteOf(*indexed, call.dtype));
    if (!us) continue;
    entries[node.value].estimate = {Floor() + SimTime::FromUs(*us), EstimateSource::kAnalytic,
                                    true};
  }
}

void KernelCostModel::AssignConvolution(const TraceStore& store, const RankTrace& rank,
                                        const ObservedKernels& observed, const CallKernels& op,
                                        std::vector<Entry>& entries) const {
  const auto* shape = std::get_if<Conv2dOp>(&observed.call.shape);
  if (shape == nullptr) return;
  std::vector<std::string_view> names;
  for (const NodeIndex node : op.kernels) names.push_back(store.name(rank, node));
  RecordedConvolution convolution(models_->device(), StreamEfficiency(*models_), *shape,
                                  observed.list, names);
  std::vector<std::pair<NodeIndex, SimTime>> times;
  for (const NodeIndex node : op.kernels) {
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const auto time = convolution.Next(LaunchOf(store, rank, node));
    if (!time) return;
    times.emplace_back(node, *time);
  }
  for (const auto& [node, time] : times) {
    entries[node.value].estimate = {time, EstimateSource::kAnalytic, true};
  }
}

SimTime KernelCostModel::Floor() const {
  KernelWork nothing;
  nothing.kind = KernelKind::kFill;
  nothing.trips = 1;
  return models_->Predict(nothing, Precision::kFloat32).time;
}

// What one of `helpers` kernels takes. Those of GEMMs (adding of split reductions, layout
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
  return {{SimTime::FromUs(time.kernel.us()), choice.source(), extrapolated},
          {SimTime::FromUs(time.sort.us()), choice.source(), extrapolated}};
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
