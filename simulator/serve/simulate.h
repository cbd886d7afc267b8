#pragma once
// A deployment serves a trace of requests: engines behind a router, in one pool or in pools for
// prefill and decode with the keys and values handed over.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/units.h"
#include "simulator/serve/engine.h"
#include "simulator/serve/gap_histogram.h"

namespace foretrace::serve {

// Of engines, with all of their ranks. Least loaded: by the tokens of its requests. Shortest queue:
// by requests, those that wait four times.
enum class Routing : uint8_t { kRoundRobin, kLeastLoaded, kPrefixAware, kShortestQueue, kCount };
std::string_view Name(Routing routing);

struct Pool {
  EngineConfig config;  // of a rank
  std::shared_ptr<const StepModel> model;
  int32_t engines = 1;
  // Data-parallel ranks of each, which schedule by themselves: a request lives on one of them
  // (EngineConfig::rank_routing).
  int32_t ranks = 1;
  bool in_step = false;  // ranks share experts: their steps run together (StepGroup)
};

// Keys and values on their way from a prefill to a decode engine: one transfer of an engine's at a
// time.
struct KvLink {
  Bytes bytes_per_token;
  Bandwidth bandwidth;
  SimTime latency;
  Bytes bytes_of_states = {};  // of a sequence, however long it is
};

struct Deployment {
  Pool pool;  // of all work, or of prefill where there are decode engines
  Pool decode = {{}, nullptr, 0, 1, false};  // `engines` 0: there are none
  KvLink link;                               // with decode engines
  Routing routing = Routing::kLeastLoaded;
  Speculation speculation;
  // Users that each wait for an answer before they ask again; 0: requests come when they come.
  int32_t concurrency = 0;
  bool keep_steps = false;  // StepRecords in the result

  bool disaggregated() const { return decode.engines > 0; }
};

struct ServingResult {
  std::vector<RequestOutcome> outcomes;  // as the trace's requests
  std::vector<StepRecord> steps;         // in order of their scheduling, with keep_steps
  GapHistogram gaps;                     // between a request's tokens
  int64_t step_count = 0;
  StepTime time;              // of all steps
  SimTime end;                // of the last token
  std::vector<SimTime> busy;  // by rank of an engine: steps on its devices
  int64_t preemptions = 0, recomputed_tokens = 0;
  int64_t prefix_hits = 0, prompt_tokens = 0;
  int64_t tier_hits = 0;     // of prefix_hits, tokens read from below a device's memory
  int64_t peak_blocks = 0;   // of the fullest rank of an engine
  int64_t blocks = 0;        // of one rank of the first pool's
  int32_t peak_waiting = 0;  // on all ranks together
  double queued_share = 0;   // of the time of arrivals, in which some requests were not admitted
  // When the queue began to grow or to stay, as far as the trace goes; Max(): it did not.
  SimTime overloaded_from = SimTime::Max();
};

// Errors: engines that are not valid; requests that are longer than the context, or that can never
// fit in the cache.
absl::StatusOr<ServingResult> Simulate(const RequestTrace& trace, const Deployment& deployment);

}  // namespace foretrace::serve
