#include "simulator/mapping/kernel_lists.h"

#include <algorithm>

namespace foretrace {

void Append(KernelList& list, const OperatorCall::Shape& shape, DType dtype, Direction pass,
            double instructions) {
  for (KernelWork work : Kernels({shape, dtype, pass})) {
    work.instructions = std::max(work.instructions, instructions);
    list.push_back(work);
  }
}

}  // namespace foretrace
