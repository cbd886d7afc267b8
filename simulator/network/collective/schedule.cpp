#include "simulator/network/collective/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Algorithm::kCount)> kNames = {
    "auto",
    "ring",
    "bidirectional_ring",
    "tree",
    "halving_doubling",
    "recursive_doubling",
    "direct",
    "pairwise",
    "hierarchical",
    "binomial",
    "dissemination",
    "in_switch"};

bool PowerOfTwo(int32_t n) { return (n & (n - 1)) == 0; }

bool Gathers(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter;
}

absl::Status Check(Algorithm algorithm, const CollectiveRequest& r) {
  if (r.ranks < 1) return InvalidInput("a collective needs at least one rank, got {}", r.ranks);
  if (!(r.bytes >= RealBytes())) {
    return InvalidInput("a collective of {} bytes", r.bytes.count());
  }
  if (r.chunks < 1 || r.chunks > (1 << 16)) {
    return InvalidInput("{} chunks: allowed are 1 to 65536", r.chunks);
  }
  const auto n = static_cast<size_t>(r.ranks);
  if (!r.split_bytes.empty()) {
    if (r.op != CollectiveOp::kAllToAll) return InvalidInput("splits are for all-to-all only");
    if (r.split_bytes.size() != n * n) {
      return InvalidInput("an all-to-all of {} ranks needs {} splits, got {}", n, n * n,
                          r.split_bytes.size());
    }
    for (int64_t split : r.split_bytes) {
      if (split < 0) return InvalidInput("a negative split of {} bytes", split);
    }
  }
  if (algorithm == Algorithm::kHierarchical) {
    int64_t product = 1;
    for (int32_t size : r.dimensions) product *= size;
    if (product != r.ranks) {
      return InvalidInput("hierarchical dimensions multiply to {}, not to {} ranks", product,
                          r.ranks);
    }
  }
  return absl::OkStatus();
}

absl::Status Unsupported(Algorithm algorithm, const CollectiveRequest& r, std::string_view why) {
  return InvalidInput("algorithm {} does not do {} on {} ranks: {}", Name(algorithm), Name(r.op),
                      r.ranks, why);
}

}  // namespace

std::string_view Name(Algorithm algorithm) { return EnumName(kNames, algorithm); }

Algorithm ParseAlgorithm(std::string_view text) {
  const std::string lower = LowerCase(text);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == lower) return static_cast<Algorithm>(i);
  }
  return Algorithm::kCount;
}

std::vector<std::vector<int32_t>> OrdersOf(const CollectiveRequest& request) {
  if (!request.ring_orders.empty()) return request.ring_orders;
  std::vector<int32_t> order(static_cast<size_t>(request.ranks));
  std::iota(order.begin(), order.end(), 0);
  return {order};
}

double PieceShare(const CollectiveRequest& request) {
  if (!request.piece) return 1.0 / request.chunks;
  return request.bytes > RealBytes() ? std::min(1.0, *request.piece / request.bytes) : 1;
}

int64_t CollectiveSchedule::flows() const {
  int64_t total = 0;
  std::vector<Send> sends;
  for (int32_t lane = 0; lane < lanes(); ++lane) {
    for (int32_t step = 0; step < steps(); ++step) {
      for (int32_t rank = 0; rank < ranks(); ++rank) {
        sends.clear();
        Sends(rank, lane, step, sends);
        total += static_cast<int64_t>(sends.size());
      }
    }
  }
  return total;
}

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> MakeSchedule(Algorithm algorithm,
                                                                 const CollectiveRequest& r) {
  if (absl::Status status = Check(algorithm, r); !status.ok()) return status;
  const CollectiveOp op = r.op;
  if (r.point_to_point) return MakeDirect(r);
  if (op == CollectiveOp::kBarrier) {
    if (algorithm == Algorithm::kDissemination) return MakeDissemination(r);
    return Unsupported(algorithm, r, "use dissemination");
  }
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kBidirectionalRing:
      if (Gathers(op)) return MakeRing(r, algorithm == Algorithm::kBidirectionalRing);
      if (PassesWhole(op)) return MakeChain(r);
      break;
    case Algorithm::kDoubleBinaryTree:
      if (op == CollectiveOp::kAllReduce) return MakeDoubleBinaryTree(r);
      break;
    case Algorithm::kHalvingDoubling:
      if (op == CollectiveOp::kAllReduce) return MakeHalvingDoubling(r);
      if (op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather) {
        if (PowerOfTwo(r.ranks)) return MakeHalvingDoubling(r);
        return Unsupported(algorithm, r, "needs a power of two; use ring or direct");
      }
      break;
    case Algorithm::kRecursiveDoubling:
      if (op == CollectiveOp::kAllReduce) return MakeRecursiveDoubling(r);
      if (op == CollectiveOp::kAllGather) {
        if (PowerOfTwo(r.ranks)) return MakeHalvingDoubling(r);  // the same exchange
        return Unsupported(algorithm, r, "needs a power of two; use ring or direct");
      }
      break;
    case Algorithm::kDirect:
      if (op != CollectiveOp::kUnknown) return MakeDirect(r);
      break;
    case Algorithm::kPairwise:
      if (op == CollectiveOp::kAllToAll || op == CollectiveOp::kReduceScatter) {
        return MakePairwise(r);
      }
      break;
    case Algorithm::kHierarchical:
      if (Gathers(op)) return MakeHierarchical(r);
      if (op == CollectiveOp::kAllToAll) return MakeHierarchicalAllToAll(r);
      break;
    case Algorithm::kInSwitch:
      if (op == CollectiveOp::kAllReduce) return MakeInSwitch(r);
      break;
    case Algorithm::kBinomial:
      if (PassesWhole(op) || op == CollectiveOp::kGather || op == CollectiveOp::kScatter) {
        return MakeBinomial(r);
      }
      break;
    default:
      break;
  }
  return Unsupported(algorithm, r, "no such combination");
}

}  // namespace foretrace
