#include <memory>
#include <string>

#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/files/listing.h"

namespace foretrace {
namespace {

struct ListOptions {
  std::string kind;
  bool json = false;
};

absl::Status RunList(const ListOptions& options, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const Listing listing, ListOf(options.kind));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("list", [&] { return ListingJson(listing); }));
  if (options.json) return context.console->PrintJson("list", ListingJson(listing));
  return context.console->Print(ListingText(listing, context.console->style()));
}

}  // namespace

void AddListCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand(
      "list",
      "what can be named: platforms, calibrations, GPUs, workloads, stacks, and where they are");
  command->add_option("kind", options->kind, "platforms, calibrations, gpus, workloads or stacks")
      ->type_name("KIND");
  command->add_flag("--json", options->json, "one JSON document on standard output");
  command->footer(Examples({"foretrace list gpus", "foretrace list platforms --json"}));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunList(*options, context); };
  });
}

}  // namespace foretrace
