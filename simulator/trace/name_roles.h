#pragma once
// What the names that frameworks and libraries give to calls, ranges and kernels say of them. Read
// once, when a store is assembled: later rooms see roles, not names.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/string_pool.h"
#include "simulator/trace/kinds.h"

namespace foretrace {

class RankTrace;

// What a kernel computes.
struct KernelClass {
  enum class Family : uint8_t {
    kUnknown,
    kEmbedding,
    kGemm,
    kConvolution,
    kAttention,
    kMemory,
    kOther,
    kCommunication,
  };
  enum class Direction : uint8_t { kUnknown, kForward, kBackward };
  Family family = Family::kUnknown;
  Direction direction = Direction::kUnknown;
  // It exchanges data with other ranks, and so waits for them, though it is no collective of NCCL
  // or RCCL.
  bool peers = false;
};

// What an op or a range is, and so what is issued within it.
struct OpRole {
  bool backward : 1 = false;
  bool embedding : 1 = false;
  bool convolution : 1 = false;
  bool communication : 1 = false;  // an op that issues communication, or waits for it
  bool bookkeeping : 1 = false;    // made by the profiler within the op that it describes
  CollectiveOp collective = CollectiveOp::kUnknown;
};

KernelClass ClassOfKernel(std::string_view name);
// `kind`: kCpuOp or kAnnotation, of which fewer things can be told.
OpRole RoleOfOp(std::string_view name, NodeKind kind);

class NameRoles {
 public:
  // Of the names that nodes of these ranks have.
  void Assign(std::span<const RankTrace> ranks, const StringPool& strings);

  KernelClass of_kernel(StringId name) const { return roles_[name.value].kernel; }
  // None where the node is neither an op nor a range.
  OpRole of_op(NodeKind kind, StringId name) const {
    if (kind == NodeKind::kCpuOp) return roles_[name.value].op;
    if (kind == NodeKind::kAnnotation) return roles_[name.value].range;
    return {};
  }

 private:
  struct Roles {
    KernelClass kernel;
    OpRole op, range;
  };
  std::vector<Roles> roles_;  // by StringId
};

}  // namespace foretrace
