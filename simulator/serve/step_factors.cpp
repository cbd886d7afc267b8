#include "simulator/serve/step_factors.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace::serve {
namespace {

constexpr double kMostFactor = 8;

class FactoredStepModel : public StepModel {
 public:
  FactoredStepModel(std::shared_ptr<const StepModel> steps, const StepFactors& factors)
      : steps_(std::move(steps)), factors_(factors) {}
  StepTime Time(const StepBatch& batch) const override {
    StepTime time = steps_->Time(batch);
    const double by = batch.prefills.empty() ? factors_.decodes : factors_.prompts;
    for (RealUs& part : time.parts) part = by * part;
    for (RealUs& source : time.sources) source = by * source;
    time.extrapolated = by * time.extrapolated;
    return time;
  }
  std::string Source() const override {
    return fmt::format("{}; times {:.4g} of decodes, {:.4g} with prompts{}", steps_->Source(),
                       factors_.decodes, factors_.prompts,
                       factors_.file.empty() ? "" : " (" + factors_.file + ")");
  }

 private:
  const std::shared_ptr<const StepModel> steps_;
  const StepFactors factors_;
};

absl::StatusOr<RunValidation> With(const PreparedRun& run, const StepFactors& factors) {
  return ValidateRun(run.run, WithFactors(run.steps, factors));
}

// As YAML and JSON both read it.
std::string Quoted(const std::string& text) {
  rapidjson::StringBuffer buffer;
  JsonWriter(buffer).String(text);
  return buffer.GetString();
}

double Miss(double error_percent) {
  const double ratio = std::log(std::max(1 + error_percent / 100, 1e-6));
  return ratio * ratio;
}

absl::StatusOr<double> MissOf(std::span<const PreparedRun> runs, const StepFactors& factors) {
  double sum = 0;
  for (const PreparedRun& run : runs) {
    FORETRACE_ASSIGN_OR_RETURN(const RunValidation v, With(run, factors));
    sum += Miss(v.ttft_mean_error) + Miss(v.tpot_mean_error) + Miss(v.throughput_error);
  }
  return sum;
}

// Errors of a run as one line of the table.
std::string Line(const char* how, const RunValidation& v) {
  return fmt::format("  {:<26} {:>+9.2f} {:>+9.2f} {:>+9.2f} {:>+9.2f} {:>+11.2f}\n", how,
                     v.ttft_mean_error, v.ttft_p90_error, v.tpot_mean_error, v.e2e_mean_error,
                     v.throughput_error);
}

void WriteErrors(PrettyJsonWriter& out, const char* key, const RunValidation& v) {
  out.Key(key);
  out.StartObject();
  WriteErrorFields(out, v);
  out.EndObject();
}

}  // namespace

std::shared_ptr<const StepModel> WithFactors(std::shared_ptr<const StepModel> steps,
                                             const StepFactors& factors) {
  return std::make_shared<FactoredStepModel>(std::move(steps), factors);
}

void NoteOthers(const StepFactors& factors, const std::string& model, const std::string& device,
                std::vector<std::string>& notes) {
  const auto note = [&](const std::string& fitted, const std::string& here) {
    if (fitted.empty() || here.empty() || fitted == here) return;
    notes.push_back(
        fmt::format("{}: was fitted to runs of {}, this is {}", factors.file, fitted, here));
  };
  note(factors.model, model);
  note(factors.device, device);
}

absl::StatusOr<StepFactors> ReadStepFactors(const std::string& file) {
  return LoadYaml<StepFactors>(
      ReadYamlFile(file), file, [&](const YamlReader& root) -> absl::StatusOr<StepFactors> {
        static constexpr std::string_view kKeys[] = {
            "foretrace_calibration", "kind", "model", "device", "runs", "decodes", "prompts"};
        root.ExpectKeys(kKeys);
        if (root.String("kind") != "serving_steps") root.Fail("kind", "must be serving_steps");
        StepFactors factors;
        factors.file = file;
        factors.model = root.String("model", "");
        factors.device = root.String("device", "");
        factors.decodes = root.Number("decodes", 1 / kMostFactor, kMostFactor);
        factors.prompts = root.Number("prompts", 1 / kMostFactor, kMostFactor);
        if (!root.ok()) return root.status();
        return factors;
      });
}

// Steps that halve along each factor in turn: simulations are cheap, and their misses are no smooth
// function, since batches change.
absl::StatusOr<StepFactors> FitStepFactors(std::span<const PreparedRun> runs) {
  StepFactors best;
  best.model = runs.front().run.model;
  best.device = runs.front().run.device;
  FORETRACE_ASSIGN_OR_RETURN(double least, MissOf(runs, best));
  constexpr double kFirst = 0.25, kLast = 0.002;
  for (double step = kFirst; step > kLast; step /= 2) {
    bool moved = true;
    for (int turn = 0; moved && turn < 8; ++turn) {
      moved = false;
      for (double StepFactors::*factor : {&StepFactors::decodes, &StepFactors::prompts}) {
        for (const double by : {std::exp(step), std::exp(-step)}) {
          StepFactors tried = best;
          tried.*factor = std::clamp(tried.*factor * by, 1 / kMostFactor, kMostFactor);
          FORETRACE_ASSIGN_OR_RETURN(const double miss, MissOf(runs, tried));
          if (miss >= least) continue;
          least = miss;
          best = tried;
          moved = true;
        }
      }
    }
  }
  return best;
}

absl::StatusOr<StepFactorFit> FitAndHoldOut(std::span<const PreparedRun> runs) {
  StepFactorFit fit;
  FORETRACE_ASSIGN_OR_RETURN(fit.factors, FitStepFactors(runs));
  for (size_t i = 0; i < runs.size(); ++i) {
    StepFactorFit::Of& of = fit.runs.emplace_back();
    FORETRACE_ASSIGN_OR_RETURN(of.modelled, With(runs[i], {}));
    FORETRACE_ASSIGN_OR_RETURN(of.fitted, With(runs[i], fit.factors));
    of.modelled.notes = runs[i].run.notes;
    if (runs.size() < 2) continue;
    std::vector<PreparedRun> others(runs.begin(), runs.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    FORETRACE_ASSIGN_OR_RETURN(const StepFactors without, FitStepFactors(others));
    FORETRACE_ASSIGN_OR_RETURN(of.held_out, With(runs[i], without));
  }
  return fit;
}

std::string Yaml(const StepFactorFit& fit) {
  const StepFactors& f = fit.factors;
  std::string runs;
  for (const StepFactorFit::Of& of : fit.runs) {
    runs += (runs.empty() ? "" : ", ") + Quoted(of.modelled.run);
  }
  return fmt::format(
      "foretrace_calibration: 1\nkind: serving_steps\nmodel: {}\ndevice: {}\nruns: [{}]\n"
      "# Factors of modelled steps of decodes alone, and of those with a prompt.\n"
      "decodes: {:.6g}\nprompts: {:.6g}\n",
      Quoted(f.model), Quoted(f.device), runs, f.decodes, f.prompts);
}

std::string StepFactorText(const StepFactorFit& fit) {
  std::string text = fmt::format(
      "Verdict: steps of decodes alone x {:.4f}, with a prompt x {:.4f}\n\n{:<28} {:>9} {:>9} "
      "{:>9} {:>9} {:>11}\n",
      fit.factors.decodes, fit.factors.prompts, "error %", "TTFT", "TTFT P90", "TPOT", "end to end",
      "throughput");
  for (const StepFactorFit::Of& of : fit.runs) {
    text += of.modelled.run + "\n";
    text += Line("as modelled", of.modelled) + Line("with the factors", of.fitted);
    if (of.held_out) text += Line("with those of the others", *of.held_out);
    for (const std::string& note : of.modelled.notes) text += "  Note: " + note + "\n";
  }
  return text;
}

std::string StepFactorJson(const StepFactorFit& fit) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Key("factors");
  out.StartObject();
  out.Field("decodes", fit.factors.decodes);
  out.Field("prompts", fit.factors.prompts);
  out.EndObject();
  out.Key("runs");
  out.StartArray();
  for (const StepFactorFit::Of& of : fit.runs) {
    out.StartObject();
    out.Field("run", of.modelled.run);
    WriteErrors(out, "modelled", of.modelled);
    WriteErrors(out, "fitted", of.fitted);
    if (of.held_out) WriteErrors(out, "held_out", *of.held_out);
    out.Field("notes", of.modelled.notes);
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
