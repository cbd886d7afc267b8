#include <array>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/planning/files/trace_files.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/report/time_unit.h"

namespace foretrace {
namespace {

struct GenerateCommandOptions {
  TrainingJobOptions job;
  std::string mapping;
  std::string output;
  std::string prefix = "trace";
  double launch_us = 0;
  bool sizes_only = false;
  bool json = false;
};

// How many nodes there are of each kind.
void WriteKinds(const TraceStore& store, JsonWriter& json) {
  std::array<int64_t, static_cast<size_t>(NodeKind::kCount)> counts{};
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t n = 0; n < rank.size(); ++n) {
      ++counts[static_cast<size_t>(rank.kind(NodeIndex(n)))];
    }
  }
  json.Key("kinds");
  json.StartArray();
  for (size_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] == 0) continue;
    json.StartObject();
    json.Field("kind", Name(static_cast<NodeKind>(kind)));
    json.Field("nodes", counts[kind]);
    json.EndObject();
  }
  json.EndArray();
}

std::string Json(const GenerateCommandOptions& o, const GeneratedJob& generated,
                 const std::vector<std::string>& notes) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("workload", o.job.workload);
  json.Field("mapping", o.mapping);
  json.Field("output", o.output);
  json.Field("ranks", static_cast<int64_t>(generated.store.ranks().size()));
  json.Field("nodes", static_cast<int64_t>(generated.store.node_count()));
  json.Field("iteration_time_us", generated.iteration.us());
  WriteKinds(generated.store, json);
  json.Field("notes", notes);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

absl::Status RunGenerate(const GenerateCommandOptions& o, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckFileName(o.prefix, "--prefix"));
  FORETRACE_ASSIGN_OR_RETURN(MappingFile mapping,
                             ReadMappingArgument(o.mapping, o.job.global_batch));
  TrainingJobOptions job_options = o.job;
  if (const auto* parallel = std::get_if<ParallelMapping>(&mapping)) {
    // The mapping says how many.
    if (job_options.gpus == 0) job_options.gpus = parallel->devices();
  }
  FORETRACE_ASSIGN_OR_RETURN(TrainingJob job, LoadTrainingJob(job_options));
  FORETRACE_ASSIGN_OR_RETURN(mapping,
                             ReadMappingArgument(o.mapping, o.job.global_batch, job, job.notes));
  LoweringOptions options;
  options.communication_durations = !o.sizes_only;
  options.launch = SimTime::FromUs(o.launch_us);
  FORETRACE_ASSIGN_OR_RETURN(const GeneratedJob generated, GenerateJob(job, mapping, options));
  FORETRACE_RETURN_IF_ERROR(WriteChakra(generated.store, o.output, TraceFiles(o.prefix, context)));
  const auto document = [&] { return Json(o, generated, job.notes); };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("generate", document));
  if (o.json) return context.console->PrintJson("generate", document());
  std::string text =
      fmt::format("Verdict: {} takes {} an iteration; {}\n", o.mapping,
                  TimeUnit(generated.iteration).Text(generated.iteration),
                  o.sizes_only ? "predict of these traces needs a --platform for the communication"
                  : o.launch_us > 0 ? "predict of these traces adds the launches by the CPU"
                                    : "predict of these traces says the same");
  text += fmt::format("wrote {} rank{}, {} nodes, to {}\n", generated.store.ranks().size(),
                      generated.store.ranks().size() == 1 ? "" : "s", generated.store.node_count(),
                      o.output);
  for (const std::string& note : job.notes) text += "Note: " + note + "\n";
  return context.console->Print(text);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<GenerateCommandOptions>();
  CLI::App* command =
      app.add_subcommand("generate", "per-rank Chakra traces of a model under a parallel mapping");
  o->job.Register(*command);
  command->add_option("--mapping", o->mapping, "a mapping file, or words such as 'tp8 pp4 dp2 mb1'")
      ->required()
      ->type_name("FILE|WORDS");
  command->add_option("-o,--output", o->output, "folder to write to")
      ->required()
      ->group(kOutputGroup)
      ->type_name("DIR");
  command->add_flag("--json", o->json, "one JSON document instead of text");
  command->add_option("--prefix", o->prefix, "files are PREFIX.RANK.et")->capture_default_str();
  command
      ->add_option("--launch-us", o->launch_us,
                   "write CPU calls that launch the work, each taking this long")
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag("--sizes-only", o->sizes_only,
                    "communication without durations, for a network model to give");
  command->footer(Examples({
      "foretrace generate traces/workloads/gpt-small.yaml --platform dgx-a100 --mapping 'tp2 pp2 "
      "dp2 "
      "mb1 gb16' -o traces/",
      "foretrace generate gpt.yaml --platform dgx-a100 --mapping best.yaml -o traces/ --sizes-only "
      "&& foretrace predict traces/ --platform dgx-a100 --network fluid",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunGenerate(*o, context); }; });
}

}  // namespace foretrace
