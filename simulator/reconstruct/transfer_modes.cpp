#include "simulator/reconstruct/transfer_modes.h"

#include <algorithm>
#include <cstdlib>

#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

// The root's position among the members; nullopt: not recorded, or without a trace.
std::optional<uint32_t> RootOf(const TraceStore& store, const MatchedRendezvous& rendezvous) {
  for (const auto& m : rendezvous.members) {
    const CommAttr* attr = store.ranks()[m.rank].comm(m.node);
    if (attr == nullptr || attr->peer < 0) continue;
    for (uint32_t i = 0; i < rendezvous.members.size(); ++i) {
      if (store.ranks()[rendezvous.members[i].rank].info().rank == attr->peer) return i;
    }
  }
  return std::nullopt;
}

// Sum of distances from the median.
double Deviation(const std::vector<int64_t>& values) {
  const int64_t median = Median(values).ps();
  double sum = 0;
  for (const int64_t v : values) sum += std::abs(static_cast<double>(v - median));
  return sum;
}

}  // namespace

bool IsRootedCollective(const RankTrace& rank, NodeIndex n) {
  return rank.kind(n) == NodeKind::kCollective && IsRooted(rank.collective_op(n));
}

std::optional<std::vector<MatchedRendezvous::Transfer>> TransfersOf(
    const TraceStore& store, const MatchedRendezvous& rendezvous) {
  if (!rendezvous.transfers.empty()) return rendezvous.transfers;
  const auto& first = rendezvous.members.front();
  const RankTrace& rank = store.ranks()[first.rank];
  if (!IsRootedCollective(rank, first.node)) return std::nullopt;
  const auto root = RootOf(store, rendezvous);
  if (!root.has_value()) return std::nullopt;
  const CollectiveOp op = rank.collective_op(first.node);
  const bool from_root = op == CollectiveOp::kBroadcast || op == CollectiveOp::kScatter;
  const CommAttr* attr = rank.comm(first.node);
  MatchedRendezvous::Transfer transfer;
  transfer.bytes = attr == nullptr ? 0 : attr->bytes_in.count();
  std::vector<MatchedRendezvous::Transfer> transfers;
  for (uint32_t m = 0; m < rendezvous.members.size(); ++m) {
    if (m == *root) continue;
    transfer.from = from_root ? *root : m;
    transfer.to = from_root ? m : *root;
    transfers.push_back(transfer);
  }
  return transfers;
}

TransferModes::TransferModes(const TraceStore& store, const CommunicatorMap& map,
                             std::span<const SimTime> clock_offset)
    : store_(store), times_(store, clock_offset) {
  std::vector<CallPaths> paths;
  for (const RankTrace& rank : store.ranks()) paths.emplace_back(rank, store.strings());
  std::map<Channel, Evidence> evidence;
  for (const MatchedRendezvous& rendezvous : map.rendezvous) Add(rendezvous, paths, evidence);
  for (const auto& [channel, shown] : evidence) {
    const Decision decision = ByOwnTransfers(shown);
    if (decision.mode == Mode::kUnknown) continue;
    ++(decision.mode == Mode::kBuffered ? count_.buffered : count_.rendezvous);
    decisions_.emplace(channel, decision);
  }
  DecideOthers(evidence);
}

TransferModes::Channel TransferModes::ChannelOf(const MatchedRendezvous& rendezvous,
                                                const MatchedRendezvous::Transfer& transfer) const {
  const MatchedRendezvous::Member& from = rendezvous.members[transfer.from];
  const RankTrace& rank = store_.ranks()[from.rank];
  const CollectiveOp op =
      rendezvous.point_to_point ? CollectiveOp::kSendRecv : rank.collective_op(from.node);
  return {rendezvous.communicator,
          from.rank,
          rendezvous.members[transfer.to].rank,
          transfer.tag,
          {op, transfer.bytes}};
}

TransferModes::Times TransferModes::TimesOf(
    const MatchedRendezvous& rendezvous, const std::vector<MatchedRendezvous::Transfer>& transfers,
    uint32_t from) const {
  Times times{times_.ArrivalOf(rendezvous.members[from]), SimTime::Min()};
  for (const MatchedRendezvous::Transfer& t : transfers) {
    if (t.to == from) {
      times.latest_source =
          std::max(times.latest_source, times_.ArrivalOf(rendezvous.members[t.from]));
    } else if (t.from == from) {
      times.latest_destination =
          std::max(times.latest_destination, times_.ArrivalOf(rendezvous.members[t.to]));
    }
  }
  return times;
}

void TransferModes::Add(const MatchedRendezvous& rendezvous, std::vector<CallPaths>& paths,
                        std::map<Channel, Evidence>& evidence) const {
  const auto transfers = TransfersOf(store_, rendezvous);
  if (!transfers.has_value()) return;
  for (const MatchedRendezvous::Transfer& t : *transfers) {
    const SimTime end = times_.EndOf(rendezvous.members[t.from]);
    const SimTime destination = times_.ArrivalOf(rendezvous.members[t.to]);
    // It goes the other way.
    if (times_.EndOf(rendezvous.members[t.to]) < times_.ArrivalOf(rendezvous.members[t.from]))
      continue;
    const Times times = TimesOf(rendezvous, *transfers, t.from);
    Evidence& shown = evidence[ChannelOf(rendezvous, t)];
    const MatchedRendezvous::Member& from = rendezvous.members[t.from];
    const RankTrace& rank = store_.ranks()[from.rank];
    const NodeIndex call = rank.launcher(from.node);
    OfPlace& here =
        shown.by_place[call.valid() ? paths[from.rank].Of(rank.parent(call)) : uint64_t{}];
    const SimTime own = end - times.latest_source;
    if (end < destination) {
      ++here.left;
      here.longest_left = std::max(here.longest_left, own);
    }
    shown.tells |=
        destination > times.latest_source + kClockNoise && destination == times.latest_destination;
    here.own_if_buffered.push_back(own.ps());
    here.own_if_rendezvous.push_back(
        (end - std::max(times.latest_source, times.latest_destination)).ps());
    shown.before_receiver.push_back((times_.EndOf(rendezvous.members[t.to]) - end).ps());
  }
}

TransferModes::Decision TransferModes::ByOwnTransfers(const Evidence& evidence) {
  // Where the buffer fills up, some wait all the same, and take longer than any that did not.
  int64_t left = 0, waited = 0;
  SimTime longest;
  double buffered = 0, rendezvous = 0;
  for (const auto& [place, shown] : evidence.by_place) {
    buffered += Deviation(shown.own_if_buffered);
    rendezvous += Deviation(shown.own_if_rendezvous);
    if (shown.left == 0) continue;
    left += shown.left;
    const SimTime of_place = shown.longest_left + kClockNoise;
    waited += std::ranges::count_if(shown.own_if_buffered,
                                    [&](int64_t own) { return own > of_place.ps(); });
    longest = std::max(longest, of_place);
  }
  if (left > 0) {
    if (waited == 0) return {Mode::kBuffered, std::nullopt};
    return {left >= waited ? Mode::kBuffered : Mode::kRendezvous, longest};
  }
  // None left before its receiver came. If they wait, they take as long after the receiver as ever;
  // if not, after what came to them.
  if (!evidence.tells || buffered == rendezvous) return {};
  return {buffered < rendezvous ? Mode::kBuffered : Mode::kRendezvous, std::nullopt};
}

// Channels of which no transfer tells: as those that carry as much; between the largest that is
// buffered and the smallest that is not, as the ends say.
void TransferModes::DecideOthers(const std::map<Channel, Evidence>& evidence) {
  std::map<Size, std::pair<int64_t, int64_t>> votes;  // buffered, rendezvous
  for (const auto& [channel, decision] : decisions_) {
    auto& [buffered, rendezvous] = votes[std::get<Size>(channel)];
    ++(decision.mode == Mode::kBuffered ? buffered : rendezvous);
  }
  const auto by_size = [&](const Size& size) {
    if (const auto same = votes.find(size); same != votes.end()) {
      const auto [buffered, rendezvous] = same->second;
      if (buffered != rendezvous)
        return buffered > rendezvous ? Mode::kBuffered : Mode::kRendezvous;
    }
    if (size.second == 0) return Mode::kUnknown;
    for (const auto& [other, vote] : votes) {
      if (other.first != size.first || other.second == 0) continue;
      if (other.second > size.second && vote.first > vote.second) return Mode::kBuffered;
      if (other.second < size.second && vote.second > vote.first) return Mode::kRendezvous;
    }
    return Mode::kUnknown;
  };
  for (const auto& [channel, shown] : evidence) {
    if (decisions_.contains(channel)) continue;
    const Size& size = std::get<Size>(channel);
    Mode mode = by_size(size);
    if (mode != Mode::kUnknown) {
      ++count_.by_size;
    } else if (size.first == CollectiveOp::kSendRecv &&
               Median(shown.before_receiver) > kClockNoise) {
      // Both ends of a rendezvous leave together.
      mode = Mode::kBuffered;
      ++count_.by_ends;
    } else {
      ++count_.unknown;
    }
    decisions_.emplace(channel, Decision{mode, std::nullopt});
  }
}

bool TransferModes::IsBuffered(const MatchedRendezvous& rendezvous,
                               const MatchedRendezvous::Transfer& transfer) const {
  const SimTime end = times_.EndOf(rendezvous.members[transfer.from]);
  if (end < times_.ArrivalOf(rendezvous.members[transfer.to])) return true;
  const auto found = decisions_.find(ChannelOf(rendezvous, transfer));
  if (found == decisions_.end()) return false;
  const Decision& decision = found->second;
  if (decision.mode != Mode::kBuffered) return false;
  if (!decision.longest.has_value()) return true;
  const auto transfers = TransfersOf(store_, rendezvous);
  return end - TimesOf(rendezvous, *transfers, transfer.from).latest_source <= *decision.longest;
}

bool TransferModes::IsUnknown(const MatchedRendezvous& rendezvous,
                              const MatchedRendezvous::Transfer& transfer) const {
  const auto found = decisions_.find(ChannelOf(rendezvous, transfer));
  return found != decisions_.end() && found->second.mode == Mode::kUnknown &&
         !IsBuffered(rendezvous, transfer);
}

}  // namespace foretrace
