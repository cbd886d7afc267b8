#include "simulator/serve/metrics.h"

#include <algorithm>
#include <numeric>

namespace foretrace::serve {
namespace {

double Sorted(const std::vector<double>& v, double q) {
  const double position = q * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, v.size() - 1);
  return v[low] + (v[high] - v[low]) * (position - static_cast<double>(low));
}

}  // namespace

Distribution Describe(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()),
          Sorted(values, 0.5),
          Sorted(values, 0.9),
          Sorted(values, 0.95),
          Sorted(values, 0.99),
          values.back()};
}

void WriteJson(PrettyJsonWriter& out, const char* name, const Distribution& d) {
  out.Key(name);
  out.StartObject();
  out.Field("mean", d.mean);
  out.Field("p50", d.p50);
  out.Field("p90", d.p90);
  out.Field("p95", d.p95);
  out.Field("p99", d.p99);
  out.Field("max", d.max);
  out.EndObject();
}

RequestTimes TimesOf(const RequestOutcome& o, Since since) {
  const SimTime from = since == Since::kArrival ? o.arrival : o.queued;
  RequestTimes t;
  t.ttft = (o.first_token - from).seconds();
  t.e2e = (o.last_token - from).seconds();
  t.queue = (o.scheduled - from).seconds();
  if (o.tokens > 1) t.tpot = (o.last_token - o.first_token).seconds() / (o.tokens - 1);
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
  std::vector<double> ttft, tpot, e2e, queue;
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
  s.seconds = (result.end - begin).seconds();
  s.ttft = Describe(std::move(ttft));
  s.tpot = Describe(std::move(tpot));
  s.e2e = Describe(std::move(e2e));
  s.queue = Describe(std::move(queue));
  s.itl = result.gaps.Describe();
  s.met_share = static_cast<double>(met) / static_cast<double>(s.requests);
  if (s.seconds > 0) {
    s.requests_per_s = static_cast<double>(s.requests) / s.seconds;
    s.output_tokens_per_s = static_cast<double>(s.output_tokens) / s.seconds;
    s.total_tokens_per_s = static_cast<double>(s.input_tokens + s.output_tokens) / s.seconds;
    s.goodput_requests_per_s = s.requests_per_s * s.met_share;
    s.tokens_per_s_per_gpu = s.output_tokens_per_s / devices;
  }
  if (s.tpot.mean > 0) s.tokens_per_s_per_user = 1 / s.tpot.mean;
  return s;
}

}  // namespace foretrace::serve
