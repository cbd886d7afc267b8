#include <algorithm>
#include <memory>
#include <optional>
#include "simulator/console/options.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/console/command.h"
#include "simulator/console/output.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_report.h"
#include "simulator/replay/trace_options.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_table.h"

namespace foretrace {
namespace {

struct DiffOptions {
  TraceOptions before;
  std::string after;  // empty: the same traces, with --what-if
  SimulationOptions simulation;
  int64_t iteration = -1;
  size_t top = 20;
  bool json = false;
};

// One side: its traces, its replay, and the step that is compared.
struct Side {
  std::shared_ptr<const TraceStore> store;
  Prediction prediction;
  int64_t step = 0;
};

absl::StatusOr<Side> MakeSide(const TraceOptions& traces, const SimulationOptions& simulation,
                              int64_t iteration, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const TraceStore> loaded, traces.Load(context));
  const TraceStore& store = *loaded;
  FORETRACE_ASSIGN_OR_RETURN(
      const SimulationSetup setup,
      SimulationSetup::Make(simulation, store, [&] { return traces.LoadExtras(context); }));
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction,
                             Simulate(store, setup, setup.compile(), setup.network()));
  FORETRACE_RETURN_IF_ERROR(CheckMissing(store, prediction, traces.strict));
  const std::optional<int64_t> step =
      iteration >= 0 ? iteration : RepresentativeStep(store, prediction);
  if (!step.has_value()) {
    return InvalidInput("{}: no iteration that all ranks have; nothing to compare",
                        store.ranks().front().info().source);
  }
  return Side{std::move(loaded), std::move(prediction), *step};
}

std::string Text(const Side& before, const Side& after, const ExplainedRun& from,
                 const ExplainedRun& to, bool by_completion, size_t top, const TextStyle& style) {
  using Align = TextTable::Align;
  const double difference = (to.total() - from.total()).us();
  std::string text = fmt::format(
      "Verdict: iteration {} takes {:.1f} us before, iteration {} {:.1f} us after: {:+.1f} us "
      "({:+.2f} %); "
      "{}\n\n",
      before.step, from.total().us(), after.step, to.total().us(), difference,
      100 * difference / from.total().us(),
      by_completion ? "from the completion of the step before to its own"
                    : "between its marks on the CPU");
  TextTable table({{"before us"}, {"after us"}, {"difference us"}, {"", Align::kLeft, true}});
  const std::vector<StepCause> causes = Differences(from, to);
  for (size_t i = 0; i < std::min(top, causes.size()); ++i) {
    table.AddRow({fmt::format("{:.1f}", causes[i].before.us()),
                  fmt::format("{:.1f}", causes[i].after.us()),
                  fmt::format("{:+.1f}", causes[i].difference().us()), causes[i].what});
  }
  text += "Where it comes from (along the critical paths)\n" + table.Format(style);
  if (causes.size() > top) text += fmt::format("... and {} more causes\n", causes.size() - top);
  return text;
}

std::string Json(const Side& before, const Side& after, const ExplainedRun& from,
                 const ExplainedRun& to, bool by_completion) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  const auto side = [&](const char* key, int64_t step, SimTime time) {
    json.Key(key);
    json.StartObject();
    json.Key("iteration");
    json.Int64(step);
    json.Key("time_us");
    json.Double(time.us());
    json.EndObject();
  };
  side("before", before.step, from.total());
  side("after", after.step, to.total());
  json.Key("difference_us");
  json.Double((to.total() - from.total()).us());
  json.Key("definition");
  json.String(by_completion ? "period" : "cpu");
  json.Key("causes");
  json.StartArray();
  for (const StepCause& cause : Differences(from, to)) {
    json.StartObject();
    json.Key("cause");
    const std::string what = ValidUtf8(cause.what);
    json.String(what.data(), static_cast<rapidjson::SizeType>(what.size()));
    for (const auto& [key, time] : {std::pair("before_us", cause.before),
                                    {"after_us", cause.after},
                                    {"difference_us", cause.difference()}}) {
      json.Key(key);
      json.Double(time.us());
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

absl::Status RunDiff(const DiffOptions& options, const CommandContext& context) {
  const bool what_if = !options.simulation.what_if.empty();
  if (options.after.empty() == !what_if) {
    return InvalidInput("diff: {}",
                        what_if ? "either a second capture or --what-if, not both"
                                : "nothing to compare with: give a second capture, or --what-if");
  }
  SimulationOptions unchanged = options.simulation;
  unchanged.what_if.clear();
  TraceOptions after_traces = options.before;
  if (!options.after.empty()) after_traces.paths = {options.after};
  FORETRACE_ASSIGN_OR_RETURN(Side before,
                             MakeSide(options.before, unchanged, options.iteration, context));
  FORETRACE_ASSIGN_OR_RETURN(Side after,
                             MakeSide(after_traces, options.simulation,
                                      what_if ? before.step : options.iteration, context));
  const bool by_completion =
      ExplainedRun::HasPeriod(*before.store, before.prediction, before.step) &&
      ExplainedRun::HasPeriod(*after.store, after.prediction, after.step);
  FORETRACE_ASSIGN_OR_RETURN(
      const ExplainedRun from,
      ExplainedRun::Make(*before.store, before.prediction, before.step, by_completion));
  FORETRACE_ASSIGN_OR_RETURN(
      const ExplainedRun to,
      ExplainedRun::Make(*after.store, after.prediction, after.step, by_completion));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("diff", [&] { return Json(before, after, from, to, by_completion); }));
  if (options.json)
    return context.console->PrintJson("diff", Json(before, after, from, to, by_completion));
  return context.console->Print(
      Text(before, after, from, to, by_completion, options.top, context.console->style()));
}

}  // namespace

void AddDiffCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "where the difference between two captures, or a capture and its what-if, comes from");
  command->add_option("before", options->before.paths, "the first capture")
      ->required()
      ->expected(1)
      ->allow_extra_args(false)
      ->type_name("TRACES");
  command->add_option("after", options->after, "the second; else --what-if changes the first")
      ->type_name("TRACES");
  command->add_flag("--strict", options->before.strict,
                    "refuse input that needs repairs, and ops without a model");
  options->simulation.Register(*command);
  command->add_option("--iteration", options->iteration,
                      "the iteration to compare (default: the one of median time)");
  command->add_option("--top", options->top, "causes to list")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command->footer(Examples({
      "foretrace diff run1/ run2/",
      "foretrace diff run1/ --what-if kind=collective:x0.5",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunDiff(*options, context); };
  });
}

}  // namespace foretrace
