#include <algorithm>
#include <memory>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/capture/traced_model.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/exporters/chakra/portability.h"
#include "simulator/planning/files/trace_files.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

struct ConvertOptions {
  TraceOptions traces;
  std::string output;
  std::string prefix = "trace";
  std::string workload;
  TracedModelOptions model;
  bool check = false;
  bool json = false;
};

// What was written, for a person and for a program.
struct Written {
  std::string text;
  rapidjson::StringBuffer buffer;
  JsonWriter json{buffer};
  bool portable = true;
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
  for (const std::string& note : model.notes) out.text += "Note: " + note + "\n";
  return absl::OkStatus();
}

// What the export changes for other simulators, and rests on.
void DescribeView(const CommView& view, Written& out) {
  const auto inferred =
      std::ranges::count_if(view.groups, [](const auto& g) { return !g.declared; });
  out.json.Key("communication");
  out.json.StartObject();
  out.json.Field("groups", static_cast<int64_t>(view.groups.size()));
  out.json.Field("inferred_groups", static_cast<int64_t>(inferred));
  out.json.Field("collectives", view.collectives);
  out.json.Field("unequal_sizes", view.unequal_sizes);
  out.json.Field("replayed", view.replayed);
  out.json.Field("contradictory", view.contradictory);
  out.json.Field("unmatched_because", view.unmatched_because);
  out.json.Field("doubts", view.doubts);
  out.json.EndObject();
  const auto say = [&out](bool when, std::string text) {
    if (when) out.text += std::move(text) + "\n";
  };
  say(!view.groups.empty(),
      fmt::format("communication: {} collectives, groups besides that of all ranks: {}",
                  view.collectives, view.groups.size()));
  say(inferred > 0,
      fmt::format("Note: of these groups {} inferred from the recording, not declared "
                  "(foretrace.inferred_group says by what)",
                  inferred));
  say(view.unequal_sizes > 0,
      fmt::format("Note: collectives of unequal size on their ranks: {}; comm_size is the largest, "
                  "exact sizes are in foretrace.comm",
                  view.unequal_sizes));
  say(view.replayed > 0,
      fmt::format("Note: communications without a partner in the traces or a form in "
                  "the schema: {}, written as the time they took",
                  view.replayed));
  say(view.contradictory > 0,
      fmt::format("Note: {} operations have no order that all ranks share: a simulator may stall",
                  view.contradictory));
  say(!view.unmatched_because.empty(),
      "Note: no groups were inferred and no sizes made equal: " + view.unmatched_because);
  for (const std::string& doubt : view.doubts) out.text += "Note: " + doubt + "\n";
}

void WriteGroups(const CommView& view, JsonWriter& json) {
  json.Key("groups");
  json.StartArray();
  for (const CommView::Group& group : view.groups) {
    json.StartObject();
    json.Field("number", static_cast<int64_t>(group.number));
    json.Field("name", group.name);
    json.Field("declared", group.declared);
    json.Field("matched_by", Name(group.matched_by));
    json.Key("ranks");
    json.StartArray();
    for (const int32_t rank : group.ranks) json.Int(rank);
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
}

absl::Status Check(const TraceStore& store, const CommView& view, Written& out) {
  FORETRACE_ASSIGN_OR_RETURN(const Portability found, CheckPortability(store, view));
  out.text += fmt::format(
      "as another simulator reads it: {} nodes; {} collectives, {} sends, {} receives\n"
      "  {} nodes never run; {} collectives may overtake another of their group; {} communications "
      "of 0 bytes; {} work nodes without duration\n",
      found.nodes, found.collectives, found.sends, found.receives, found.never_run, found.unordered,
      found.without_size, found.without_duration);
  for (const CommView::Group& group : view.groups) {
    out.text += fmt::format(
        "  group {}: {} ranks, {}{}\n", group.number, group.ranks.size(), group.name,
        group.declared ? "" : fmt::format(" (inferred, matched by {})", Name(group.matched_by)));
  }
  out.json.Key("check");
  out.json.StartObject();
  out.json.Field("nodes", found.nodes);
  out.json.Field("collectives", found.collectives);
  out.json.Field("sends", found.sends);
  out.json.Field("receives", found.receives);
  out.json.Field("never_run", found.never_run);
  out.json.Field("unordered", found.unordered);
  out.json.Field("without_size", found.without_size);
  out.json.Field("without_duration", found.without_duration);
  out.json.Field("unsupported", found.unsupported);
  out.json.Field("problems", found.problems);
  WriteGroups(view, out.json);
  out.json.EndObject();
  for (const std::string& problem : found.problems) out.text += "problem: " + problem + "\n";
  out.portable = found.ok();
  return absl::OkStatus();
}

absl::Status RunConvert(const ConvertOptions& options, const CommandContext& context) {
  if (options.output.empty() && options.workload.empty() && !options.check) {
    return InvalidInput(
        "nothing to do: give -o DIR for Chakra traces, --workload FILE.yaml, or --check");
  }
  FORETRACE_RETURN_IF_ERROR(CheckFileName(options.prefix, "--prefix"));
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  Written out;
  out.json.StartObject();
  if (!options.workload.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteWorkload(store, options, out));
  }
  CommView view;
  if (!options.output.empty() || options.check) view = ViewCommunication(store);
  if (!options.output.empty()) {
    FORETRACE_RETURN_IF_ERROR(
        WriteChakra(store, view, options.output, TraceFiles(options.prefix, context)));
    out.text +=
        fmt::format("wrote {} rank{}, {} nodes, to {}\n", store.ranks().size(),
                    store.ranks().size() == 1 ? "" : "s", store.node_count(), options.output);
    out.json.Field("output", options.output);
    out.json.Field("ranks", static_cast<int64_t>(store.ranks().size()));
    out.json.Field("nodes", static_cast<int64_t>(store.node_count()));
    DescribeView(view, out);
  }
  if (options.check) FORETRACE_RETURN_IF_ERROR(Check(store, view, out));
  out.json.EndObject();
  const std::string document(out.buffer.GetString(), out.buffer.GetSize());
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("convert", [&] { return document; }));
  FORETRACE_RETURN_IF_ERROR(options.json ? context.console->PrintJson("convert", document)
                                         : context.console->Print(out.text));
  if (out.portable) return absl::OkStatus();
  return Infeasible("--check: another simulator would not run these files to their end");
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
  command->add_flag(
      "--check", options->check,
      "what another simulator finds in the files: groups, sizes, order, pairs of send "
      "and receive, durations; exits 3 where it would not come to an end");
  command->add_option("--prefix", options->prefix, "files are PREFIX.RANK.et")
      ->capture_default_str();
  command
      ->add_option("--workload", options->workload,
                   "write the operators of one rank's training iteration, with FLOP, bytes, "
                   "parameters and their backward passes, as a workload for search and generate")
      ->group(kOutputGroup)
      ->type_name("FILE.yaml");
  command->add_option("--rank", options->model.rank, "with --workload: which (default: the first)")
      ->needs("--workload");
  command
      ->add_option("--iteration", options->model.iteration,
                   "with --workload: which (default: the first that is marked)")
      ->needs("--workload");
  command
      ->add_option("--samples", options->model.samples,
                   "with --workload: what one iteration of a rank trains on; the workload is per "
                   "sample")
      ->needs("--workload")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->footer(Examples({
      "foretrace convert kineto/ et/ -o chakra/",
      "foretrace convert run1.tar.gz -o chakra/ --prefix run1 --check",
      "foretrace convert kineto/ et/ --workload model.yaml --samples 256",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunConvert(*options, context); };
  });
}

}  // namespace foretrace
