#pragma once
// One entry of a Kineto file's traceEvents, as read.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {

// What is kept of an event; the comment gives the key or keys it is read from.
enum class Field : uint8_t {
  kPhase,              // ph
  kCategory,           // cat
  kName,               // name
  kProcess,            // pid
  kThread,             // tid
  kStart,              // ts
  kDuration,           // dur
  kLabel,              // args.name of metadata events
  kExternalId,         // args."External id", "external id"
  kRecordFunctionId,   // args."Record function id"
  kCorrelation,        // args.correlation
  kStream,             // args.stream
  kDevice,             // args.device
  kWaitOnStream,       // args.wait_on_stream
  kWaitOnCorrelation,  // args.wait_on_cuda_event_record_corr_id
  kWaitOnEvent,        // args.wait_on_cuda_event_id
  kEvent,              // args.event, "cuda_event_id", "event_id"
  kBytes,              // args.bytes, "size"
  kCollectiveName,     // args."Collective name"
  kInElements,         // args."In msg nelems"
  kOutElements,        // args."Out msg nelems"
  kGroupSize,          // args."Group size"
  kDtype,              // args.dtype
  kInSplit,            // args."In split size"
  kOutSplit,           // args."Out split size"
  kGroupName,          // args."Process Group Name"
  kGroupDescription,   // args."Process Group Description"
  kGroupRanks,         // args."Process Group Ranks"
  kSourceRank,         // args."Src Rank"
  kDestinationRank,    // args."Dst Rank"
  kRootRank,           // args."Root Rank"
  kSequence,           // args."Seq"
  kBlocksPerSm,        // args."blocks per SM"
  kWarpsPerSm,         // args."warps per SM"
  kRegisters,          // args."registers per thread"
  kSharedMemory,       // args."shared memory"
  kGrid,               // args.grid: blocks of a launch; HIP's module launches count threads
  kBlock,              // args.block: threads of a block
  kExactStart,         // args."foretrace.ts": of predictions, whose ts and dur are rounded
  kExactDuration,      // args."foretrace.dur"
  kExactWaves,         // args."foretrace.waves": of predictions, RankTrace::waves_milli
  kSequenceNumber,     // args."Sequence number": of an operator and its backward
  kForwardThread,      // args."Fwd thread id": 0 in the forward pass
  kAllocatedBytes,     // args.Bytes, of [memory]; below 0: freed
  kTotalAllocated,     // args."Total Allocated"
  kTotalReserved,      // args."Total Reserved"
  kDeviceType,         // args."Device Type": 0 is the host
  kAddress,            // args.Addr
  kCount,
};

// Dimensions of one tensor among "Input Dims", or its strides in elements among "Input Strides".
struct InputDims {
  uint32_t argument = 0;  // position in the operator's argument list
  uint32_t begin = 0;     // into Event::dim_values, or stride_values
  uint32_t count = 0;
  bool in_list = false;  // element of a TensorList argument
};

class Event {
 public:
  bool Has(Field field) const { return (present_ >> static_cast<int>(field)) & 1; }
  // Empty when absent.
  std::string_view Text(Field field) const {
    return Has(field) ? std::string_view(text_[static_cast<size_t>(field)]) : std::string_view();
  }
  std::optional<int64_t> Integer(Field field) const {
    return Has(field) ? json::ParseInteger(Text(field)) : std::nullopt;
  }
  int64_t IntegerOr(Field field, int64_t fallback) const {
    return Integer(field).value_or(fallback);
  }
  std::string& Set(Field field) {
    present_ |= uint64_t{1} << static_cast<int>(field);
    return text_[static_cast<size_t>(field)];
  }
  void Clear() {
    present_ = 0;
    dims.clear();
    dim_values.clear();
    strides.clear();
    stride_values.clear();
    types.clear();
    concrete.clear();
  }

  int64_t index = -1;      // position in traceEvents
  int64_t offset = 0;      // byte in the decompressed file
  bool duplicate = false;  // a key of `args` came twice with different values
  std::vector<InputDims> dims;
  std::vector<int64_t> dim_values;
  std::vector<InputDims> strides;
  std::vector<int64_t> stride_values;
  std::vector<std::string> types;     // "Input type"
  std::vector<std::string> concrete;  // "Concrete Inputs"

 private:
  static_assert(static_cast<int>(Field::kCount) <= 64);
  uint64_t present_ = 0;
  std::array<std::string, static_cast<size_t>(Field::kCount)> text_;
};

}  // namespace foretrace::kineto
