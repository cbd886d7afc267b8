#pragma once
// Which deployment serves a trace best: all of a list are simulated.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/metrics.h"
#include "simulator/serve/serving_plan.h"

namespace foretrace::serve {

struct Candidate {
  ServingPlan plan;
  int32_t engines = 1;  // with decode engines: that prefill
  int32_t decode_engines = 0;
  int32_t max_num_seqs = 0, max_num_batched_tokens = 0;

  int32_t devices() const { return plan.devices() * (engines + decode_engines); }
};
std::string Text(const Candidate& candidate);

// All divisions of `gpus` devices into engines that are alike, by tensor (powers of two) and
// pipeline parallelism, with experts divided where the model has any; all in one pool, or a
// quarter, half or three quarters of the engines for prefill; each with limits of 64, 256 and 1,024
// sequences and 2,048 and 8,192 tokens a step.
std::vector<Candidate> Candidates(const TransformerConfig& model, int32_t gpus);

struct EvaluatedCandidate {
  Candidate candidate;
  ServingSummary summary;
  SimTime overloaded_from = SimTime::Max();
  double arrivals_per_s = 0;  // 0: all came at once, or users wait for answers
  bool pareto = false;        // no other has more tokens/s a GPU and a user
};

struct SearchOutcome {
  // Best first: by goodput of requests that keep the service level, then by mean end to end time.
  std::vector<EvaluatedCandidate> ranked;
  size_t evaluated = 0, infeasible = 0;
  bool stopped = false;
  std::string first_refusal;  // why the first infeasible one is
  std::string why;            // the first is first
  // So many would tell whether the first keeps up with the requests; 0: there are as many.
  int64_t requests_wanted = 0;
};

// `progress` is told how many are done, and says whether to go on. Errors: none is feasible (the
// message says why the first is not); input that no configuration could serve.
absl::StatusOr<SearchOutcome> SearchDeployments(
    const RequestTrace& trace, const std::vector<Candidate>& candidates,
    const std::function<absl::StatusOr<Deployment>(const Candidate&)>& deploy,
    const ServiceLevel& level, const std::function<bool(size_t)>& progress);

std::string SearchText(const SearchOutcome& outcome, size_t top);
std::string SearchJson(const SearchOutcome& outcome);

}  // namespace foretrace::serve
