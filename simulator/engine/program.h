#pragma once
// A job compiled for execution: per rank, lanes of items in program order, and the waits between
// them. Everything that the formats, rules and models had to say is in here; executing it needs no
// trace.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/estimate.h"
#include "simulator/base/time.h"
#include "simulator/engine/observer.h"
#include "simulator/hardware/accelerator.h"
#include "simulator/network/network_model.h"
#include "simulator/reconstruct/cpu_timeline.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class ItemKind : uint8_t {
  kCall,      // CPU call, or a mark of zero length
  kBlocking,  // CPU call that ends when what it waits for has ended
  kDevice,    // device work of known duration
  kComm,      // member of a rendezvous
};

inline constexpr uint32_t kNoItem = 0xffffffff;

// The lags of one rank, of which there are few: latencies of the platform. Each is kept once where
// it recurs soon.
class LagTable {
 public:
  static constexpr uint32_t kBits = 26;  // of an index
  static constexpr uint32_t kZero = 0;

  uint32_t Add(SimTime lag) {
    if (lag == SimTime()) return kZero;
    const size_t searched = std::min<size_t>(lags_.size(), 8);
    for (size_t back = 1; back <= searched; ++back) {
      const size_t at = lags_.size() - back;
      if (lags_[at] == lag) return static_cast<uint32_t>(at);
    }
    FORETRACE_CHECK(lags_.size() < (size_t{1} << kBits));
    lags_.push_back(lag);
    return static_cast<uint32_t>(lags_.size() - 1);
  }
  SimTime operator[](uint32_t index) const { return lags_[index]; }

 private:
  std::vector<SimTime> lags_ = {SimTime()};
};

// A wait for another item of the same rank.
struct ItemWait {
  ItemWait() = default;
  ItemWait(uint32_t for_item, uint32_t lag_index, bool for_start, bool holds_end, WaitCause why)
      : item(for_item), lag(lag_index), on_start(for_start), before_end(holds_end), cause(why) {}

  uint32_t item = kNoItem;
  // From that item's end (or start) on; in RankProgram::lags.
  uint32_t lag : LagTable::kBits = LagTable::kZero;
  bool on_start : 1 = false;    // wait for its start instead of its end
  bool before_end : 1 = false;  // holds the end of a kBlocking item rather than the start of any
  WaitCause cause : 4 = WaitCause::kDependency;
};
static_assert(sizeof(ItemWait) == 8 && static_cast<int>(WaitCause::kCount) <= 16);

// Small: large jobs have tens of millions.
struct Item {
  // kCall, kBlocking: overhead since the previous item of the lane. Device: least gap to it.
  SimTime lead;
  // kBlocking: the least it takes. kComm: the rank's own part after the last arrival that it waits
  // for, where recorded; ignored when the network decides.
  SimTime duration;
  // Device work: the latency from when the CPU item `issuer` issues it.
  SimTime issue_lag;
  uint32_t issuer = kNoItem;
  uint32_t waits_begin = 0;       // in RankProgram::waits, up to the next item's
  uint32_t rendezvous = kNoItem;  // kComm
  NodeIndex node;
  uint32_t lane = 0;  // index into RankProgram::lanes
  // Device work: the share of its duration after which its last blocks are placed and work of other
  // streams can start, in 1/65536; 0: it leaves room from the start.
  uint16_t placement_share = 0;
  ItemKind kind : 4 = ItemKind::kCall;
  EstimateSource source : 4 = EstimateSource::kRecorded;
  bool extrapolated : 1 = false;  // the duration's model was asked beyond its range
  bool copy_engine : 1 = false;   // device work of a copy engine rather than of multiprocessors
  bool needs_room : 1 = false;    // waits while work of another stream still has blocks to place
};
static_assert(sizeof(Item) == 48);

// From its start until its last blocks are placed.
inline SimTime PlacementTime(const Item& item) {
  return item.duration.ScaledBy(static_cast<double>(item.placement_share) / 65536.0);
}

struct LaneProgram {
  LaneIndex lane;      // a thread of the timeline, or the stream
  uint32_t begin = 0;  // items of this lane: [begin, end)
  uint32_t end = 0;
  bool cpu = false;
  // Items run when ready, the earliest first, rather than in program order; for traces that record
  // no order.
  bool ready_order = false;
  // Items do not exclude each other (each communication of a symbolic trace has its own proxy).
  bool unlimited = false;
};

// A part of a CPU item's lead: overhead of one kind in one framework call.
struct OverheadPart {
  uint32_t item = kNoItem;
  StringId op;  // outermost call; for T1 the one that follows
  OverheadKind kind = OverheadKind::kT1;
  SimTime time;
};

struct IterationItems {
  int64_t number = 0;
  uint32_t begin_item = kNoItem;
  uint32_t end_item = kNoItem;
  SimTime recorded_begin;
  SimTime recorded_end;
};

struct RankProgram {
  std::vector<Item> items;  // lane by lane, each in program order
  std::vector<ItemWait> waits;
  LagTable lags;
  std::vector<LaneProgram> lanes;
  std::vector<IterationItems> iterations;
  // What leads consist of, by item; empty unless CompileOptions::keep_overheads.
  std::vector<OverheadPart> overheads;
  SimTime start;  // when the rank begins: its skew against the first
  // Launches that each queue of a stream holds before a launch call waits for room; 0: any
  // number. The waits for it (WaitCause::kLaunchQueue) are among `waits`.
  uint32_t launch_queue_depth = 0;
  // Streams of the device contend for multiprocessors (Item::placement_share).
  bool contention = false;
  // What kernels wait for beside collectives that move data, and how much of it is in the items'
  // durations (fences.h; empty: nothing).
  FenceWaits fences;
  std::vector<SimTime> fenced;
  uint32_t waits_end(uint32_t item) const {
    return item + 1 < items.size() ? items[item + 1].waits_begin
                                   : static_cast<uint32_t>(waits.size());
  }
};

// A wait and the item that it belongs to.
using WaitOfItem = std::pair<uint32_t, ItemWait>;

// Replaces the waits of a rank. Those of one item keep their order.
void SetWaits(RankProgram& program, std::vector<WaitOfItem> waits);

// Adds the waits for room in the launch queues, one of a stream's multiprocessors and one of its
// copy engines: a launch finds it once what came launch_queue_depth places before has started.
void AddLaunchQueue(const RankProgram& program, std::vector<WaitOfItem>& waits);

// A change of a duration: `factor` times as long, and longer by `added`.
// All work of a program, one after the other, takes less (26 days), so that sums of times stay
// within what SimTime holds.
inline constexpr SimTime kLongestProgram = SimTime::FromPs(int64_t{1} << 61);

struct DurationChange {
  double factor = 1;
  SimTime added;

  bool operator==(const DurationChange&) const = default;
  bool replaces() const { return factor == 0; }
  // This change, and then another.
  DurationChange Then(const DurationChange& next) const;
  // Where it would take longer than kLongestProgram, as long as that, which is not executed.
  SimTime Of(SimTime time) const;
};

// Whose arrivals the members of a rendezvous wait for, besides their own.
enum class Awaiting : uint8_t {
  kAll,     // each for every other's
  kNone,    // each for no other's
  kListed,  // as RendezvousProgram::awaits says
};

struct RendezvousProgram {
  struct Member {
    uint32_t rank = 0;
    uint32_t item = 0;
  };
  // `member` ends no earlier than its own part after `source` has arrived; positions in `members`.
  struct Await {
    uint32_t member = 0;
    uint32_t source = 0;
  };
  std::vector<Member> members;
  std::vector<Await> awaits;  // kListed; by source
  Awaiting awaiting = Awaiting::kAll;
  // True: the members' item durations, counted from the last arrival that each awaits, are the
  // truth. False: the network model decides from `transfer`, and all await all.
  bool fixed = true;
  // Transfers of one communicator do not overlap (symbolic traces); index or kNoItem.
  uint32_t communicator = kNoItem;
  TransferSpec transfer;
  // The last so much of the time that members take after the last arrival, or, of sends, the first,
  // it moves data.
  SimTime moving = SimTime::Max();
  bool sends = false;  // as all-to-alls do; else data go around rings
  // Of what the network model says (durations of fixed rendezvous are changed already): the slowest
  // of the changes that members ask for.
  DurationChange change;
};

struct Program {
  std::vector<RankProgram> ranks;
  std::vector<RendezvousProgram> rendezvous;
  uint64_t item_count() const {
    uint64_t n = 0;
    for (const RankProgram& r : ranks) n += r.items.size();
    return n;
  }
};

// When everything happened; kNotYet where it has not.
inline constexpr SimTime kNotYet = SimTime::Min();
struct RankSchedule {
  std::vector<SimTime> start;
  std::vector<SimTime> end;
};
struct Schedule {
  std::vector<RankSchedule> ranks;
  // By rendezvous: when its last member had arrived.
  std::vector<SimTime> rendezvous_active;
  std::vector<EstimateSource> rendezvous_source;
  std::vector<uint8_t> rendezvous_extrapolated;
  SimTime makespan;
};

}  // namespace foretrace
