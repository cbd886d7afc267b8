#pragma once
// Measured training jobs, one a row: model, devices, mapping, software and the time of a step.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/software_stack.h"

namespace foretrace {

struct TrainingRow {
  std::string name;      // file:line
  std::string model;     // as the row names it
  std::string taken_as;  // the model that is taken for it
  std::string gpu, source;
  std::string accelerator;  // EarliestDates::accelerator
  int32_t gpus = 0, gpus_per_node = 8;
  bool node_stated = false;
  std::string stack;               // framework and release, as the row names them
  std::string earliest;            // a year or month before which nobody ran it; empty: not known
  std::string earliest_as;         // and why: "the model was published"
  std::string family, release;     // of stacks
  StackRelease software;           // with what the row says of it
  bool eight_bit_gathers = false;  // ClusterParameters'
  bool scaled_by_row = false;      // ClusterParameters'
  bool recompute_stated = false;
  TransformerConfig config;
  ParallelMapping mapping;
  SimTime measured;  // zero where out_of_memory
  bool out_of_memory = false;
  std::optional<double> memory_gib, reserved_gib;  // what tensors, and what the allocator took
  bool assumed_gib = false;                        // stated in GB, which is taken for GiB
  std::string refused;                             // why it cannot be judged; empty: it can
  std::vector<std::string> notes;                  // what the row does not say and was assumed
  std::vector<std::string> unread;                 // words of it that nobody knows; also notes
  std::string idle;  // a word of its mapping that changes nothing (IdleChoice)
};

// What is assumed of software that no file describes.
inline constexpr std::string_view kUnknownSoftware =
    "no file in topologies/stacks/ names it; taken to fuse attention and to hide reductions and "
    "gathers behind computation";

// Sizes of a model by its name; nullopt: not known. `own_sizes`: the row states them, so that only
// a model of exactly that name is meant, or what its family is built of.
using ModelByName = std::function<absl::StatusOr<std::optional<TransformerConfig>>(
    const std::string& name, bool own_sizes)>;

// What an unknown name may have been meant to be; empty: no idea.
using MeantName = std::function<std::string(const std::string& name)>;

// The year or month ("2025-04") from which there was a model, by TrainingRow::taken_as, or a
// device, by TrainingRow::gpu; empty: not known.
using DateOf = std::function<std::string(const std::string& name)>;
struct EarliestDates {
  DateOf model, device;
  // The beginning of the device's name (StackRun::device) by TrainingRow::gpu; null: not known.
  std::function<std::string(const std::string& gpu)> accelerator;
};

// A table whose header has the columns model, gpus, gpu, and step_s, step_ms or
// tokens_per_s_per_gpu, in any order and case among others. Of precision, framework, layers,
// hidden, heads, kv_heads, ffn, dense_layers, experts, top_k, vocab, seq, head_dim, gpus_per_node,
// tp, pp, dp, cp, vp, ep, etp, micro_batch, grad_accum, global_batch, sharding, recompute, oom,
// memory, memory_reserved, overlap (none: no communication behind computation), source, table,
// case, date, note and mapping those are read that are there, some also by the names that other
// tables give them (training_row_columns.cpp), between semicolons or tabs where the first line has
// no comma. `mapping`: words of ParseMapping, which stand over what the framework does by itself,
// and in the place of columns or beside them, with which they then have to agree. Memory has a
// unit, in the column's name (memory_GiB, memory_MiB, memory_bytes, memory_GB) or behind the
// number. GB and MB are taken for GiB and MiB, with a note: so torch, Megatron-LM, DeepSpeed and
// nvidia-smi count what they print as GB or MB. Empty fields, n/a, nan and the like are not stated
// (of vp, cp, ep and etp neither is 0): sizes and precision then are those of the named model,
// degrees 1, a micro-batch one sample, a batch, GPUs or a step what follows from the rest. What the
// framework does by itself is its stack's (stacks); where no date is stated, no release is taken
// that a later one had replaced when there was such a model, such a device or, for a mixture of
// experts, such software. Runs that went out of memory (oom 1,
// or that word as the step) need no step. Rows that contradict themselves, that name what no model
// is known for, or that need what is not covered are listed as refused. Errors: an unreadable file,
// missing columns, no rows.
absl::StatusOr<std::vector<TrainingRow>> LoadTrainingRows(const std::string& path,
                                                          const ModelByName& find,
                                                          std::span<const SoftwareStack> stacks,
                                                          const MeantName& meant = {},
                                                          const EarliestDates& dates = {});

// A run that is reported did fit: where it does not say whether it recomputes, and could not have
// kept its activations in `memory` (zero: not known), the least recomputation with which it fits is
// taken.
void AssumeRecomputation(TrainingRow& row, Bytes memory);

// What the row's software does, on a cluster of devices with that chip.
void ApplySoftware(const TrainingRow& row, const std::string& chip, ClusterParameters& cluster);

// The mapping with as many micro-batches as stages divide, the nearest above or below: software
// interleaves other numbers too, with a last group of fewer (Megatron Core since 0.9), schedules
// here do not.
ParallelMapping WholeGroups(ParallelMapping mapping, bool up);

// Whether the file's header is of such a table: it has models and GPUs.
bool IsTrainingTable(const std::string& path);

}  // namespace foretrace
