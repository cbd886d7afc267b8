#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/planning/files/trace_files.h"
#include "simulator/planning/sharding/shard_models.h"
#include "simulator/planning/sharding/shard_output.h"
#include "simulator/replay/trace_options.h"
#include "simulator/sharding/plan_json.h"
#include "simulator/sharding/stack_placement.h"

namespace foretrace {
namespace {

struct ShardOptions {
  std::string task;
  std::vector<std::string> sharders;
  std::vector<std::string> plans;
  std::vector<std::string> compare;
  std::vector<std::string> explain;
  std::string output;
  std::string svg;
  std::vector<std::string> captures;  // template; empty: the task's
  std::string traces;                 // folder to write
  std::string traces_of;              // plan; empty: the best
  std::optional<int64_t> seed;        // 1
  int64_t budget = 0;                 // 0: by the size of the task
  int jobs = 1;
  bool json = false;
};

// All, or those named, in the order of AllSharders.
absl::StatusOr<std::vector<std::unique_ptr<Sharder>>> ChooseSharders(
    const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Sharder>> all = AllSharders();
  for (const std::string& name : names) {
    if (std::any_of(all.begin(), all.end(), [&](const auto& s) { return s->name() == name; })) {
      continue;
    }
    std::vector<std::string_view> known;
    for (const auto& s : all) known.push_back(s->name());
    return InvalidInput("--sharders: '{}' is not a sharder; allowed: {}", name,
                        fmt::join(known, ", "));
  }
  if (!names.empty()) {
    std::erase_if(all, [&](const auto& s) {
      return std::find(names.begin(), names.end(), s->name()) == names.end();
    });
  }
  return all;
}

absl::StatusOr<const RankedPlan*> FindPlan(const Ranking& ranking, const std::string& name,
                                           std::string_view option) {
  std::vector<std::string_view> known;
  for (const RankedPlan& p : ranking.plans) {
    if (p.plan.sharder == name) return &p;
    known.push_back(p.plan.sharder);
  }
  return InvalidInput("{}: there is no plan '{}'; there are {}", option, name,
                      fmt::join(known, ", "));
}

absl::StatusOr<Ranking> Rank(const ShardOptions& options, const ShardingTask& task,
                             const ShardingModels& models, SimulatedEvaluator& evaluator,
                             std::vector<ShardingPlan> given, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const auto sharders, ChooseSharders(options.sharders));
  const auto runs = [&](std::string_view name) {
    return options.sharders.empty() || std::ranges::count(options.sharders, name) > 0;
  };
  if (options.budget > 0 && !runs("search")) {
    return InvalidInput("--budget would change nothing: it is of the sharder search");
  }
  if (options.seed && !runs("search") && !runs("random")) {
    return InvalidInput("--seed would change nothing: only the sharders search and random draw");
  }
  RankControl control;
  control.jobs = options.jobs;
  control.stop = context.stop;
  control.make_evaluator = [&] { return SimulatedEvaluator::Create(task, models); };
  control.progress = [&](std::string_view sharder, int64_t done, int64_t budget) {
    context.console->Progress(fmt::format("{}: plans simulated", sharder), done, budget);
  };
  return RankPlans(task, evaluator, sharders, std::move(given),
                   static_cast<uint64_t>(options.seed.value_or(1)),
                   options.budget > 0 ? options.budget : DefaultBudget(task), control);
}

// Plans of --plan, which must fit the task.
absl::StatusOr<std::vector<ShardingPlan>> ReadPlans(const std::vector<std::string>& files,
                                                    const ShardingTask& task,
                                                    int32_t ranks_per_node) {
  std::vector<ShardingPlan> plans;
  for (const std::string& file : files) {
    FORETRACE_ASSIGN_OR_RETURN(ShardingPlan plan, ReadPlanJson(task, file));
    if (absl::Status fits = CheckPlan(task, plan, ranks_per_node); !fits.ok()) {
      std::string message(fits.message());
      if (message.starts_with(task.file + ": ")) message.erase(0, task.file.size() + 2);
      return InvalidInput("{}: {}", file, message);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

absl::Status WriteOutputs(const ShardOptions& options, const ShardingTask& task,
                          const Ranking& ranking, SimulatedEvaluator& evaluator,
                          const CommandContext& context) {
  const RankedPlan& best = ranking.plans.front();
  if (!options.output.empty()) {
    FORETRACE_RETURN_IF_ERROR(
        WriteFile(options.output, PlanJson(task, best.plan, evaluator.ranks_per_node())));
  }
  if (!options.traces.empty()) {
    const RankedPlan* plan = &best;
    if (!options.traces_of.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(plan, FindPlan(ranking, options.traces_of, "--traces-of"));
    }
    FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, evaluator.Traces(plan->plan));
    FORETRACE_RETURN_IF_ERROR(WriteChakra(store, options.traces, TraceFiles("trace", context)));
  }
  if (options.svg.empty()) return absl::OkStatus();
  return WriteFile(options.svg, LoadSvg(task, best));
}

absl::Status RunShard(const ShardOptions& options, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(ShardingTask task, LoadShardingTask(options.task));
  if (!options.captures.empty()) task.capture = fmt::format("{}", fmt::join(options.captures, " "));
  FORETRACE_ASSIGN_OR_RETURN(LoadedShardingModels loaded, LoadShardingModels(task));
  if (!task.capture.empty()) {
    TraceOptions traces;
    traces.paths = options.captures;
    if (traces.paths.empty()) traces.paths = {task.capture};
    FORETRACE_ASSIGN_OR_RETURN(loaded.models.capture, traces.Load(context));
    if (!options.traces.empty()) {
      return InvalidInput(
          "--write-traces writes a simulated iteration; with a template there is none");
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto evaluator, SimulatedEvaluator::Create(task, loaded.models));
  if (evaluator->capture() != nullptr) {
    loaded.notes.push_back(
        fmt::format("template {}: {}", task.capture, evaluator->capture()->Describe()));
  }
  if (options.compare.size() == 2 && options.compare[0] == options.compare[1]) {
    return InvalidInput("--compare {0} {0}: a plan does not differ from itself",
                        options.compare[0]);
  }
  FORETRACE_ASSIGN_OR_RETURN(std::vector<ShardingPlan> given,
                             ReadPlans(options.plans, task, evaluator->ranks_per_node()));
  if (loaded.models.stack != nullptr && loaded.models.stack->deals_by_size &&
      task.allows(PlacementKind::kTable)) {
    ShardingPlan dealt = DealtBySize(task);
    FORETRACE_RETURN_IF_ERROR(CheckPlan(task, dealt, evaluator->ranks_per_node()));
    given.push_back(std::move(dealt));
  }
  FORETRACE_ASSIGN_OR_RETURN(const Ranking ranking, Rank(options, task, loaded.models, *evaluator,
                                                         std::move(given), context));
  FORETRACE_RETURN_IF_ERROR(CheckFits(task, ranking));
  FORETRACE_RETURN_IF_ERROR(WriteOutputs(options, task, ranking, *evaluator, context));
  std::vector<TableExplanation> explained;
  for (const std::string& table : options.explain) {
    FORETRACE_ASSIGN_OR_RETURN(TableExplanation explanation,
                               ExplainTable(task, ranking.plans.front(), table, *evaluator));
    explained.push_back(std::move(explanation));
  }
  const auto json = [&] { return RankingJson(task, ranking, loaded.notes, explained); };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("shard", json));
  if (options.json) return context.console->PrintJson("shard", json());
  std::string text = FormatRanking(task, ranking, loaded.notes, context.console->style());
  if (!options.compare.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const RankedPlan* a,
                               FindPlan(ranking, options.compare[0], "--compare"));
    FORETRACE_ASSIGN_OR_RETURN(const RankedPlan* b,
                               FindPlan(ranking, options.compare[1], "--compare"));
    text += fmt::format("\n{} against {}\n", options.compare[0], options.compare[1]);
    text += FormatComparison(task, *a, *b, context.console->style());
  }
  for (const TableExplanation& e : explained) {
    text += ExplanationText(task, ranking.plans.front(), e, context.console->style());
  }
  return context.console->Print(text);
}

void RegisterOutputs(CLI::App& command, ShardOptions& o) {
  command.add_option("--output", o.output, "write the best plan as JSON in torchrec's terms")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_option("--svg", o.svg, "draw the load of the best plan's ranks")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command
      .add_option(
          "--template", o.captures,
          "a captured job (folder, tar or zip of ranks) whose lookups and all-to-alls take the "
          "plan's durations, everything else as recorded; table_wise and column_wise alone; "
          "may be repeated for files of one job")
      ->type_name("TRACES")
      ->allow_extra_args(false);
  command
      .add_option("--write-traces", o.traces,
                  "write the best plan's simulated iteration as Chakra traces, one per rank; "
                  "predict gives the same time for them")
      ->group(kOutputGroup)
      ->type_name("DIR");
  command.add_option("--traces-of", o.traces_of, "the plan to write, instead of the best")
      ->type_name("PLAN")
      ->needs("--write-traces");
}

}  // namespace

void AddShardCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ShardOptions>();
  CLI::App* command = app.add_subcommand(
      "shard", "embedding tables on GPUs: sharding plans ranked by simulated iteration time");
  command->add_option("task", o->task, "task file (docs/sharding.md)")->required();
  command
      ->add_option("--sharders", o->sharders,
                   "only these: naive, random, size_greedy, lookup_greedy, norm_lookup_greedy, "
                   "size_lookup_greedy, lpt, ilp, search")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--plan", o->plans, "a plan to rank beside them, as --output writes it")
      ->type_name("FILE");
  command->add_option("--compare", o->compare, "print how two plans of the ranking differ")
      ->expected(2)
      ->type_name("A B");
  command
      ->add_option("--explain", o->explain,
                   "what the iteration takes with this table of the best plan elsewhere, every "
                   "place; may be repeated")
      ->type_name("TABLE")
      ->allow_extra_args(false);
  RegisterOutputs(*command, *o);
  command
      ->add_option("--seed", o->seed, "of random choices (1); the same seed gives the same plans")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  command
      ->add_option("--budget", o->budget,
                   "simulated plans that the search may ask for (default: by the task's size)")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}));
  command->add_option("--jobs", o->jobs, "sharders at work at once; the plans are the same for any")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_flag("--json", o->json, "one JSON document on standard output");
  command->footer(Examples({
      "foretrace shard traces/samples/dlrm_sharding.yaml",
      "foretrace shard task.yaml --sharders lookup_greedy,search --compare lookup_greedy search",
      "foretrace shard traces/samples/dlrm_sharding.yaml --explain user_history",
      "foretrace shard task.yaml --output plan.json --svg load.svg",
      "foretrace shard task.yaml --sharders search --write-traces traces/ && foretrace predict "
      "traces/",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunShard(*o, context); }; });
}

}  // namespace foretrace
