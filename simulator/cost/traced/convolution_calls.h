#pragma once
// Convolutions of a rank whose calls have no shapes, and what their own kernels say of them.

#include <cstdint>
#include <string_view>
#include <vector>

#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/launch_flow.h"

namespace foretrace {

struct ConvolutionCall {
  static constexpr size_t kNoLayer = SIZE_MAX;

  NodeIndex call;              // where there is none, its first kernel
  NodeIndex gradient;          // autograd's node around it; invalid: forward
  size_t first = 0, last = 0;  // kernels, by place in the flow
  size_t layer = kNoLayer;     // counted by forward calls; a gradient's forward call's
  // By its kernels; 0: not known.
  int64_t positions = 0, filters = 0;
  bool winograd = false;
  bool by_channel = false;  // channels do not meet

  bool backward() const { return gradient.valid(); }
};

// Calls without shapes; where no convolution is among these, kernels without calls. In the order of
// the flow. Autograd goes through forward calls in reverse order.
std::vector<ConvolutionCall> FindConvolutions(const TraceStore& store, const RankTrace& rank,
                                              const LaunchFlow& flow, const KernelCalls& calls);

// A GEMM that needs no addresses of pixels.
bool IsPlainGemm(std::string_view name);

}  // namespace foretrace
