// What a row's software does.

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/mapping/training_row_division.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

// What most software does that no file describes.
StackRelease OfUnknownSoftware() {
  StackRelease release;
  release.fused_attention = release.sequence_parallel = true;
  release.overlap_tensor = release.overlap_gradients = true;
  release.further_tokens = true;
  return release;
}

// The version by year and month that a framework's name ends with ("NeMo 25.04"); empty: none.
// Others ("DeepSpeed 0.14.2") say nothing of when they were.
std::string VersionIn(const std::string& framework) {
  const std::string last = framework.substr(framework.find_last_of(" :@") + 1);
  const bool numbers = last.find_first_not_of("v.0123456789") == std::string::npos;
  const bool dated = last.find('.') == (last.starts_with('v') ? 3 : 2);
  return numbers && dated && last != framework ? last : "";
}

StackRun RunOf(const TrainingRow& row) {
  return {row.taken_as, row.config.experts > 0, row.accelerator};
}

// Nobody ran experts before the software had them, or anything before row.earliest.
void TakeNoOlder(const SoftwareStack& stack, const StackRelease*& release, TrainingRow& row) {
  const bool experts = row.config.experts > 0 && stack.experts_since > row.earliest;
  const std::string& since = experts ? stack.experts_since : row.earliest;
  if (since.empty()) return;
  const StackRelease& then = stack.At(since, RunOf(row));
  if (&then <= release) return;  // releases are in order
  release = &then;
  row.notes.push_back(fmt::format("software as of {}, when {}, as no date is stated", since,
                                  experts ? "it first had mixtures of experts" : row.earliest_as));
}

// Nor did anybody select what to recompute with software that recomputes whole layers alone.
void TakeThatSelects(const SoftwareStack& stack, const StackRelease*& release, TrainingRow& row) {
  if (release->selective != Recompute::kFull) return;
  for (const StackRelease& later : stack.releases) {
    if (&later <= release) continue;
    const StackRelease& then = stack.At(later.since, RunOf(row));
    if (&then <= release || then.selective == Recompute::kFull) continue;
    release = &then;
    row.notes.push_back(
        fmt::format("software as of {}, when it first recomputed selectively, as no date is stated",
                    then.since));
    return;
  }
}

const StackRelease* FindRelease(const Fields& f, std::span<const SoftwareStack> stacks,
                                TrainingRow& row) {
  const std::string framework = f.Text("framework");
  const std::string stated = f.States("date") ? f.Text("date") : VersionIn(framework);
  const std::string date = ReleaseDate(stated);
  row.stack = stated.empty() || framework.ends_with(stated) ? framework : framework + " " + stated;
  if (date.empty() && !stated.empty()) {
    NoteUnread(
        fmt::format("date '{}' is none (2025-03, March 2025, v25.03): taken as not stated", stated),
        row);
  }
  const SoftwareStack* stack = FindStack(stacks, framework, ShardingOf(f));
  const ParallelMapping& m = row.mapping;
  if (stack != nullptr && (m.tensor > 1 || m.pipeline > 1)) stack = ForModelParallel(stacks, stack);
  if (stack == nullptr) {
    row.notes.push_back(fmt::format("framework '{}': {}", framework, kUnknownSoftware));
    if (framework.empty()) row.stack = "not stated";
    return nullptr;
  }
  const StackRelease* release = &stack->At(date, RunOf(row));
  if (date.empty()) {
    TakeNoOlder(*stack, release, row);
    const bool selects =
        RecomputeIn(f.Text("recompute"), Recompute::kSelective) == Recompute::kSelective;
    if (selects) TakeThatSelects(*stack, release, row);
  }
  row.family = stack->name;
  row.release = release->since;
  return release;
}

void SetZero(const Fields& f, const StatedDivision& division, const std::string& sharding,
             TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const int32_t stated = division.zero;
  if (stated < 0 && !sharding.empty()) {
    NoteUnread(fmt::format("sharding '{}' is none that is known (ZeRO-1 to 3, FSDP, HSDP, DDP, "
                           "distributed optimizer): taken as the software divides by itself",
                           sharding),
               row);
  }
  if (NumberOf("zero", f.Text("mapping"))) return;
  // A distributed optimizer is the least that software of this kind divides.
  const bool least = stated < 0 || (stated == 1 && ToldOf(sharding, {"optim*"}) == Told::kYes);
  m.zero = least ? std::max(stated, row.software.zero) : stated;
  // Of PyTorch's devices that divide weights, or of software that no file describes, FSDP's are.
  const bool native =
      row.family.empty() || row.software.per_parameter_sharding || row.software.flat_parameters;
  if (stated < 0 && m.zero == 0 && native && division.by_columns && division.shards > 1) {
    m.zero = 3;
  }
  const int32_t divided = m.replicas() > 1 ? DividedAs(row.software, m.zero, m) : m.zero;
  if (divided < m.zero) {
    m.zero = divided;
    row.notes.push_back(
        "under a pipeline weights stay gathered and gradients whole until the last micro-batch, "
        "as zero1");
  } else if (stated >= 0 && m.zero != stated && !sharding.empty()) {
    row.notes.push_back(
        fmt::format("sharding '{}': the software divides as zero{} does", sharding, m.zero));
  }
}

// Of ZeRO++ those parts are taken that are named, by DeepSpeed's options or in short: weights in 8
// bits, "zero_quantized_weights", "qwz"; a second partition of them where its size is stated,
// "zero_hpz_partition_size 8", "hpz=8".
void SetPlusPlus(const std::string& sharding, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const bool eight = Contains(sharding, "qwz") || Contains(sharding, "quantized_weights");
  if (!eight && !Contains(sharding, "hpz") && !Contains(sharding, "zero++")) return;
  m.eight_bit_weights = eight && m.zero == 3 && m.replicas() > 1;
  std::vector<std::string> words = TextWords(sharding);
  std::erase_if(words, [](const std::string& w) { return w == "partition" || w == "size"; });
  for (size_t i = 0; i < words.size() && m.zero == 3; ++i) {
    std::string_view word = words[i];
    if (!word.starts_with("hpz")) continue;
    word.remove_prefix(3);
    if (word.empty() && i + 1 < words.size()) word = words[i + 1];
    const int32_t shards = WholeNumber(word);
    if (shards > 1 && shards != m.replicas()) m.second_shards = shards;
  }
  std::string left = "gradients in 4 bits (qgZ)";
  if (!m.eight_bit_weights) left = "weights in 8 bits (qwZ), " + left;
  if (m.second_shards == 0) left = "copies of weights in each node (hpZ), " + left;
  row.notes.push_back("of ZeRO++ left out, if on: " + left);
}

// What states groups of replicas, as errors name it.
std::string ColumnsOf(const Fields& f, const StatedDivision& division) {
  std::string said;
  for (const char* column : {"dp_replicate", "dp_shard"}) {
    if (!division.by_columns || !f.States(column)) continue;
    said += fmt::format("{}{} '{}'", said.empty() ? "" : ", ", column, f.Text(column));
  }
  return said.empty() ? fmt::format("{} '{}'", division.column, f.Text(division.column)) : said;
}

void SetDivision(const Fields& f, TrainingRow& row, const std::string& schedule,
                 std::string& error) {
  const std::string sharding = ShardingOf(f);
  ParallelMapping& m = row.mapping;
  std::string contradiction;
  StatedDivision division = DivisionOfRow(f, m, contradiction);
  // "PyTorch FSDP" says it, too.
  const std::string framework = f.Text("framework");
  const bool named =
      sharding.empty() &&
      (Contains(framework, "fsdp") || Contains(framework, "zero") || Contains(framework, "ddp"));
  if (named && !division.whole) division.zero = DivisionIn(framework).zero;
  if (row.software.flat_parameters && Contains(named ? framework : sharding, "fsdp2")) {
    row.software.flat_parameters = false;
    row.software.per_parameter_sharding = true;
  }
  SetZero(f, division, sharding, row);
  SettleSchedule(schedule, row);
  const int32_t width = m.expert_tensor;
  SetChoices(row.software, row.config, m);
  if (m.expert_tensor != width) {
    row.notes.push_back(fmt::format("whole experts, to which the software sends tokens by {}",
                                    Name(row.software.dispatch)));
  }
  SetPlusPlus(sharding, row);
  if (Contains(sharding, "pure")) m.gradient_bytes = 2;
  row.eight_bit_gathers = Contains(sharding, "float8 all-gather");
  const Told offloads = ToldOf(sharding, {"cpu offload*", "offload*", "infinity"});
  m.offload |= offloads == Told::kYes ||
               (offloads == Told::kNothing && ToldOf(sharding, {"cpu*"}) == Told::kYes);
  m.offload_weights |=
      m.zero == 3 &&
      (Contains(sharding, "parameters on cpu") || Contains(sharding, "full cpu offload") ||
       Contains(sharding, "infinity") || (Contains(sharding, "fsdp") && m.offload));
  if (division.hybrid && contradiction.empty()) {
    // Within each node, as HYBRID_SHARD is unless told otherwise.
    m.hybrid = HybridShards(division, row.gpus_per_node / m.tensor, m, contradiction);
    if (!contradiction.empty()) contradiction = ColumnsOf(f, division) + ": " + contradiction;
  }
  if (error.empty()) error = contradiction;
}

// How parts of sequences exchange keys and values, as Megatron Core's cp_comm_type has it: "p2p"
// from neighbour to neighbour, "a2a" heads for sequences, "all_gather" at once; or in words.
void SetContextForm(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const std::string column = f.Text("cp_comm_type");
  const std::vector<std::string> form = TextWords(column);
  const auto says = [&](std::initializer_list<std::string_view> names,
                        std::initializer_list<std::string_view> terms) {
    return column.empty() ? SaidOf(f, terms) == Told::kYes : ToldOf(form, names) == Told::kYes;
  };
  const bool heads = says({"a2a", "alltoall", "all to all", "ulysses"},
                          {"cp comm type a2a", "ulysses*", "cp a2a", "a2a cp", "cp alltoall",
                           "cp all to all", "all to all cp", "all to all context parallel*"});
  const bool ring = says({"p2p", "ring"}, {"cp comm type p2p", "ring attention", "cp p2p",
                                           "cp ring", "ring cp", "ring context parallel*"});
  const bool gathers = says({"allgather", "all gather"},
                            {"cp comm type all gather", "cp allgather", "cp all gather"});
  if (m.context == 1) return;
  if (heads != ring || (gathers && !heads)) {
    m.ulysses = heads;
    m.ring = ring;
  } else if (!column.empty()) {
    NoteUnread(fmt::format("cp_comm_type '{}' is none of p2p, a2a and all_gather: taken as the "
                           "software has it",
                           column),
               row);
  }
}

// How exchanges of tensor parallelism hide behind GEMMs, as a row says it.
enum class TensorOverlap : uint8_t { kNotSaid, kNone, kInParts, kByUserbuffers };

TensorOverlap TensorOverlapIn(const std::string& note) {
  const std::vector<std::string> words = TextWords(note);
  const Told library =
      ToldOf(words, {"userbuffer*", "tp comm overlap*"});  // the option of Megatron-LM and NeMo
  const Told parts =
      ToldOf(words, {"tp communication overlap*", "tp overlap*", "overlap tp", "async tp",
                     "asynctp", "async tensor parallel*", "asynchronous tensor parallel*"});
  if (library == Told::kYes) return TensorOverlap::kByUserbuffers;
  if (parts == Told::kYes) return TensorOverlap::kInParts;
  const bool denied = library == Told::kNo || parts == Told::kNo;
  return denied ? TensorOverlap::kNone : TensorOverlap::kNotSaid;
}

// In parts: by Transformer Engine's userbuffers, but for PyTorch's own tensor parallelism, whose
// word "async TP" is (torchtitan), and which software that no file describes is taken to have.
void SetTensorOverlap(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const TensorOverlap said = TensorOverlapIn(f.Text("note"));
  if (said == TensorOverlap::kNotSaid || m.tensor == 1) return;
  m.chunked_tensor = m.async_tensor = false;
  if (said == TensorOverlap::kNone) return;
  if (!m.sequence_parallel) {
    m.sequence_parallel = true;
    row.notes.emplace_back("sequence parallelism, whose exchanges those are that hide in parts");
  }
  const bool native = row.family.empty() || row.software.per_parameter_sharding;
  m.async_tensor = native && said == TensorOverlap::kInParts;
  m.chunked_tensor = !m.async_tensor;
  m.overlap_tensor |= m.chunked_tensor;
}

void SetOverlap(const Fields& f, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  // DeepSpeed's option (runtime/zero/config.py), which is of reductions.
  for (const Told said :
       {ToldOf(ShardingOf(f), {"overlap comm"}), ToldOf(f.Text("note"), {"overlap comm"})}) {
    if (said != Told::kNothing) m.overlap_gradients = said == Told::kYes && m.copies() > 1;
  }
  if (!OverlapsNothing(f)) return SetTensorOverlap(f, row);
  m.overlap_gradients = m.chunked_tensor = false;
  m.overlap_tensor = m.tensor == 1;
}

// As a note names it, which the software has to be asked for: torchtitan's
// expert_parallel_comm_backend, Megatron Core's moe_enable_deepep and moe_token_dispatcher_type.
std::optional<ExpertDispatch> DispatchIn(const Fields& f) {
  if (SaidOf(f, {"hybridep*", "hybrid ep"}) == Told::kYes) {
    return ExpertDispatch::kHybridEp;
  }
  if (SaidOf(f, {"deepep*", "deep ep"}) == Told::kYes) {
    return ExpertDispatch::kDeepEp;
  }
  if (SaidOf(f, {"alltoall dispatch*", "all to all dispatch*", "dispatcher alltoall",
                 "dispatcher type alltoall"}) == Told::kYes) {
    return ExpertDispatch::kAllToAll;
  }
  if (SaidOf(f, {"allgather dispatch*", "all gather dispatch*", "dispatcher allgather",
                 "dispatcher type allgather"}) == Told::kYes) {
    return ExpertDispatch::kAllGather;
  }
  return std::nullopt;
}

// What software of its own sends tokens by, where the row says that it did not.
void DenyDispatch(const Fields& f, TrainingRow& row) {
  const bool hybrid = row.software.dispatch == ExpertDispatch::kHybridEp;
  if (!SendsOnce(row.software.dispatch)) return;
  const Told said =
      hybrid ? SaidOf(f, {"hybridep*", "hybrid ep"}) : SaidOf(f, {"deepep*", "deep ep"});
  if (said != Told::kNo) return;
  row.software.dispatch = ExpertDispatch::kAllToAll;
  if (row.mapping.expert > 1) {
    row.notes.push_back(
        fmt::format("tokens sent all to all, as not by {}", hybrid ? "HybridEP" : "DeepEP"));
  }
}

// Once it is known how experts are divided.
void SetExpertsDispatch(const Fields& f, TrainingRow& row) {
  const std::optional<ExpertDispatch> stated = DispatchIn(f);
  DenyDispatch(f, row);
  row.software.dispatch = stated.value_or(row.software.dispatch);
  const Told hidden = SaidOf(
      f, {"overlap moe expert parallel comm", "ep overlap", "a2a overlap", "all to all overlap"});
  if (hidden != Told::kNothing) row.software.overlap_experts = hidden == Told::kYes;
  SetDispatch(row.software, row.config, row.mapping);
  if (stated && row.mapping.expert > 1 && row.mapping.dispatch != *stated) {
    row.notes.push_back(fmt::format("dispatch={} is of whole experts: taken as dispatch={}",
                                    Name(*stated), Name(row.mapping.dispatch)));
  }
  if (OverlapsNothing(f)) row.mapping.overlap_experts = false;
}

// Of a row that does not say how its experts are divided and could not have run as software does
// by itself: whole experts, of which every device of a tensor-parallel group has its own.
void SetExpertWidth(TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (m.expert_tensor > 0 || !m.sequence_parallel || m.expert_groups() % m.expert == 0) return;
  if (m.expert_groups() * m.tensor % m.expert != 0) return;
  m.expert_tensor = 1;
  row.notes.push_back(
      fmt::format("whole experts, as {} ranks of expert parallelism do not divide dp {} x cp {}",
                  m.expert, m.data, m.context));
}

void DivideBatches(const Fields& f, TrainingRow& row) {
  // Words are of micro-batches as they run.
  if (!f.States("micro_batch") && DegreeWord(f, "micro_batch")) return;
  ParallelMapping& m = row.mapping;
  const int32_t batch = m.micro_batch;
  if (m.pipeline == 1 || batch < 1 || m.data < 1 || m.microbatches() >= m.pipeline) return;
  const int32_t wanted[] = {1, m.pipeline, m.pipeline * m.chunks, batch};
  const int32_t parts = std::gcd(wanted[static_cast<size_t>(row.software.pipeline_batches)], batch);
  if (parts == 1) return;
  m.micro_batch = batch / parts;
  row.notes.push_back(
      fmt::format("micro-batches of {}, into which the software's pipeline divides a replica's {}",
                  m.micro_batch, batch));
}

}  // namespace

bool OverlapsNothing(const Fields& f) {
  return LowerCase(f.Text("overlap")) == "none" || Contains(f.Text("note"), "every overlap off");
}

void ReadSoftware(const Fields& f, std::span<const SoftwareStack> stacks, TrainingRow& row,
                  std::string& error) {
  const StackRelease* release = FindRelease(f, stacks, row);
  row.software = release == nullptr ? OfUnknownSoftware() : *release;
  const std::string schedule = SetPipeline(f, row);
  DivideBatches(f, row);
  SetGemmFormat(f, row);
  SetAdapters(f, row);
  SetRecomputation(f, row);
  // What choices depend on; what is wrong with them, ReadWords says.
  AddRowWords(f, row, row.mapping).IgnoreError();
  SetDivision(f, row, schedule, error);
  SetContextForm(f, row);
  SetOverlap(f, row);
  SetKeptInputs(f, row, error);
  SetExpertWidth(row);
  SetKernelsOf(f, row);
  PadVocabulary(row.software, row.mapping.tensor, row.config);
  PackDocuments(f, row.software, row);
  SetExpertsDispatch(f, row);
}

void ApplySoftware(const TrainingRow& row, const std::string& chip, ClusterParameters& cluster) {
  SetCluster(row.software, chip, cluster);
  cluster.scaled_by_row = row.scaled_by_row;
  cluster.eight_bit_gathers = row.eight_bit_gathers;
}

}  // namespace foretrace
