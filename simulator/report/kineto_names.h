#pragma once
// What PyTorch's profiler calls things, by which tools know them.

#include <string>
#include <string_view>

#include "simulator/base/collective_op.h"
#include "simulator/trace/kinds.h"

namespace foretrace {

std::string_view KinetoCategory(NodeKind kind);
// NCCL's kernel of communication.
std::string_view KinetoKernel(NodeKind kind, CollectiveOp op);

}  // namespace foretrace
