#include <algorithm>
#include <memory>
#include <set>

#include "simulator/backends/backend.h"
#include "simulator/backends/op_placement.h"
#include "simulator/backends/operator_costs.h"
#include "simulator/backends/operator_dag.h"
#include "simulator/backends/pattern_generator.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/planning/placement_output.h"

namespace foretrace {
namespace {

constexpr ShippedKind kNetworks = {"network", "traces/networks", ".yaml"};

struct PlaceOptions {
  std::string network;
  std::vector<std::string> backends, costs;
  double launch_us = kPublishedLaunch.us();
  std::string explain, svg;
  bool ablation = false;
  bool json = false;
};

absl::StatusOr<std::vector<Backend>> LoadBackends(const std::vector<std::string>& names) {
  std::vector<Backend> backends;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kBackendFiles, name));
    FORETRACE_ASSIGN_OR_RETURN(Backend backend, LoadBackend(file));
    if (!seen.insert(backend.name).second) {
      return InvalidInput("--backends: '{}' is there twice", backend.name);
    }
    if (backend.device != (backends.empty() ? backend : backends.front()).device) {
      return InvalidInput("--backends: '{}' runs on {}, '{}' on {}; name backends of one device",
                          backends.front().name, backends.front().device, backend.name,
                          backend.device);
    }
    backends.push_back(std::move(backend));
  }
  return backends;
}

// With the first backend alone, with the first two, and so on (figure 2.11). Where the first ones
// cannot run the whole network there is no cost.
std::vector<AblationStep> Ablation(const PlacementAnswer& answer) {
  std::vector<AblationStep> steps;
  for (size_t count = 1; count <= answer.backends.size(); ++count) {
    std::vector<KernelChoice> some;
    std::ranges::copy_if(answer.choices, std::back_inserter(some), [&](const KernelChoice& c) {
      return static_cast<size_t>(c.backend) < count;
    });
    const absl::StatusOr<OpPlacement> placed = PlaceOps(*answer.dag, some, answer.launch);
    steps.push_back({answer.backends[count - 1].name, Uncovered(*answer.dag, some).size(), {}});
    if (placed.ok()) steps.back().cost = placed->cost;
  }
  return steps;
}

absl::Status RunPlace(const PlaceOptions& options, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kNetworks, options.network));
  FORETRACE_ASSIGN_OR_RETURN(const OperatorDag dag, LoadOperatorDag(file));
  PlacementAnswer answer;
  answer.dag = &dag;
  answer.launch = SimTime::FromUs(options.launch_us);
  FORETRACE_ASSIGN_OR_RETURN(answer.backends, LoadBackends(options.backends));
  OperatorCosts costs;
  for (const std::string& table : options.costs) FORETRACE_RETURN_IF_ERROR(costs.Read(table));
  GeneratedMatches generated = GenerateMatches(dag, answer.backends);
  answer.choices = MeasuredChoices(dag, answer.backends, generated.matches, costs);
  answer.unknown_types = costs.UnknownTypes(answer.backends);
  answer.matches = generated.matches.size();
  answer.refused = std::move(generated.refused);
  FORETRACE_ASSIGN_OR_RETURN(answer.placement, PlaceOps(dag, answer.choices, answer.launch));
  if (options.ablation) answer.ablation = Ablation(answer);
  if (!options.explain.empty()) {
    const auto found = std::ranges::find(dag.ops(), options.explain, &DagOp::name);
    if (found == dag.ops().end()) {
      return InvalidInput("--explain: {} has no operator '{}'", file, options.explain);
    }
    answer.explained = static_cast<int32_t>(found - dag.ops().begin());
  }
  if (!options.svg.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(options.svg, PlacementSvg(answer)));
  }
  if (options.json) return context.console->PrintJson("place", PlacementJson(answer));
  return context.console->Print(PlacementText(answer, context.console->style()));
}

}  // namespace

void AddPlaceCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<PlaceOptions>();
  CLI::App* command = app.add_subcommand(
      "place", "which backend (library or compiler) runs which operators of a network fastest");
  command->add_option("network", options->network, "a graph of operators: a name or a file")
      ->required()
      ->type_name("NETWORK");
  command->add_option("--backends", options->backends, "backends to place on: names or files")
      ->required()
      ->delimiter(',')
      ->type_name("A,B");
  command
      ->add_option("--costs", options->costs,
                   "tables of measured operators by backend (scripts/import_collage.py)")
      ->required()
      ->type_name("FILE");
  command->add_option("--launch", options->launch_us, "us that each kernel adds to its time")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--explain", options->explain, "candidates of one operator, and their times")
      ->type_name("OP");
  command->add_flag("--ablation", options->ablation,
                    "also with the first backend alone, with the first two, and so on");
  command->add_option("--svg", options->svg, "draw the placement, a colour for each backend")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command->footer(Examples({
      "scripts/import_collage.py operator_cost_rtx2070.json -o costs/",
      "foretrace place resnet50_3d --backends tvm,cudnn,tensorrt --costs "
      "costs/operator_cost_rtx2070.csv",
      "foretrace place resnet50_3d --backends tvm,cudnn --costs costs/operator_cost_rtx2070.csv "
      "--ablation",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunPlace(*options, context); };
  });
}

}  // namespace foretrace
