#pragma once
// Compiles one rank; a detail of compile.h.

#include <string>
#include <vector>

#include "simulator/engine/compile.h"
#include "simulator/reconstruct/reconstruction.h"

namespace foretrace {

struct CompiledRank {
  RankProgram program;
  RankCompileReport report;
  std::vector<CpuAnchor> anchors;
  UnshownItemWaits unshown;
  std::vector<uint32_t> item_of;  // by node; kNoItem for nodes that are no items
  std::vector<NodeIndex> missing;
};

struct RankInput {
  const TraceStore& store;
  const RankTrace& rank;
  const CompileOptions& options;
  const Latencies& latencies;  // the platform's
};

// By everything that its recording implies.
CompiledRank CompileRecorded(const RankInput& input, const RankReconstruction& recording);
// By the multi-GPU paper's Algorithm 1.
CompiledRank CompileAlgorithm1(const RankInput& input, const RankReconstruction& recording);
// Of a trace without times.
CompiledRank CompileSymbolic(const RankInput& input);

// When the rank's recording begins: its first CPU point, else its first device work.
SimTime RecordedBegin(const RankTrace& rank);

// "rank 3 node 17 (all_reduce)"
std::string DescribeNode(const TraceStore& store, const RankTrace& rank, NodeIndex node);

}  // namespace foretrace
