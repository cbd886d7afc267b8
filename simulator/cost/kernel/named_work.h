#pragma once
// What a kernel does of whose call nothing is known, by its name.

#include <string_view>

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

struct NamedWork {
  KernelKind kind = KernelKind::kOther;
  // How often it reads and writes each element.
  double read = 1, written = 1;
  // It works on what the element-wise kernels beside it in its stream do: its threads do not say on
  // how much, since each walks a row, a channel or a window. Else by its threads.
  bool as_neighbours = false;
  double elements_per_thread = 4;  // aten/src/ATen/native/cuda/thread_constants.h
};

// Names as PyTorch, its compiler, cuDNN, MIOpen, CUB, serving engines and extensions give them.
// Linear in the name's length; names come from traces and may be anything.
NamedWork NamedWorkOf(std::string_view name);

// Whether a kernel is attention's, whole or of some of its keys; not what stands before or behind.
bool NamesAttention(std::string_view name);

}  // namespace foretrace
