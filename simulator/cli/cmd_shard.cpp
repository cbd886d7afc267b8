#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/output.h"
#include "simulator/cli/shard_models.h"
#include "simulator/cli/shard_output.h"
#include "simulator/exporters/atomic_file.h"
#include "simulator/sharding/plan_json.h"

namespace foretrace {
namespace {

struct ShardOptions {
  std::string task;
  std::vector<std::string> sharders;
  std::vector<std::string> plans;
  std::vector<std::string> compare;
  std::string output;
  std::string svg;
  uint64_t seed = 1;
  int64_t budget = 0;  // 0: by the size of the task
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

absl::StatusOr<const RankedPlan*> FindPlan(const Ranking& ranking, const std::string& name) {
  std::vector<std::string_view> known;
  for (const RankedPlan& p : ranking.plans) {
    if (p.plan.sharder == name) return &p;
    known.push_back(p.plan.sharder);
  }
  return InvalidInput("--compare: there is no plan '{}'; there are {}", name, fmt::join(known, ", "));
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Append(text);
  return file.Commit();
}

absl::Status RunShard(const ShardOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const ShardingTask task, LoadShardingTask(options.task));
  FORETRACE_ASSIGN_OR_RETURN(const auto sharders, ChooseSharders(options.sharders));
  FORETRACE_ASSIGN_OR_RETURN(LoadedShardingModels loaded, LoadShardingModels(task));
  FORETRACE_ASSIGN_OR_RETURN(const auto evaluator,
                             SimulatedEvaluator::Create(task, std::move(loaded.models)));
  std::vector<ShardingPlan> given;
  for (const std::string& file : options.plans) {
    FORETRACE_ASSIGN_OR_RETURN(ShardingPlan plan, ReadPlanJson(task, file));
    given.push_back(std::move(plan));
  }
  FORETRACE_ASSIGN_OR_RETURN(
      const Ranking ranking,
      RankPlans(task, *evaluator, sharders, std::move(given), options.seed,
                options.budget > 0 ? options.budget : DefaultBudget(task)));
  FORETRACE_RETURN_IF_ERROR(CheckFits(task, ranking));
  const RankedPlan& best = ranking.plans.front();
  if (!options.output.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(
        options.output, PlanJson(task, best.plan, evaluator->ranks_per_node())));
  }
  if (!options.svg.empty()) FORETRACE_RETURN_IF_ERROR(WriteFile(options.svg, LoadSvg(task, best)));
  if (options.json) return Print(RankingJson(task, ranking, loaded.notes));
  std::string text = FormatRanking(task, ranking, loaded.notes, OutputStyle());
  if (!options.compare.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const RankedPlan* a, FindPlan(ranking, options.compare[0]));
    FORETRACE_ASSIGN_OR_RETURN(const RankedPlan* b, FindPlan(ranking, options.compare[1]));
    text += fmt::format("\n{} against {}\n", options.compare[0], options.compare[1]);
    text += FormatComparison(task, *a, *b, OutputStyle());
  }
  return Print(text);
}

}  // namespace

void AddShardCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ShardOptions>();
  CLI::App* command = app.add_subcommand(
      "shard", "embedding tables on GPUs: sharding plans ranked by simulated iteration time");
  command->add_option("task", o->task, "task file (docs/sharding.md)")->required();
  command->add_option("--sharders", o->sharders,
                      "only these: naive, random, size_greedy, lookup_greedy, norm_lookup_greedy, "
                      "size_lookup_greedy, lpt, ilp, search")
      ->delimiter(',');
  command->add_option("--plan", o->plans, "a plan to rank beside them, as --output writes it")
      ->type_name("FILE");
  command->add_option("--compare", o->compare, "print how two plans of the ranking differ")
      ->expected(2)
      ->type_name("A B");
  command->add_option("--output", o->output, "write the best plan as JSON in torchrec's terms")
      ->type_name("FILE");
  command->add_option("--svg", o->svg, "draw the load of the best plan's ranks")->type_name("FILE");
  command->add_option("--seed", o->seed, "of random choices; the same seed gives the same plans")
      ->capture_default_str();
  command->add_option("--budget", o->budget,
                      "simulated plans that the search may ask for (default: by the task's size)")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}));
  command->add_flag("--json", o->json, "one JSON document on standard output");
  command->footer(Examples({
      "foretrace shard traces/samples/dlrm_sharding.yaml",
      "foretrace shard task.yaml --sharders lookup_greedy,search --compare lookup_greedy search",
      "foretrace shard task.yaml --output plan.json --svg load.svg",
  }));
  command->callback([o, &context] { context.run = [o] { return RunShard(*o); }; });
}

}  // namespace foretrace
