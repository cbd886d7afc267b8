#pragma once
// What a profile says about a collective, gathered from up to four places: the arguments of the
// NCCL kernel itself, and the record_param_comms, c10d:: and nccl: ranges around its launch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/time.h"
#include "simulator/importers/kineto/event.h"
#include "simulator/trace/builder.h"

namespace foretrace::kineto {

struct CommInfo {
  CollectiveOp op = CollectiveOp::kUnknown;
  bool is_send = false;
  bool is_recv = false;
  std::optional<int64_t> bytes_in;   // sent by this rank
  std::optional<int64_t> bytes_out;  // received by this rank
  DType dtype = DType::kUnknown;
  int64_t group_size = 0;
  int64_t peer = -1;       // rank within the group; the root of rooted collectives
  int64_t peer_rank = -1;  // rank of the job
  int64_t sequence = -1;
  std::string group;
  std::string group_description;
  std::vector<int64_t> group_ranks;  // empty: not given, or cut short by the profiler
  // Bytes by member of the group: of an unequal all-to-all, and of an NCCL group of sends and
  // receives, where members that it does not meet have 0. Empty: equal, or not known.
  std::vector<int64_t> in_splits;
  std::vector<int64_t> out_splits;

  bool HasOperation() const { return op != CollectiveOp::kUnknown || is_send || is_recv; }
  // Takes from `other` what is unknown here.
  void FillFrom(const CommInfo& other);
};

// How much a source knows about the operation: higher is closer to the kernel.
enum class CommSource : uint8_t { kAnnotation, kC10d, kRecordParam, kKernel };

// Whether a CPU event is a range that describes communication.
std::optional<CommSource> CommRangeSource(std::string_view name);

// From an event's "Collective name" arguments, or else its name and dimensions.
CommInfo DescribeCommunication(const Event& event, CommSource source);

// The first of the "Collective name" arguments that is there and says nothing, as `"Group size" is
// "two"`; empty where all can be used. Lists that the profiler cut short ("[0, 1, ..., 63]") can.
std::string UnusableArgument(const Event& event);

// A range around launches of collectives, on one thread.
struct CommRange {
  SimTime start;
  SimTime end;
  CommSource source = CommSource::kAnnotation;
  CommInfo info;
};

// Describes the collective kernel `own` launched at `launch`, from the ranges of the launching
// thread. `previous_launch` is the time of the thread's previous collective launch: operations of
// one NCCL group (batched sends and receives) end before the launch that serves them all.
// `ranges` is sorted by start.
CommInfo ResolveCommunication(const CommInfo& own, const std::vector<CommRange>& ranges,
                              SimTime launch, SimTime previous_launch);

}  // namespace foretrace::kineto
