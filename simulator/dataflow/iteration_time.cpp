// The time of an iteration, of what a pass takes: MappingCosts' part.

#include <algorithm>

#include "simulator/dataflow/mapping_costs.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

double MappingCosts::GradientBytes() const {
  double bytes = 0;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    if (workload_->kernels[i].weight_gradient) bytes += sharded_->kernels[i].output_bytes;
  }
  return bytes * static_cast<double>(layers_per_stage_) + head_weight_bytes_;
}

namespace {

// Of `exchange_ns` for each of a stage's layers, one behind the work of the layers after it: what
// comes after all work. Between the layers of two chunks there are those of a group of as many
// micro-batches as stages.
double ExposedNs(double exchange_ns, double work_ns, double layers, const Mapping& mapping) {
  const auto chunks = static_cast<double>(mapping.scheme.chunks);
  const double own = layers / chunks;
  const double between = (chunks - 1) * static_cast<double>(mapping.pipeline) * own + own - 1;
  return std::max(own * exchange_ns - (own - 1) * std::min(work_ns, exchange_ns),
                  layers * exchange_ns - between * work_ns);
}

}  // namespace

double MappingCosts::LayerReductionNs() const {
  if (!mapping_.scheme.overlap_gradients) return 0;
  const TensorGroup replicas = GroupOf(*system_, formulas_, Role::kData);
  return AllReduceNs(replicas, GradientBytes() / static_cast<double>(layers_per_stage_));
}

// An all-reduce is a scatter, of gradients, and a gather: of them, or of weights where replicas
// divide the optimizer (ZeRO), which takes alike.
double MappingCosts::GradientNs(const PassTime& pass) const {
  if (formulas_.iteration != IterationRule::kPhysical) return 0;
  const Role role = workload_->per_chip ? Role::kAll : Role::kData;
  const TensorGroup replicas = GroupOf(*system_, formulas_, role);
  if (!mapping_.scheme.overlap_gradients) return AllReduceNs(replicas, GradientBytes());
  const auto layers = static_cast<double>(layers_per_stage_);
  const double each = LayerReductionNs();
  const double backward = pass.ns - pass.forward_ns + pass.repeated_ns;
  if (mapping_.scheme.zero == 0) return ExposedNs(each, backward, layers, mapping_);
  return ExposedNs(each / 2, backward, layers, mapping_) +
         ExposedNs(each / 2, pass.forward_ns, layers, mapping_);
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
  pass.ns = partitioning.time_ns;
  for (const Partition& p : partitioning.partitions) {
    bool forward = false;
    ForEach(p.kernels, [&](size_t i) {
      forward = forward || workload_->kernels[i].pass == Direction::kForward;
    });
    pass.forward_ns += forward ? p.time_ns : 0;
  }
  for (const Partition& p : RepeatedOf(partitioning)) pass.repeated_ns += p.time_ns;
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
  t.pass_ns = pass.ns;
  if (formulas_.iteration == IterationRule::kPhysical) {
    t.pass_ns += pass.repeated_ns;
    const auto chunks = static_cast<double>(mapping_.scheme.chunks);
    t.stage_ns = t.pass_ns * layers;
    // Forward and backward go in opposite directions of a link, beside the stage's own work.
    const double bytes = workload_->layer_input_bytes * mapping_.micro_batch;
    const double transfer =
        between.empty() ? 0
                        : NsOf(bytes, between.front().bandwidth) + NsOf(between.front().latency);
    const double slot = std::max(t.stage_ns, chunks * transfer);
    // What no other micro-batch hides: filling and draining, from the first place to the last.
    const double exposed = (workload_->trains() ? 2 : 1) * (stages * chunks - 1) * transfer;
    t.transfer_ns = (slot - t.stage_ns) * micro_batches_ + exposed;
    t.bubble_ns = (stages - 1) * slot / chunks;
    t.gradient_ns = GradientNs(pass);
    t.gradient_bytes = GradientBytes();
    t.layer_reduction_ns = LayerReductionNs();
    if (workload_->trains())
      t.optimizer_ns = OptimizerNs(*system_, *workload_, mapping_,
                                   ForwardWeightBytes() * layers + head_weight_bytes_);
    // The last stage takes so much longer for each; the others fill and drain the pipeline alike.
    t.head_ns = micro_batches_ * head_ns_;
    t.total_ns = micro_batches_ * t.stage_ns + t.transfer_ns + t.bubble_ns + t.head_ns +
                 t.gradient_ns + t.optimizer_ns;
    return t;
  }
  const bool early = formulas_.iteration == IterationRule::kEarly;
  if (early) {
    t.pass_ns += NsOf(ReadApartBytes(), system_->memory.bandwidth);
    const double bytes = workload_->layer_input_bytes * mapping_.micro_batch;
    if (!between.empty()) t.pass_ns = std::max(t.pass_ns, NsOf(bytes, between.front().bandwidth));
  }
  t.stage_ns = t.pass_ns * layers;
  const double work = t.stage_ns * micro_batches_;
  t.bubble_ns = work * (stages - 1) / (micro_batches_ * (early ? 1 : std::max(1.0, layers - 1)));
  // Published: every layer's input over the link between stages, once an iteration.
  if (!early && !between.empty() && workload_->trains()) {
    t.transfer_ns = NsOf(2 * workload_->layer_input_bytes * static_cast<double>(workload_->layers),
                         between.front().bandwidth);
  }
  t.total_ns = work + t.bubble_ns + t.transfer_ns;
  return t;
}

IterationTime MappingCosts::LowerBound(bool alone) const {
  if (!alone) return TimeOf({parts_->LowerBoundNs(), 0, 0});
  PassTime pass;
  for (size_t i = 0; i < workload_->kernels.size(); ++i) {
    const Kernel& kernel = workload_->kernels[i];
    const double ns = parts_->AloneNs(i);
    pass.ns += ns;
    if (kernel.pass == Direction::kForward) pass.forward_ns += ns;
    if (Repeats(mapping_.recompute, kernel)) pass.repeated_ns += ns;
  }
  return TimeOf(pass);
}

double MappingCosts::BoundNs(double pass_ns) const {
  const IterationTime t = TimeOf({pass_ns, 0, 0});
  if (formulas_.iteration != IterationRule::kPhysical || !workload_->trains()) return t.total_ns;
  // At the least every weight and its gradient are divided over all chips of the group.
  double weights = 0, gradients = 0;
  for (const Kernel& k : workload_->kernels) {
    if (k.pass == Direction::kForward) weights += k.has_weights() ? WeightElements(k.size) : 0;
    if (k.weight_gradient) gradients += ResultElements(k.size);
  }
  const double share = static_cast<double>(layers_per_stage_) * workload_->word_bytes /
                       static_cast<double>(mapping_.tensor);
  const TensorGroup replicas = GroupOf(*system_, formulas_, Role::kData);
  const double reduced =
      mapping_.scheme.overlap_gradients ? 0 : AllReduceNs(replicas, gradients * share);
  return t.total_ns - t.gradient_ns - t.optimizer_ns + reduced +
         OptimizerNs(*system_, *workload_, mapping_, weights * share);
}

}  // namespace foretrace::dataflow
