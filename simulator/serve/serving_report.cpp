#include "simulator/serve/serving_report.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/json_writer.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace::serve {
namespace {

constexpr size_t kTimelineRequests = 1000;
constexpr size_t kLoadSamples = 60;

// Nothing of what is zero throughout: no second token was asked for, nobody waited.
std::string Row(const char* name, const Distribution& d, double unit) {
  if (d.mean == RealSeconds()) return "";
  return fmt::format("{:<16} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name,
                     d.mean.seconds() * unit, d.p50.seconds() * unit, d.p90.seconds() * unit,
                     d.p95.seconds() * unit, d.p99.seconds() * unit);
}

// Requests that all came before any was answered say nothing of a rate that could be kept up with.
bool CameAtOnce(const std::vector<RequestOutcome>& outcomes) {
  SimTime last_arrival, first_end = SimTime::Max();
  for (const RequestOutcome& outcome : outcomes) {
    last_arrival = std::max(last_arrival, outcome.arrival);
    first_end = std::min(first_end, outcome.last_token);
  }
  return !outcomes.empty() && last_arrival < first_end;
}

double BusyShare(const ServingReport& r) {
  SimTime busy;
  for (const SimTime b : r.result->busy) busy += b;
  const double all = r.summary.time.seconds() * static_cast<double>(r.result->busy.size());
  return all > 0 ? std::min(1.0, busy.seconds() / all) : 0;
}

std::string PartsText(const StepTime& time) {
  std::string text;
  for (size_t p = 0; p < time.parts.size(); ++p) {
    if (time.parts[p] <= RealUs()) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", Name(static_cast<StepPart>(p)),
                        100 * time.parts[p].us() / time.us());
  }
  return text;
}

std::string StatesText(const MemoryLedger& m) {
  const std::string place = m.states > Bytes()
                                ? fmt::format("{:.1f} GiB beside keys and values hold {}",
                                              Gib(m.states), Counted(m.most_sequences, "sequence"))
                                : fmt::format("in {} of the cache, of {} tokens",
                                              Counted(m.window.states, "block"), m.block_tokens);
  return fmt::format("states of a sequence: {:.1f} MiB, {}\n",
                     static_cast<double>(m.state_per_sequence.count()) / (1 << 20), place);
}

void WriteLedger(PrettyJsonWriter& out, const ServingReport& r) {
  out.Key("memory");
  out.StartObject();
  out.Field("device_bytes", r.ledger.device.count());
  out.Field("available_bytes", r.ledger.available.count());
  out.Field("weights_bytes", r.ledger.weights.count());
  out.Field("activations_bytes", r.ledger.activations.count());
  out.Field("reserve_bytes", r.ledger.reserve.count());
  out.Field("kv_bytes", r.ledger.kv.count());
  out.Field("kv_bytes_per_token", r.ledger.kv_per_token.count());
  out.Field("kv_blocks", r.result->blocks);
  out.Field("kv_block_tokens", r.ledger.block_tokens);
  out.Field("states_bytes", r.ledger.states.count());
  out.Field("state_bytes_per_sequence", r.ledger.state_per_sequence.count());
  out.Field("verdict", r.memory_verdict);
  out.EndObject();
}

// Queue and cache over time: the last step of each of so many intervals.
void WriteLoad(PrettyJsonWriter& out, const ServingReport& r) {
  out.Key("load");
  out.StartArray();
  const std::vector<StepRecord>& steps = r.result->steps;
  const size_t stride = std::max<size_t>(1, (steps.size() + kLoadSamples - 1) / kLoadSamples);
  for (size_t i = stride - 1; i < steps.size(); i += stride) {
    out.StartObject();
    out.Field("time_s", steps[i].scheduled.seconds());
    out.Field("engine", steps[i].engine);
    out.Field("running", steps[i].running);
    out.Field("waiting", steps[i].waiting);
    out.Field("kv_blocks", steps[i].used_blocks);
    out.EndObject();
  }
  out.EndArray();
}

void WriteTimes(PrettyJsonWriter& out, const ServingReport& r) {
  const StepTime& time = r.result->time;
  const double all = std::max(time.us(), 1e-12);
  out.Key("step_time");
  out.StartObject();
  out.Field("source", r.source);
  out.Field("steps", r.result->step_count);
  out.Field("busy_share", BusyShare(r));
  for (size_t p = 0; p < time.parts.size(); ++p) {
    out.Field(fmt::format("{}_share", Name(static_cast<StepPart>(p))), time.parts[p].us() / all);
  }
  out.Field("calibrated_share", time.share(EstimateSource::kCalibrated));
  out.Field("analytic_share", time.share(EstimateSource::kAnalytic));
  out.Field("extrapolated_share", time.extrapolated.us() / all);
  out.EndObject();
}

void WriteEnergyAndCost(PrettyJsonWriter& out, const ServingReport& r) {
  const auto stated = [&](const char* name, double value) {
    out.Key(name);
    if (value > 0) {
      out.Double(value);
    } else {
      out.Null();
    }
  };
  out.Key("energy");
  out.StartObject();
  out.Field("of", r.power_known() ? "activity" : "rated power");
  stated("device_watts", r.watts);
  stated("idle_watts", r.idle_watts);
  const double seconds = r.summary.time.seconds();
  stated("mean_device_watts", seconds > 0 ? r.joules() / (seconds * r.devices) : 0);
  stated("joules", r.joules());
  stated("joules_per_step",
         r.result->step_count > 0 ? r.joules() / static_cast<double>(r.result->step_count) : 0);
  stated("joules_per_output_token", r.joules_per_output_token());
  out.EndObject();
  out.Key("cost");
  out.StartObject();
  stated("device_usd", r.usd_per_device);
  stated("devices_usd", r.usd_per_device * r.devices);
  stated("output_tokens_per_s_per_1000_usd", r.output_tokens_per_s_per_1000_usd());
  out.EndObject();
}

void WriteSummary(PrettyJsonWriter& out, const ServingReport& r) {
  const ServingSummary& s = r.summary;
  out.Key("summary");
  out.StartObject();
  out.Field("requests", static_cast<uint64_t>(s.requests));
  out.Field("input_tokens", s.input_tokens);
  out.Field("output_tokens", s.output_tokens);
  out.Field("seconds", s.time.seconds());
  WriteJson(out, "ttft_s", s.ttft);
  WriteJson(out, "itl_s", s.itl);
  WriteJson(out, "tpot_s", s.tpot);
  WriteJson(out, "e2e_s", s.e2e);
  WriteJson(out, "queue_s", s.queue);
  out.Field("requests_per_s", s.requests_per_s);
  out.Field("output_tokens_per_s", s.output_tokens_per_s);
  out.Field("total_tokens_per_s", s.total_tokens_per_s);
  out.Field("tokens_per_s_per_gpu", s.tokens_per_s_per_gpu);
  out.Field("tokens_per_s_per_user", s.tokens_per_s_per_user);
  out.Field("goodput_requests_per_s", s.goodput_requests_per_s);
  out.Field("service_level_met_share", s.met_share);
  out.Field("preemptions", r.result->preemptions);
  out.Field("recomputed_tokens", r.result->recomputed_tokens);
  out.Field("tier_hit_tokens", r.result->tier_hits);
  out.Field("prefix_hit_share", r.result->prompt_tokens > 0
                                    ? static_cast<double>(r.result->prefix_hits) /
                                          static_cast<double>(r.result->prompt_tokens)
                                    : 0.0);
  out.Field("peak_waiting", r.result->peak_waiting);
  out.Field("peak_kv_blocks", r.result->peak_blocks);
  out.Field("queued_share", r.result->queued_share);
  out.Key("overloaded_from_s");
  if (r.result->overloaded_from == SimTime::Max()) {
    out.Null();
  } else {
    out.Double(r.result->overloaded_from.seconds());
  }
  out.Field("verdict", LoadVerdict(r));
  out.EndObject();
}

// Nothing where the machine's file has neither power nor price.
std::string EnergyAndPriceText(const ServingReport& r) {
  std::string text;
  if (r.power_known()) {
    text += fmt::format(
        "energy by what kernels do, transfers between devices left out: {:.2f} J an output token, "
        "{:.0f} J a step; {:.0f} W a device in the mean, {:.0f} idle\n",
        r.joules_per_output_token(), r.joules() / static_cast<double>(r.result->step_count),
        r.joules() / (r.summary.time.seconds() * r.devices), r.idle_watts);
  } else if (r.joules_per_output_token() > 0) {
    text += fmt::format("energy at the devices' rated power, at most: {:.2f} J an output token\n",
                        r.joules_per_output_token());
  }
  if (r.usd_per_device > 0) {
    text += fmt::format("devices cost {:.0f} $: {:.2f} output tokens/s for 1,000 $\n",
                        r.usd_per_device * r.devices, r.output_tokens_per_s_per_1000_usd());
  }
  return text;
}

}  // namespace

bool ServingReport::power_known() const { return idle_watts > 0 && result->time.joules > 0; }

double ServingReport::joules() const {
  if (!power_known()) return watts * devices * summary.time.seconds();
  return idle_watts * devices * summary.time.seconds() + result->time.joules * devices_of_a_step;
}

double ServingReport::joules_per_output_token() const {
  if (summary.output_tokens == 0) return 0;
  return joules() / static_cast<double>(summary.output_tokens);
}

double ServingReport::output_tokens_per_s_per_1000_usd() const {
  const double usd = usd_per_device * devices;
  return usd > 0 ? summary.output_tokens_per_s / usd * 1000 : 0;
}

std::string LoadVerdict(const ServingReport& r) {
  const bool at_once = CameAtOnce(r.result->outcomes);
  if (r.result->overloaded_from != SimTime::Max()) {
    return fmt::format(
        "overloaded from {:.0f} s on: the queue no longer empties and has up to {} requests",
        r.result->overloaded_from.seconds(), r.result->peak_waiting);
  }
  const double queued = r.result->queued_share;
  if (!at_once && queued >= 0.5) {
    return fmt::format(
        "at its limit: {:.0f} % of the time requests wait that no step can take, up to {} of them",
        100 * queued, r.result->peak_waiting);
  }
  if (!at_once) {
    if (queued < 0.01) return "keeps up with the requests";
    return fmt::format(
        "keeps up with the requests, though {:.0f} % of the time some wait that no step can take",
        100 * queued);
  }
  if (r.summary.requests == 1) {
    return fmt::format("one request is served in {:.2f} s", r.summary.time.seconds());
  }
  std::string text =
      fmt::format("{} requests that came before any was answered are served in {:.2f} s",
                  r.summary.requests, r.summary.time.seconds());
  const double rate = ArrivalRate(r.result->outcomes);
  if (rate <= 0) return text;
  return text + fmt::format(
                    ", too few to tell whether {:.1f} a second are kept up with; {:.0f} of them "
                    "would",
                    rate, RequestsThatTell(rate, r.summary.e2e.mean));
}

// Where there is more than one engine.
std::string EnginesText(const ServingReport& r) {
  if (r.decode_engines > 0) {
    return fmt::format(", {} engine{} for prefill and {} for decode, {} devices", r.engines,
                       r.engines == 1 ? "" : "s", r.decode_engines, r.devices);
  }
  return r.engines > 1 ? fmt::format(", {} engines, {} devices", r.engines, r.devices) : "";
}

std::string ServingText(const ServingReport& r) {
  const ServingSummary& s = r.summary;
  const ServingResult& result = *r.result;
  std::string text = fmt::format(
      "Verdict: {}; TTFT {:.1f} ms{} in the mean, {:.0f} output tokens/s\n{} on {}, {}, {}{}\n\n",
      LoadVerdict(r), s.ttft.mean.ms(),
      s.tpot.mean > RealSeconds() ? fmt::format(", TPOT {:.2f} ms", s.tpot.mean.ms()) : "",
      s.output_tokens_per_s, r.model, r.platform, r.engine, r.parallel, EnginesText(r));
  text += fmt::format("{:<16} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "", "mean", "P50", "P90",
                      "P95", "P99");
  text += Row("TTFT ms", s.ttft, 1e3) + Row("ITL ms", s.itl, 1e3) + Row("TPOT ms", s.tpot, 1e3) +
          Row("end to end s", s.e2e, 1) + Row("queue ms", s.queue, 1e3);
  text += fmt::format(
      "\n{} requests in {:.2f} s: {:.2f} requests/s, {:.0f} output tokens/s, {:.0f} a GPU, {:.1f} "
      "a "
      "user\n",
      s.requests, s.time.seconds(), s.requests_per_s, s.output_tokens_per_s, s.tokens_per_s_per_gpu,
      s.tokens_per_s_per_user);
  if (r.level.stated()) {
    text += fmt::format("goodput {:.2f} requests/s: {:.1f} % keep the service level\n",
                        s.goodput_requests_per_s, 100 * s.met_share);
  }
  text += fmt::format("{} steps, devices busy {:.1f} %: {}\n", result.step_count,
                      100 * BusyShare(r), PartsText(result.time));
  text += fmt::format(
      "queue up to {}, KV cache up to {:.1f} %, {} preemptions, {:.1f} % of prompt "
      "tokens found in the cache\n",
      result.peak_waiting,
      result.blocks > 0
          ? 100.0 * static_cast<double>(result.peak_blocks) / static_cast<double>(result.blocks)
          : 0,
      result.preemptions,
      result.prompt_tokens > 0 ? 100.0 * static_cast<double>(result.prefix_hits) /
                                     static_cast<double>(result.prompt_tokens)
                               : 0);
  text += fmt::format(
      "memory of a device: {:.1f} GiB weights, {:.2f} activations, {:.2f} reserve, {:.1f} keys and "
      "values of {:.1f}; {}\n",
      Gib(r.ledger.weights), Gib(r.ledger.activations), Gib(r.ledger.reserve), Gib(r.ledger.kv),
      Gib(r.ledger.available), r.memory_verdict);
  if (r.ledger.state_per_sequence > Bytes()) text += StatesText(r.ledger);
  text += EnergyAndPriceText(r);
  text += fmt::format(
      "step times: {}; {:.1f} % calibrated, {:.1f} % analytic, {:.1f} % "
      "extrapolated\n",
      r.source, 100 * result.time.share(EstimateSource::kCalibrated),
      100 * result.time.share(EstimateSource::kAnalytic),
      result.time.us() > 0 ? 100 * result.time.extrapolated.us() / result.time.us() : 0);
  if (!r.expert_exchange.empty()) {
    text += fmt::format("tokens to experts of other devices: {}\n", r.expert_exchange);
  }
  for (const std::string& note : r.notes) text += "Note: " + note + "\n";
  return text;
}

std::string ServingJson(const ServingReport& r) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("model", r.model);
  out.Field("platform", r.platform);
  out.Field("engine", r.engine);
  out.Field("parallel", r.parallel);
  out.Key("expert_exchange");
  if (r.expert_exchange.empty()) {
    out.Null();
  } else {
    out.String(r.expert_exchange.data(),
               static_cast<rapidjson::SizeType>(r.expert_exchange.size()));
  }
  out.Field("engines", r.engines);
  out.Field("decode_engines", r.decode_engines);
  out.Field("devices", r.devices);
  WriteSummary(out, r);
  WriteTimes(out, r);
  WriteLedger(out, r);
  WriteEnergyAndCost(out, r);
  WriteLoad(out, r);
  out.Field("notes", r.notes);
  out.EndObject();
  return buffer.GetString();
}

absl::Status WriteServingTimeline(const ServingResult& result, const std::string& path) {
  const auto out = MakeTimelineWriter(path);
  const TimelineText waiting("waiting"), prefill("prefill"), decode("decode");
  // Perfetto takes process 0 for the system's.
  const auto requests = static_cast<int32_t>(result.busy.size()) + 1;
  for (int32_t process = 1; process < requests; ++process) {
    out->Process(process, fmt::format("engine {}", process - 1), "", process);
    out->Thread({process, 1}, "steps", 0);
  }
  for (const StepRecord& step : result.steps) {
    const TimelineText name(
        fmt::format("{} prefill, {} decode", step.prefill_tokens, step.decodes));
    const TimelineArg args[] = {
        {"running", step.running}, {"waiting", step.waiting}, {"kv_blocks", step.used_blocks}};
    out->Slice({step.engine + 1, 1}, name, "step", step.start, step.end, args);
  }
  out->Process(requests, "requests", "", requests);
  const size_t shown = std::min(result.outcomes.size(), kTimelineRequests);
  for (size_t i = 0; i < shown; ++i) {
    const RequestOutcome& o = result.outcomes[i];
    const auto thread = static_cast<int32_t>(i) + 1;
    out->Thread({requests, thread}, fmt::format("request {}", i), thread);
    out->Slice({requests, thread}, waiting, "request", o.arrival, o.scheduled);
    out->Slice({requests, thread}, prefill, "request", o.scheduled, o.first_token);
    out->Slice({requests, thread}, decode, "request", o.first_token, o.last_token);
  }
  return out->Close();
}

}  // namespace foretrace::serve
