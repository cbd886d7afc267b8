#pragma once
// Times of a collective over sizes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/network/link_loads.h"
#include "simulator/network/transfer_planner.h"

namespace foretrace {

enum class NetworkTier : uint8_t { kFitted, kFluid, kSimgrid, kCount };
std::string_view Name(NetworkTier tier);
// kCount: not a tier.
NetworkTier ParseNetworkTier(std::string_view text);

// A model of the tier. `topology` must outlive it.
absl::StatusOr<std::unique_ptr<NetworkModel>> MakeNetwork(NetworkTier tier,
                                                          const Topology& topology,
                                                          NetworkOptions options);

struct CollectiveRow {
  Bytes bytes;
  int32_t ranks = 0;
  Algorithm algorithm = Algorithm::kAuto;
  Protocol protocol = Protocol::kRaw;
  NetworkTier tier = NetworkTier::kFluid;
  SimTime time;
  Bandwidth algorithm_bandwidth;  // bytes over time
  Bandwidth bus_bandwidth;        // that times nccl-tests' factor of the operation
  int64_t flows = 0;  // messages that the algorithm sends; 0 for a closed form without flows
};

struct CollectiveQuery {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::vector<int32_t> members;
  Bytes first_bytes;
  Bytes last_bytes;  // sizes double from first to last
  NetworkTier tier = NetworkTier::kFluid;
  NetworkOptions options;
  // Told before each size how many are done; false: end with the rows that there are.
  std::function<bool(int64_t done, int64_t total)> progress;
};

absl::StatusOr<std::vector<CollectiveRow>> CollectiveTable(const Topology& topology,
                                                           const CollectiveQuery& query);
// What a row puts on the links, with the algorithm that it took; a tier that runs flows. Errors: as
// LinkLoads.
absl::StatusOr<std::vector<LinkKindLoad>> LinkLoadsOf(const Topology& topology,
                                                      const CollectiveQuery& query,
                                                      const CollectiveRow& row);

// "8", "32M", "1GiB", "4096", "16K": factors of 1,024.
absl::StatusOr<Bytes> ParseSize(std::string_view text);

// algbw to bus bandwidth, as nccl-tests' PERFORMANCE.md defines it.
double BusFactor(CollectiveOp op, int32_t ranks);

}  // namespace foretrace
