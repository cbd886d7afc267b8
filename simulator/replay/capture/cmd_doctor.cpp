#include <memory>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/replay/capture/diagnosis.h"
#include "simulator/replay/run.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

struct DoctorOptions {
  TraceOptions traces;
  bool json = false;
};

absl::StatusOr<Prediction> AsItIs(const TraceStore& store) {
  SimulationOptions options;
  options.allow_missing_ranks = true;
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup, SimulationSetup::Make(options, store));
  return Simulate(store, setup, setup.compile(), setup.network());
}

absl::Status RunDoctor(DoctorOptions options, const CommandContext& context) {
  // What needs repairs is a finding here, not an end.
  const bool strict = std::exchange(options.traces.strict, false);
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators,
                             LoadRecordedAccelerators(store));
  const Inspection inspection = Inspect(store, accelerators);
  std::vector<ProfileExtras> extras;
  if (context.traces == nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(extras, options.traces.LoadExtras(context));
  }
  DiagnosisInput input;
  input.extras = extras;
  input.inspection = &inspection;
  std::optional<Prediction> prediction;
  if (store.ranks().front().info().has_times) {
    absl::StatusOr<Prediction> replayed = AsItIs(store);
    if (replayed.ok()) {
      prediction = *std::move(replayed);
      input.prediction = &*prediction;
    } else {
      input.no_prediction = std::string(replayed.status().message());
    }
  }
  const Diagnosis diagnosis = Diagnose(store, input);
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("doctor", [&] { return DiagnosisJson(diagnosis); }));
  FORETRACE_RETURN_IF_ERROR(
      options.json ? context.console->PrintJson("doctor", DiagnosisJson(diagnosis))
                   : context.console->Print(DiagnosisText(diagnosis, context.console->style())));
  if (strict && !diagnosis.Sound()) {
    return Infeasible("--strict: {}: {}", diagnosis.source, diagnosis.Verdict());
  }
  return absl::OkStatus();
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "what a capture holds and lacks, what that costs, and how to record it");
  options->traces.Register(*command, true, "exit 3 where a finding says LACKS or DOUBT");
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command->footer(Examples({
      "foretrace doctor run1/",
      "foretrace doctor run1/ --strict     # exits 3 at LACKS or DOUBT; what is `without` passes",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunDoctor(*options, context); };
  });
}

}  // namespace foretrace
