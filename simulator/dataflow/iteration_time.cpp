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
  return bytes * static_cast<double>(layers_per_stage_);
}

double MappingCosts::GradientNs() const {
  if (formulas_.iteration != IterationRule::kPhysical) return 0;
  const Role role = workload_->per_chip ? Role::kAll : Role::kData;
  const TensorGroup replicas = GroupOf(*system_, formulas_, role);
  return AllReduceNs(replicas, GradientBytes());
}

IterationTime MappingCosts::TimeOf(double pass_ns, double forward_ns) const {
  IterationTime t;
  const auto layers = static_cast<double>(layers_per_stage_);
  const auto stages = static_cast<double>(mapping_.pipeline);
  const std::vector<NetworkDimension> between = NetworksOf(*system_, Role::kPipeline);
  t.pass_ns = pass_ns;
  if (formulas_.iteration == IterationRule::kPhysical) {
    t.pass_ns += mapping_.recompute ? forward_ns : 0;
    t.stage_ns = t.pass_ns * layers;
    // Forward and backward go in opposite directions of a link, beside the stage's own work.
    const double bytes = workload_->layer_input_bytes * mapping_.micro_batch;
    const double transfer =
        between.empty() ? 0
                        : NsOf(bytes, between.front().bandwidth) + NsOf(between.front().latency);
    const double slot = std::max(t.stage_ns, transfer);
    // What no other micro-batch hides: filling and draining.
    const double exposed = (workload_->trains() ? 2 : 1) * (stages - 1) * transfer;
    t.transfer_ns = (slot - t.stage_ns) * micro_batches_ + exposed;
    t.bubble_ns = (stages - 1) * slot;
    t.gradient_ns = GradientNs();
    t.gradient_bytes = GradientBytes();
    if (workload_->trains())
      t.optimizer_ns = OptimizerNs(*system_, *workload_, ForwardWeightBytes() * layers);
    t.total_ns =
        micro_batches_ * t.stage_ns + t.transfer_ns + t.bubble_ns + t.gradient_ns + t.optimizer_ns;
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
  if (!alone) return TimeOf(parts_->LowerBoundNs(), 0);
  const double forward_ns = parts_->AloneNs(Direction::kForward);
  return TimeOf(forward_ns + parts_->AloneNs(Direction::kBackward), forward_ns);
}

double MappingCosts::BoundNs(double pass_ns) const {
  const IterationTime t = TimeOf(pass_ns, 0);
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
  return t.total_ns - t.gradient_ns - t.optimizer_ns + AllReduceNs(replicas, gradients * share) +
         OptimizerNs(*system_, *workload_, weights * share);
}

}  // namespace foretrace::dataflow
