#include "simulator/serve/metrics.h"

#include <algorithm>
#include <cmath>

namespace foretrace::serve {
namespace {

RealSeconds Sorted(const std::vector<RealSeconds>& v, double q) {
  const double position = q * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (position - static_cast<double>(low)) * (v[high] - v[low]);
}

}  // namespace

Distribution Describe(std::vector<RealSeconds> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  RealSeconds sum;
  for (const RealSeconds t : times) sum += t;
  return {sum / static_cast<double>(times.size()),
          Sorted(times, 0.5),
          Sorted(times, 0.9),
          Sorted(times, 0.95),
          Sorted(times, 0.99),
          times.back(),
          static_cast<int64_t>(times.size())};
}

void WriteJson(PrettyJsonWriter& out, const char* name, const Distribution& d) {
  const auto field = [&](const char* statistic, RealSeconds time) {
    out.Field(statistic, d.SecondsOrNone(time));
  };
  out.Key(name);
  out.StartObject();
  field("mean", d.mean);
  field("p50", d.p50);
  field("p90", d.p90);
  field("p95", d.p95);
  field("p99", d.p99);
  field("max", d.max);
  out.EndObject();
}

RequestTimes TimesOf(const RequestOutcome& o, Since since) {
  const SimTime from = since == Since::kArrival ? o.arrival : o.queued;
  RequestTimes t;
  t.ttft = RealSeconds((o.first_token - from).seconds());
  t.e2e = RealSeconds((o.last_token - from).seconds());
  t.queue = RealSeconds((o.scheduled - from).seconds());
  if (o.tokens > 1) {
    t.tpot = RealSeconds((o.last_token - o.first_token).seconds()) / (o.tokens - 1);
  }
  return t;
}

bool ServiceLevel::Met(const RequestTimes& times) const {
  return times.ttft <= ttft.value_or(times.ttft) && times.tpot <= tpot.value_or(times.tpot) &&
         times.e2e <= e2e.value_or(times.e2e);
}

ServingSummary Summarize(const RequestTrace& trace, const ServingResult& result,
                         const ServiceLevel& level, int32_t devices, Since since) {
  ServingSummary s;
  s.requests = result.outcomes.size();
  std::vector<RealSeconds> ttft, tpot, e2e, queue;
  SimTime begin = SimTime::Max();
  size_t met = 0;
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    const RequestOutcome& o = result.outcomes[i];
    const RequestTimes t = TimesOf(o, since);
    s.input_tokens += trace.requests[i].input_tokens;
    s.output_tokens += o.tokens;
    begin = std::min(begin, since == Since::kArrival ? o.arrival : o.queued);
    ttft.push_back(t.ttft);
    e2e.push_back(t.e2e);
    queue.push_back(t.queue);
    if (o.tokens > 1) tpot.push_back(t.tpot);
    met += level.Met(t) ? 1 : 0;
  }
  if (s.requests == 0) return s;
  s.time = RealSeconds((result.end - begin).seconds());
  s.ttft = Describe(std::move(ttft));
  s.tpot = Describe(std::move(tpot));
  s.e2e = Describe(std::move(e2e));
  s.queue = Describe(std::move(queue));
  s.itl = result.gaps.Describe();
  s.met_share = static_cast<double>(met) / static_cast<double>(s.requests);
  if (const double seconds = s.time.seconds(); seconds > 0) {
    s.requests_per_s = static_cast<double>(s.requests) / seconds;
    s.output_tokens_per_s = static_cast<double>(s.output_tokens) / seconds;
    s.total_tokens_per_s = static_cast<double>(s.input_tokens + s.output_tokens) / seconds;
    s.goodput_requests_per_s = s.requests_per_s * s.met_share;
    s.tokens_per_s_per_gpu = s.output_tokens_per_s / devices;
  }
  if (s.tpot.mean > RealSeconds()) s.tokens_per_s_per_user = 1 / s.tpot.mean.seconds();
  return s;
}

double ArrivalRate(const std::vector<RequestOutcome>& outcomes) {
  SimTime first = SimTime::Max(), last;
  for (const RequestOutcome& outcome : outcomes) {
    first = std::min(first, outcome.arrival);
    last = std::max(last, outcome.arrival);
  }
  if (outcomes.empty() || last <= first) return 0;
  return static_cast<double>(outcomes.size() - 1) / (last - first).seconds();
}

// Most of ten answers' time is neither the first's nor the last's.
double RequestsThatTell(double rate, RealSeconds answer) {
  return std::ceil(10 * rate * answer.seconds());
}

}  // namespace foretrace::serve
