#pragma once
// A collective algorithm as a schedule of messages between ranks. Messages are computed when they
// are due, never listed, so memory does not grow with their number.
//
// A schedule runs in lanes (chunks of the data, or rings and trees that share it) and steps. Rule:
// a rank issues the sends of (lane, step) once everything it receives in earlier steps of the lane
// has been delivered and its own sends of earlier steps have drained; in a serial schedule also
// once its sends of the same step in the lane before have drained, which makes chunks a pipeline.
// Ranks here are positions in the communicator.
//
// Rings, chains and trees are pipelines of many equal steps. They are not sent piece by piece:
// every hop streams at once, a flow each. What filling or draining the pipeline adds is the last
// piece of a ring or tree, which then passes hop by hop, and the first piece of a chain, which
// takes the time of its hops when all of them stream (`Pieces`). That is the time of the pipeline
// with as few flows as hops.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/real_quantities.h"

namespace foretrace {

// Whether all of the data goes from rank to rank: from a root, or to it.
constexpr bool PassesWhole(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce;
}

enum class Algorithm : uint8_t {
  kAuto,
  kRing,
  kBidirectionalRing,
  kDoubleBinaryTree,
  kHalvingDoubling,
  kRecursiveDoubling,
  kDirect,
  kPairwise,
  kHierarchical,
  kBinomial,
  kDissemination,
  kInSwitch,  // all-reduce inside an NVLink switch
  kCount,
};
std::string_view Name(Algorithm algorithm);
// kCount: not an algorithm.
Algorithm ParseAlgorithm(std::string_view text);

struct Send {
  int32_t to = 0;
  RealBytes bytes;      // none: a signal, which takes only latency
  bool reduce = false;  // the receiver combines it with what it holds, else overwrites
};

// The piece that passes one hop of a pipeline before the next hop has anything to send.
struct Hop {
  int32_t from = 0;
  int32_t to = 0;
  RealBytes bytes;
};

// Every pair of ranks at a latency of `alpha` and ports of `bandwidth`, full duplex, shared by the
// flows through them: a non-blocking switch.
struct AlphaBeta {
  RealSeconds alpha;
  Bandwidth bandwidth = Bandwidth::BytesPerSecond(1);
};

class CollectiveSchedule {
 public:
  virtual ~CollectiveSchedule() = default;
  virtual int32_t ranks() const = 0;
  virtual int32_t lanes() const { return 1; }
  virtual int32_t steps() const = 0;
  virtual bool serial() const { return false; }
  // Appends the sends of `rank`.
  virtual void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const = 0;
  // How many messages of (lane, step) arrive at `rank`.
  virtual int32_t Receives(int32_t rank, int32_t lane, int32_t step) const = 0;
  // The first step from `step` on in which `rank` sends or receives, steps() if there is none. The
  // default names `step` itself: steps without messages are allowed.
  virtual int32_t NextStep(int32_t /*rank*/, int32_t /*lane*/, int32_t step) const { return step; }
  // The earliest step with exactly the same sends, ranks and sizes as `step`; `step` if none.
  virtual int32_t SameStep(int32_t step) const { return step; }
  // In every step every rank sends so many bytes to every other; nullopt: something else.
  virtual std::optional<RealBytes> BytesOfEveryPair() const { return std::nullopt; }
  // Appends what passes the hops of a lane in turn before all of them stream; nothing where the
  // pieces of a pipeline are steps (FillTime in communicator.h).
  virtual void Pieces(int32_t /*lane*/, std::vector<Hop>& /*out*/) const {}
  // Total messages over all ranks, lanes and steps; the default counts them.
  virtual int64_t flows() const;
  // The time on a non-blocking switch.
  virtual RealSeconds ClosedForm(const AlphaBeta& network) const = 0;

  // For proofs that data ends where it should: a lane's data is `blocks()` blocks, and the k-th
  // send of (rank, lane, step) carries these in its round. A step has more than one round where its
  // messages are streams: a rank passes on what it received in the rounds before.
  virtual int32_t blocks() const = 0;
  virtual int32_t rounds(int32_t /*lane*/, int32_t /*step*/) const { return 1; }
  virtual void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t k, int32_t round,
                          std::vector<int32_t>& out) const = 0;
  // The block of a lane that belongs to `rank` (its input of a gather, its output of a scatter).
  virtual int32_t BlockOf(int32_t rank) const { return rank; }
};

// What a schedule is made for.
struct CollectiveRequest {
  bool point_to_point = false;  // rank 0 sends `bytes` to rank 1; op is ignored
  CollectiveOp op = CollectiveOp::kUnknown;
  int32_t ranks = 0;
  RealBytes bytes;  // as TransferSpec.bytes
  int32_t chunks = 1;
  // What chains and trees pass on whole, over all lanes; nullopt: bytes / chunks.
  std::optional<RealBytes> piece;
  // Row-major bytes between ranks for an all-to-all with unequal splits; empty: equal.
  std::vector<int64_t> split_bytes;
  // Orders of ranks around which rings run, and along which chains and trees do; empty: 0, 1, 2,
  // ... Each is a permutation.
  std::vector<std::vector<int32_t>> ring_orders;
  // Node of each rank; empty: each has its own. Trees are chains within a node.
  std::vector<int32_t> nodes;
  // Sizes of the dimensions of a hierarchical algorithm, first fastest; their product is `ranks`.
  std::vector<int32_t> dimensions;
};

// Errors: the algorithm does not exist for the operation or the number of ranks.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> MakeSchedule(Algorithm algorithm,
                                                                 const CollectiveRequest& request);

// One per algorithm, in the file of its name.
std::unique_ptr<CollectiveSchedule> MakeRing(const CollectiveRequest& request, bool two_way);
std::unique_ptr<CollectiveSchedule> MakeChain(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeDoubleBinaryTree(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeHalvingDoubling(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeRecursiveDoubling(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeDirect(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakePairwise(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeHierarchical(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeHierarchicalAllToAll(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeBinomial(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeDissemination(const CollectiveRequest& request);
std::unique_ptr<CollectiveSchedule> MakeInSwitch(const CollectiveRequest& request);

// `orders` of a request, or the one order 0, 1, 2, ...
std::vector<std::vector<int32_t>> OrdersOf(const CollectiveRequest& request);
// The piece of a pipeline as a share of the data, 0 to 1.
double PieceShare(const CollectiveRequest& request);

}  // namespace foretrace
