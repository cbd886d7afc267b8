#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/mappings/mapping_validation.h"
#include "simulator/planning/mappings/training_validation.h"
#include "simulator/planning/serving/serving_validation.h"
#include "simulator/planning/validation/validation.h"
#include "simulator/replay/run.h"

namespace foretrace {
namespace {

struct ValidateOptions {
  std::string cases_file;
  ValidationCase inline_case;
  std::string from_ranks;
  std::string from_steps;
  bool ablation = false;
  bool json = false;
  std::string rows_file;
  MappingValidationOptions mappings;
  ServingValidationOptions serving;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

// What only replays of --trace need is not given beside what is none.
absl::Status CheckOptions(const ValidateOptions& o) {
  const bool mappings = !o.mappings.rows.empty(), serving = !o.serving.run.empty();
  if (!mappings && !serving && o.cases_file.empty()) return absl::OkStatus();
  const char* what = serving ? "--serving" : mappings ? "--mappings" : "a file of cases";
  const auto idle = [&](std::initializer_list<const char*> names) -> absl::Status {
    const std::string given = o.first_given(names);
    if (given.empty()) return absl::OkStatus();
    return InvalidInput("{} would change nothing beside {}", given, what);
  };
  FORETRACE_RETURN_IF_ERROR(
      idle({"--semantics", "--without", "--aligned-start", "--allow-missing-ranks", "--absent",
            "--overheads", "--what-if", "--cpu-scale", "--on", "--network", "--durations",
            "--ranks", "--data-parallel", "--strict", "--ignore", "--process-groups"}));
  if ((serving || mappings) && !o.cases_file.empty()) {
    return InvalidInput("{} would change nothing beside {}", o.cases_file, what);
  }
  if (!mappings && !serving) return idle({"--platform", "--calibration"});
  if (serving) {
    FORETRACE_RETURN_IF_ERROR(
        idle({"--calibration", "--mappings", "--kernels", "--workload", "--workloads", "--fit",
              "--hold-out-half", "--fit-stacks", "--dataflow", "--recompute"}));
  }
  FORETRACE_RETURN_IF_ERROR(idle({"--trace"}));
  return idle({"--overheads-from-ranks", "--overheads-from-steps", "--ablation", "--rows"});
}

absl::StatusOr<std::vector<ValidationCase>> Cases(const ValidateOptions& options) {
  if (!options.cases_file.empty()) {
    if (!options.inline_case.traces.paths.empty()) {
      return InvalidInput("give either a file of cases or --trace, not both");
    }
    std::error_code error;
    if (std::filesystem::is_directory(options.cases_file, error)) {
      return InvalidInput("{}: is a folder, not a file of cases; traces are given with --trace {}",
                          options.cases_file, options.cases_file);
    }
    return LoadCases(options.cases_file);
  }
  if (options.inline_case.traces.paths.empty()) {
    return InvalidInput("nothing to validate: give --trace PATH or a file of cases");
  }
  return std::vector<ValidationCase>{options.inline_case};
}

absl::Status RunServing(const ValidateOptions& options, const CommandContext& context) {
  ServingValidationOptions serving = options.serving;
  serving.platform = options.inline_case.simulation.platform;
  FORETRACE_ASSIGN_OR_RETURN(const serve::RunValidation run, ValidateServing(serving));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("validate", [&] { return RunValidationJson(run); }));
  if (options.json) return context.console->PrintJson("validate", RunValidationJson(run));
  return context.console->Print(RunValidationText(run));
}

// Not of a table of which every row is refused.
absl::Status SomeJudged(const TrainingValidation& jobs) {
  for (const JudgedRow& row : jobs.rows) {
    if (row.judged()) return absl::OkStatus();
  }
  const TrainingRow& first = jobs.rows.front().row;
  return InvalidInput("--mappings: no row can be judged; the first, {}: {}", first.name,
                      first.refused);
}

absl::Status RunMappings(const ValidateOptions& options, const CommandContext& context) {
  MappingValidationOptions mappings = options.mappings;
  mappings.platform = options.inline_case.simulation.platform;
  const auto& calibrations = options.inline_case.simulation.durations.calibrations;
  if (calibrations.size() > 1) {
    return InvalidInput(
        "--mappings takes one --calibration: a file of what training attains on the "
        "device, \"none\", or \"auto\"");
  }
  if (!calibrations.empty()) mappings.calibration = calibrations.front();
  mappings.progress = [&context](std::string_view what, int64_t done, int64_t total) {
    context.console->Progress(what, done, total);
  };
  if (IsTrainingTable(mappings.rows)) {
    FORETRACE_ASSIGN_OR_RETURN(const TrainingValidation jobs, ValidateTrainingRows(mappings));
    FORETRACE_RETURN_IF_ERROR(
        context.WriteAnswer("validate", [&] { return TrainingValidationJson(jobs); }));
    FORETRACE_RETURN_IF_ERROR(
        options.json
            ? context.console->PrintJson("validate", TrainingValidationJson(jobs))
            : context.console->Print(TrainingValidationText(jobs, context.console->style())));
    return SomeJudged(jobs);
  }
  FORETRACE_ASSIGN_OR_RETURN(const MappingValidation result, ValidateMappings(mappings));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("validate", [&] { return MappingValidationJson(result); }));
  if (options.json) return context.console->PrintJson("validate", MappingValidationJson(result));
  return context.console->Print(MappingValidationText(result, context.console->style()));
}

absl::Status RunValidate(const ValidateOptions& options, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.serving.run.empty()) return RunServing(options, context);
  if (!options.serving.profiles.empty() || !options.serving.step_factors.empty()) {
    return InvalidInput("{} goes with --serving RUN",
                        options.serving.profiles.empty() ? "--step-factors" : "--profiles");
  }
  if (!options.mappings.rows.empty()) return RunMappings(options, context);
  FORETRACE_ASSIGN_OR_RETURN(std::vector<ValidationCase> cases, Cases(options));
  ValidationResult result;
  for (ValidationCase& c : cases) {
    if (!options.from_ranks.empty()) c.overheads_from_ranks = options.from_ranks;
    if (!options.from_steps.empty()) c.overheads_from_steps = options.from_steps;
    const absl::Status validated = ValidateCase(c, options.ablation, context, result);
    if (!options.cases_file.empty()) {
      FORETRACE_RETURN_IF_ERROR(InFile(options.cases_file, validated));
    }
    FORETRACE_RETURN_IF_ERROR(validated);
  }
  Summarize(result);
  if (result.summary.count == 0) {
    const auto& reasons = result.skipped.empty() ? result.notes : result.skipped;
    return Infeasible(
        "{}: no step was judged: {}",
        options.cases_file.empty() ? options.inline_case.traces.paths.front() : options.cases_file,
        reasons.empty() ? "the traces have no marks of steps (ProfilerStep), and no "
                          "measured_us is given"
                        : reasons.front());
  }
  if (!options.rows_file.empty()) {
    if (result.duration_pairs.empty()) {
      return InvalidInput("--rows lists modelled durations: add --durations model");
    }
    FORETRACE_RETURN_IF_ERROR(WriteDurationRows(result.duration_pairs, options.rows_file));
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("validate", [&] { return ValidationJson(result); }));
  if (options.json) return context.console->PrintJson("validate", ValidationJson(result));
  return context.console->Print(ValidationText(result, context.console->style()));
}

void AddHoldOuts(CLI::App& command, ValidateOptions& o) {
  command.add_option("--overheads-from-ranks", o.from_ranks,
                     "hold out: CPU overheads of the other ranks are means over these, e.g. 0-3; "
                     "only the other ranks are judged");
  command
      .add_option("--overheads-from-steps", o.from_steps,
                  "hold out: CPU overheads of even steps replace those of odd steps (even), or "
                  "the other way round (odd); only the steps replaced are judged")
      ->check(CLI::IsMember({"even", "odd"}));
  command.add_flag("--ablation", o.ablation, "also predict with one ingredient left out at a time");
  command
      .add_option("--rows", o.rows_file,
                  "with --durations model: write recorded and modelled time of every call")
      ->group(kOutputGroup)
      ->type_name("CSV");
}

void AddMappings(CLI::App& command, MappingValidationOptions& mappings) {
  command
      .add_option("--mappings", mappings.rows,
                  "measured iterations of parallel mappings instead of traces, on --platform (of "
                  "tables that name GPUs: by default the shipped platform that is most like them); "
                  "--calibration is then what training attains on the device: a file, or "
                  "none (docs/mapping-rows.md)")
      ->type_name("ROWS.csv");
  command
      .add_option("--kernels", mappings.kernels,
                  "with --mappings: measured GEMMs and all-reduces of the device (search "
                  "--help)")
      ->needs("--mappings")
      ->type_name("DIR|NAME|auto|none")
      ->capture_default_str();
  command
      .add_flag(
          "--dataflow", mappings.dataflow,
          "with --mappings: iterations by the dataflow model (docs/dataflow.md) instead; rows "
          "that it does not cover are refused")
      ->needs("--mappings");
  command.add_option("--workload", mappings.workload, "with --mappings: gives the vocabulary")
      ->needs("--mappings")
      ->type_name("WORKLOAD.yaml");
  command
      .add_option("--workloads", mappings.workloads,
                  "with --mappings: a folder of workload files, named as the rows name their model")
      ->needs("--mappings")
      ->type_name("DIR")
      ->check(CLI::ExistingFolder());
  command
      .add_option("--fit", mappings.fit,
                  "with --mappings: first fit the parameters to these rows; may be repeated")
      ->needs("--mappings")
      ->type_name("ROWS.csv");
  command
      .add_flag("--hold-out-half", mappings.hold_out_half,
                "with --mappings: predict each half with parameters fitted to the other")
      ->needs("--mappings");
  command
      .add_flag("--fit-stacks", mappings.fit_stacks,
                "with --mappings: also with one efficiency a software stack, fitted to its "
                "rows of other models")
      ->needs("--mappings");
  command
      .add_option("--recompute", mappings.recompute,
                  "with --mappings: none, selective or full, where rows do not say")
      ->needs("--mappings")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
}

void AddServing(CLI::App& command, ServingValidationOptions& serving) {
  command
      .add_option("--serving", serving.run,
                  "a measured run of an inference engine instead of traces (docs/serving.md)")
      ->type_name("RUN");
  command
      .add_option("--profiles", serving.profiles,
                  "with --serving: layer profiles of the run's model and device, or a folder of "
                  "such folders (default: ../../profiles of the run)")
      ->type_name("DIR");
  command
      .add_option("--step-factors", serving.step_factors,
                  "with --serving: what `calibrate serving RUN` made of other runs")
      ->type_name("FILE");
}

}  // namespace

void AddValidateCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "predicted against measured: the steps recorded in traces, or a file of cases");
  options->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  command->add_option("cases", options->cases_file, "YAML of cases (docs/validation.md)")
      ->type_name("CASES.yaml");
  options->inline_case.traces.Register(*command, false);
  options->inline_case.simulation.Register(*command);
  AddHoldOuts(*command, *options);
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  AddMappings(*command, options->mappings);
  AddServing(*command, options->serving);
  command->footer(Examples({
      "foretrace validate --trace run1/",
      "foretrace validate --trace kineto/ --trace et/ --ablation",
      "foretrace validate --trace run1/ --overheads-from-ranks 0-3",
      "foretrace validate tests/models/public_traces.yaml --json",
      "foretrace validate --mappings measured.csv --platform dgx-a100-80gb --hold-out-half",
      "foretrace validate --serving runs/RTX4090_Llama-3.1-8B --profiles profiles",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunValidate(*options, context); };
  });
}

}  // namespace foretrace
