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
#include "simulator/report/text_table.h"

namespace foretrace {
namespace {

struct ExploreOptions {
  std::string space, folder;
  ExplorationRun run;
  bool json = false;
};

struct Explored {
  dataflow::Space space;
  std::vector<dataflow::Point> points;
  std::vector<dataflow::PointResult> results;
  size_t feasible = 0;
};

std::string Name(const dataflow::Space& space, const dataflow::Point& point) {
  const dataflow::System s = SystemOf(space, point);
  return fmt::format("{} {} {} {}", s.chip.name, s.topology, s.memory.name,
                     space.links[point.link].name);
}

// The system that reaches the most of its peak, for each workload.
std::string Verdict(const Explored& e) {
  std::string text;
  for (uint32_t w = 0; w < e.space.workloads.size(); ++w) {
    const dataflow::PointResult* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i < e.points.size(); ++i) {
      const dataflow::PointResult& r = e.results[i];
      if (e.points[i].workload != w || !r.feasible) continue;
      if (best != nullptr && r.utilisation <= best->utilisation) continue;
      best = &r;
      at = i;
    }
    if (best == nullptr) continue;
    text += fmt::format("{}{} reaches {:.2f} % of peak at most, on {} ({})",
                        text.empty() ? "Verdict: " : "; ", e.space.workloads[w].workload.name,
                        100 * best->utilisation, Name(e.space, e.points[at]),
                        e.space.variants[e.points[at].variant].name);
  }
  return text + "\n";
}

// Of each workload and variant: how many points, and the ends of the range of utilisation.
std::string ExploredText(const Explored& e, const std::string& folder, TextStyle style) {
  using Align = TextTable::Align;
  TextTable table({{"workload", Align::kLeft},
                   {"variant", Align::kLeft},
                   {"points"},
                   {"fit"},
                   {"best util %"},
                   {"of", Align::kLeft, true},
                   {"least util %"}});
  for (uint32_t w = 0; w < e.space.workloads.size(); ++w) {
    for (uint32_t v = 0; v < e.space.variants.size(); ++v) {
      size_t count = 0, fit = 0, best = 0;
      double most = -1, least = 2;
      for (size_t i = 0; i < e.points.size(); ++i) {
        if (e.points[i].workload != w || e.points[i].variant != v) continue;
        ++count;
        if (!e.results[i].feasible) continue;
        ++fit;
        if (e.results[i].utilisation > most) most = e.results[i].utilisation, best = i;
        least = std::min(least, e.results[i].utilisation);
      }
      if (count == 0) continue;
      table.AddRow({e.space.workloads[w].workload.name, e.space.variants[v].name,
                    fmt::format("{}", count), fmt::format("{}", fit),
                    fit > 0 ? fmt::format("{:.2f}", 100 * most) : "-",
                    fit > 0 ? Name(e.space, e.points[best]) : "",
                    fit > 0 ? fmt::format("{:.2f}", 100 * least) : "-"});
    }
  }
  return fmt::format(
      "{}{}\n{}{} of {} points fit; points.csv, points.json and index.html are in {}\n", Verdict(e),
      e.space.name, table.Format(style), e.feasible, e.points.size(), folder);
}

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
