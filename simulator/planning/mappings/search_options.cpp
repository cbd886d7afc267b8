#include "simulator/planning/mappings/search_options.h"

#include <limits>
#include <string_view>

#include "simulator/base/dtype.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/options.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {
namespace {

// Nor are those of what the stack decides.
absl::Status CheckBesideStack(const SearchCommandOptions& o, const TrainingJob& job) {
  if (!job.software) return absl::OkStatus();
  const std::string decided = o.first_given({"--overlap", "--dispatch", "--ep-overlap"});
  if (!decided.empty()) {
    return InvalidInput(
        "{} would change nothing: {} says by itself what it does; words of "
        "--compare stand over it",
        decided, job.software->stack);
  }
  const StackRelease& release = job.software->release;
  const int32_t least = release.pipelines_keep_weights ? std::min(release.zero, 1) : release.zero;
  if (!o.first_given({"--max-zero"}).empty() && o.space.max_zero < least) {
    return InvalidInput("--max-zero {} would change nothing: {} divides as zero{} does",
                        o.space.max_zero, job.software->stack, least);
  }
  return absl::OkStatus();
}

// The device has units for what GEMMs shall take.
absl::Status CheckFormats(const SearchCommandOptions& o, const TrainingJob& job) {
  for (const std::string& format : o.formats) {
    if (format == Name(GemmFormat::kModel)) continue;
    const bool by_block = format != Name(GemmFormat::kFp8);
    if (by_block ? job.cluster.four_bit_share == 0 : !job.eight_bit_gemms) {
      return Infeasible(
          "--precision {}: the device of {} has no units for it, as its file states no {} rate{}",
          format, o.job.platform, by_block ? "fp4" : "fp8",
          by_block && job.eight_bit_gemms ? "; fp8 would do" : "");
    }
    if (by_block && ElementSize(job.model.workload.dtype) > 2) {
      return Infeasible("--precision {}: operands are cast from 16 bits, and the model has {}",
                        format, 8 * ElementSize(job.model.workload.dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SearchCommandOptions::Check(const TrainingJob& training) const {
  if (!timeline.empty()) FORETRACE_RETURN_IF_ERROR(CheckTimelineName(timeline));
  if (!compare.empty()) {
    const std::string given =
        first_given({"--searcher", "--max-tensor", "--max-micro-batch", "--max-chunks",
                     "--max-context", "--max-zero", "--overlap", "--schedules", "--precision",
                     "--dispatch", "--ep-overlap", "--steps", "--seed", "--top", "--journal"});
    if (given.empty()) return absl::OkStatus();
    return InvalidInput("{} would change nothing: --compare searches for no mapping", given);
  }
  const auto check = [&](std::initializer_list<const char*> names, std::string_view which,
                         bool runs) -> absl::Status {
    const std::string given = first_given(names);
    if (runs || given.empty()) return absl::OkStatus();
    return InvalidInput("{} would change nothing: {} not run", given, which);
  };
  const bool parallel = HasParallelMappings(training);
  const bool local = parallel && Wanted(*this, training, "local", true);
  const bool any = local || (parallel && Wanted(*this, training, "exhaustive", true));
  const bool divides =
      Wanted(*this, training, "piper", false) || Wanted(*this, training, "phaze", false);
  FORETRACE_RETURN_IF_ERROR(
      check({"--max-tensor"}, "it is of the searchers exhaustive, local, piper and phaze, which do",
            any || divides));
  FORETRACE_RETURN_IF_ERROR(
      check({"--max-micro-batch", "--max-chunks", "--max-context", "--max-zero", "--overlap",
             "--schedules", "--precision", "--dispatch", "--ep-overlap", "--journal"},
            "it is of the searchers exhaustive and local, which do", any));
  const bool experts = training.model.transformer && training.model.transformer->experts > 0;
  const std::string of_experts = first_given({"--dispatch", "--ep-overlap"});
  if (!experts && !of_experts.empty()) {
    return InvalidInput("{} would change nothing: the model has no experts", of_experts);
  }
  FORETRACE_RETURN_IF_ERROR(
      check({"--steps", "--seed"}, "it is of the searcher local, which does", local));
  FORETRACE_RETURN_IF_ERROR(CheckFormats(*this, training));
  return CheckBesideStack(*this, training);
}

namespace {

void RegisterSpace(CLI::App& command, SearchCommandOptions& o) {
  command.add_option("--max-tensor", o.space.max_tensor, "largest tensor parallelism")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--max-micro-batch", o.space.max_micro_batch, "largest micro-batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-chunks", o.space.max_chunks, "most model chunks a stage (interleaving)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--max-context", o.space.max_context, "largest context parallelism")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-zero", o.space.max_zero,
                  "ZeRO stages up to this one; of 3 also within each node (hsdpN)")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  command.add_flag("--overlap", o.space.overlap_gradients,
                   "also with gradients reduced during the backward pass");
  command
      .add_option("--schedules", o.schedules,
                  "1f1b (also interleaved), gpipe, kfkb, zb-h1, zb-v, dualpipe, dualpipev, with "
                  "commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"1f1b", "gpipe", "kfkb", "zb-h1", "zb-v", "dualpipe", "dualpipev"}))
      ->capture_default_str();
  command
      .add_option("--precision", o.formats,
                  "what GEMMs of layers take: model (as the workload says), fp8, mxfp8 (scales by "
                  "blocks), nvfp4; all of a list are ranked together")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(EnumNames<GemmFormat>()))
      ->capture_default_str();
  command
      .add_option(
          "--dispatch", o.dispatches,
          "how tokens go to experts on other devices: alltoall, deepep, hybridep, allgather")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(EnumNames<ExpertDispatch>()))
      ->capture_default_str();
  command.add_flag("--ep-overlap", o.space.overlap_experts,
                   "also with that beside another micro-batch's kernels");
}

// What is shown and written.
void RegisterHost(CLI::App& command, SearchCommandOptions& o) {
  command
      .add_option("--cpu-scale", o.cpu_scale,
                  "the CPU takes so many times as long to start a step's work as on the host that "
                  "the stack's software was measured on")
      ->check(CLI::Range(1e-3, 1e3));
}

void RegisterOutput(CLI::App& command, SearchCommandOptions& o) {
  command.add_option("--top", o.top, "mappings to show")->capture_default_str();
  command
      .add_option("--jobs", o.jobs, "threads (default: one per processor); the answer is the same")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--compare", o.compare,
                  "evaluate these mappings instead, of which two are set side by side: files, or "
                  "words such as 'tp8 pp4 dp2 mb1', also those that no search tries by itself "
                  "(docs/search.md)")
      ->type_name("MAPPING");
  command
      .add_option("--journal", o.journal,
                  "keep evaluations here; after Ctrl-C the same command goes on")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_option("-o,--mapping-out", o.mapping_out, "write the best mapping, for generate")
      ->group(kOutputGroup)
      ->type_name("FILE.yaml");
  command.add_flag("--picture", o.picture, "print the best mapping's pipeline");
  command.add_flag("--memory", o.memory,
                   "print when and by what the memory of its stages is fullest");
  command.add_flag("--energy", o.energy,
                   "also the energy of an iteration, at most: by the devices' rated power");
  command.add_option("--svg", o.svg, "write that picture")
      ->group(kOutputGroup)
      ->type_name("FILE.svg");
  command
      .add_option("--timeline", o.timeline,
                  "write it for ui.perfetto.dev (.json or .pftrace; .gz behind either)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_flag("--json", o.json, "one JSON document instead of tables");
}

}  // namespace

void SearchCommandOptions::Register(CLI::App& command) {
  job.Register(command);
  first_given = [&command](std::initializer_list<const char*> names) {
    return command.FirstGiven(names);
  };
  command
      .add_option("--searcher", searchers,
                  "exhaustive, local (transformers; the default), graphpipe, sequential, "
                  "pipedream, piper, phaze (stage graphs; the default for other models), all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"exhaustive", "local", "graphpipe", "sequential", "pipedream", "piper",
                             "phaze", "all"}));
  RegisterSpace(command, *this);
  command.add_option("--steps", steps, "of the local search")->check(CLI::Range(0, 10'000'000));
  command.add_option("--seed", seed, "of the local search")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  command
      .add_option("--network", network,
                  "also simulate the mappings to show with communication from a network model "
                  "(predict --network), and order them by that: fitted, fluid, simgrid")
      ->check(CLI::IsMember({"fitted", "fluid", "simgrid"}));
  RegisterHost(command, *this);
  RegisterOutput(command, *this);
}

}  // namespace foretrace
