#pragma once
// What users of a deployment saw.

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "simulator/base/json_writer.h"
#include "simulator/base/real_quantities.h"
#include "simulator/serve/simulate.h"

namespace foretrace::serve {

// Of times.
struct Distribution {
  RealSeconds mean, p50, p90, p95, p99, max;
  int64_t count = 0;  // of times; 0: there are none

  // Of one of these, for JSON, which has null for what is not a number.
  double SecondsOrNone(RealSeconds statistic) const {
    return count > 0 ? statistic.seconds() : std::numeric_limits<double>::quiet_NaN();
  }
};
// Linear between order statistics; zeros for none.
Distribution Describe(std::vector<RealSeconds> times);

// {"NAME": {"mean": ..., "p50": ..., ...}} in seconds, within an object.
void WriteJson(PrettyJsonWriter& out, const char* name, const Distribution& distribution);

// Of one request. TPOT is that of requests of more than one token, else zero.
struct RequestTimes {
  RealSeconds ttft, tpot, e2e, queue;
};
// Since the user sent it, or since the engine took notice of it, as vLLM's own statistics
// count.
enum class Since : uint8_t { kArrival, kQueued };
RequestTimes TimesOf(const RequestOutcome& outcome, Since since);

// What a request must keep to count for goodput; unset: anything.
struct ServiceLevel {
  std::optional<RealSeconds> ttft, tpot, e2e;
  bool Met(const RequestTimes& times) const;
  bool stated() const { return ttft || tpot || e2e; }
};

struct ServingSummary {
  size_t requests = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  RealSeconds time;  // from the first arrival to the last token
  Distribution ttft, tpot, itl, e2e, queue;
  double requests_per_s = 0, output_tokens_per_s = 0, total_tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tokens_per_s_per_user = 0;  // 1 / mean TPOT
  double goodput_requests_per_s = 0;
  double met_share = 1;  // of requests that kept the service level
};

ServingSummary Summarize(const RequestTrace& trace, const ServingResult& result,
                         const ServiceLevel& level, int32_t devices, Since since);

// Requests a second; 0: all came at once.
double ArrivalRate(const std::vector<RequestOutcome>& outcomes);
// How many requests tell whether so many a second, which are answered after so long, are kept up
// with.
double RequestsThatTell(double rate, RealSeconds answer);

}  // namespace foretrace::serve
