#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "simulator/backends/graph_placement.h"
#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/planning/placement/placement_output.h"
#include "simulator/planning/placement/placement_problem.h"
#include "simulator/planning/placement/traced_placement.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

struct PlaceOptions {
  TraceOptions traces;  // and networks: its paths are what is placed
  std::vector<std::string> backends, costs;
  std::string device, kernels = "auto", launch = "10";
  int32_t micro_batch = 1;
  std::string graph_level;
  std::string engine_call = "auto";
  EvolutionSettings evolution;
  std::string explain, svg;
  int32_t top = 1;
  bool ablation = false;
  bool allow_missing_ranks = false;
  bool json = false;
};

absl::StatusOr<SimTime> Microseconds(const std::string& text, const char* option,
                                     const char* word) {
  double us = 0;
  if (!absl::SimpleAtod(text, &us) || !(us >= 0) || us > 1e6) {
    return InvalidInput("{}: '{}' is neither '{}' nor a number of us from 0 to 1e6", option, text,
                        word);
  }
  return SimTime::FromUs(us);
}

// Unset: the device's own gap between kernels.
absl::StatusOr<std::optional<SimTime>> LaunchOf(const PlaceOptions& o) {
  if (o.launch == "device") return std::optional<SimTime>();
  FORETRACE_ASSIGN_OR_RETURN(const SimTime launch, Microseconds(o.launch, "--launch", "device"));
  return std::optional(launch);
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

absl::Status AddGraphLevel(const PlaceOptions& o, const OperatorCosts& costs,
                           const std::stop_token& stop, PlacementAnswer& answer) {
  const auto found = std::ranges::find(answer.backends, o.graph_level, &Backend::name);
  if (found == answer.backends.end() || found->kind != BackendKind::kCompiler) {
    return InvalidInput("--graph-level: '{}' is no compiler among --backends", o.graph_level);
  }
  EngineCall engine;
  engine.backend = static_cast<int32_t>(found - answer.backends.begin());
  if (o.engine_call == "auto") {
    engine.fixed = costs.FixedPart(*found);
  } else {
    FORETRACE_ASSIGN_OR_RETURN(engine.fixed, Microseconds(o.engine_call, "--engine-call", "auto"));
  }
  engine.launch = found->launch;
  answer.engine = engine;
  FORETRACE_ASSIGN_OR_RETURN(answer.graph, PlaceGraph(*answer.dag, answer.choices, answer.launch,
                                                      answer.placement, engine, o.evolution, stop));
  return absl::OkStatus();
}

// The operator to explain, and the picture.
absl::Status AddDetails(const PlaceOptions& o, PlacementAnswer& answer) {
  if (!o.explain.empty()) {
    const int32_t op = answer.dag->Find(o.explain);
    if (op < 0) {
      const std::vector<ViewedOp>& ops = answer.dag->ops();
      return InvalidInput("--explain: {} has no operator '{}'; they are named {} to {}",
                          answer.dag->name(), o.explain, ops.front().name, ops.back().name);
    }
    answer.explained = op;
  }
  return o.svg.empty() ? absl::OkStatus() : WriteFile(o.svg, PlacementSvg(answer));
}

// As of a network, of the recording's graph.
absl::Status AddTracedDetails(const PlaceOptions& o, TracedPlacement& placed) {
  if (!placed.graph.has_value()) {
    if (o.explain.empty() && o.svg.empty() && o.top == 1) return absl::OkStatus();
    return Infeasible(
        "{}: no iteration of the first rank could be placed; without --explain, --svg "
        "and --top it says why",
        placed.trace);
  }
  PlacementAnswer& graph = *placed.graph;
  if (o.top > 1) {
    FORETRACE_ASSIGN_OR_RETURN(graph.ranked, RankPlacements(*graph.dag, graph.choices, graph.launch,
                                                            static_cast<size_t>(o.top)));
  }
  return AddDetails(o, graph);
}

absl::Status PlaceNetwork(const PlaceOptions& o, const OperatorView& dag,
                          std::optional<SimTime> launch, std::vector<std::string> notes,
                          const CommandContext& context) {
  PlacementAnswer answer;
  answer.dag = &dag;
  answer.notes = std::move(notes);
  FORETRACE_ASSIGN_OR_RETURN(answer.backends, LoadBackends(o.backends));
  FORETRACE_ASSIGN_OR_RETURN(const OperatorCosts costs, LoadCosts(o.costs));
  if (o.costs.empty() && o.device.empty()) {
    return InvalidInput(
        "place: nothing says what kernels take; give --costs FILE (measured), --device NAME "
        "(modelled) or both");
  }
  KernelTimer timer;
  if (!o.device.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const ModelledDevice device,
                               FindModelledDevice(o.device, o.kernels, answer.notes));
    timer = device.timer();
    if (!launch.has_value()) launch = device.device.driver.latencies.stream_gap;
    answer.notes.push_back("kernels without a measured time: " + device.kernels->Source());
  }
  if (!launch.has_value()) return InvalidInput("--launch device: name the device with --device");
  answer.launch = *launch;
  for (const Backend& backend : answer.backends) {
    if (!backend.launch.has_value()) continue;
    answer.notes.push_back(fmt::format("kernels of {} add {:.3f} us each, as its file says",
                                       backend.name, backend.launch->us()));
  }
  GeneratedMatches generated = GenerateMatches(dag, answer.backends);
  answer.choices = TimedChoices(dag, answer.backends, generated.matches, costs, timer);
  answer.unknown_types = costs.UnknownTypes(answer.backends);
  answer.matches = generated.matches.size();
  answer.refused = std::move(generated.refused);
  FORETRACE_ASSIGN_OR_RETURN(answer.ranked, RankPlacements(dag, answer.choices, answer.launch,
                                                           static_cast<size_t>(o.top)));
  answer.placement = answer.ranked.front();
  if (!o.graph_level.empty()) {
    FORETRACE_RETURN_IF_ERROR(AddGraphLevel(o, costs, context.stop, answer));
  }
  if (o.ablation) answer.ablation = Ablation(answer);
  FORETRACE_RETURN_IF_ERROR(AddDetails(o, answer));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("place", [&] { return PlacementJson(answer); }));
  if (o.json) return context.console->PrintJson("place", PlacementJson(answer));
  return context.console->Print(PlacementText(answer, context.console->style()));
}

absl::Status PlaceRecording(const PlaceOptions& o, std::optional<SimTime> launch,
                            const CommandContext& context) {
  if (!o.graph_level.empty()) {
    return InvalidInput("--graph-level: only networks and models have it, not recordings");
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto store, o.traces.Load(context));
  TracedPlacementSetup setup;
  FORETRACE_ASSIGN_OR_RETURN(setup.backends, LoadBackends(o.backends));
  FORETRACE_ASSIGN_OR_RETURN(setup.costs, LoadCosts(o.costs));
  setup.launch = launch;
  setup.device = o.device;
  setup.kernels = o.kernels;
  setup.allow_missing_ranks = o.allow_missing_ranks;
  FORETRACE_ASSIGN_OR_RETURN(TracedPlacement placed, PlaceTraces(*store, setup));
  if (o.ablation) {
    FORETRACE_ASSIGN_OR_RETURN(placed.ablation, AblateTraces(*store, setup));
  }
  FORETRACE_RETURN_IF_ERROR(AddTracedDetails(o, placed));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("place", [&] { return TracedPlacementJson(placed); }));
  if (o.json) return context.console->PrintJson("place", TracedPlacementJson(placed));
  return context.console->Print(TracedPlacementText(placed, context.console->style()));
}

absl::Status RunPlace(const PlaceOptions& o, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::optional<SimTime> launch, LaunchOf(o));
  if (o.traces.paths.size() == 1 && context.traces == nullptr) {
    std::vector<std::string> notes;
    FORETRACE_ASSIGN_OR_RETURN(const std::optional<OperatorView> dag,
                               FindNetwork(o.traces.paths.front(), o.micro_batch, notes));
    if (dag.has_value()) {
      if (o.traces.strict || o.allow_missing_ranks) {
        return InvalidInput("{} would change nothing: {} is no recording",
                            o.traces.strict ? "--strict" : "--allow-missing-ranks",
                            o.traces.paths.front());
      }
      return PlaceNetwork(o, *dag, launch, std::move(notes), context);
    }
  }
  if (o.micro_batch != 1) {
    return InvalidInput("--micro-batch would change nothing: a recording has the sizes it has");
  }
  return PlaceRecording(o, launch, context);
}

void AddCostOptions(CLI::App& command, PlaceOptions& o) {
  command.add_option("--backends", o.backends, "backends to place on: names or files")
      ->required()
      ->delimiter(',')
      ->type_name("A,B");
  command
      .add_option("--costs", o.costs,
                  "tables of measured operators by backend (scripts/import_collage.py)")
      ->type_name("FILE");
  command
      .add_option("--device", o.device,
                  "device whose kernels are modelled where none was measured; of a recording: "
                  "its own")
      ->type_name("NAME");
  command
      .add_option("--kernels", o.kernels,
                  "calibration of the device's kernels: a folder, a name, or auto")
      ->capture_default_str();
  command
      .add_option("--launch", o.launch,
                  "us that each kernel adds to its time; device: the gap of its file")
      ->capture_default_str();
  command.add_option("--micro-batch", o.micro_batch, "samples, of models")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag(
      "--allow-missing-ranks", o.allow_missing_ranks,
      "of recordings: communication with ranks without a trace takes what was recorded");
}

void AddGraphLevelOptions(CLI::App& command, PlaceOptions& o) {
  command
      .add_option("--graph-level", o.graph_level,
                  "also give neighbouring kernels to this compiler, in calls of several")
      ->type_name("BACKEND");
  command
      .add_option(
          "--engine-call", o.engine_call,
          "us of its measured times that a call pays once; auto: how much more its shortest "
          "row takes than the shortest of all")
      ->needs("--graph-level")
      ->capture_default_str();
  command.add_option("--seed", o.evolution.seed, "of the evolution")
      ->needs("--graph-level")
      ->capture_default_str();
  command.add_option("--population", o.evolution.population, "of the evolution")
      ->needs("--graph-level")
      ->check(CLI::Range(2, 100'000))
      ->capture_default_str();
  command.add_option("--generations", o.evolution.generations, "at most")
      ->needs("--graph-level")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

}  // namespace

void AddPlaceCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<PlaceOptions>();
  CLI::App* command = app.add_subcommand(
      "place",
      "which backend (library or compiler) runs which operators fastest: of a network, a "
      "model or a recording");
  command
      ->add_option(
          "what", options->traces.paths,
          "a network or model (name or file), or a recording (trace files, folders, tars or zips)")
      ->required()
      ->type_name("NETWORK|MODEL|TRACES");
  command->add_flag("--strict", options->traces.strict, "refuse recordings that need repairs");
  AddCostOptions(*command, *options);
  AddGraphLevelOptions(*command, *options);
  command->add_option("--explain", options->explain, "candidates of one operator, and their times")
      ->type_name("OP");
  command->add_option("--top", options->top, "placements to rank, cheapest first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--ablation", options->ablation,
                    "also with the first backend alone, with the first two, and so on");
  command->add_option("--svg", options->svg, "draw the placement, a colour for each backend")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command->footer(Examples({
      "scripts/import_collage.py operator_cost_rtx2070.json -o costs/",
      "foretrace place resnet50_3d --backends tvm,cudnn,tensorrt --costs "
      "costs/operator_cost_rtx2070.csv --ablation",
      "foretrace place bert --backends tvm,cudnn,cublas,tensorrt --costs costs/operator_cost.csv "
      "--graph-level tensorrt",
      "foretrace place gpt3-1.3b --backends framework,flash-attention --device a100-sxm4-80gb",
      "foretrace place trace.json.gz --backends torch-compile,flash-attention",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunPlace(*options, context); };
  });
}

}  // namespace foretrace
