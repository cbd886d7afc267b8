#include "simulator/serve/run_validation.h"

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

double ErrorPercent(double predicted, double measured) {
  return measured > 0 ? 100 * (predicted - measured) / measured : 0;
}
double ErrorPercent(RealSeconds predicted, RealSeconds measured) {
  return ErrorPercent(predicted.seconds(), measured.seconds());
}

}  // namespace

absl::StatusOr<RunValidation> ValidateRun(const MeasuredRun& run,
                                          std::shared_ptr<const StepModel> step) {
  Deployment deployment;
  deployment.pool = {run.engine, step, 1, run.data_parallel, run.engines_in_step};
  FORETRACE_ASSIGN_OR_RETURN(const ServingResult result, Simulate(run.trace, deployment));
  RunValidation v;
  v.run = run.folder;
  v.source = step->Source();
  v.requests = run.trace.requests.size();
  v.predicted = Summarize(run.trace, result, {}, run.devices(), Since::kQueued);
  std::vector<RealSeconds> ttft, tpot, e2e;
  double tokens = 0;
  for (size_t i = 0; i < run.measured.size(); ++i) {
    ttft.push_back(run.measured[i].ttft);
    e2e.push_back(run.measured[i].e2e);
    if (run.trace.requests[i].output_tokens > 1) tpot.push_back(run.measured[i].tpot);
    tokens += run.trace.requests[i].output_tokens;
  }
  v.measured_ttft = Describe(std::move(ttft));
  v.measured_tpot = Describe(std::move(tpot));
  v.measured_e2e = Describe(std::move(e2e));
  if (run.time > RealSeconds()) v.measured_tokens_per_s = tokens / run.time.seconds();
  v.ttft_mean_error = ErrorPercent(v.predicted.ttft.mean, v.measured_ttft.mean);
  v.ttft_p90_error = ErrorPercent(v.predicted.ttft.p90, v.measured_ttft.p90);
  v.tpot_mean_error = ErrorPercent(v.predicted.tpot.mean, v.measured_tpot.mean);
  v.e2e_mean_error = ErrorPercent(v.predicted.e2e.mean, v.measured_e2e.mean);
  v.throughput_error = ErrorPercent(v.predicted.output_tokens_per_s, v.measured_tokens_per_s);
  v.preemptions = result.preemptions;
  v.steps = result.step_count;
  v.time = result.time;
  if (result.prompt_tokens > 0) {
    v.prefix_hit_share =
        static_cast<double>(result.prefix_hits) / static_cast<double>(result.prompt_tokens);
  }
  return v;
}

std::string RunValidationText(const RunValidation& v) {
  std::string text =
      fmt::format("{}: {} requests, step times from {}\n\n", v.run, v.requests, v.source);
  text += fmt::format("{:<24} {:>12} {:>12} {:>9}\n", "", "predicted", "measured", "error");
  const auto row = [&](const char* name, double predicted, double measured, double error,
                       const char* unit) {
    text += fmt::format("{:<24} {:>12.3f} {:>12.3f} {:>+8.2f}%  {}\n", name, predicted, measured,
                        error, unit);
  };
  row("TTFT mean", v.predicted.ttft.mean.seconds(), v.measured_ttft.mean.seconds(),
      v.ttft_mean_error, "s");
  row("TTFT P90", v.predicted.ttft.p90.seconds(), v.measured_ttft.p90.seconds(), v.ttft_p90_error,
      "s");
  row("TPOT mean", v.predicted.tpot.mean.ms(), v.measured_tpot.mean.ms(), v.tpot_mean_error, "ms");
  row("end to end mean", v.predicted.e2e.mean.seconds(), v.measured_e2e.mean.seconds(),
      v.e2e_mean_error, "s");
  row("output tokens/s", v.predicted.output_tokens_per_s, v.measured_tokens_per_s,
      v.throughput_error, "");
  text +=
      fmt::format("\n{} steps, {} preemptions, {:.1f} % of prompt tokens from the prefix cache\n",
                  v.steps, v.preemptions, 100 * v.prefix_hit_share);
  for (const std::string& note : v.notes) text += "Note: " + note + "\n";
  return text;
}

void WriteErrorFields(PrettyJsonWriter& out, const RunValidation& v) {
  out.Field("ttft_mean_error_percent", v.ttft_mean_error);
  out.Field("ttft_p90_error_percent", v.ttft_p90_error);
  out.Field("tpot_mean_error_percent", v.tpot_mean_error);
  out.Field("e2e_mean_error_percent", v.e2e_mean_error);
  out.Field("throughput_error_percent", v.throughput_error);
}

std::string RunValidationJson(const RunValidation& v) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("run", v.run);
  out.Field("step_times", v.source);
  out.Key("summary");
  out.StartObject();
  WriteErrorFields(out, v);
  out.Field("requests", static_cast<uint64_t>(v.requests));
  out.EndObject();
  out.Key("predicted");
  out.StartObject();
  WriteJson(out, "ttft_s", v.predicted.ttft);
  WriteJson(out, "tpot_s", v.predicted.tpot);
  WriteJson(out, "e2e_s", v.predicted.e2e);
  out.Field("output_tokens_per_s", v.predicted.output_tokens_per_s);
  out.EndObject();
  out.Key("measured");
  out.StartObject();
  WriteJson(out, "ttft_s", v.measured_ttft);
  WriteJson(out, "tpot_s", v.measured_tpot);
  WriteJson(out, "e2e_s", v.measured_e2e);
  out.Field("output_tokens_per_s", v.measured_tokens_per_s);
  out.EndObject();
  out.Field("steps", v.steps);
  out.Field("preemptions", v.preemptions);
  out.Field("prefix_hit_share", v.prefix_hit_share);
  out.Field("extrapolated_share", v.time.us() > 0 ? v.time.extrapolated / v.time.total() : 0);
  out.Field("notes", v.notes);
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
