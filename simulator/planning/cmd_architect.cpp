#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/architect_report.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

constexpr ShippedKind kSpaces = {"space of accelerators", "topologies/spaces", ".yaml"};

struct ArchitectOptions {
  std::vector<std::string> models;
  std::string space = "phaze";
  int32_t devices = 0;
  double hbm_gib = 0;
  int32_t global_batch = 0;
  std::vector<std::string> widths = {"1", "2", "4", "8"};
  std::vector<std::string> micro_batches = {"1", "2", "4", "8"};
  std::vector<std::string> weights;
  std::string search = "exact";
  int32_t hysteresis = 5;
  bool compare = false;
  std::string objective = "throughput";
  double optimizer_factor = 0;
  int64_t nodes = 2000;
  int32_t jobs = 0;
  std::string output;
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
  setup.hbm = Bytes(static_cast<int64_t>(o.hbm_gib * (1 << 30)));
  setup.optimizer_factor = o.optimizer_factor;
  setup.limits.max_nodes = o.nodes;
  FORETRACE_ASSIGN_OR_RETURN(setup.widths, Counts(o.widths, "--widths"));
  FORETRACE_ASSIGN_OR_RETURN(setup.micro_batches, Counts(o.micro_batches, "--micro-batches"));
  return setup;
}

absl::StatusOr<std::vector<SearchedModel>> LoadModels(const ArchitectOptions& o,
                                                      const TrainingSetup& setup) {
  if (!o.weights.empty() && o.weights.size() != o.models.size()) {
    return InvalidInput("--weights: {} for {} models; give one each", o.weights.size(),
                        o.models.size());
  }
  std::vector<SearchedModel> models;
  for (size_t i = 0; i < o.models.size(); ++i) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kWorkloads, o.models[i]));
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile loaded, LoadModel(file));
    if (!loaded.transformer) {
      return InvalidInput(
          "{}: architect needs the operators of a transformer; give a model file "
          "with the key 'transformer'",
          file);
    }
    TransformerConfig config = *loaded.transformer;
    config.name = loaded.workload.name;
    SearchedModel model;
    FORETRACE_ASSIGN_OR_RETURN(model.model, PrepareModel(config, setup));
    if (!o.weights.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(model.weight, Positive(o.weights[i], "--weights"));
    }
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<ArchitectResult> Search(const ArchitectOptions& o,
                                       const std::vector<SearchedModel>& models,
                                       const std::vector<SizedDesign>& designs,
                                       const SearchSetup& setup) {
  if (o.search == "exact") return SearchExactly(models, designs, setup);
  return SearchByHysteresis(models, designs, setup, o.hysteresis);
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
  FORETRACE_RETURN_IF_ERROR(
      write("architect-common.yaml", AcceleratorYaml("architect-common", report.best().design,
                                                     report.space, report.training.hbm)));
  return files.Commit();
}

absl::StatusOr<ArchitectReport> Run(const ArchitectOptions& o, const CommandContext& context) {
  ArchitectReport report;
  report.exact = o.search == "exact";
  report.hysteresis = report.exact && !o.compare ? 0 : o.hysteresis;
  report.objective = o.objective == "throughput" ? Objective::kThroughput : Objective::kPerArea;
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kSpaces, o.space));
  FORETRACE_ASSIGN_OR_RETURN(report.space, LoadDesignSpace(file));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SizedDesign> designs, FeasibleDesigns(report.space));
  FORETRACE_ASSIGN_OR_RETURN(report.training, SetupOf(o));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SearchedModel> models,
                             LoadModels(o, report.training));
  SearchSetup setup;
  setup.machine = report.space.machine;
  setup.training = report.training;
  setup.objective = report.objective;
  setup.jobs =
      o.jobs > 0 ? o.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  setup.stop = context.stop;
  setup.progress = [&context](int64_t done, int64_t total) {
    context.console->Progress("designs", done, total);
  };
  std::vector<double> reference;
  for (const SearchedModel& model : models) {
    ModelFindings findings;
    findings.name = model.model.name;
    findings.weight = model.weight;
    FORETRACE_ASSIGN_OR_RETURN(findings.search, Search(o, {model}, designs, setup));
    const double best = findings.best().score;
    if (report.exact && o.compare) {
      FORETRACE_ASSIGN_OR_RETURN(const ArchitectResult early,
                                 SearchByHysteresis({model}, designs, setup, o.hysteresis));
      findings.hysteresis_loss = 1 - early.evaluated[early.best].score / best;
    }
    reference.push_back(findings.best().plans[0].throughput);
    report.models.push_back(std::move(findings));
  }
  setup.reference = reference;
  report.common = report.models[0].search;
  if (models.size() > 1) {
    FORETRACE_ASSIGN_OR_RETURN(report.common, Search(o, models, designs, setup));
  }
  for (size_t m = 0; m < models.size(); ++m) {
    report.models[m].common = report.best().plans[m];
  }
  return report;
}

absl::Status Architect(const ArchitectOptions& o, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const ArchitectReport report, Run(o, context));
  if (!o.output.empty()) FORETRACE_RETURN_IF_ERROR(WriteFiles(o, report, context));
  if (o.json) return context.console->PrintJson("architect", ArchitectJson(report));
  return context.console->Print(FormatArchitect(report, context.console->style()));
}

void AddSearchOptions(CLI::App& command, ArchitectOptions& o) {
  command
      .add_option("--search", o.search,
                  "exact: every design, by bounds; hysteresis: from the largest area down, until "
                  "throughput falls")
      ->check(CLI::IsMember({"exact", "hysteresis"}))
      ->capture_default_str();
  command.add_option("--hysteresis", o.hysteresis, "buckets of area in a row that must not rise")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_flag("--compare", o.compare,
                   "with --search exact: also what hysteresis would have lost");
  command.add_option("--objective", o.objective, "what the best design has most of")
      ->check(CLI::IsMember({"throughput", "per-area"}))
      ->capture_default_str();
  command.add_option("--nodes", o.nodes, "states that the schedule of one layer may search")
      ->check(CLI::Range(int64_t{0}, int64_t{100'000'000}))
      ->capture_default_str();
  command.add_option("--jobs", o.jobs, "threads; 0: as many as processors")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace

void AddArchitectCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ArchitectOptions>();
  CLI::App* command = app.add_subcommand(
      "architect", "the accelerator that trains models fastest, with the placement of each");
  command->add_option("models", o->models, "model files, or names of those that ship")->required();
  command->add_option("--space", o->space, "accelerators to choose from: a file, or phaze")
      ->capture_default_str();
  command->add_option("--devices", o->devices, "accelerators to train on")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--hbm", o->hbm_gib, "GiB of each accelerator")
      ->required()
      ->check(CLI::Range(1e-3, 1e6));
  command->add_option("--global-batch", o->global_batch, "samples of an iteration")
      ->required()
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--widths", o->widths, "tensor-parallel widths to try")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--micro-batches", o->micro_batches, "micro-batches to try")
      ->delimiter(',')
      ->capture_default_str();
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
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return Architect(*o, context); }; });
}

}  // namespace foretrace
