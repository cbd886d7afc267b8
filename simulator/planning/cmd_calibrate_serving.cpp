// calibrate serving: whole prompts and tokens of measured deployments, held out by settings.

#include <memory>

#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/serve/iteration_table.h"

namespace foretrace {
namespace {

struct ServingCalibrationOptions {
  std::string table;
  bool json = false;
};

absl::Status RunServingCalibration(const ServingCalibrationOptions& options,
                                   const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const auto rows, serve::ReadIterationTable(options.table));
  FORETRACE_ASSIGN_OR_RETURN(const serve::IterationErrors errors, serve::HoldOutThirds(rows));
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
      "two thirds that it is not in");
  command->add_option("table", options->table, "Splitwise's columns (docs/serving.md)")
      ->type_name("TABLE.csv")
      ->required();
  command->add_flag("--json", options->json, "one JSON document instead of a table");
  command->callback([options, &context] {
    context.run = [options, &context] { return RunServingCalibration(*options, context); };
  });
}

}  // namespace foretrace
