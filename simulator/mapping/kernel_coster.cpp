#include "simulator/mapping/kernel_coster.h"

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"

namespace foretrace {
namespace {

bool IsGemmLike(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kBatchedGemm ||
         kind == KernelKind::kAttention;
}

bool IsAttentionGradient(const KernelWork& work) {
  return work.kind == KernelKind::kAttention && work.pass == Direction::kBackward;
}

}  // namespace

double KernelCoster::Seconds(const KernelWork& work, CostSources& sources,
                             const GemmForm& form) const {
  const Estimate estimate = Measured(work);
  double seconds = estimate.time.seconds() / form.share;
  if (IsGemmLike(work.kind)) seconds *= p_.gemm_slowdown;
  if (work.kind == KernelKind::kAttention) seconds += AttentionLoss(work, seconds);
  if (work.kind == KernelKind::kGemm || work.kind == KernelKind::kBatchedGemm) {
    if (form.eight_bit) seconds *= p_.eight_bit_share;
    if (form.four_bit) seconds *= p_.four_bit_share;
    const FlopRate sustained = form.four_bit    ? FlopRate()
                               : form.eight_bit ? p_.sustained_fp8
                                                : p_.sustained;
    const bool narrow = ElementSize(work.dtype) <= 2;
    if (narrow && sustained > FlopRate()) {
      seconds = std::max(seconds, work.flop.count() / sustained.per_second());
    }
    if (form.eight_bit && (form.backward || p_.promotes_forward)) seconds *= p_.split_accumulation;
  }
  if (IsGemmLike(work.kind)) seconds *= p_.slowest_device;
  seconds += p_.kernel_gap.seconds();
  sources.Add(seconds, estimate);
  const bool whole = estimate.source == EstimateSource::kCalibrated;
  return IsAttentionGradient(work) && !whole ? seconds + AroundAttentionGradient(work, sources)
                                             : seconds;
}

double KernelCoster::AttentionLoss(const KernelWork& work, double seconds) const {
  const double longer = p_.attention_slowdown - 1;
  const int64_t depth = p_.attention_slowdown_depth;
  if (depth == 0 || work.k <= 0 || work.k == depth) return longer * seconds;
  // As many scores of heads of that dimension.
  const double share = static_cast<double>(work.k) / static_cast<double>(depth);
  const auto scaled = [&](Bytes bytes) {
    return WholeBytes(static_cast<double>(bytes.count()) / share);
  };
  KernelWork at = work;
  at.k = depth;
  at.flop = Flop(work.flop.count() / share);
  at.read = scaled(work.read);
  at.written = scaled(work.written);
  return longer * Measured(at).time.seconds() * share;
}

// FlashAttention-2 (flash_bwd_preprocess_kernel.h), FlashAttention-3 and cuDNN (kernels
// compute_dot_do_o and convert_dq_to_16bits) alike: the GEMMs of results and their gradients
// are summed by query, the queries' gradients cleared, added up in 32 bits and cast; heads that
// share keys have gradients of their own, which are summed. On an H100 (Shah et al., 2024, figure
// 6, head dimension 128) what this leaves of each length's time is a main kernel of 576, 529 and
// 321 TFLOP/s within 2 % from 2,048 tokens on, though the whole operator's rate rises by a tenth.
double KernelCoster::AroundAttentionGradient(const KernelWork& work, CostSources& sources) const {
  const int64_t queries = SaturatingProduct({work.batch, work.m, work.k});
  const int64_t elements = work.written.count() / std::max<int64_t>(ElementSize(work.dtype), 1);
  const int64_t keys = std::max<int64_t>(elements - queries, 0);
  const int64_t of_heads = SaturatingProduct({2, work.batch, work.n, work.k});
  const auto call = [&](ElementwiseOp shape, DType from, DType to) {
    shape.output_dtype = to;
    return Seconds(Kernels({shape, from, Direction::kForward}), sources);
  };
  const int64_t rows = SaturatingProduct({work.batch, work.m});
  double seconds = call({rows, SaturatingProduct({2, queries})}, work.dtype, DType::kFloat32);
  seconds += Seconds(Kernels({FillOp{queries}, DType::kFloat32, Direction::kForward}), sources);
  seconds += call({queries, queries}, DType::kFloat32, work.dtype);
  for (int i = 0; keys < of_heads && i < 2; ++i) {
    seconds += call({keys / 2, of_heads / 2}, work.dtype, work.dtype);
  }
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
  if (IsGemmLike(work.kind)) {
    compute = work.flop.count() / (p_.peak.per_second() * p_.matrix_efficiency);
    if (work.kind == KernelKind::kGemm) {
      compute *= 1 + p_.matrix_half_size / static_cast<double>(std::max<int64_t>(
                                               std::min({work.m, work.n, work.k}), 1));
    }
  }
  return {SimTime::FromSeconds(std::max(compute, memory)), EstimateSource::kAnalytic, true};
}

}  // namespace foretrace
