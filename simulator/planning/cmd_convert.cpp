#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/planning/traced_model.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

struct ConvertOptions {
  TraceOptions traces;
  std::string output;
  std::string prefix = "trace";
  std::string workload;
  TracedModelOptions model;
  bool json = false;
};

// What was written, for a person and for a program.
struct Written {
  std::string text;
  rapidjson::StringBuffer buffer;
  JsonWriter json{buffer};
};

absl::Status WriteWorkload(const TraceStore& store, const ConvertOptions& options, Written& out) {
  FORETRACE_ASSIGN_OR_RETURN(const TracedModel model, ModelOfTrace(store, options.model));
  FORETRACE_RETURN_IF_ERROR(WriteFile(options.workload, WorkloadYaml(model)));
  const Workload& w = model.workload;
  out.json.Key("workload");
  out.json.StartObject();
  out.json.Field("file", options.workload);
  out.json.Field("operators", static_cast<int64_t>(w.operators.size()));
  out.json.Field("edges", static_cast<int64_t>(w.edges.size()));
  out.json.Field("parameters", static_cast<int64_t>(w.ParameterCount()));
  out.json.Field("backward_calls", static_cast<int64_t>(model.backward_calls));
  out.json.Field("unmatched_backward_calls", static_cast<int64_t>(model.unmatched_calls));
  out.json.Field("notes", model.notes);
  out.json.EndObject();
  out.text += fmt::format(
      "wrote {} operators, {} edges, to {}\nparameters {} in {} tensors; GFLOP a sample: forward "
      "{:.4g}, backward {:.4g}\n{} of {} backward calls have their forward operator in the graph\n",
      w.operators.size(), w.edges.size(), options.workload, w.ParameterCount(),
      model.parameter_tensors, w.ForwardFlop().count() * 1e-9,
      (w.ModelFlop().count() - w.ForwardFlop().count()) * 1e-9,
      model.backward_calls - model.unmatched_calls, model.backward_calls);
  for (const std::string& note : model.notes) out.text += "note: " + note + "\n";
  return absl::OkStatus();
}

absl::Status RunConvert(const ConvertOptions& options, const CommandContext& context) {
  if (options.output.empty() && options.workload.empty()) {
    return InvalidInput("nothing to write: give -o DIR for Chakra traces, or --workload FILE.yaml");
  }
  FORETRACE_RETURN_IF_ERROR(CheckFileName(options.prefix, "--prefix"));
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  Written out;
  out.json.StartObject();
  if (!options.workload.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteWorkload(store, options, out));
  }
  if (!options.output.empty()) {
    const ChakraWriterOptions writer{options.prefix, context.inputs, context.stop};
    FORETRACE_RETURN_IF_ERROR(WriteChakra(store, options.output, writer));
    out.text +=
        fmt::format("wrote {} rank{}, {} nodes, to {}\n", store.ranks().size(),
                    store.ranks().size() == 1 ? "" : "s", store.node_count(), options.output);
    out.json.Field("output", options.output);
    out.json.Field("ranks", static_cast<int64_t>(store.ranks().size()));
    out.json.Field("nodes", static_cast<int64_t>(store.node_count()));
  }
  out.json.EndObject();
  if (options.json) {
    return context.console->PrintJson("convert", {out.buffer.GetString(), out.buffer.GetSize()});
  }
  return context.console->Print(out.text);
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "any accepted input to Chakra .et, execution trace and Kineto linked into one; or "
      "its operator graph to a workload");
  options->traces.Register(*command, true);
  command->add_option("-o,--output", options->output, "folder to write to")
      ->group(kOutputGroup)
      ->type_name("DIR");
  command->add_flag("--json", options->json, "one JSON document instead of text");
  command->add_option("--prefix", options->prefix, "files are PREFIX.RANK.et")
      ->capture_default_str();
  command
      ->add_option("--workload", options->workload,
                   "write the operators of one rank's training iteration, with FLOP, bytes, "
                   "parameters and their backward passes, as a workload for search and generate")
      ->group(kOutputGroup)
      ->type_name("FILE.yaml");
  command->add_option("--rank", options->model.rank, "with --workload: which (default: the first)");
  command->add_option("--iteration", options->model.iteration,
                      "with --workload: which (default: the first that is marked)");
  command
      ->add_option("--samples", options->model.samples,
                   "with --workload: what one iteration of a rank trains on; the workload is per "
                   "sample")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->footer(Examples({
      "foretrace convert kineto/ et/ -o chakra/",
      "foretrace convert run1.tar.gz -o chakra/ --prefix run1",
      "foretrace convert kineto/ et/ --workload model.yaml --samples 256",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunConvert(*options, context); };
  });
}

}  // namespace foretrace
