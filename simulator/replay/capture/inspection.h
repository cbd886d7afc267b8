#pragma once
// What is in a set of traces, what was repaired, and how well the rules of inference fit.

#include <map>
#include <string>
#include <vector>

#include "simulator/hardware/catalog.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/reconstruct/transfer_modes.h"
#include "simulator/report/text_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct InspectedRank {
  int32_t rank = 0;
  std::string source;
  std::string producer;
  std::string device;
  uint64_t nodes = 0;
  uint64_t kernels = 0;        // kKernel
  uint64_t copies = 0;         // kMemcpy and kMemset
  uint64_t communication = 0;  // collectives, sends and receives
  uint64_t threads = 0;
  uint64_t streams = 0;
  uint64_t iterations = 0;
  SimTime span;
  int64_t unresolved_waits = 0;
};

struct InspectedIteration {
  int64_t number = 0;
  int32_t rank = 0;
  SimTime duration;
};

struct InspectedCommunicator {
  std::string name;
  std::vector<int32_t> ranks;
  uint32_t missing_members = 0;
  bool declared = false;
  MatchedBy matched_by = MatchedBy::kNothing;
  int64_t operations = 0;
  int64_t unmatched = 0;
  Bytes bytes;  // largest sum over one rank
};

struct Inspection {
  std::vector<InspectedRank> ranks;
  std::vector<InspectedIteration> iterations;
  std::vector<InspectedCommunicator> communicators;
  // Why communicators could not be matched; empty when they could.
  std::string communicator_error;
  std::vector<std::string> communicator_doubts;
  TransferModes::Count channels;  // of sends and receives, and of what has a root
  std::map<Repair, Diagnostics::Entry> repairs;
  RuleCount rules[static_cast<int>(SyncRule::kCount)];
  int64_t unresolved_waits = 0;
  int32_t world_size = 0;
  uint64_t memory_bytes = 0;
  uint64_t nodes = 0;
  // Statements on what the traces lack.
  std::vector<std::string> missing;
};

Inspection Inspect(const TraceStore& store, const AcceleratorCatalog& accelerators);
std::string InspectionText(const Inspection& inspection, const TextStyle& style);
std::string InspectionJson(const Inspection& inspection);

}  // namespace foretrace
