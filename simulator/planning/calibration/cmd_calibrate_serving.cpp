// calibrate serving: whole prompts and tokens of measured deployments held out by settings, and
// measured operators by shapes.

#include <filesystem>
#include <memory>
#include <set>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/calibration/operator_calibration.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/planning/serving/serving_validation.h"
#include "simulator/serve/iteration_table.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace {
namespace {

struct ServingCalibrationOptions {
  std::vector<std::string> inputs;
  std::string table, test;
  ServingValidationOptions serving;  // without its run
  std::string output;
  int32_t folds = 0;
  bool json = false;
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

absl::Status RunFactors(const ServingCalibrationOptions& options, const CommandContext& context) {
  if (!options.test.empty()) return InvalidInput("--test goes with tables of operators");
  if (options.folds > 0) return InvalidInput("--folds goes with tables of GEMMs");
  std::vector<serve::PreparedRun> runs;
  std::set<std::filesystem::path> known;
  for (const std::string& folder : options.inputs) {
    if (!IsFolder(folder)) return InvalidInput("{}: is no folder of a measured run", folder);
    std::error_code error;
    if (!known.insert(std::filesystem::canonical(folder, error)).second) {
      return InvalidInput("{}: given twice; a run is held out against the others", folder);
    }
    ServingValidationOptions one = options.serving;
    one.run = folder;
    FORETRACE_ASSIGN_OR_RETURN(runs.emplace_back(), PrepareRun(one));
  }
  FORETRACE_ASSIGN_OR_RETURN(const serve::StepFactorFit fit, serve::FitAndHoldOut(runs));
  if (!options.output.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(options.output, serve::Yaml(fit)));
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("calibrate serving", [&] { return StepFactorJson(fit); }));
  if (options.json) return context.console->PrintJson("calibrate serving", StepFactorJson(fit));
  return context.console->Print(StepFactorText(fit));
}

absl::Status RunServingCalibration(ServingCalibrationOptions options,
                                   const CommandContext& context) {
  if (IsFolder(options.inputs.front())) return RunFactors(options, context);
  if (options.inputs.size() > 1) {
    return InvalidInput("{}: one table at a time, or folders of measured runs", options.inputs[1]);
  }
  for (const auto& [name, value] : {std::pair("--output", &options.output),
                                    std::pair("--profiles", &options.serving.profiles)}) {
    if (!value->empty()) return InvalidInput("{} goes with folders of measured runs", name);
  }
  options.table = options.inputs.front();
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTableText(options.table));
  if (serve::IsOperatorTable(text)) {
    const OperatorCalibration operators{"calibrate serving",      options.table, options.test, "",
                                        options.serving.platform, options.folds, options.json};
    return RunOperatorCalibration(operators, text, context);
  }
  if (!options.serving.platform.empty()) {
    return InvalidInput("--platform goes with folders of measured runs and tables of GEMMs");
  }
  if (options.folds > 0) return InvalidInput("--folds goes with tables of GEMMs");
  if (!options.test.empty()) {
    return InvalidInput("{}: is no table of operators, and only those have --test rows",
                        options.table);
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto rows, serve::ReadIterationTable(options.table));
  FORETRACE_ASSIGN_OR_RETURN(const serve::IterationErrors errors, serve::HoldOutThirds(rows));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer(
      "calibrate serving", [&] { return IterationJson(options.table, errors); }));
  if (options.json) {
    return context.console->PrintJson("calibrate serving", IterationJson(options.table, errors));
  }
  return context.console->Print(IterationText(options.table, errors));
}

}  // namespace

void AddServingCalibration(CLI::App& calibrate, CommandContext& context) {
  auto options = std::make_shared<ServingCalibrationOptions>();
  CLI::App* command = calibrate.add_subcommand(
      "serving",
      "prompt and token times of measured deployments: each setting predicted from the "
      "two thirds that it is not in; single operators, each shape from its neighbours; or factors "
      "of modelled steps from a few measured runs");
  command
      ->add_option("inputs", options->inputs,
                   "a table in Splitwise's or aiconfigurator's columns, or folders of measured "
                   "runs (docs/serving.md)")
      ->type_name("TABLE.csv|RUN...")
      ->required();
  command
      ->add_option("--profiles", options->serving.profiles,
                   "of runs: layer profiles (default: ../../profiles of each)")
      ->type_name("DIR");
  command->add_option(
      "--platform", options->serving.platform,
      "of runs: as validate --serving takes it; of GEMMs: the device (default: the one that "
      "the table's name ends with)");
  command
      ->add_option("-o,--output", options->output,
                   "of runs: write the factors, for serve and validate --step-factors")
      ->type_name("FILE");
  auto* test =
      command
          ->add_option(
              "--test", options->test,
              "operators to predict from TABLE's, in the same columns, instead of TABLE's own")
          ->type_name("TABLE.csv");
  command
      ->add_option("--folds", options->folds,
                   "of GEMMs: hold each weight matrix out once, in so many parts (default: a "
                   "fifth of them, once)")
      ->check(CLI::Range(2, 100))
      ->excludes(test);
  command->add_flag("--json", options->json, "one JSON document instead of a table");
  command->footer(Examples({
      "foretrace calibrate serving gemm_h100.csv --platform h100-sxm5-80gb --folds 5",
      "foretrace calibrate serving runs/a runs/b -o factors.yaml && foretrace validate --serving "
      "runs/c --step-factors factors.yaml",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunServingCalibration(*options, context); };
  });
}

}  // namespace foretrace
