#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"
#include "simulator/cli/trace_options.h"
#include "simulator/cli/traced_model.h"
#include "simulator/exporters/atomic_file.h"
#include "simulator/exporters/chakra/chakra_writer.h"

namespace foretrace {
namespace {

struct ConvertOptions {
  TraceOptions traces;
  std::string output;
  std::string prefix = "trace";
  std::string workload;
  TracedModelOptions model;
};

absl::Status WriteWorkload(const TraceStore& store, const ConvertOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const TracedModel model, ModelOfTrace(store, options.model));
  AtomicFile file(options.workload);
  file.Append(WorkloadYaml(model));
  FORETRACE_RETURN_IF_ERROR(file.Commit());
  const Workload& w = model.workload;
  std::string text = fmt::format(
      "wrote {} operators, {} edges, to {}\nparameters {} in {} tensors; GFLOP a sample: forward "
      "{:.4g}, backward {:.4g}\n{} of {} backward calls have their forward operator in the graph\n",
      w.operators.size(), w.edges.size(), options.workload, w.ParameterCount(),
      model.parameter_tensors, w.ForwardFlop().count() * 1e-9,
      (w.ModelFlop().count() - w.ForwardFlop().count()) * 1e-9,
      model.backward_calls - model.unmatched_calls, model.backward_calls);
  for (const std::string& note : model.notes) text += "note: " + note + "\n";
  return Print(text);
}

absl::Status RunConvert(const ConvertOptions& options) {
  if (options.output.empty() && options.workload.empty()) {
    return InvalidInput("nothing to write: give -o DIR for Chakra traces, or --workload FILE.yaml");
  }
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, options.traces.Load());
  if (!options.workload.empty()) FORETRACE_RETURN_IF_ERROR(WriteWorkload(store, options));
  if (options.output.empty()) return absl::OkStatus();
  ChakraWriterOptions writer;
  writer.prefix = options.prefix;
  FORETRACE_RETURN_IF_ERROR(WriteChakra(store, options.output, writer));
  return Print(fmt::format("wrote {} rank{}, {} nodes, to {}\n", store.ranks().size(),
                           store.ranks().size() == 1 ? "" : "s", store.node_count(),
                           options.output));
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "any accepted input to Chakra .et, execution trace and Kineto linked into one; or "
      "its operator graph to a workload");
  options->traces.Register(*command, true);
  command->add_option("-o,--output", options->output, "folder to write to")->type_name("DIR");
  command->add_option("--prefix", options->prefix, "files are PREFIX.RANK.et")
      ->capture_default_str();
  command
      ->add_option("--workload", options->workload,
                   "write the operators of one rank's training iteration, with FLOP, bytes, "
                   "parameters and their backward passes, as a workload for search and generate")
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
  command->callback(
      [options, &context] { context.run = [options] { return RunConvert(*options); }; });
}

}  // namespace foretrace
