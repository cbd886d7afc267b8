#pragma once
// What NCCL's channels add to links: a channel is one thread block, which copies what it passes on,
// so that many bytes cost its time besides the links', and grouped sends use as many channels as
// NCCL gives a peer. Counts and sizes: releases 2.10, 2.12, 2.23 and 2.29 (BSD-3-Clause),
// src/enqueue.cc (addP2pToPlan, calcP2pChannelCount, scheduleP2pTasksToPlan), src/graph/paths.cc
// (ncclTopoGetNchannels, ncclTopoComputeP2pChannels), src/include/device.h.

#include <cstdint>

#include "simulator/base/real_quantities.h"
#include "simulator/base/units.h"

namespace foretrace {

inline constexpr int32_t kMaxChannels = 32;          // MAXCHANNELS
inline constexpr int32_t kChannelsByNicSince = 229;  // release 2.29 (CollectiveLibrary::release)
inline constexpr int32_t kTwoChannelsSince = 212;    // release 2.12: of a peer on another node

// How what a rank sends to one peer is split.
struct PairSplit {
  int32_t channels = 1;  // that share it
  RealBytes part;        // of one channel
  RealBytes step;        // what a channel passes on at a time
  // Of the largest message with half the channels; 0: there is none. NCCL doubles the channels
  // where a part grows beyond its limit, and a larger message may then take less time than that
  // one. Here it takes as long.
  int32_t held_channels = 0;
  RealBytes held_part;
};

// Channels that releases from 2.29 on give a peer behind a NIC of that rate (14 GB/s each), where
// older ones give two.
int32_t ChannelsOfNic(Bandwidth nic);
// Those of all sends and receives together, by those of the communicator's collectives.
int32_t ChannelsOfSends(int32_t channels);
// `channels`: those of the communicator's collectives; `of_nic`: ChannelsOfNic, 0 for releases
// before 2.29; `of_peer`: of one on another node, for those.
PairSplit SplitPair(RealBytes bytes, int32_t ranks, int32_t nodes, int32_t channels,
                    int32_t of_nic = 0, int32_t of_peer = 2);
// Rounds that the sends to `peers`, which are this rank too in an all-to-all, by `each` channels
// take on the communicator's.
double PairRounds(int32_t each, int32_t peers, int32_t channels);

// `channel`: what all warps of a collective copy (CollectiveLibrary). A channel of grouped sends
// has 20 warps, which all send, or half of which send while the others receive.
Bandwidth SendRate(Bandwidth channel, bool both_ways);
// What a channel of grouped sends passes on to one peer behind a NIC by itself: it copies into the
// buffer that the NIC reads, a step after the other, so that the times of both and of what handles
// them add up. `network_channel`: measured, both ways, on NICs of `nic`; 0: the handling is free.
Bandwidth NetworkSendRate(Bandwidth channel, Bandwidth network_channel, Bandwidth nic,
                          bool both_ways);
// What a channel of a ring passes on while it receives and sends: of what all warps copy it reads
// once and writes twice, or reads twice, adds and writes once.
Bandwidth PassRate(Bandwidth channel);
// What `channels` that pass on `each` alone reach together over one `link`. They wait for one
// another there the more, the closer they come to filling it: a closed queueing network of as many
// customers, who copy by themselves and share the link, by mean value analysis (Reiser and
// Lavenberg, 1980).
Bandwidth SharedRate(int32_t channels, Bandwidth each, Bandwidth link);
// Bytes of results that a multiprocessor's integer units add up where they are 8-bit integers: NCCL
// adds four at a time by masks (src/device/reduce_kernel.h), seven instructions, of which a
// multiprocessor issues 64 a clock (CUDA C++ programming guide, compute capability 7.0, 8.0, 9.0).
// Types with instructions for two values take a fourteenth of that, which is left out.
Bandwidth ByteAdder(double clock_hz);
// What a channel reaches whose warps, at `rate` together, also add on their quarter of such units,
// where they wait for one another as channels do at a link.
Bandwidth AddingRate(Bandwidth rate, Bandwidth adder);
// The time of the last receive of a ring in one node: its data is in a buffer of this rank, and no
// warp sends while it is copied out of it. `share` is what each rank receives last.
RealSeconds LastReceive(RealBytes share, int32_t channels, Bandwidth channel);

}  // namespace foretrace
