#include "simulator/cost/traced/observed_norms.h"

#include <algorithm>
#include <cstdint>

#include "simulator/cost/kernel/code_fetch.h"

namespace foretrace {

bool TakesStatistics(std::string_view name) {
  for (const std::string_view part : {"bn_fw_inf", "InferBN", "BatchNormFwdInfer",
                                      "batch_norm_transform_input", "elementwise_kernel"}) {
    if (name.find(part) != name.npos) return false;
  }
  return true;
}

// A batch norm whose channels lie together (aten/src/ATen/native/cuda/Normalization.cuh,
// batch_norm_*_channels_last_kernel): one kernel for its sums, one that writes. Threads load an
// element at a time; forward the sums are Welford's, with a division an element. Counts are what
// resnet50-b256-bf16's take (H100, traces/README.md, "Captured") beside their bytes. Few channels
// leave a part of the device's threads without work: `waves` of blocks, of which three quarters of
// one hide what threads wait for.
KernelList ChannelsLastNorm(const KernelWork& whole, bool forward, double waves) {
  constexpr double kStatistics = 40, kGradientSums = 15, kWrites = 18, kEnough = 0.75, kMost = 2;
  const double alone = waves > 0 ? std::clamp(kEnough / waves, 1.0, kMost) : 1;
  const int64_t size = SaturatingProduct({whole.rows, whole.cols});
  const Bytes tensor(SaturatingProduct({size, ElementSize(whole.dtype)}));
  const auto elements = static_cast<double>(size);
  KernelWork sums, writes;
  sums.kind = writes.kind = KernelKind::kBatchNorm;
  sums.pass = writes.pass = whole.pass;
  sums.dtype = writes.dtype = whole.dtype;
  sums.read = forward ? tensor : Bytes(SaturatingProduct({2, tensor.count()}));
  sums.instructions = elements * (forward ? kStatistics : kGradientSums) * alone;
  writes.read = sums.read;
  writes.written = tensor;
  writes.instructions = elements * kWrites * alone;
  return {sums, writes};
}

NodeIndex ChannelsLast(const TraceStore& store, const RankTrace& rank,
                       std::span<const NodeIndex> mains) {
  const auto at = std::ranges::find_if(mains, [&](NodeIndex node) {
    const std::string_view name = store.name(rank, node);
    return name.find("batch_norm_") != name.npos && name.find("_channels_last_") != name.npos;
  });
  return at == mains.end() ? NodeIndex() : *at;
}

// cuDNN's kernels that keep a channel in registers (bn_fw_tr_1C11_singleread,
// bn_bw_1C11_singleread) read it once; reads are over before writes begin, so that less of the
// bandwidth is left than where passes of blocks mix: forward 0.62 to 0.68 of the peak on V100
// (ns_resolution, ResNet-50) and 0.73 on an RTX 2080 Ti (ResNet), backward 0.42 to 0.6 on V100;
// of nccl_parser_config (A100: 0.69 and 0.57) the error alone was in view. On Hopper blocks take
// longer.
void AsSingleRead(const GpuPeaks& device, std::string_view name, KernelWork& work) {
  constexpr double kForwardShare = 0.75, kBackwardShare = 0.66;
  if (name.find("1C11_singleread") == name.npos || LaunchesFetchCode(device)) return;
  work.read = Bytes(work.read.count() / 2);
  work.bandwidth_share = work.pass == Direction::kForward ? kForwardShare : kBackwardShare;
}

}  // namespace foretrace
