#include "simulator/cost/traced/observed_losses.h"

#include <algorithm>
#include <cmath>

namespace foretrace {

// A loss of chosen scores is one block's, 16 of them a thread as far as a block has threads
// (aten/src/ATen/native/cuda/Loss.cu, nll_loss_threads): forward a target, then its score.
void AddStepsOfChosen(std::string_view name, KernelWork& work) {
  if (name.find("nll_loss_") == name.npos || name.find("_kernel_2d<") == name.npos) return;
  constexpr int64_t kEach = 16;
  const int64_t samples = std::max<int64_t>(work.cols, 1);
  const double whole = static_cast<double>(std::max<int64_t>(samples / kEach, 1));
  const int64_t threads =
      std::clamp<int64_t>(int64_t{1} << std::lround(std::log2(whole)), 32, 1024);
  const int64_t chain = name.find("forward") != name.npos ? 2 : 1;
  work.trips = chain * ((samples - 1) / threads + 1);
}

// A softmax's maximum and sum in one pass, as PyTorch's compiler generates it: for each element the
// larger of two, tests of both for infinities, two exponentials of differences, a product, a sum
// (torch/_inductor/runtime/triton_helpers.py, online_softmax_combine). The count is what
// llama3-8b-l4-s8192-b1-none-compiled's takes (H100, traces/README.md, "Captured") beside its
// bytes.
void AddOnlineSoftmax(std::string_view name, const ElementAccess& access, KernelWork& work) {
  constexpr double kInstructions = 19;
  if (!name.starts_with("triton_red_") || name.find("prepare_softmax_online") == name.npos) return;
  work.instructions = kInstructions * static_cast<double>(access.largest);
}

}  // namespace foretrace
