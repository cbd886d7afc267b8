#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_explanation.h"
#include "simulator/replay/step_report.h"
#include "simulator/replay/trace_options.h"
#include "simulator/report/headline.h"
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
  std::optional<std::string> doubt;  // as `predict` has them
  std::vector<std::string> notes;
};

// What is compared, and what is to be known of it.
struct Comparison {
  const Side& before;
  const Side& after;
  const ExplainedRun& from;
  const ExplainedRun& to;
  bool by_completion = false;
  std::vector<std::string> doubts, notes;
};

absl::StatusOr<Side> MakeSide(const TraceOptions& traces, const SimulationOptions& simulation,
                              int64_t iteration, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const TraceStore> loaded, traces.Load(context));
  const TraceStore& store = *loaded;
  FORETRACE_ASSIGN_OR_RETURN(
      const SimulationSetup setup,
      SimulationSetup::Make(simulation, store, [&] { return traces.LoadExtras(context); }));
  std::optional<Prediction> unedited;
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction,
                             Simulate(store, setup, setup.compile(), setup.network(), &unedited));
  FORETRACE_RETURN_IF_ERROR(CheckMissing(store, prediction, traces.strict));
  FORETRACE_ASSIGN_OR_RETURN(ReportOptions explained,
                             ExplainStep(store, setup, {iteration, traces.strict}, prediction,
                                         unedited.has_value() ? &*unedited : nullptr));
  if (!explained.iteration.has_value()) {
    return InvalidInput("{}: no iteration that all ranks have; nothing to compare",
                        store.ranks().front().info().source);
  }
  return Side{std::move(loaded), std::move(prediction), *explained.iteration,
              std::move(explained.doubt), std::move(explained.notes)};
}

// What is said of both once, the rest with the side that it is of.
std::vector<std::string> Joined(std::span<const std::string> before,
                                std::span<const std::string> after) {
  std::vector<std::string> joined;
  const auto holds = [](std::span<const std::string> list, const std::string& text) {
    return std::ranges::find(list, text) != list.end();
  };
  for (const std::string& text : before) {
    joined.push_back(holds(after, text) ? text : "before: " + text);
  }
  for (const std::string& text : after) {
    if (!holds(before, text)) joined.push_back("after: " + text);
  }
  return joined;
}

std::vector<std::string> DoubtsOf(const Side& side) {
  return side.doubt.has_value() ? std::vector<std::string>{*side.doubt}
                                : std::vector<std::string>();
}

// `what_if`: the second side is the first one changed, and what is said of it is of both.
Comparison Compare(const Side& before, const Side& after, const ExplainedRun& from,
                   const ExplainedRun& to, bool by_completion, bool what_if) {
  Comparison result{before, after, from, to, by_completion, {}, {}};
  if (what_if) {
    result.doubts = DoubtsOf(after);
    result.notes = after.notes;
    return result;
  }
  result.doubts = Joined(DoubtsOf(before), DoubtsOf(after));
  result.notes = Joined(before.notes, after.notes);
  const size_t ranks = before.store->ranks().size(), others = after.store->ranks().size();
  if (ranks != others) {
    result.notes.push_back(fmt::format(
        "{} before, {} after; each iteration is the slowest rank's",
        ranks == 1 ? "1 rank has a trace" : fmt::format("{} ranks have a trace", ranks), others));
  }
  return result;
}

// From when to when an iteration is taken: for programs (docs/semantics.md), and for people.
struct Definition {
  std::string name;
  std::string text;
};

Definition DefinitionOf(const Side& side, bool by_completion) {
  if (by_completion) return {"period", "from the completion of the step before to its own"};
  if (side.prediction.job.symbolic) return {"work", "from its first work to its last"};
  if (side.prediction.marked_iterations) {
    return {"completion", "from its begin mark until its device work is done"};
  }
  return {"trace", "over the whole trace"};
}

Definition DefinitionOf(const Comparison& compared) {
  const Definition before = DefinitionOf(compared.before, compared.by_completion);
  const Definition after = DefinitionOf(compared.after, compared.by_completion);
  if (before.name == after.name) return before;
  return {"mixed", fmt::format("before {}, after {}", before.text, after.text)};
}

std::string Text(const Comparison& compared, size_t top, const TextStyle& style) {
  using Align = TextTable::Align;
  const SimTime from = compared.from.total(), to = compared.to.total();
  std::string text;
  for (const std::string& doubt : compared.doubts) text += "NOT RELIABLE: " + doubt + "\n";
  text += fmt::format(
      "Verdict: iteration {} takes {:.1f} us before, iteration {} {:.1f} us after: {:+.1f} us "
      "({}); {}\n",
      compared.before.step, from.us(), compared.after.step, to.us(), (to - from).us(),
      PercentChange(to, from), DefinitionOf(compared).text);
  for (const std::string& note : compared.notes) text += "Note: " + note + "\n";
  const std::vector<StepCause> causes = Differences(compared.from, compared.to);
  if (causes.empty()) return text + "\nThe critical paths take as long for all that is on them.\n";
  TextTable table({{"before us"}, {"after us"}, {"difference us"}, {"", Align::kLeft, true}});
  for (size_t i = 0; i < std::min(top, causes.size()); ++i) {
    table.AddRow({fmt::format("{:.1f}", causes[i].before.us()),
                  fmt::format("{:.1f}", causes[i].after.us()),
                  fmt::format("{:+.1f}", causes[i].difference().us()), causes[i].what});
  }
  text += "\nWhere it comes from (along the critical paths)\n" + table.Format(style);
  if (causes.size() > top) text += fmt::format("... and {} more causes\n", causes.size() - top);
  return text;
}

std::string Json(const Comparison& compared) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  const auto text = [&](std::string_view value) {
    const std::string valid = ValidUtf8(value);
    json.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  };
  const auto texts = [&](const char* key, std::span<const std::string> values) {
    json.Key(key);
    json.StartArray();
    for (const std::string& value : values) text(value);
    json.EndArray();
  };
  const auto side = [&](const char* key, const Side& of, SimTime time) {
    json.Key(key);
    json.StartObject();
    json.Key("iteration");
    json.Int64(of.step);
    json.Key("time_us");
    json.Double(time.us());
    json.Field("definition", DefinitionOf(of, compared.by_completion).name);
    json.EndObject();
  };
  const SimTime from = compared.from.total(), to = compared.to.total();
  side("before", compared.before, from);
  side("after", compared.after, to);
  json.Key("difference_us");
  json.Double((to - from).us());
  json.Field("definition", DefinitionOf(compared).name);
  texts("doubts", compared.doubts);
  texts("notes", compared.notes);
  json.Key("causes");
  json.StartArray();
  for (const StepCause& cause : Differences(compared.from, compared.to)) {
    json.StartObject();
    json.Key("cause");
    text(cause.what);
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
  const Comparison compared = Compare(before, after, from, to, by_completion, what_if);
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("diff", [&] { return Json(compared); }));
  if (options.json) return context.console->PrintJson("diff", Json(compared));
  return context.console->Print(Text(compared, options.top, context.console->style()));
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
  options->before.RegisterReading(
      *command,
      "refuse input that needs repairs, ops without a model, and a recording that its own replay "
      "does not repeat (NOT RELIABLE)");
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
