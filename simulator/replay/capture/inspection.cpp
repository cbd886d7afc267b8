#include "simulator/replay/capture/inspection.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "simulator/reconstruct/reconstruction.h"
#include "simulator/replay/simulation_setup.h"

namespace foretrace {
namespace {

InspectedRank InspectRank(const RankTrace& rank) {
  InspectedRank out;
  out.rank = rank.info().rank;
  out.source = rank.info().source;
  out.producer = rank.info().producer;
  out.device = rank.info().device_name;
  out.nodes = rank.size();
  out.iterations = rank.iterations().size();
  for (const Lane& lane : rank.lanes()) {
    ++(lane.kind == Lane::Kind::kCpuThread ? out.threads : out.streams);
  }
  SimTime end = SimTime::Min();
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    const NodeKind kind = rank.kind(n);
    if (kind == NodeKind::kKernel) ++out.kernels;
    if (kind == NodeKind::kMemcpy || kind == NodeKind::kMemset) ++out.copies;
    if (IsCommunicationKind(kind)) ++out.communication;
    if (rank.info().has_times && rank.has_duration(n)) end = std::max(end, rank.end(n));
  }
  if (rank.info().has_times && rank.size() > 0) out.span = end - rank.start(NodeIndex(0));
  return out;
}

void InspectCommunicators(const TraceStore& store, Inspection& out) {
  const auto map = MatchCommunicators(store);
  if (!map.ok()) {
    out.communicator_error = std::string(map.status().message());
    return;
  }
  std::vector<std::map<uint32_t, int64_t>> bytes(map->communicators.size());
  for (const MatchedRendezvous& rendezvous : map->rendezvous) {
    for (const MatchedRendezvous::Member& m : rendezvous.members) {
      const CommAttr* attr = store.ranks()[m.rank].comm(m.node);
      if (attr == nullptr) continue;
      bytes[rendezvous.communicator][m.rank] +=
          std::max(attr->bytes_in.count(), attr->bytes_out.count());
    }
  }
  for (size_t c = 0; c < map->communicators.size(); ++c) {
    const MatchedCommunicator& communicator = map->communicators[c];
    InspectedCommunicator i{communicator.name,
                            communicator.ranks,
                            communicator.missing_members,
                            communicator.declared,
                            communicator.matched_by,
                            communicator.rendezvous,
                            communicator.unmatched,
                            Bytes()};
    for (const auto& [rank, sum] : bytes[c]) i.bytes = std::max(i.bytes, Bytes(sum));
    out.communicators.push_back(std::move(i));
  }
  out.communicator_doubts = map->doubts;
  if (store.ranks().front().info().has_times) {
    out.channels = TransferModes(store, *map, EstimateClockOffsets(store, *map)).count();
  }
}

void FindMissing(const TraceStore& store, Inspection& out) {
  std::set<int32_t> present;
  for (const RankTrace& rank : store.ranks()) present.insert(rank.info().rank);
  std::vector<int32_t> absent;
  for (int32_t r = 0; r < store.world_size() && absent.size() < 16; ++r) {
    if (!present.contains(r)) absent.push_back(r);
  }
  if (!absent.empty()) {
    out.missing.push_back(fmt::format(
        "traces of {} of {} ranks ({}{})", static_cast<size_t>(store.world_size()) - present.size(),
        store.world_size(), fmt::join(absent, ","), absent.size() == 16 ? ",..." : ""));
  }
  if (!store.ranks().front().info().has_times) {
    out.missing.push_back(LacksDurations(store)
                              ? "times: a symbolic trace, to be run on a platform (--platform)"
                              : "starts: nodes have durations alone; predict takes their order "
                                "from their dependencies, "
                                "and no recorded time judges it");
  } else if (out.iterations.empty()) {
    out.missing.push_back("step marks: the whole recording counts as one iteration");
  }
}

}  // namespace

Inspection Inspect(const TraceStore& store, const AcceleratorCatalog& accelerators) {
  Inspection out;
  out.world_size = store.world_size();
  out.memory_bytes = store.memory_bytes();
  out.nodes = store.node_count();
  for (const RankTrace& rank : store.ranks()) {
    InspectedRank inspected = InspectRank(rank);
    for (const IterationMark& mark : rank.iterations()) {
      out.iterations.push_back({mark.number, rank.info().rank, rank.duration(mark.node)});
    }
    if (rank.info().has_times) {
      const RankReconstruction recording(store, rank,
                                         accelerators.DriverOf(rank.info().device_name));
      const RankSync& sync = recording.sync;
      for (int k = 0; k < static_cast<int>(SyncRule::kCount); ++k) {
        out.rules[k].applied += sync.rules[k].applied;
        out.rules[k].violations += sync.rules[k].violations;
        out.rules[k].tight += sync.rules[k].tight;
      }
      inspected.unresolved_waits = sync.unresolved_waits;
      out.unresolved_waits += sync.unresolved_waits;
    }
    out.ranks.push_back(std::move(inspected));
  }
  InspectCommunicators(store, out);
  out.repairs = store.diagnostics().entries();
  FindMissing(store, out);
  return out;
}

}  // namespace foretrace
