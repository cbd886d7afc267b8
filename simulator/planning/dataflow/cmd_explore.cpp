#include <fmt/format.h>

#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/dataflow/exploration_run.h"
#include "simulator/planning/dataflow/exploration_text.h"

namespace foretrace {
namespace {

struct ExploreOptions {
  std::string space, folder;
  ExplorationRun run;
  bool json = false;
};

absl::Status Write(const Explored& e, const std::string& folder, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(folder, context.inputs));
  const auto write = [&](const std::string& name, const std::string& text) -> absl::Status {
    FORETRACE_ASSIGN_OR_RETURN(const std::string path, files.Add(name));
    return WriteFile(path, text);
  };
  FORETRACE_RETURN_IF_ERROR(write("points.csv", PointsCsv(e.space, e.points, e.results)));
  FORETRACE_RETURN_IF_ERROR(write("points.json", PointsJson(e.space, e.points, e.results) + "\n"));
  FORETRACE_RETURN_IF_ERROR(write("index.html", ExplorationPage(e.space, e.points, e.results)));
  return files.Commit();
}

// All that points depend on: the space's file, and those of the accelerators that it may name.
absl::StatusOr<std::string> Question(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(std::string question, ReadTextFile(file, kMaxYamlBytes));
  if (question.find("accelerator") == std::string::npos) return question;
  for (const ShippedFile& accelerator : ListShipped(kAccelerators)) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string text,
                               ReadTextFile(accelerator.path, kMaxYamlBytes));
    question += text;
  }
  return question;
}

absl::Status RunExplore(ExploreOptions o, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(context.answer_files->CheckBeside(o.folder));
  FORETRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Processes> processes, context.StartProcesses());
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(dataflow::kStudies, o.space));
  FORETRACE_ASSIGN_OR_RETURN(o.run.question, Question(file));
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators, AcceleratorCatalog::Load());
  Explored e;
  FORETRACE_ASSIGN_OR_RETURN(e.space, dataflow::LoadSpace(file, accelerators));
  e.points = PointsOf(e.space);
  if (e.points.empty()) {
    return Infeasible("{}: no chip is for a workload in any variant: the space is empty", file);
  }
  FORETRACE_ASSIGN_OR_RETURN(e.results, Explore(e.space, e.points, o.run, *processes, context));
  for (const dataflow::PointResult& r : e.results) e.feasible += r.feasible ? 1 : 0;
  if (processes->rank() != 0) {
    context.answer_files->LeaveToAnother();
    return absl::OkStatus();
  }
  if (e.feasible == 0) {
    return Infeasible("{}: none of {} points fits; the first: {}", file, e.points.size(),
                      e.results.front().why_not);
  }
  FORETRACE_RETURN_IF_ERROR(Write(e, o.folder, context));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("explore", [&] { return PointsJson(e.space, e.points, e.results); }));
  if (!o.json) return context.console->Print(ExploredText(e, o.folder, context.console->style()));
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("study", e.space.name);
  json.Field("points", static_cast<int64_t>(e.points.size()));
  json.Field("feasible", static_cast<int64_t>(e.feasible));
  json.Field("output", o.folder);
  json.Field("files", std::vector<std::string>{"points.csv", "points.json", "index.html"});
  json.EndObject();
  return context.console->PrintJson("explore", {buffer.GetString(), buffer.GetSize()});
}

}  // namespace

void AddExploreCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ExploreOptions>();
  CLI::App* command = app.add_subcommand(
      "explore", "every combination of chips, networks, memories and links: speed, price, power");
  command
      ->add_option("space", o->space,
                   "space file or study by name (docs/dataflow.md): dfmodel-llm, dfmodel-hpl, "
                   "dfmodel-dlrm, dfmodel-fft")
      ->required();
  command->add_option("--output,-o", o->folder, "folder for points.csv, points.json and index.html")
      ->required()
      ->group(kOutputGroup)
      ->type_name("DIR");
  command->add_option("--jobs", o->run.jobs, "threads; results are the same for any number")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--journal", o->run.journal,
                   "file of what was evaluated; with it an interrupted exploration goes on")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_flag("--json", o->json, "one JSON document on standard output");
  command->footer(Examples({
      "foretrace explore dfmodel-llm -o llm",
      "foretrace explore my_space.yaml -o out --jobs 4 --journal points.log",
      "mpirun -n 4 foretrace explore my_space.yaml -o out --journal points.log",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunExplore(*o, context); }; });
}

}  // namespace foretrace
