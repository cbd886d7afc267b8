// calibrate serving: whole prompts and tokens of measured deployments held out by settings, and
// measured operators by shapes.

#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/table_text.h"
#include "simulator/serve/iteration_table.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {
namespace {

struct ServingCalibrationOptions {
  std::string table, test;
  bool json = false;
};

absl::Status RunOperators(const ServingCalibrationOptions& options, std::string_view text,
                          const CommandContext& context) {
  std::vector<serve::OperatorErrors> errors;
  if (options.test.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(errors, serve::HoldOutOperators(options.table, text));
  } else {
    FORETRACE_ASSIGN_OR_RETURN(const std::string test, ReadTableText(options.test));
    FORETRACE_ASSIGN_OR_RETURN(errors,
                               serve::TestOperators(options.table, text, options.test, test));
  }
  const std::string& of = options.test.empty() ? options.table : options.test;
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("calibrate serving", [&] { return OperatorJson(of, errors); }));
  if (options.json) {
    return context.console->PrintJson("calibrate serving", OperatorJson(of, errors));
  }
  return context.console->Print(OperatorText(of, errors));
}

absl::Status RunServingCalibration(const ServingCalibrationOptions& options,
                                   const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTableText(options.table));
  if (serve::IsOperatorTable(text)) return RunOperators(options, text, context);
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
      "two thirds that it is not in; or single operators, each shape from its neighbours");
  command
      ->add_option("table", options->table,
                   "Splitwise's or aiconfigurator's columns (docs/serving.md)")
      ->type_name("TABLE.csv")
      ->required();
  command
      ->add_option("--test", options->test,
                   "operators to predict from TABLE's, in the same columns, instead of TABLE's own")
      ->type_name("TABLE.csv");
  command->add_flag("--json", options->json, "one JSON document instead of a table");
  command->callback([options, &context] {
    context.run = [options, &context] { return RunServingCalibration(*options, context); };
  });
}

}  // namespace foretrace
