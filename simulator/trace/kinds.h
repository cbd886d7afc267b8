#pragma once
// The vocabulary of the trace store. Independent of any trace format.

#include <cstdint>
#include <string_view>

#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"

namespace foretrace {

enum class NodeKind : uint8_t {
  kCpuOp,        // a framework operator on a CPU thread; spans the calls nested in it
  kRuntimeCall,  // one driver or runtime call on a CPU thread
  kKernel,       // device computation on a stream
  kMemcpy,       // device copy on a stream
  kMemset,
  kCollective,  // on a stream; CommAttr says which
  kSend,        // on a stream; CommAttr.peer is the receiver
  kRecv,        // on a stream; CommAttr.peer is the sender
  kAnnotation,  // iteration marks and user ranges on a CPU thread
  kCount,
};

// What a kRuntimeCall does; column `detail` of such a node.
enum class RuntimeCall : uint8_t {
  kOther,  // returns without waiting for the device (attribute queries, ...)
  kLaunchKernel,
  kMemcpyAsync,
  kMemcpySync,  // cudaMemcpy, hipMemcpyWithStream: holds the thread until the copy is done
  kMemset,
  kGraphLaunch,  // one correlation id, many kernels
  kStreamSynchronize,
  kDeviceSynchronize,
  kEventSynchronize,
  kEventRecord,
  kEventQuery,
  kStreamWaitEvent,
  kMalloc,  // cudaMalloc, cudaHostAlloc: may synchronise the device
  kFree,    // cudaFree, cudaFreeHost: likewise
  kCount,
};

// Column `detail` of a kMemcpy node.
enum class MemcpyKind : uint8_t {
  kUnknown,
  kHostToDevicePinned,
  kHostToDevicePageable,
  kDeviceToHostPinned,
  kDeviceToHostPageable,
  kDeviceToDevice,
  kPeerToPeer,
  kHostToHost,
  kCount,
};

enum class AttentionMask : uint8_t { kUnknown, kNone, kCausal };

// Column `detail` of a kCpuOp node: how attention is masked, or how many of the tensors that a call
// goes through element by element are scattered to the threads of a warp, neighbours of which
// access places apart (at least a sector of 32 bytes). Behind each fourth further value the same
// with one dimension more that is left of all its tensors together (WithDimensions).
enum class CallDetail : uint8_t {
  kUnknown,
  kUnmasked,
  kCausal,
  kInOrder,
  kOneScattered,
  kTwoScattered,
  kThreeScattered,  // or more
};
inline constexpr int kScatteredDetails = 4;  // kInOrder and on
inline constexpr int kMostDetailDimensions = 8;
// How many values there are; files may state others.
inline constexpr int kCallDetails =
    static_cast<int>(CallDetail::kInOrder) + kScatteredDetails * (kMostDetailDimensions + 1);

// `ordered`: from kInOrder on, dimensions not known. 0 dimensions, or more than fit: not known.
constexpr CallDetail WithDimensions(CallDetail ordered, int dimensions) {
  const int known = dimensions > 0 && dimensions <= kMostDetailDimensions ? dimensions : 0;
  return static_cast<CallDetail>(static_cast<int>(ordered) + kScatteredDetails * known);
}

enum class DependencyKind : uint8_t {
  kData,     // producer's output is consumer's input
  kControl,  // declared order without data
  kSync,     // enforced by an event or a stream wait in the recording
  kCount,
};

std::string_view Name(NodeKind kind);
std::string_view Name(RuntimeCall call);
std::string_view Name(MemcpyKind kind);
std::string_view Name(DependencyKind kind);

inline bool IsDeviceKind(NodeKind kind) {
  return kind == NodeKind::kKernel || kind == NodeKind::kMemcpy || kind == NodeKind::kMemset ||
         kind == NodeKind::kCollective || kind == NodeKind::kSend || kind == NodeKind::kRecv;
}
inline bool IsCommunicationKind(NodeKind kind) {
  return kind == NodeKind::kCollective || kind == NodeKind::kSend || kind == NodeKind::kRecv;
}

}  // namespace foretrace
