#pragma once
// Which sends wait for their receivers (rendezvous) and which are buffered, so that their kernel
// leaves once the data is in the receiver's buffer, whoever has come.
//
// NCCL's senders write into a buffer of the receiver that is there from the start; what fits needs
// no receiver. Whether it fits depends on the pair of ranks, the tag's stream and the size, so that
// one mode holds for all transfers of such a channel, also those whose receiver was there first and
// which show nothing.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/reconstruct/call_paths.h"
#include "simulator/reconstruct/communicators.h"

namespace foretrace {

// Directed transfers of a rendezvous; nullopt: all to all, as far as is known.
std::optional<std::vector<MatchedRendezvous::Transfer>> TransfersOf(
    const TraceStore& store, const MatchedRendezvous& rendezvous);

// Whether one of the members has what the others get, or the other way round.
bool IsRootedCollective(const RankTrace& rank, NodeIndex n);

// What members of a rendezvous have recorded, on the clock that all ranks share.
class MemberTimes {
 public:
  // `clock_offset` by index of rank, to be added to recorded times. Both must outlive this.
  MemberTimes(const TraceStore& store, std::span<const SimTime> clock_offset)
      : store_(store), clock_offset_(clock_offset) {}

  SimTime ArrivalOf(const MatchedRendezvous::Member& member) const {
    return store_.ranks()[member.rank].start(member.node) + clock_offset_[member.rank];
  }
  SimTime EndOf(const MatchedRendezvous::Member& member) const {
    return store_.ranks()[member.rank].end(member.node) + clock_offset_[member.rank];
  }

 private:
  const TraceStore& store_;
  std::span<const SimTime> clock_offset_;
};

class TransferModes {
 public:
  // How many channels are of which mode, and why.
  struct Count {
    int64_t buffered = 0;    // a send left before its receiver came, or took as long as if it had
    int64_t rendezvous = 0;  // sends took longer by as much as their receivers were late
    int64_t by_size = 0;     // as other channels of the job with this size, or a telling one
    int64_t by_ends = 0;     // buffered: senders left before the data had arrived
    int64_t unknown = 0;     // taken for rendezvous
  };

  // `clock_offset` by index of rank, to be added to recorded times. Recorded traces only; all must
  // outlive this.
  TransferModes(const TraceStore& store, const CommunicatorMap& map,
                std::span<const SimTime> clock_offset);

  bool IsBuffered(const MatchedRendezvous& rendezvous,
                  const MatchedRendezvous::Transfer& transfer) const;
  // Nothing shows whether it is, and it is taken not to be.
  bool IsUnknown(const MatchedRendezvous& rendezvous,
                 const MatchedRendezvous::Transfer& transfer) const;
  const Count& count() const { return count_; }

 private:
  // The least that must be alike for transfers to be of one mode: operation and size.
  using Size = std::pair<CollectiveOp, int64_t>;
  using Channel =
      std::tuple<uint32_t, uint32_t, uint32_t, int32_t, Size>;  // communicator, from, to

  // What the transfers of one channel show that a sender issues at one place of its program: as
  // many bytes need not take as long everywhere.
  struct OfPlace {
    std::vector<int64_t> own_if_buffered;    // what the sender took after what came to it
    std::vector<int64_t> own_if_rendezvous;  // and after its receivers as well
    SimTime longest_left;                    // the longest own part of those that did not wait
    int64_t left = 0;                        // left before the receiver came
  };
  struct Evidence {
    std::map<uint64_t, OfPlace> by_place;
    std::vector<int64_t> before_receiver;  // by which senders left before their receivers did
    bool tells = false;                    // a receiver came last, by more than noise
  };
  enum class Mode : uint8_t { kUnknown, kBuffered, kRendezvous };
  struct Decision {
    Mode mode = Mode::kUnknown;
    std::optional<SimTime> longest;  // of a buffered one, where some are not
  };

  // The times of a sender among the others of its kernel.
  struct Times {
    SimTime latest_source;       // of its own arrival and those of what comes to it
    SimTime latest_destination;  // of its receivers
  };

  Channel ChannelOf(const MatchedRendezvous& rendezvous,
                    const MatchedRendezvous::Transfer& transfer) const;
  Times TimesOf(const MatchedRendezvous& rendezvous,
                const std::vector<MatchedRendezvous::Transfer>& transfers, uint32_t from) const;
  // `paths`: by index of rank.
  void Add(const MatchedRendezvous& rendezvous, std::vector<CallPaths>& paths,
           std::map<Channel, Evidence>& evidence) const;
  static Decision ByOwnTransfers(const Evidence& evidence);
  void DecideOthers(const std::map<Channel, Evidence>& evidence);

  const TraceStore& store_;
  MemberTimes times_;
  std::map<Channel, Decision> decisions_;
  Count count_;
};

}  // namespace foretrace
