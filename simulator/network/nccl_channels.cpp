#include "simulator/network/nccl_channels.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace foretrace {
namespace {

constexpr RealBytes kNvlinkStep(512.0 * 1024);   // NCCL_P2P_NVL_CHUNKSIZE
constexpr RealBytes kNetworkStep(128.0 * 1024);  // NCCL_P2P_NET_CHUNKSIZE
constexpr RealBytes kPage(4096);                 // parts are multiples of it
constexpr RealBytes kByte(1);
constexpr int32_t kPeersAtATime = 8;        // NCCL_MAX_DEV_WORK_P2P_PER_BATCH
constexpr double kNicRateOfChannel = 14;    // NCCL_P2P_PER_CHANNEL_NET_BW, GB/s
constexpr double kWarpsOfCollectives = 16;  // NCCL_SIMPLE_MAX_NTHREADS / 32
constexpr double kWarpsOfSends = 20;        // NCCL_MAX_NTHREADS / 32

// The most channels of a peer on another node: fewer where all peers at a time would load a channel
// with more than four of them (before 2.29), or would not fit their channels (from then on).
int32_t MostOfRemotePeer(int32_t ranks, int32_t all, int32_t of_nic, int32_t of_peer) {
  if (of_nic == 0) {
    int32_t most = std::min(all, of_peer);
    while (int64_t{most} * ranks > int64_t{4} * all && most > 1) most /= 2;
    return most;
  }
  int32_t most = ChannelsOfSends(of_nic);
  const int32_t batches = (ranks + kPeersAtATime - 1) / kPeersAtATime;
  while (int64_t{most} * batches > all && most > 1) most /= 2;
  return most;
}

}  // namespace

int32_t ChannelsOfSends(int32_t channels) {
  return std::min(kMaxChannels, static_cast<int32_t>(
                                    std::bit_ceil(static_cast<uint32_t>(std::max(channels, 1)))));
}

int32_t ChannelsOfNic(Bandwidth nic) {
  return std::max(1, static_cast<int32_t>(std::ceil(std::floor(nic.gbps()) / kNicRateOfChannel)));
}

PairSplit SplitPair(RealBytes bytes, int32_t ranks, int32_t nodes, int32_t channels, int32_t of_nic,
                    int32_t of_peer) {
  const int32_t all = ChannelsOfSends(channels);
  const int32_t most = nodes > 1 ? MostOfRemotePeer(ranks, all, of_nic, of_peer) : all;
  PairSplit split;
  split.channels = most;
  while (int64_t{split.channels} * ranks > all && split.channels > 1) split.channels /= 2;
  const RealBytes step = nodes > 1 ? kNetworkStep : kNvlinkStep;
  const RealBytes largest = nodes > 1 ? step : 32 * step;
  while (bytes / split.channels > largest && split.channels <= most / 2) {
    split.held_channels = split.channels;
    split.held_part = largest;
    split.channels *= 2;
  }
  split.part = std::min(bytes, std::ceil(bytes / split.channels / kPage) * kPage);
  split.step = std::min(step, std::max(split.part, split.held_part));
  return split;
}

double PairRounds(int32_t each, int32_t peers, int32_t channels) {
  return std::max(1.0, std::ceil(1.0 * peers * each / ChannelsOfSends(channels)));
}

Bandwidth SendRate(Bandwidth channel, bool both_ways) {
  return channel * kWarpsOfSends / kWarpsOfCollectives / (both_ways ? 2 : 1);
}

Bandwidth NetworkSendRate(Bandwidth channel, Bandwidth network_channel, Bandwidth nic,
                          bool both_ways) {
  // Of a byte.
  const RealSeconds wire = kByte / nic;
  RealSeconds handling;
  if (network_channel > Bandwidth()) {
    const RealSeconds copying = kByte / SendRate(channel, true);
    handling = std::max(RealSeconds(), kByte / network_channel - copying - wire);
  }
  return kByte / (kByte / SendRate(channel, both_ways) + wire + handling);
}

Bandwidth PassRate(Bandwidth channel) {
  constexpr double kCopies = 1.5;  // three accesses, of which a copy has two
  return channel / kCopies;
}

Bandwidth SharedRate(int32_t channels, Bandwidth each, Bandwidth link) {
  // A customer is a byte.
  const RealSeconds at_link = kByte / link;
  const RealSeconds alone = std::max(RealSeconds(), kByte / each - at_link);
  Bandwidth rate;
  double waiting = 0;  // mean customers at the link
  for (int32_t customers = 1; customers <= channels; ++customers) {
    const RealSeconds response = at_link * (1 + waiting);
    rate = customers * kByte / (alone + response);
    waiting = rate * response / kByte;
  }
  return rate;
}

Bandwidth ByteAdder(double clock_hz) {
  constexpr double kInstructionsAClock = 64;
  constexpr double kAdded = 4.0 / 7;  // bytes an instruction and thread
  return Bandwidth::BytesPerSecond(kInstructionsAClock * kAdded * clock_hz);
}

Bandwidth AddingRate(Bandwidth rate, Bandwidth adder) {
  if (rate == Bandwidth() || adder == Bandwidth()) return rate;
  constexpr int32_t kQuarters = 4;  // of a multiprocessor
  constexpr auto kWarps = static_cast<int32_t>(kWarpsOfCollectives) / kQuarters;
  const Bandwidth quarter = adder / kQuarters;
  const Bandwidth warp = kByte / (kWarpsOfCollectives * kByte / rate + kByte / quarter);
  return kQuarters * SharedRate(kWarps, warp, quarter);
}

RealSeconds LastReceive(RealBytes share, int32_t channels, Bandwidth channel) {
  const Bandwidth rate = channels * channel;
  return rate > Bandwidth() ? share / rate : RealSeconds();
}

}  // namespace foretrace
