#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/ranges.h>

#include "simulator/architect/machine_search.h"
#include "simulator/base/atomic_file.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/console/processes.h"
#include "simulator/planning/architect/architect_models.h"
#include "simulator/planning/architect/architect_report.h"
#include "simulator/planning/files/journaled_runner.h"
#include "simulator/planning/mappings/phaze_plan.h"

namespace foretrace {
namespace {

constexpr int32_t kHysteresis = 5;
constexpr ShippedKind kSpaces = {"space of accelerators", "topologies/spaces", ".yaml"};

struct ArchitectOptions {
  std::vector<std::string> models;
  std::string space = "phaze";
  int32_t devices = 0;
  std::vector<std::string> hbm_gib;
  int32_t global_batch = 0;
  std::vector<std::string> widths = {"1", "2", "4", "8"};
  std::vector<std::string> micro_batches = {"1", "2", "4", "8"};
  std::vector<std::string> weights;
  int32_t samples = 0;
  std::string search = "exact";
  std::optional<int32_t> hysteresis;  // kHysteresis
  bool compare = false;
  std::string objective = "throughput";
  double optimizer_factor = 0;
  int64_t nodes = ScheduleLimits().max_nodes;
  int32_t jobs = 0;
  std::string output, journal;
  bool timings = false;
  bool json = false;
};

absl::StatusOr<double> Positive(const std::string& text, const char* option) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(value > 0) || value > 1e9) {
    return InvalidInput("{}: '{}' is not a positive number", option, text);
  }
  return value;
}

absl::StatusOr<std::vector<int32_t>> Counts(const std::vector<std::string>& texts,
                                            const char* option) {
  std::vector<int32_t> counts;
  for (const std::string& text : texts) {
    FORETRACE_ASSIGN_OR_RETURN(const double value, Positive(text, option));
    if (value != static_cast<int32_t>(value) || value > 1 << 20) {
      return InvalidInput("{}: '{}' is not a whole number up to {}", option, text, 1 << 20);
    }
    counts.push_back(static_cast<int32_t>(value));
  }
  return counts;
}

absl::StatusOr<TrainingSetup> SetupOf(const ArchitectOptions& o) {
  TrainingSetup setup;
  setup.devices = o.devices;
  setup.global_batch = o.global_batch;
  setup.optimizer_factor = o.optimizer_factor;
  setup.limits.max_nodes = o.nodes;
  FORETRACE_ASSIGN_OR_RETURN(setup.widths, Counts(o.widths, "--widths"));
  FORETRACE_ASSIGN_OR_RETURN(setup.micro_batches, Counts(o.micro_batches, "--micro-batches"));
  return setup;
}

// `inputs` learns what the models were read from; `notes`, which a name was taken to mean.
absl::StatusOr<std::vector<SearchedModel>> LoadModels(const ArchitectOptions& o,
                                                      const TrainingSetup& setup,
                                                      const CommandContext& context,
                                                      std::string& inputs,
                                                      std::vector<std::string>& notes) {
  if (!o.weights.empty() && o.weights.size() != o.models.size()) {
    return InvalidInput("--weights: {} for {} models; give one each", o.weights.size(),
                        o.models.size());
  }
  if (o.samples > 0 && std::ranges::none_of(o.models, IsRecording)) {
    return InvalidInput("--samples would change nothing: no model is a recording");
  }
  std::vector<SearchedModel> models;
  for (size_t i = 0; i < o.models.size(); ++i) {
    if (std::find(o.models.begin(), o.models.begin() + static_cast<ptrdiff_t>(i), o.models[i]) !=
        o.models.begin() + static_cast<ptrdiff_t>(i)) {
      return InvalidInput("{}: given twice; --weights says how much a model counts", o.models[i]);
    }
    SearchedModel model;
    FORETRACE_ASSIGN_OR_RETURN(
        model.model, LoadArchitectModel(o.models[i], o.samples, setup, context, inputs, notes));
    if (!o.weights.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(model.weight, Positive(o.weights[i], "--weights"));
    }
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<std::vector<Bytes>> MemorySizes(const ArchitectOptions& o) {
  std::vector<Bytes> sizes;
  for (const std::string& text : o.hbm_gib) {
    FORETRACE_ASSIGN_OR_RETURN(const double gib, Positive(text, "--hbm"));
    if (gib < 1e-3 || gib > 1e6) {
      return InvalidInput("--hbm: {} GiB is not between 0.001 and 1,000,000", text);
    }
    sizes.emplace_back(static_cast<int64_t>(gib * (1 << 30)));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

absl::Status WriteFiles(const ArchitectOptions& o, const ArchitectReport& report,
                        const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(o.output, context.inputs));
  const auto write = [&](const std::string& name, const std::string& text) -> absl::Status {
    FORETRACE_ASSIGN_OR_RETURN(const std::string path, files.Add(name));
    return WriteFile(path, text);
  };
  FORETRACE_RETURN_IF_ERROR(write("architect.json", ArchitectJson(report)));
  FORETRACE_RETURN_IF_ERROR(write("designs.csv", DesignsCsv(report)));
  FORETRACE_RETURN_IF_ERROR(write("index.html", ArchitectPage(report)));
  FORETRACE_RETURN_IF_ERROR(write("architect-common.yaml", AcceleratorYaml(report)));
  FORETRACE_RETURN_IF_ERROR(write("architect-platform.yaml", PlatformYaml(report)));
  FORETRACE_RETURN_IF_ERROR(write("architect-system.yaml", SystemYaml(report)));
  return files.Commit();
}

absl::Status CheckObjective(const ArchitectReport& report) {
  const auto missing = [&](const char* key) {
    return InvalidInput("{}: --objective {} needs the key '{}' in the space's file",
                        report.space.name, Name(report.objective), key);
  };
  if (report.objective == Objective::kPerWatt && !report.space.watts) return missing("power");
  if (report.objective == Objective::kPerDollar && !report.space.dollars) return missing("price");
  return absl::OkStatus();
}

// Plans on the design of the cap, and those on the common one executed.
absl::Status AddPlans(const std::vector<SearchedModel>& models, ArchitectReport& report) {
  DesignEvaluator evaluator(report.machine, report.training);
  if (report.space.cap_design.has_value()) {
    evaluator.SetDesign(*report.space.cap_design);
    for (size_t m = 0; m < models.size(); ++m) {
      absl::StatusOr<ModelPlan> plan = evaluator.Evaluate(models[m].model);
      if (plan.ok()) {
        report.models[m].on_cap = *std::move(plan);
      } else if (!absl::IsFailedPrecondition(plan.status())) {
        return plan.status();
      }
    }
  }
  evaluator.SetDesign(report.best().design.design);
  for (size_t m = 0; m < models.size(); ++m) {
    ModelFindings& findings = report.models[m];
    const absl::StatusOr<SimTime> simulated =
        SimulatePlacement(evaluator.ProblemOf(models[m].model), findings.common.placement);
    if (simulated.ok()) {
      findings.simulated = *simulated;
    } else if (!absl::IsFailedPrecondition(simulated.status())) {
      return simulated.status();
    }
  }
  return absl::OkStatus();
}

absl::Status SearchAll(const ArchitectOptions& o, const MachineSearch& machines,
                       const std::vector<SearchedModel>& models, SearchSetup setup,
                       ArchitectReport& report) {
  const int hysteresis = report.exact ? 0 : o.hysteresis.value_or(kHysteresis);
  std::vector<double> reference;
  for (const SearchedModel& model : models) {
    ModelFindings findings;
    findings.name = model.model.name;
    findings.weight = model.weight;
    FORETRACE_ASSIGN_OR_RETURN(FoundDesign found, machines.Find({model}, setup, hysteresis));
    findings.search = std::move(found.result);
    report.machine = found.machine;
    report.training.hbm = findings.hbm = found.hbm;
    const double best = findings.best().score;
    if (report.exact && o.compare) {
      FORETRACE_ASSIGN_OR_RETURN(const FoundDesign early,
                                 machines.Find({model}, setup, o.hysteresis.value_or(kHysteresis)));
      findings.hysteresis_loss = 1 - early.best().score / best;
    }
    reference.push_back(findings.best().plans[0].throughput);
    report.seconds.Add(findings.search.seconds);
    report.models.push_back(std::move(findings));
  }
  setup.reference = reference;
  report.common = report.models[0].search;
  if (models.size() > 1) {
    FORETRACE_ASSIGN_OR_RETURN(FoundDesign found, machines.Find(models, setup, hysteresis));
    report.common = std::move(found.result);
    report.machine = found.machine;
    report.training.hbm = found.hbm;
    report.seconds.Add(report.common.seconds);
  }
  for (size_t m = 0; m < models.size(); ++m) report.models[m].common = report.best().plans[m];
  return AddPlans(models, report);
}

Objective ObjectiveOf(const std::string& name) {
  return ParseEnum<Objective>(name).value_or(Objective::kThroughput);
}

absl::StatusOr<ArchitectReport> Run(const ArchitectOptions& o, const Processes& processes,
                                    const CommandContext& context) {
  ArchitectReport report;
  report.exact = o.search == "exact";
  report.hysteresis = report.exact && !o.compare ? 0 : o.hysteresis.value_or(kHysteresis);
  if (report.exact && !o.compare && o.hysteresis) {
    return InvalidInput(
        "--hysteresis would change nothing: it is of --search hysteresis, and of --compare");
  }
  if (!report.exact && o.compare) {
    return InvalidInput("--compare would change nothing: it is of --search exact");
  }
  report.objective = ObjectiveOf(o.objective);
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kSpaces, o.space));
  FORETRACE_ASSIGN_OR_RETURN(std::string inputs, ReadTextFile(file, kMaxYamlBytes));
  FORETRACE_ASSIGN_OR_RETURN(report.space, LoadDesignSpace(file));
  FORETRACE_RETURN_IF_ERROR(CheckObjective(report));
  const absl::StatusOr<std::vector<SizedDesign>> feasible = FeasibleDesigns(report.space);
  if (!feasible.ok()) return InFile(file, feasible.status());
  const std::vector<SizedDesign>& designs = *feasible;
  FORETRACE_ASSIGN_OR_RETURN(report.training, SetupOf(o));
  FORETRACE_ASSIGN_OR_RETURN(report.memory_sizes, MemorySizes(o));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SearchedModel> models,
                             LoadModels(o, report.training, context, inputs, report.notes));
  const int jobs =
      o.jobs > 0 ? o.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const ThreadRunner threads(jobs, context.stop);
  std::optional<LineJournal> journal;
  if (!o.journal.empty()) {
    const std::string question =
        fmt::format("{} {} {} {} {:a} {} {} {}", o.devices, o.global_batch,
                    fmt::join(o.hbm_gib, ","), o.objective, o.optimizer_factor, o.nodes,
                    fmt::join(o.widths, ","), fmt::join(o.micro_batches, ","));
    FORETRACE_ASSIGN_OR_RETURN(
        LineJournal opened,
        LineJournal::Open(o.journal,
                          {"architect journal 2", question + inputs,
                           "models, space, devices, batch, memory, widths, micro-batches, "
                           "objective, nodes"},
                          processes));
    journal.emplace(std::move(opened));
  }
  const JournaledRunner runner(threads, processes, journal.has_value() ? &*journal : nullptr);
  SearchSetup setup;
  setup.training = report.training;
  setup.objective = report.objective;
  setup.runner = &runner;
  setup.progress = [&context](std::string_view what, int64_t done, int64_t total) {
    context.console->Progress(what, done, total);
  };
  const MachineSearch machines(report.space, designs, report.memory_sizes);
  FORETRACE_RETURN_IF_ERROR(SearchAll(o, machines, models, setup, report));
  return report;
}

absl::Status Architect(const ArchitectOptions& o, const CommandContext& context) {
  if (!o.output.empty()) FORETRACE_RETURN_IF_ERROR(context.answer_files->CheckBeside(o.output));
  FORETRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Processes> processes, context.StartProcesses());
  FORETRACE_ASSIGN_OR_RETURN(const ArchitectReport report, Run(o, *processes, context));
  if (processes->rank() != 0) {
    context.answer_files->LeaveToAnother();
    return absl::OkStatus();
  }
  if (!o.output.empty()) FORETRACE_RETURN_IF_ERROR(WriteFiles(o, report, context));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("architect", [&] { return ArchitectJson(report); }));
  if (o.json) return context.console->PrintJson("architect", ArchitectJson(report));
  std::string text = FormatArchitect(report, context.console->style());
  if (o.timings) text += SecondsText(report.seconds);
  return context.console->Print(text);
}

void AddSearchOptions(CLI::App& command, ArchitectOptions& o) {
  command
      .add_option("--search", o.search,
                  "exact: every design, by bounds; hysteresis: from the largest area down, until "
                  "throughput falls")
      ->check(CLI::IsMember({"exact", "hysteresis"}))
      ->capture_default_str();
  command
      .add_option("--hysteresis", o.hysteresis,
                  "buckets of area in a row that must not rise (default: 5)")
      ->check(CLI::Range(1, 1000));
  command.add_flag("--compare", o.compare,
                   "with --search exact: also what hysteresis would have lost");
  command.add_option("--objective", o.objective, "what the best design has most of")
      ->check(CLI::IsMember({"throughput", "per-area", "per-watt", "per-dollar"}))
      ->capture_default_str();
  command.add_option("--nodes", o.nodes, "states that the schedule of one layer may search")
      ->check(CLI::Range(int64_t{0}, int64_t{100'000'000}))
      ->capture_default_str();
  command
      .add_option("--journal", o.journal,
                  "keep what is evaluated in this file, and go on from there next time")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_flag("--timings", o.timings,
                   "how long estimates, schedules and placements took on this machine");
  command.add_option("--jobs", o.jobs, "threads; 0: as many as processors")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace

void AddArchitectCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ArchitectOptions>();
  CLI::App* command = app.add_subcommand(
      "architect", "the accelerator that trains models fastest, with the placement of each");
  command->add_option("models", o->models, "model files, names of those that ship, or recordings")
      ->required();
  command->add_option("--space", o->space, "accelerators to choose from: a file, or phaze")
      ->capture_default_str();
  command->add_option("--devices", o->devices, "accelerators to train on")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--hbm", o->hbm_gib,
                   "GiB of each accelerator; of several the smallest of the best")
      ->required()
      ->delimiter(',');
  command->add_option("--global-batch", o->global_batch, "samples of an iteration")
      ->required()
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--widths", o->widths, "tensor-parallel widths to try")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option(
          "--micro-batches", o->micro_batches,
          "micro-batches to try, beside that of the calls of a recording or a workload file")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--samples", o->samples, "of the iteration of a recording")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--weights", o->weights, "of the models in the common design")
      ->delimiter(',');
  command
      ->add_option("--optimizer-bytes", o->optimizer_factor,
                   "of its state, for each byte of parameters: 0 SGD")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  AddSearchOptions(*command, *o);
  command->add_option("-o,--output", o->output, "folder for tables, page and accelerator file")
      ->group(kOutputGroup);
  command->add_flag("--json", o->json, "one JSON document instead of tables");
  command->footer(Examples({
      "foretrace architect bert-large --devices 1024 --hbm 32 --global-batch 4096",
      "foretrace architect llama2-7b gpt3-175b --devices 1024 --hbm 64 --global-batch 4096 "
      "--search hysteresis --hysteresis 6 -o accelerators",
      "mpirun -n 4 foretrace architect llama2-7b --devices 1024 --hbm 64 --global-batch 4096 "
      "--journal llama.log",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return Architect(*o, context); }; });
}

}  // namespace foretrace
