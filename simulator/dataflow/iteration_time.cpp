// The time of an iteration, of what a pass takes: MappingCosts' part.

#include <algorithm>

#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

double MappingCosts::GradientBytes() const {
  double bytes = 0;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    if (workload_->kernels[i].weight_gradient) bytes += sharded_->kernels[i].output_bytes.count();
  }
  return bytes * static_cast<double>(layers_per_stage_) + head_weight_bytes_;
}

namespace {

// Of `exchange` for each of a stage's layers, one behind the work of the layers after it: what
// comes after all work. Between the layers of two chunks there are those of a group of as many
// micro-batches as stages.
RealNs Exposed(RealNs exchange, RealNs work, double layers, const Mapping& mapping) {
  const auto chunks = static_cast<double>(mapping.scheme.chunks);
  const double own = layers / chunks;
  const double between = (chunks - 1) * static_cast<double>(mapping.pipeline) * own + own - 1;
  return std::max(own * exchange - (own - 1) * std::min(work, exchange),
                  layers * exchange - between * work);
}

}  // namespace

RealNs MappingCosts::LayerReductionTime() const {
  if (!mapping_.scheme.overlap_gradients) return {};
  const TensorGroup replicas = GroupOf(*system_, formulas_, Role::kData);
  return AllReduceTime(replicas,
                       RealBytes(GradientBytes() / static_cast<double>(layers_per_stage_)));
}

// An all-reduce is a scatter, of gradients, and a gather: of them, or of weights where replicas
// divide the optimizer (ZeRO), which takes alike.
RealNs MappingCosts::GradientTime(const PassTime& pass) const {
  if (formulas_.iteration != IterationRule::kPhysical) return {};
  const Role role = workload_->per_chip ? Role::kAll : Role::kData;
  const TensorGroup replicas = GroupOf(*system_, formulas_, role);
  if (!mapping_.scheme.overlap_gradients)
    return AllReduceTime(replicas, RealBytes(GradientBytes()));
  const auto layers = static_cast<double>(layers_per_stage_);
  const RealNs each = LayerReductionTime();
  const RealNs backward = pass.whole - pass.forward + pass.repeated;
  if (mapping_.scheme.zero == 0) return Exposed(each, backward, layers, mapping_);
  return Exposed(each / 2, backward, layers, mapping_) +
         Exposed(each / 2, pass.forward, layers, mapping_);
}

std::vector<Partition> MappingCosts::RepeatedOf(const Partitioning& partitioning) const {
  std::vector<Partition> out;
  const KernelSet repeated = Repeated();
  for (const Partition& p : partitioning.partitions) {
    const KernelSet again = p.kernels & repeated;
    if (again == 0) continue;
    const auto alone = again == p.kernels ? std::nullopt : parts_->Of(again);
    out.push_back(alone ? *alone : p);
  }
  return out;
}

PassTime MappingCosts::PassOf(const Partitioning& partitioning) const {
  PassTime pass;
  pass.whole = partitioning.time;
  for (const Partition& p : partitioning.partitions) {
    bool forward = false;
    ForEach(p.kernels, [&](size_t i) {
      forward = forward || workload_->kernels[i].pass == Direction::kForward;
    });
    if (forward) pass.forward += p.time;
  }
  for (const Partition& p : RepeatedOf(partitioning)) pass.repeated += p.time;
  return pass;
}

KernelSet MappingCosts::Repeated() const {
  KernelSet set = 0;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    if (Repeats(mapping_.recompute, workload_->kernels[i])) set |= KernelSet{1} << i;
  }
  return set;
}

IterationTime MappingCosts::TimeOf(const PassTime& pass) const {
  IterationTime t;
  const auto layers = static_cast<double>(layers_per_stage_);
  const auto stages = static_cast<double>(mapping_.pipeline);
  const std::vector<NetworkDimension> between = NetworksOf(*system_, Role::kPipeline);
  t.pass = pass.whole;
  if (formulas_.iteration == IterationRule::kPhysical) {
    t.pass += pass.repeated;
    const auto chunks = static_cast<double>(mapping_.scheme.chunks);
    t.stage = layers * t.pass;
    // Forward and backward go in opposite directions of a link, beside the stage's own work.
    const RealBytes bytes = mapping_.micro_batch * workload_->layer_input_bytes;
    const RealNs transfer = between.empty() ? RealNs()
                                            : TimeToMove(bytes, between.front().bandwidth) +
                                                  Real(between.front().latency);
    const RealNs slot = std::max(t.stage, chunks * transfer);
    // What no other micro-batch hides: filling and draining, from the first place to the last.
    const RealNs exposed = ((workload_->trains() ? 2 : 1) * (stages * chunks - 1)) * transfer;
    t.transfer = micro_batches_ * (slot - t.stage) + exposed;
    t.bubble = (stages - 1) * slot / chunks;
    t.gradient = GradientTime(pass);
    t.gradient_bytes = RealBytes(GradientBytes());
    t.layer_reduction = LayerReductionTime();
    if (workload_->trains())
      t.optimizer = OptimizerTime(*system_, *workload_, mapping_,
                                  RealBytes(ForwardWeightBytes() * layers + head_weight_bytes_));
    // The last stage takes so much longer for each; the others fill and drain the pipeline alike.
    t.head = RealNs(micro_batches_ * head_ns_);
    t.total = micro_batches_ * t.stage + t.transfer + t.bubble + t.head + t.gradient + t.optimizer;
    return t;
  }
  const bool early = formulas_.iteration == IterationRule::kEarly;
  if (early) {
    t.pass += TimeToMove(RealBytes(ReadApartBytes()), system_->memory.bandwidth);
    const RealBytes bytes = mapping_.micro_batch * workload_->layer_input_bytes;
    if (!between.empty()) t.pass = std::max(t.pass, TimeToMove(bytes, between.front().bandwidth));
  }
  t.stage = layers * t.pass;
  const RealNs work = micro_batches_ * t.stage;
  t.bubble = (stages - 1) * work / (micro_batches_ * (early ? 1 : std::max(1.0, layers - 1)));
  // Published: every layer's input over the link between stages, once an iteration.
  if (!early && !between.empty() && workload_->trains()) {
    const RealBytes bytes(2 * workload_->layer_input_bytes.count() *
                          static_cast<double>(workload_->layers));
    t.transfer = TimeToMove(bytes, between.front().bandwidth);
  }
  t.total = work + t.bubble + t.transfer;
  return t;
}

IterationTime MappingCosts::LowerBound(bool alone) const {
  if (!alone) return TimeOf({RealNs(parts_->LowerBoundNs()), {}, {}});
  PassTime pass;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    const Kernel& kernel = workload_->kernels[i];
    const RealNs ns = RealNs(parts_->AloneNs(i));
    pass.whole += ns;
    if (kernel.pass == Direction::kForward) pass.forward += ns;
    if (Repeats(mapping_.recompute, kernel)) pass.repeated += ns;
  }
  return TimeOf(pass);
}

RealNs MappingCosts::Bound(RealNs pass) const {
  const IterationTime t = TimeOf({pass, {}, {}});
  if (formulas_.iteration != IterationRule::kPhysical || !workload_->trains()) return t.total;
  // At the least every weight and its gradient are divided over all chips of the group.
  double weights = 0, gradients = 0;
  for (const Kernel& k : workload_->kernels) {
    if (k.pass == Direction::kForward) weights += k.has_weights() ? WeightElements(k.size) : 0;
    if (k.weight_gradient) gradients += ResultElements(k.size);
  }
  const double share = static_cast<double>(layers_per_stage_) * workload_->word_bytes.count() /
                       static_cast<double>(mapping_.tensor);
  const TensorGroup replicas = GroupOf(*system_, formulas_, Role::kData);
  const RealNs reduced = mapping_.scheme.overlap_gradients
                             ? RealNs()
                             : AllReduceTime(replicas, RealBytes(gradients * share));
  return t.total - t.gradient - t.optimizer + reduced +
         OptimizerTime(*system_, *workload_, mapping_, RealBytes(weights * share));
}

}  // namespace foretrace::dataflow
