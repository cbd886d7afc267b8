#pragma once
// What NCCL adds to links: protocols that trade bandwidth for latency, fixed start-up costs, and
// the choice among them. Constants are those of NCCL's own tuner (src/graph/tuning.cc,
// releases 2.21 to 2.29; before, Hopper's llMaxBws was Ampere's; BSD-3-Clause): baseLat, hwLat,
// llMaxBws and the bandwidth factors of ncclTopoTuneModel.

#include <array>
#include <cstdint>
#include <string_view>

#include "simulator/base/dtype.h"
#include "simulator/base/real_quantities.h"

namespace foretrace {

enum class Protocol : uint8_t { kRaw, kLL, kLL128, kSimple, kCount };
std::string_view Name(Protocol protocol);

// NCCL moves data in one of three protocols; kRaw is none: links as they are.
inline constexpr std::array<Protocol, 3> kNcclProtocols = {Protocol::kLL, Protocol::kLL128,
                                                           Protocol::kSimple};

struct ProtocolCost {
  RealSeconds launch;        // per collective
  double intra_latency = 1;  // multiples of the links' own latency, hops inside a node
  double inter_latency = 1;  // the same, hops between nodes
  double share = 1;          // of the links' bandwidth that the payload gets
  // Of bus bandwidth, whatever the links.
  Bandwidth max_bandwidth = Bandwidth::BytesPerSecond(1e30);
};

// `generation`: 0 Volta, 1 Ampere, 2 Hopper. Link latencies in platform files are those of the
// Simple protocol in a ring; the others follow in NCCL's proportions.
ProtocolCost RingCost(Protocol protocol, int32_t generation, int32_t nodes, int32_t ranks_per_node);
ProtocolCost TreeCost(Protocol protocol, int32_t generation, int32_t nodes);
// The pieces in which a tree passes data on; a tree of many hops is filled and drained by one piece
// a hop (src/enqueue.cc, calcCollChunking). `channels` share the data.
RealBytes TreeChunkBytes(Protocol protocol, RealBytes bytes, int32_t channels, int32_t nodes,
                         int32_t ranks_per_node);
// All-reduce in the switch (NVLink SHARP), Simple only. A port carries the data once each way (read
// for reduction on the way in, multicast on the way out) and once more its own n-th part: the
// reduced part that it receives and the one that it sends to the multicast. So (n+1)/n of the data,
// at nvlsEfficiency's 5/6 of the port. The start-up cost includes the hops.
ProtocolCost NvlsCost(int32_t ranks);
// Integers of 8 bits: the switch does not add them up (src/include/device.h, ncclNvlsSupported),
// and a channel does by masks. An unknown type is taken for none.
bool AddsByBytes(DType dtype);
// What the channels reduce at a time before they multicast it (calcCollChunking).
RealBytes NvlsPieceBytes(RealBytes bytes, int32_t ranks);
// Grouped sends and receives (all-to-all, gather, scatter, send/recv): Simple only.
ProtocolCost PointToPointCost();

}  // namespace foretrace
