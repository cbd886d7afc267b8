#include "simulator/cost/kernel/concat_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/cost/kernel/name_numbers.h"
#include "simulator/cost/kernel/vector_rates.h"
#include "simulator/cost/operator/element_work.h"

namespace foretrace {
namespace {

// A thread loads an element when it has found it, a division after the other, and goes on when it
// has stored it: a load of 600 cycles and 150 for each division are what TimeSformer's (H100,
// traces/README.md) take of 19 million elements, two divisions and four.
constexpr double kLoadCycles = 600, kDivisionCycles = 150;
// Two blocks of 512 threads for each multiprocessor, each of the tensors (getCatGrid); twice as
// many threads are resident.
constexpr int64_t kThreads = 1024, kTensorsAtOnce = 2;

}  // namespace

ConcatKernel ConcatKernelOf(std::string_view name) {
  constexpr std::string_view kIndex = ", unsigned ";
  constexpr size_t kDigits = 4;
  std::array<int64_t, 3> numbers = {2, 0, 1};  // dimensions, tensors, those with strides
  size_t at = name.find("CatArrayBatchedCopy");
  if (at != name.npos) at = name.find(kIndex, at);
  for (size_t i = 0; i < numbers.size() && at != name.npos; ++i) {
    at = name.find(", ", at + 1);
    if (at == name.npos) break;
    std::string_view text = name.substr(at + 2);
    const auto number = TakeNumber(text, kDigits);
    if (!number) break;
    numbers[i] = *number;
  }
  constexpr int64_t kMostDimensions = 4;
  const bool strided = numbers[2] > 1;
  const int64_t divisions = std::clamp<int64_t>(numbers[0] - 1, 0, kMostDimensions - 1);
  return {strided ? 2 * divisions : divisions, strided};
}

void AsConcatByElements(const GpuPeaks& device, const Launch& launch, const ElementAccess& access,
                        KernelWork& work) {
  const ConcatKernel kernel = ConcatKernelOf(launch.name);
  // Sectors of their own take longer than finding them.
  if (work.scattered <= 0) {
    work.instructions =
        ConcatInstructions(static_cast<double>(access.elements), kernel.divisions, kernel.strided);
  }
  if (launch.name.find("_aligned") != launch.name.npos || access.elements <= 0) return;
  // Where only their sum is known, tensors are taken to be alike: the grid's rows.
  int64_t largest = access.largest;
  if (largest <= 0 && launch.attr != nullptr) {
    largest = (access.elements - 1) / std::max<int64_t>(launch.attr->grid[1], 1) + 1;
  }
  if (largest <= 0) return;
  const int64_t threads = kThreads * std::max<int64_t>(std::lround(device.sms), 1);
  const int64_t turns =
      std::max((largest - 1) / threads + 1, (access.elements - 1) / (kTensorsAtOnce * threads) + 1);
  const double cycles = kLoadCycles + kDivisionCycles * static_cast<double>(kernel.divisions);
  work.trips = std::llround(static_cast<double>(turns) * cycles / kTripCycles);
}

KernelWork CopyOfConcat(const KernelWork& concat, int64_t elements) {
  // A slice of the result and a tensor in one piece have two dimensions left.
  constexpr double kDimensions = 2, kTensors = 2;
  KernelWork copy = concat;
  copy.read = copy.written = Bytes(SaturatingProduct({elements, ElementSize(concat.dtype)}));
  copy.instructions = StridedInstructions(static_cast<double>(elements), kDimensions, kTensors);
  // A thread takes four elements in turn where its block of 128 threads has as many.
  constexpr int64_t kBlock = 128, kInTurn = 4;
  copy.trips = std::clamp<int64_t>((elements - 1) / kBlock + 1, 1, kInTurn);
  copy.parts = 0;
  return copy;
}

}  // namespace foretrace
