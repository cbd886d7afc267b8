#pragma once
// What it takes to send tokens to their experts (dispatch) and the experts' results back (combine),
// by the algorithm that a library runs.

#include <cstdint>
#include <span>
#include <string_view>

#include "simulator/base/real_quantities.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

enum class ExpertAlgorithm : uint8_t {
  // A collective of the communication library: a token goes once to each of its experts.
  kAllToAll,
  // DeepEP's normal kernels: a token goes once to every node that has one of its experts, from NIC
  // to NIC of the same place in the node, and there over NVLink once to every rank that has one.
  kDeduplicated,
  // DeepEP's low-latency kernels: a token goes straight to the rank of each of its experts, once
  // for each expert, by NVLink or RDMA.
  kDirect,
  // Hybrid-EP's kernels (a branch of DeepEP): copies as kDeduplicated sends them, by fewer
  // multiprocessors, each of which reads, sends and receives by itself (hybrid_exchange.h).
  kHybrid,
  // Collectives: every rank gathers all tokens, and what its experts make of them is summed and
  // scattered.
  kAllGather,
  kCount,
};
// "all-to-all", "deduplicated", "direct", "hybrid", "all-gather".
std::string_view Name(ExpertAlgorithm algorithm);

// How tokens choose experts, all being equally likely, and where experts are: in order on the
// ranks, ranks in order on the nodes. Numbers are positive; top_k at most `experts`.
struct ExpertRouting {
  int64_t experts = 1;  // of all ranks, copies of experts included
  int64_t top_k = 1;    // different experts of a token
  int32_t ranks = 1;
  int32_t nodes = 1;  // that the ranks are evenly spread over
  // DeepSeek-V3's limit: a token chooses so many of `groups` parts of the experts, and its experts
  // among these. 0: of all.
  int32_t groups = 0;
  int32_t groups_of_token = 0;
};

// Of a token, in the mean; the node and the rank that it comes from among them.
struct ExpertCopies {
  double experts = 0;  // top_k
  double ranks = 0;    // different ranks that have one of its experts
  double nodes = 0;    // different nodes
};
ExpertCopies ExpectedCopies(const ExpertRouting& routing);

// Of a token of `hidden` values: FP8 with a float for every 128 of them, as DeepEP's dispatch; or
// values of `width` bytes.
RealBytes Fp8TokenBytes(int64_t hidden);
RealBytes TokenBytes(int64_t hidden, int64_t width);

// What a GPU has for an exchange.
struct ExpertLinks {
  int32_t devices = 1;  // of a node
  Bandwidth nvlink;     // of a GPU to the others of its node, one direction
  Bandwidth nic;        // of a GPU to other nodes; zero: there are none
  int32_t multiprocessors = 132;
};

// Constants of one kernel: of the dispatch or the combine of one algorithm, fitted to measured
// times. Numbers of the unit that their names say, as files have them and fits move them; KB: 1000
// bytes of a token.
struct ExpertKernel {
  double latency_us = 0;               // of a launch with few tokens
  double latency_us_per_KB = 0;        // a token's way through the buffers
  double latency_us_per_KB_copy = 0;   // and that of its copies
  double latency_us_per_expert = 0;    // of a rank: the counts of tokens that it awaits
  double latency_us_per_doubling = 0;  // of the nodes
  // Filling the chunks that ranks pass on: half of it when a channel has sent fill_copies.
  double fill_us = 0;
  double fill_us_per_KB = 0;
  double fill_us_per_KB_copy = 0;  // and copy of a token
  double fill_copies = 1;
  // Of a channel, a pair of multiprocessors one of which sends what the other receives
  // (kDeduplicated), or of a multiprocessor (kDirect, kHybrid): sending a token,
  double copy_us = 0;          // each copy of it
  double copy_us_per_KB = 0;   // to a rank
  double relay_us_per_KB = 0;  // to a node, among several
  // and what is done once a token: looking up where it goes, converting it, adding up its results.
  double token_us = 0;
  double token_us_per_KB = 0;
  double token_us_per_KB_copy = 0;
  double overlap = 1;  // of both: the exponent of their norm; 1: one after the other
  // Of the links' rates.
  double nvlink_share = 1;
  double nic_share = 1;
  double sharpness = 1;  // exponent of the norm of what multiprocessors and links take
  // Agreeing on counts before it, between nodes, and waiting for the last of the ranks.
  double notify_us = 0;
  double notify_us_per_doubling = 0;
  double notify_share = 0;
  double most_tokens = 0;  // of a rank, that were measured
};

// Each constant by the name that files have for it, and between what it may be.
struct ExpertConstant {
  std::string_view name;
  double ExpertKernel::*value;
  double least, most;
};
std::span<const ExpertConstant> ExpertConstants();

enum class ExpertDirection : uint8_t { kDispatch, kCombine };

// Kernels of an algorithm. Within a node and between nodes DeepEP's normal mode has different ones;
// its low-latency mode the same.
struct ExpertExchangeKernels {
  ExpertKernel within[2], between[2];  // by ExpertDirection
};
struct ExpertExchangeModel {
  ExpertExchangeKernels deduplicated, direct;

  // Requires an algorithm that is no collective. Those of kHybrid are the same in all models.
  const ExpertKernel& Kernel(ExpertAlgorithm algorithm, ExpertDirection direction,
                             int32_t nodes) const;
};

struct ExpertExchange {
  ExpertAlgorithm algorithm = ExpertAlgorithm::kDeduplicated;  // no collective
  ExpertDirection direction = ExpertDirection::kDispatch;
  ExpertRouting routing;
  double tokens = 0;             // of a rank
  RealBytes token_bytes;         // that go on the wire
  int32_t multiprocessors = 20;  // that the kernel takes; kDirect takes what it needs
};

// What bounds an exchange, for a token of a rank.
struct ExpertBounds {
  RealUs multiprocessors, nvlink, nic;
};
ExpertBounds BoundsOf(const ExpertKernel& kernel, const ExpertLinks& links,
                      const ExpertExchange& exchange);

// The kernel that moves tokens alone, and what runs before it, between nodes.
RealUs TransferOf(const ExpertKernel& kernel, const ExpertLinks& links,
                  const ExpertExchange& exchange);
RealUs NotifyOf(const ExpertKernel& kernel, const ExpertRouting& routing, RealUs transfer);

struct ExpertTimes {
  SimTime transfer;  // the kernel that moves tokens
  SimTime notify;    // what runs before it; zero within a node, where `transfer` has it
  SimTime total() const { return transfer + notify; }
};
// Transfers overlap: the chunks of a token's way are all under way at once, so that the slowest of
// multiprocessors, NVLinks and NICs sets the time, with latency before. Monotone in tokens.
// Requires an algorithm that is no collective (network/ prices these), NVLinks for
// several ranks of a node, and NICs for several nodes.
ExpertTimes TimeOf(const ExpertExchangeModel& model, const ExpertLinks& links,
                   const ExpertExchange& exchange);

}  // namespace foretrace
