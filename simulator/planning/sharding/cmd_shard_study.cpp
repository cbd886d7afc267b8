#include <fmt/format.h>

#include <memory>
#include <set>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/sharding/shard_models.h"
#include "simulator/planning/sharding/table_statistics.h"
#include "simulator/replay/durations/durations.h"
#include "simulator/report/text_table.h"
#include "simulator/sharding/generate.h"
#include "simulator/sharding/study.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

struct GenerateOptions {
  std::vector<std::string> statistics;
  std::string folder;
  GeneratedTasks tasks;
  bool json = false;
};

absl::Status Generate(GenerateOptions options, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const PlatformSpec platform,
                             FindPlatform(options.tasks.platform, options.tasks.gpus));
  if (platform.node.accelerator.memory_capacity() == Bytes()) {
    return InvalidInput("platform {} does not state its devices' memory", options.tasks.platform);
  }
  options.tasks.memory = platform.node.accelerator.memory_capacity();
  if (options.tasks.gpus > platform.devices()) {
    return InvalidInput("--gpus {}, but platform {} has {}; give a larger --platform",
                        options.tasks.gpus, options.tasks.platform, platform.devices());
  }
  if (!options.tasks.calibration.empty()) {
    FORETRACE_RETURN_IF_ERROR(FindCalibrations({options.tasks.calibration}).status());
  }
  if (options.tasks.batch % options.tasks.gpus != 0) {
    return InvalidInput("--batch {} cannot be shared evenly by {} GPUs", options.tasks.batch,
                        options.tasks.gpus);
  }
  std::vector<TableStatistics> parts;
  for (const std::string& file : options.statistics) {
    FORETRACE_ASSIGN_OR_RETURN(TableStatistics part, LoadTableStatistics(file));
    parts.push_back(std::move(part));
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<ShardingTask> tasks,
                             GenerateTasks(parts, options.tasks));
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(options.folder, context.inputs));
  std::vector<std::string> names;
  for (const ShardingTask& task : tasks) {
    names.push_back(task.name + ".yaml");
    FORETRACE_ASSIGN_OR_RETURN(const std::string path, files.Add(names.back()));
    FORETRACE_RETURN_IF_ERROR(WriteFile(path, ShardingTaskYaml(task)));
  }
  FORETRACE_RETURN_IF_ERROR(files.Commit());
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("output", options.folder);
  json.Field("tasks", names);
  json.EndObject();
  const std::string document(buffer.GetString(), buffer.GetSize());
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("shard-tasks", [&] { return document; }));
  if (options.json) return context.console->PrintJson("shard-tasks", document);
  return context.console->Print(fmt::format("{} tasks in {}\n", tasks.size(), options.folder));
}

struct StudyOptions {
  std::vector<std::string> tasks;
  uint64_t seed = 1;
  bool search = false;
  bool json = false;
};

std::string StudyJson(const std::vector<StudyRow>& rows, bool searched) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("rows");
  json.StartArray();
  for (const StudyRow& r : rows) {
    json.StartObject();
    json.Field("platform", r.platform);
    json.Field("task", r.task);
    json.Field("predicted_fastest", r.predicted_fastest);
    json.Field("predicted_us", r.predicted.us());
    json.Field("actual_of_predicted_us", r.actual_of_predicted.us());
    json.Field("actual_fastest", r.actual_fastest);
    json.Field("actual_us", r.actual.us());
    json.Field("error_percent", 100 * r.error());
    json.Field("meets", r.meets());
    if (searched) {
      json.Field("searched_us", r.searched.us());
      json.Field("gain_percent", 100 * r.gain());
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string FormatStudy(const std::vector<StudyRow>& rows, bool searched, const TextStyle& style) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns = {{"platform", Align::kLeft, true},
                                            {"task", Align::kLeft},
                                            {"fastest (P)", Align::kLeft},
                                            {"P ms"},
                                            {"AP ms"},
                                            {"fastest (A)", Align::kLeft},
                                            {"A ms"},
                                            {"error %"},
                                            {"meets", Align::kLeft}};
  if (searched) columns.insert(columns.end(), {{"searched ms"}, {"gain %"}});
  TextTable table(columns);
  size_t met = 0, exact = 0;
  double gain = 0, most = 0;
  for (const StudyRow& r : rows) {
    const auto ms = [](SimTime t) { return fmt::format("{:.3f}", t.us() * 1e-3); };
    std::vector<std::string> cells = {r.platform,
                                      r.task,
                                      r.predicted_fastest,
                                      ms(r.predicted),
                                      ms(r.actual_of_predicted),
                                      r.actual_fastest,
                                      ms(r.actual),
                                      fmt::format("{:.2f}", 100 * r.error()),
                                      r.meets() ? "yes" : "no"};
    if (searched) {
      cells.push_back(ms(r.searched));
      cells.push_back(fmt::format("{:.2f}", 100 * r.gain()));
    }
    table.AddRow(std::move(cells));
    met += r.meets() ? 1 : 0;
    exact += r.predicted_fastest == r.actual_fastest ? 1 : 0;
    gain += r.gain();
    most = std::max(most, r.error());
  }
  const auto n = static_cast<double>(rows.size());
  std::string out = fmt::format(
      "Verdict: criterion met in {} of {} ({:.0f} %), the fastest chosen in {}, largest error "
      "{:.2f} %\n",
      met, rows.size(), 100 * static_cast<double>(met) / n, exact, 100 * most);
  if (searched) {
    out += fmt::format(
        "searching on simulated time: {:.2f} % faster than the best of the six on "
        "average\n",
        100 * gain / n);
  }
  return out + "\n" + table.Format(style);
}

absl::Status Study(const StudyOptions& options, const CommandContext& context) {
  std::vector<StudyRow> rows;
  std::set<std::string> seen;
  for (const std::string& file : options.tasks) {
    if (!seen.insert(file).second) return InvalidInput("{}: given twice", file);
    FORETRACE_ASSIGN_OR_RETURN(const ShardingTask task, LoadShardingTask(file));
    FORETRACE_ASSIGN_OR_RETURN(const LoadedShardingModels loaded, LoadShardingModels(task));
    FORETRACE_ASSIGN_OR_RETURN(StudyRow row, StudyTask(task, loaded.models, options.seed,
                                                       options.search ? DefaultBudget(task) : 0));
    rows.push_back(std::move(row));
    context.console->Progress("tasks", static_cast<int64_t>(rows.size()),
                              static_cast<int64_t>(options.tasks.size()));
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("shard-study", [&] { return StudyJson(rows, options.search); }));
  if (options.json)
    return context.console->PrintJson("shard-study", StudyJson(rows, options.search));
  return context.console->Print(FormatStudy(rows, options.search, context.console->style()));
}

}  // namespace

void AddShardTasksCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "shard-tasks", "random sharding tasks by the multi-GPU paper's rules, for shard-study");
  command
      ->add_option("statistics", o->statistics,
                   "locality_stats.txt of dlrm_datasets, one for each part")
      ->required();
  command->add_option("--output,-o", o->folder, "folder for the task files")
      ->required()
      ->group(kOutputGroup);
  command->add_flag("--json", o->json, "one JSON document instead of text");
  command->add_option("--platform", o->tasks.platform, "platform of the tasks")->required();
  command->add_option("--calibration", o->tasks.calibration, "calibration of the tasks");
  command->add_option("--gpus", o->tasks.gpus)->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--batch", o->tasks.batch, "samples of an iteration")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--per-part", o->tasks.per_part, "tasks of each part, half of them heavy")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--seed", o->tasks.seed)->capture_default_str();
  command->footer(Examples({
      "foretrace shard-tasks locality_stats_2021.txt locality_stats_2022.txt -o tasks "
      "--platform paper-4xa100",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return Generate(*o, context); }; });
}

void AddShardStudyCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<StudyOptions>();
  CLI::App* command = app.add_subcommand(
      "shard-study", "does the multi-GPU paper's model choose the fastest sharder? (its table IV)");
  command->add_option("tasks", o->tasks, "task files")->required();
  command->add_option("--seed", o->seed)->capture_default_str();
  command->add_flag("--search", o->search, "also search on simulated time");
  command->add_flag("--json", o->json, "one JSON document instead of a table");
  command->footer(Examples({"foretrace shard-study tasks/*.yaml --search"}));
  command->callback([o, &context] { context.run = [o, &context] { return Study(*o, context); }; });
}

}  // namespace foretrace
