#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/dataflow/files.h"
#include "simulator/dataflow/mapping_plan.h"
#include "simulator/dataflow/mapping_report.h"
#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/plan/lowering.h"
#include "simulator/planning/dataflow/dataflow_kernels.h"
#include "simulator/planning/dataflow/time_text.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/report/text_table.h"

namespace foretrace {
namespace {

struct DataflowOptions {
  std::string workload, system, mapping, picture, traces, kernels, device;
  std::string formulas = "physical", all_reduce, overlap = "machine";
  double utilisation = 0.9;
  std::optional<int64_t> batch;
  int64_t tiles = 0;
  bool cycles = false, forward = false, tensor_parallel = false, sizes_only = false, json = false;
};

absl::StatusOr<dataflow::Formulas> FormulasOf(const DataflowOptions& o) {
  dataflow::Formulas f;
  FORETRACE_ASSIGN_OR_RETURN(f.iteration, dataflow::ParseIterationRule(o.formulas));
  FORETRACE_ASSIGN_OR_RETURN(
      f.all_reduce, dataflow::ParseAllReduce(o.all_reduce.empty() ? o.formulas : o.all_reduce));
  f.overlap = o.overlap == "overlap"      ? dataflow::Overlap::kMaximum
              : o.overlap == "nonoverlap" ? dataflow::Overlap::kSum
                                          : dataflow::Overlap::kByMachine;
  f.compute_utilisation = o.cycles ? 0 : o.utilisation;
  return f;
}

absl::Status UseRoles(const std::vector<dataflow::Role>& roles, const std::string& file,
                      dataflow::System& system) {
  if (roles.empty()) return absl::OkStatus();
  if (roles.size() != system.dimensions.size()) {
    return InvalidInput("{}: {} roles; system {} has {} dimensions", file, roles.size(),
                        system.name, system.dimensions.size());
  }
  for (size_t i = 0; i < roles.size(); ++i) system.dimensions[i].role = roles[i];
  return absl::OkStatus();
}

std::string ShardingProof(const dataflow::MappedWorkload& m) {
  if (m.shardings_given) return "";
  if (m.gap() < 1e-9) return ", shardings too";
  return fmt::format(", other shardings at most {:.2g} % faster", 100 * m.gap() / (1 + m.gap()));
}

// In the words of parallel mappings (docs/search.md).
std::string SchemeWords(const dataflow::Mapping& m) {
  std::string text;
  if (m.scheme.chunks > 1) text += fmt::format(" v{}", m.scheme.chunks);
  if (m.scheme.zero > 0) text += fmt::format(" zero{}", m.scheme.zero);
  if (m.scheme.overlap_gradients) text += " overlap";
  return text;
}

std::string_view Recomputed(Recompute recompute) {
  return recompute == Recompute::kFull        ? ", recomputed"
         : recompute == Recompute::kSelective ? ", attention recomputed"
                                              : "";
}

std::string DataflowText(const dataflow::Workload& w, const dataflow::System& system,
                         const dataflow::MappedWorkload& m, TextStyle style) {
  using Align = TextTable::Align;
  TextTable table({{"partition"},
                   {"kernels", Align::kLeft, true},
                   {"compute us"},
                   {"memory us"},
                   {"network us"},
                   {"time us"},
                   {"bound", Align::kLeft},
                   {"SRAM MB"}});
  const auto us = [](double ns) { return fmt::format("{:.1f}", ns * 1e-3); };
  for (size_t p = 0; p < m.partitioning.partitions.size(); ++p) {
    const dataflow::Partition& part = m.partitioning.partitions[p];
    table.AddRow({fmt::format("{}", p + 1), fmt::format("{}", fmt::join(KernelNames(w, part), " ")),
                  us(part.compute.ns()), us(part.memory.ns()), us(part.network.ns()),
                  us(part.time.ns()), std::string(BoundOf(part)),
                  fmt::format("{:.1f}", part.sram_bytes.count() * 1e-6)});
  }
  std::string text =
      fmt::format("Verdict: {} on {} ({} chips) takes {} an iteration, {:.2f} % of peak\n", w.name,
                  system.name, system.chips(), TimeText(m.time.total.ns()), 100 * m.utilisation);
  text += fmt::format(
      "tp{} pp{} dp{}{}, {:g} micro-batches of {:g}, {} tiles{}; {} layers a stage, {:.4g} GB of "
      "DRAM a chip\n",
      m.mapping.tensor, m.mapping.pipeline, m.mapping.data, SchemeWords(m.mapping), m.micro_batches,
      m.mapping.micro_batch, m.mapping.tiles, Recomputed(m.mapping.recompute), m.layers_per_stage,
      m.dram.count() * 1e-9);
  text +=
      fmt::format("a layer's micro-batch {}; bubble {}, transfers {}, gradients {}, optimizer {}\n",
                  TimeText(m.time.pass.ns()), TimeText(m.time.bubble.ns(), 4),
                  TimeText(m.time.transfer.ns(), 4), TimeText(m.time.gradient.ns(), 4),
                  TimeText(m.time.optimizer.ns(), 4));
  if (m.candidates > 0) {
    const double gap =
        m.partitioning.bound > RealNs() ? m.partitioning.time / m.partitioning.bound - 1 : 0;
    const std::string whole =
        m.gap() < 1e-9 ? ""
                       : fmt::format(", the iteration {:.3g} % above any mapping's", 100 * m.gap());
    text += m.proven()
                ? fmt::format(
                      "the best of {} candidates, {} passed over by their bound; partitions "
                      "proven{}\n",
                      m.candidates, m.pruned, ShardingProof(m))
                : fmt::format("of {} candidates; partitions at most {:.2f} % above the best{}\n",
                              m.candidates, 100 * gap, whole);
  }
  return text + table.Format(style);
}

absl::Status WriteTraces(const DataflowOptions& o, const dataflow::Workload& workload,
                         const dataflow::System& system, const dataflow::MappedWorkload& mapped,
                         const CommandContext& context) {
  const auto progress = [&](std::string_view what) {
    return [&console = *context.console, what](int64_t done, int64_t all) {
      console.Progress(what, done, all);
    };
  };
  FORETRACE_ASSIGN_OR_RETURN(const JobPlan plan, dataflow::PlanOf(workload, system, mapped));
  FORETRACE_ASSIGN_OR_RETURN(
      const TraceStore store,
      Lower(plan, {!o.sizes_only, SimTime(), progress("chips"), context.stop}));
  return WriteChakra(store, o.traces, {"trace", context.inputs, context.stop, progress("traces")});
}

// How the first dimension, which --kernels takes for a node, connects its chips.
InterconnectKind WithinNode(const dataflow::System& system) {
  for (const dataflow::SystemDimension& d : system.dimensions) {
    if (d.network.size <= 1) continue;
    const bool switched = d.network.kind == dataflow::NetworkKind::kSwitch && !d.network.per_group;
    return switched ? InterconnectKind::kSwitch : InterconnectKind::kNone;
  }
  return InterconnectKind::kNone;
}

absl::StatusOr<std::unique_ptr<dataflow::KernelTimes>> KernelTimesOf(
    const DataflowOptions& o, const dataflow::System& system,
    const AcceleratorCatalog& accelerators) {
  if (system.chip.execution == dataflow::Execution::kDataflow) {
    return InvalidInput("--kernels: measured kernels run one at a time; system {} fuses them",
                        system.name);
  }
  const std::string& name = o.device.empty() ? system.chip.name : o.device;
  const Accelerator* device = accelerators.Find(name);
  if (device == nullptr) return accelerators.Unknown(name);
  std::vector<std::string> notes;
  return FindKernelTimes(o.kernels, *device, WithinNode(system), notes);
}

absl::Status RunDataflow(const DataflowOptions& o, const CommandContext& context) {
  std::vector<std::string> notes;
  FORETRACE_ASSIGN_OR_RETURN(const std::string workload_file, FindWorkload(o.workload, notes));
  FORETRACE_ASSIGN_OR_RETURN(dataflow::Workload workload, dataflow::LoadWorkload(workload_file));
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators, AcceleratorCatalog::Load());
  FORETRACE_ASSIGN_OR_RETURN(const std::string system_file,
                             FindShipped(dataflow::kSystems, o.system));
  FORETRACE_ASSIGN_OR_RETURN(dataflow::System system,
                             dataflow::LoadSystem(system_file, accelerators));
  FORETRACE_ASSIGN_OR_RETURN(dataflow::Formulas formulas, FormulasOf(o));
  std::unique_ptr<dataflow::KernelTimes> kernels;
  if (!o.kernels.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(kernels, KernelTimesOf(o, system, accelerators));
    formulas.kernel_times = kernels.get();
  }
  if (o.batch) workload.batch = static_cast<double>(*o.batch);
  if (o.forward) workload = dataflow::ForwardOf(workload);
  dataflow::GivenMapping given;
  if (!o.mapping.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(given, LoadMapping(workload, o.mapping));
    FORETRACE_RETURN_IF_ERROR(UseRoles(given.roles, o.mapping, system));
  }
  if (o.tiles > 0) given.limits.tiles = o.tiles;
  if (o.tensor_parallel) given.limits.megatron = dataflow::SearchLimits::Megatron::kTensor;
  FORETRACE_ASSIGN_OR_RETURN(const dataflow::MappedWorkload mapped,
                             Optimise(workload, system, formulas, given.limits));
  if (!o.picture.empty())
    FORETRACE_RETURN_IF_ERROR(WriteFile(o.picture, MappingSvg(workload, mapped)));
  if (!o.traces.empty())
    FORETRACE_RETURN_IF_ERROR(WriteTraces(o, workload, system, mapped, context));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer(
      "dataflow", [&] { return MappingJson(workload, system, mapped, notes); }));
  if (o.json) {
    return context.console->PrintJson("dataflow", MappingJson(workload, system, mapped, notes));
  }
  std::string text = DataflowText(workload, system, mapped, context.console->style());
  for (const std::string& note : notes) text += "Note: " + note + "\n";
  return context.console->Print(text);
}

void RegisterModel(CLI::App& command, DataflowOptions& o) {
  command
      .add_option(
          "--formulas", o.formulas,
          "how partitions add up to an iteration; the published dse and early are for comparison")
      ->check(CLI::IsMember({"physical", "dse", "early"}))
      ->capture_default_str();
  command
      .add_option("--all-reduce", o.all_reduce,
                  "formula of all-reduces (default: that of --formulas)")
      ->check(CLI::IsMember({"physical", "paper", "early", "dse", "latest"}));
  command
      .add_option("--overlap", o.overlap,
                  "compute, memory and network of a partition: at once or one after another")
      ->check(CLI::IsMember({"machine", "overlap", "nonoverlap"}))
      ->capture_default_str();
  auto* utilisation =
      command.add_option("--utilisation", o.utilisation, "share of the peak that kernels reach")
          ->check(CLI::Range(0.01, 1.0))
          ->capture_default_str();
  command
      .add_option("--kernels", o.kernels,
                  "measured kernels, and all-reduces within the first dimension where it is a "
                  "switch, instead of a share of the peak and of formulas: a calibration folder, "
                  "or the name of one in calibration/; for chips that run kernel by kernel")
      ->type_name("DIR|NAME");
  command
      .add_option("--device", o.device,
                  "the accelerator that --kernels is of (default: the chip's name)")
      ->type_name("NAME")
      ->needs("--kernels");
  command
      .add_flag("--cycles", o.cycles,
                "cycles of the chip's tiles, shared among kernels, instead of a share of the peak")
      ->excludes(utilisation);
}

}  // namespace

void AddDataflowCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<DataflowOptions>();
  CLI::App* command = app.add_subcommand(
      "dataflow",
      "the best mapping of a workload graph onto chips: shardings, pipeline, fused partitions");
  command->add_option("workload", o->workload, "workload file or name (docs/dataflow.md)")
      ->required();
  command->add_option("--system", o->system, "system file or name: chip, memory, network")
      ->required()
      ->type_name("SYSTEM");
  command
      ->add_option("--mapping", o->mapping, "evaluate this mapping; what it leaves out is chosen")
      ->type_name("FILE");
  command->add_option("--batch", o->batch, "samples of an iteration, instead of the workload's")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000'000}));
  command->add_flag("--forward", o->forward, "the forward pass alone");
  command
      ->add_option("--tiles", o->tiles,
                   "pieces that the tiled axis is cut into (default: the best)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command->add_flag("--tensor-parallel", o->tensor_parallel,
                    "shard along heads and the inner FFN size, as Megatron, instead of solving");
  RegisterModel(*command, *o);
  command->add_option("--picture", o->picture, "draw the partitioned graph (SVG)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command
      ->add_option("--write-traces", o->traces,
                   "write the mapping as Chakra traces, one a chip, for predict to run")
      ->group(kOutputGroup)
      ->type_name("DIR");
  command
      ->add_flag("--sizes-only", o->sizes_only,
                 "communication of those traces without durations, for a network model to give")
      ->needs("--write-traces");
  command->add_flag("--json", o->json, "one JSON document on standard output");
  command->footer(Examples({
      "foretrace dataflow gpt3-175b --system sn10-8 --batch 2304 --forward",
      "foretrace dataflow gpt3-175b --system sn10-8 --batch 2304 --forward --formulas dse "
      "--mapping vendor.yaml",
      "foretrace dataflow gpt3-175b --system sn10-4x2 --batch 2304 --forward --picture graph.svg "
      "--json",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunDataflow(*o, context); }; });
}

}  // namespace foretrace
