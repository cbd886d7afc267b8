#include "simulator/mapping/kernel_coster.h"

#include <algorithm>

#include "simulator/base/dtype.h"

namespace foretrace {
namespace {

bool IsProductLike(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kBatchedGemm ||
         kind == KernelKind::kAttention;
}

}  // namespace

double KernelCoster::Seconds(const KernelWork& work, CostSources& sources,
                             const ProductForm& form) const {
  const Estimate estimate = p_.measured != nullptr ? p_.measured->KernelTime(work) : Roofline(work);
  double seconds = estimate.time.seconds() / form.share;
  if (IsProductLike(work.kind)) seconds *= p_.product_slowdown;
  if (work.kind == KernelKind::kAttention) seconds *= p_.attention_slowdown;
  if (work.kind == KernelKind::kGemm || work.kind == KernelKind::kBatchedGemm) {
    if (form.eight_bit) seconds *= p_.eight_bit_share;
    const FlopRate sustained = form.eight_bit ? p_.sustained_fp8 : p_.sustained;
    const bool narrow = ElementSize(work.dtype) <= 2;
    if (narrow && sustained > FlopRate()) {
      seconds = std::max(seconds, work.flop.count() / sustained.per_second());
    }
    if (form.eight_bit && form.backward) seconds *= p_.split_accumulation;
  }
  if (IsProductLike(work.kind)) seconds *= p_.slowest_device;
  seconds += p_.kernel_gap.seconds();
  sources.Add(seconds, estimate);
  return seconds;
}

double KernelCoster::Seconds(const KernelList& list, CostSources& sources) const {
  double sum = 0;
  for (const KernelWork& work : list) sum += Seconds(work, sources);
  return sum;
}

Estimate KernelCoster::Roofline(const KernelWork& work) const {
  const double memory = static_cast<double>(work.total_bytes()) /
                        (p_.peak_memory.bytes_per_second() * p_.memory_efficiency);
  double compute = 0;
  if (IsProductLike(work.kind)) {
    compute = work.flop.count() / (p_.peak.per_second() * p_.matrix_efficiency);
    if (work.kind == KernelKind::kGemm) {
      compute *= 1 + p_.matrix_half_size / static_cast<double>(std::max<int64_t>(
                                               std::min({work.m, work.n, work.k}), 1));
    }
  }
  return {SimTime::FromSeconds(std::max(compute, memory)), EstimateSource::kAnalytic, true};
}

}  // namespace foretrace
