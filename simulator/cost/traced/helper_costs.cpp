#include "simulator/cost/traced/helper_costs.h"

#include <algorithm>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/launched_kernels.h"

namespace foretrace {
namespace {

// cuBLAS's reduction of a split product by blocks of 32 x 16 threads, or of a dot product's parts
// by one block: each reads its parts, waits for the block's other rows, and reads what the sum is
// added to. 0: another kernel.
int64_t SplitReduceTrips(std::string_view name) {
  constexpr int64_t kTrips = 3;
  const bool waits = name.find("splitKreduce_kernel<32, 16") != name.npos ||
                     name.find("reduce_1Block_kernel") != name.npos;
  return waits ? kTrips : 0;
}

// What attention's gradients begin with reads the result and its gradient, and clears sums of 32
// bits; what they end with makes these the queries' gradient (FlashAttention-2's
// flash_bwd_preprocess_kernel.h, cuDNN's alike). Of what is written, a third each are queries',
// keys' and values'.
KernelWork AroundAttention(std::string_view name, const KernelWork& main) {
  constexpr int64_t kGradients = 3;
  const Bytes tensor(main.written.count() / kGradients);
  const Bytes sums(tensor.count() / std::max<int64_t>(ElementSize(main.dtype), 1) *
                   ElementSize(DType::kFloat32));
  KernelWork work;
  work.kind = KernelKind::kCopy;
  const bool begins = ContainsAny(name, {"dot_do_o"});
  work.read = begins ? tensor + tensor : sums;
  work.written = begins ? sums : tensor;
  return work;
}

}  // namespace

KernelWork HelperWork(const KernelWork& main) {
  KernelWork work;
  work.kind = KernelKind::kCopy;
  work.read = work.written = main.written;
  return work;
}

bool HelpersAreWithin(KernelKind kind) {
  return kind == KernelKind::kGemm || kind == KernelKind::kBatchedGemm ||
         kind == KernelKind::kConvolution || kind == KernelKind::kAttention;
}

SimTime HelperCosts::Time(NodeIndex node) const {
  const bool kernel = rank.kind(node) == NodeKind::kKernel;
  if (launched && kernel) {
    KernelWork work = HelperWork(first);
    work.trips = SplitReduceTrips(store.name(rank, node));
    return std::max(floor, models.Predict(work, Precision::kFloat32).time);
  }
  const std::string_view name = store.name(rank, node);
  if (kernel && first.kind == KernelKind::kAttention && IsAroundAttention(name)) {
    return std::min(most, models.Predict(AroundAttention(name, first), Precision::kFloat32).time);
  }
  const WorkAttr* recorded = rank.kind(node) == NodeKind::kMemset ? rank.work(node) : nullptr;
  if (recorded == nullptr || alone || first.kind == KernelKind::kEmbedding) return most;
  KernelWork fill;
  fill.kind = KernelKind::kFill;
  fill.written = recorded->bytes;
  return std::min(most, models.Predict(fill, Precision::kFloat32).time);
}

SimTime WithKernelsAround(SimTime time, const CallKernels& op, const ObservedKernels& observed,
                          const HelperCosts& helper) {
  const KernelKind kind = helper.first.kind;
  // What blocks take is that of the main kernel alone.
  if (HelpersAreWithin(kind) && !helper.launched) {
    for (const NodeIndex node : op.kernels) {
      if (std::ranges::find(observed.mains, node) == observed.mains.end()) {
        time -= helper.Time(node);
      }
    }
    return time;
  }
  if (kind == KernelKind::kEmbedding) return time;  // that of all its kernels
  // A kernel takes its floor however little it does.
  const auto more =
      static_cast<int64_t>(observed.mains.size()) - static_cast<int64_t>(observed.list.size());
  return time + SimTime::FromPs(helper.floor.ps() * std::max<int64_t>(more, 0));
}

}  // namespace foretrace
