// calibrate serving: whole prompts and tokens of measured deployments held out by settings, and
// measured operators by shapes.

#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/importers/io/input_file.h"
#include "simulator/serve/iteration_table.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {
namespace {

struct ServingCalibrationOptions {
  std::string table;
  bool json = false;
};

// The table's text, whatever it is compressed by.
absl::StatusOr<std::string> ReadTable(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const auto file, InputFile::Open(path, InputLimits()));
  FORETRACE_ASSIGN_OR_RETURN(ByteSource * source, file->NextDocument());
  std::string text;
  while (source != nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view more, source->Next());
    if (more.empty()) break;
    if (text.size() + more.size() > static_cast<size_t>(kMaxTableBytes)) {
      return InvalidInput("{}: is larger than {} bytes", path, kMaxTableBytes);
    }
    text += more;
  }
  return text;
}

absl::Status RunServingCalibration(const ServingCalibrationOptions& options,
                                   const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTable(options.table));
  if (serve::IsOperatorTable(text)) {
    FORETRACE_ASSIGN_OR_RETURN(const auto operators, serve::HoldOutOperators(options.table, text));
    FORETRACE_RETURN_IF_ERROR(context.page->Write(
        "calibrate serving", [&] { return OperatorJson(options.table, operators); }));
    if (options.json) {
      return context.console->PrintJson("calibrate serving",
                                        OperatorJson(options.table, operators));
    }
    return context.console->Print(OperatorText(options.table, operators));
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto rows, serve::ReadIterationTable(options.table));
  FORETRACE_ASSIGN_OR_RETURN(const serve::IterationErrors errors, serve::HoldOutThirds(rows));
  FORETRACE_RETURN_IF_ERROR(context.page->Write(
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
  command->add_flag("--json", options->json, "one JSON document instead of a table");
  command->callback([options, &context] {
    context.run = [options, &context] { return RunServingCalibration(*options, context); };
  });
}

}  // namespace foretrace
