#include "simulator/network/nccl_tuning.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

// Columns: LL, LL128, Simple.
using Row = std::array<double, 3>;
constexpr Row kTreeBaseUs = {6.8, 14.0, 0};
constexpr Row kRingBaseUs = {6.6, 14.0, 8.4};
constexpr Row kTreeNvlinkUs = {0.6, 1.25, 4.0};
constexpr Row kRingNvlinkUs = {0.6, 1.9, 3.4};
constexpr Row kTreeNetUs = {5.0, 8.5, 14.0};
constexpr Row kRingNetUs = {2.7, 4.0, 14.0};
constexpr RealUs kNvlsBase(23.0);
constexpr double kNvlsChannels = 16;  // NVLS_NCHANNELS_SM90
// Payload of one step of a channel's buffer: NCCL's default buffer sizes over its eight steps, less
// the flags of LL (half) and LL128 (a sixteenth).
constexpr Row kTreeChunkBytes = {32768, 576000, 524288};
// Bus bandwidth limit of LL in GB/s: one node by GPU generation; two nodes, more nodes.
constexpr Row kLLOneNodeGBps = {39.0, 87.7, 141.0};
constexpr double kLLTwoNodesGBps = 39.0;
constexpr double kLLMoreNodesGBps = 20.4;

size_t Column(Protocol protocol) { return static_cast<size_t>(protocol) - 1; }

Bandwidth LLLimit(int32_t generation, int32_t nodes) {
  const double gbps = nodes == 1   ? kLLOneNodeGBps[static_cast<size_t>(generation)]
                      : nodes == 2 ? kLLTwoNodesGBps
                                   : kLLMoreNodesGBps;
  return Bandwidth::GBps(gbps);
}

}  // namespace

std::string_view Name(Protocol protocol) {
  static constexpr std::array<std::string_view, 4> kNames = {"raw", "ll", "ll128", "simple"};
  return EnumName(kNames, protocol);
}

ProtocolCost RingCost(Protocol protocol, int32_t generation, int32_t nodes,
                      int32_t ranks_per_node) {
  ProtocolCost cost;
  if (protocol == Protocol::kRaw) return cost;
  const size_t p = Column(protocol);
  cost.launch = RealSeconds(RealUs(kRingBaseUs[p]));
  cost.intra_latency = kRingNvlinkUs[p] / kRingNvlinkUs[2];
  cost.inter_latency = kRingNetUs[p] / kRingNetUs[2];
  if (protocol == Protocol::kLL) {
    cost.share = 0.5;
    cost.max_bandwidth = LLLimit(generation, nodes);
  } else if (protocol == Protocol::kLL128) {
    cost.share = ranks_per_node < 2 ? 0.7 : 0.92;
  }
  return cost;
}

ProtocolCost TreeCost(Protocol protocol, int32_t generation, int32_t nodes) {
  ProtocolCost cost;
  if (protocol == Protocol::kRaw) return cost;
  const size_t p = Column(protocol);
  cost.launch = RealSeconds(RealUs(kTreeBaseUs[p]));
  cost.intra_latency = kTreeNvlinkUs[p] / kRingNvlinkUs[2];
  cost.inter_latency = kTreeNetUs[p] / kRingNetUs[2];
  // The tuner's 0.92 is for trees that branch; inside one node they are chains.
  cost.share = nodes == 1 ? 1 : 0.92;
  if (protocol == Protocol::kLL) {
    cost.share = 1.0 / 3.8;
    cost.max_bandwidth = LLLimit(generation, nodes);
  } else if (protocol == Protocol::kLL128) {
    cost.share *= nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;
  }
  return cost;
}

RealBytes TreeChunkBytes(Protocol protocol, RealBytes bytes, int32_t channels, int32_t nodes,
                         int32_t ranks_per_node) {
  const RealBytes share = bytes / channels;
  RealBytes chunk(kTreeChunkBytes[Column(protocol)]);
  if (protocol == Protocol::kLL128) {
    const double steps = 1 + std::floor(std::log2(nodes)) + 0.1 * ranks_per_node;
    while (share < chunk * steps * 64 / ranks_per_node && chunk > RealBytes(131072)) {
      chunk = chunk / 2;
    }
    while (share < chunk * steps * 16 / ranks_per_node && chunk > RealBytes(32768)) {
      chunk = chunk / 2;
    }
  }
  return std::min(chunk, share);
}

ProtocolCost NvlsCost(int32_t ranks) {
  ProtocolCost cost;
  cost.launch = RealSeconds(kNvlsBase);
  cost.intra_latency = 0;
  cost.share = 5.0 / 6.0 * ranks / (ranks + 1.0);
  return cost;
}

bool AddsByBytes(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kUInt8 || dtype == DType::kBool;
}

RealBytes NvlsPieceBytes(RealBytes bytes, int32_t ranks) {
  const double parts = kNvlsChannels * ranks;
  RealBytes chunk(131072);
  if (bytes < 64 * parts * chunk) chunk = RealBytes(65536);
  if (bytes < 8 * parts * chunk) chunk = RealBytes(32768);
  if (bytes < 2 * parts * chunk) chunk = RealBytes(16384);
  return std::min(parts * chunk, bytes);
}

ProtocolCost PointToPointCost() {
  ProtocolCost cost;
  cost.launch = RealSeconds(RealUs(kRingBaseUs[2]));
  return cost;
}

}  // namespace foretrace
