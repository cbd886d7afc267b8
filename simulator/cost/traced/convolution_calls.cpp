#include "simulator/cost/traced/convolution_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "simulator/base/contains.h"
#include "simulator/cost/kernel/convolution_names.h"
#include "simulator/cost/kernel/kernel_names.h"

namespace foretrace {
namespace {

constexpr int kLevelsAround = 8;  // of calls around a launch
constexpr size_t kToNorm = 3;     // kernels between a convolution and its norm
// What changes a layout has a block for 32 positions. Of those that take several blocks, usual are:
constexpr int64_t kPositionsOfBlock = 32;
constexpr std::array<int64_t, 6> kUsualPositions = {49, 81, 121, 196, 256, 1024};
constexpr int64_t kWinogradPositions = 9;

bool IsConvolution(std::string_view call) {
  return call.starts_with("aten::") && ContainsAny(call, {"conv"}) &&
         !ContainsAny(call, {"transpose", "convert"});
}

class Finder {
 public:
  Finder(const TraceStore& store, const RankTrace& rank, const LaunchFlow& flow)
      : store_(store), rank_(rank), flow_(flow) {}

  void FindCalls(const std::map<uint32_t, CallKernels>& shapeless) {
    for (size_t i = 0; i < flow_.order().size(); ++i) {
      const NodeIndex launcher = rank_.launcher(flow_.order()[i]);
      if (!launcher.valid()) continue;
      const NodeIndex parent = rank_.parent(launcher);
      if (!found_.empty() && found_.back().call == parent) {
        found_.back().last = i;
        continue;
      }
      if (!shapeless.contains(parent.value)) continue;
      if (!IsConvolution(store_.name(rank_, parent))) continue;
      found_.push_back({.call = parent, .gradient = GradientAround(parent), .first = i, .last = i});
    }
  }

  // Kernels of convolutions one after the other are one's. What could be a linear layer's GEMM is
  // one of pixels where a norm takes its result, or gives the result's gradient.
  void FindRuns(std::span<const NodeIndex> uncalled) {
    const absl::flat_hash_set<NodeIndex> open(uncalled.begin(), uncalled.end());
    bool sure = true;
    const auto end_run = [&] {
      if (!sure && !IsNormed(found_.back())) found_.pop_back();
    };
    for (size_t i = 0; i < flow_.order().size(); ++i) {
      const NodeIndex kernel = flow_.order()[i];
      if (!open.contains(kernel)) continue;
      const ConvolutionPart part = ConvolutionKernelOf(flow_.name(i)).part;
      if (part == ConvolutionPart::kUnknown && !flow_.at(i).gemm) continue;
      const bool goes_on =
          !found_.empty() && found_.back().last + 1 == i && flow_.SameStream(i - 1, i);
      if (!goes_on) {
        end_run();
        sure = false;
        found_.push_back({.call = kernel, .first = i});
        if (flow_.backward(i)) found_.back().gradient = kernel;
      }
      found_.back().last = i;
      sure |= part != ConvolutionPart::kSumOfParts && !IsPlainGemm(flow_.name(i));
    }
    end_run();
  }

  std::vector<ConvolutionCall> Take() && {
    for (ConvolutionCall& call : found_) ReadKernels(call);
    Pair();
    return std::move(found_);
  }
  bool empty() const { return found_.empty(); }

 private:
  // Both halves of a backward pass have the same; what a checkpoint computes again has none.
  NodeIndex GradientAround(NodeIndex call) const {
    NodeIndex gradient, at = call;
    for (int level = 0; at.valid() && level < kLevelsAround; ++level, at = rank_.parent(at)) {
      if (rank_.kind(at) != NodeKind::kCpuOp) continue;
      const std::string_view name = store_.name(rank_, at);
      if (!ContainsAny(name, {"ackward"})) continue;
      if (ContainsAny(name, {"onv"})) gradient = at;
      if (!name.starts_with("aten::")) break;
    }
    return gradient;
  }

  bool IsNormed(const ConvolutionCall& call) const {
    return std::ranges::any_of(
        call.backward() ? flow_.Before(call.first, kToNorm) : flow_.Behind(call.last, kToNorm),
        [&](size_t p) {
          return flow_.at(p).channels > 0 && NamesGradient(flow_.name(p)) == call.backward();
        });
  }

  void Pair() {
    std::vector<size_t> open;
    size_t forward = 0;
    const ConvolutionCall* before = nullptr;
    for (ConvolutionCall& call : found_) {
      if (!call.backward()) {
        call.layer = forward++;
        open.push_back(call.layer);
      } else if (before != nullptr && before->gradient == call.gradient) {
        call.layer = before->layer;
      } else if (!open.empty()) {
        call.layer = open.back();
        open.pop_back();
      }
      before = &call;
    }
  }

  // Winograd's algorithm is for 3 x 3, a GEMM over pixels for 1 x 1. Where the filters' layout is
  // changed there is a plane of blocks for each.
  void ReadKernels(ConvolutionCall& call) const {
    bool gemm = false, other = false, transformed = false;
    std::vector<const LaunchAttr*> layouts;
    for (size_t i = call.first; i <= call.last; ++i) {
      const std::string_view name = flow_.name(i);
      const ConvolutionKernel kernel = ConvolutionKernelOf(name);
      const LaunchAttr* launch = rank_.launch(flow_.order()[i]);
      call.by_channel |= ContainsAny(name, {"depthwise", "grouped_direct"});
      call.winograd |= ContainsAny(name, {"inograd"});
      transformed |= kernel.part == ConvolutionPart::kFourierTransform ||
                     ContainsAny(name, {"im2col", "Im2Col", "Im2d2Col", "col2im"});
      const bool plain = IsPlainGemm(name);
      gemm |= plain;
      other |= !plain && flow_.at(i).gemm;
      if (kernel.into_layout && launch != nullptr) layouts.push_back(launch);
    }
    if (call.winograd) {
      call.positions = kWinogradPositions;
    } else if (gemm && !transformed && (!other || call.backward())) {
      call.positions = 1;
    }
    if (gemm || transformed || call.winograd || call.backward() || layouts.size() != 2) return;
    call.filters = layouts[1]->grid[2];
    for (const int64_t positions : kUsualPositions) {
      if ((positions - 1) / kPositionsOfBlock + 1 == layouts[1]->grid[0])
        call.positions = positions;
    }
  }

  const TraceStore& store_;
  const RankTrace& rank_;
  const LaunchFlow& flow_;
  std::vector<ConvolutionCall> found_;
};

}  // namespace

bool IsPlainGemm(std::string_view name) {
  return TraitsOfKernel(name).role == KernelRole::kMatmul && ContainsAny(name, {"gemm", "nvjet"}) &&
         !ContainsAny(name, {"conv", "fprop", "dgrad", "wgrad", "cudnn", "winograd", "implicit",
                             "cf32", "cgemm"});
}

std::vector<ConvolutionCall> FindConvolutions(const TraceStore& store, const RankTrace& rank,
                                              const LaunchFlow& flow, const KernelCalls& calls) {
  Finder finder(store, rank, flow);
  finder.FindCalls(calls.shapeless);
  if (finder.empty()) finder.FindRuns(calls.uncalled);
  return std::move(finder).Take();
}

}  // namespace foretrace
