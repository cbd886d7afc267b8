#include "simulator/dataflow/pass_terms.h"

#include <algorithm>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

bool Overlaps(const System& system, const Formulas& formulas) {
  return formulas.overlap == Overlap::kMaximum ||
         (formulas.overlap == Overlap::kByMachine && system.chip.execution == Execution::kDataflow);
}

PassTerms::PassTerms(const Workload& workload, const System& system, const Formulas& formulas,
                     const Mapping& mapping)
    : workload_(workload),
      system_(system),
      formulas_(formulas),
      mapping_(mapping),
      replicas_(GroupOf(system, formulas, Role::kData)) {
  layers_ = static_cast<double>((workload.layers + mapping.pipeline - 1) / mapping.pipeline);
  micro_batches_ = workload.batch / static_cast<double>(mapping.data) / mapping.micro_batch;
  passes_ = layers_ * (micro_batches_ + static_cast<double>(mapping.pipeline - 1) /
                                            static_cast<double>(mapping.scheme.chunks));
}

double PassTerms::ComputeNs(size_t i, const ShardedKernel& k) const {
  const Kernel& kernel = workload_.kernels[i];
  if (formulas_.kernel_times != nullptr)
    return formulas_.kernel_times
        ->Of(workload_.graph, static_cast<OpId>(i), k.size, mapping_.micro_batch)
        .ns();
  if (formulas_.compute_utilisation > 0) return PeakNs(k) / formulas_.compute_utilisation;
  const auto front = AllocationsOf(system_.chip, kernel, k, mapping_.tiles);
  return mapping_.micro_batch * static_cast<double>(front.back().cycles) *
         static_cast<double>(mapping_.tiles) / system_.chip.clock_ghz;
}

double PassTerms::SharedNs(size_t i, const ShardedKernel& k) const {
  return formulas_.compute_utilisation > 0 ? ComputeNs(i, k) : PeakNs(k);
}

double PassTerms::WeightNs(const ShardedKernel& k) const {
  if (formulas_.kernel_times != nullptr || formulas_.iteration == IterationRule::kDse) return 0;
  const double read = formulas_.iteration == IterationRule::kEarly
                          ? 1
                          : TimesRead(formulas_.streamed, k, workload_.word_bytes,
                                      mapping_.micro_batch, system_.chip.sram);
  return NsOf(k.weight_bytes.count() * read, system_.memory.bandwidth);
}

double PassTerms::StoredNs(const ShardedKernel& k) const {
  if (formulas_.kernel_times != nullptr) return 0;
  return NsOf(k.stored_bytes.count() * mapping_.micro_batch, system_.memory.bandwidth);
}

double PassTerms::CrossingNs(double bytes) const {
  if (formulas_.kernel_times != nullptr) return 0;
  return NsOf(2 * bytes * mapping_.micro_batch, system_.memory.bandwidth);
}

double PassTerms::IterationNs(size_t i, const ShardedKernel& k) const {
  const Kernel& kernel = workload_.kernels[i];
  double ns = 0;
  if (formulas_.iteration != IterationRule::kPhysical) {
    return kernel.weight_gradient ? AllReduceTime(replicas_, k.output_bytes).ns() / micro_batches_
                                  : 0;
  }
  if (kernel.weight_gradient && !mapping_.scheme.overlap_gradients)
    ns += AllReduceTime(replicas_, layers_ * k.output_bytes).ns();
  if (workload_.trains() && kernel.pass == Direction::kForward)
    ns += OptimizerTime(system_, workload_, mapping_, layers_ * k.weight_bytes).ns();
  return ns / passes_;
}

double PassTerms::RepeatedLatencyNs() const {
  if (mapping_.scheme.overlap_gradients) return 0;
  int reductions = 0;
  for (const Kernel& k : workload_.kernels) reductions += k.weight_gradient ? 1 : 0;
  return std::max(0, reductions - 1) * AllReduceTime(replicas_, RealBytes()).ns();
}

double PassTerms::PeakNs(const ShardedKernel& k) const {
  return mapping_.micro_batch * k.flop.count() / system_.chip.gflops();
}

}  // namespace foretrace::dataflow
