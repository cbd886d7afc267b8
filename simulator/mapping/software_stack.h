#pragma once
// What training software does without being told, by release: topologies/stacks/*.yaml.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/mapping/kernel_forms.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/software_behaviour.h"

namespace foretrace {

inline constexpr ShippedKind kSoftwareStacks = {"software stack", "topologies/stacks", ".yaml"};

// Names of models are compared in lower case, without hyphens, underscores and spaces.
std::string PlainName(const std::string& name);

// Into how many micro-batches a pipeline divides a replica's batch: as a run states them; where it
// states fewer than stages, one for each stage, for each chunk of layers, or for each sample.
enum class PipelineBatches : uint8_t { kAsStated, kStages, kChunks, kSamples, kCount };

// Which layers software recomputes whole where not all are, by their number alone: the first ones
// of each chunk (ParallelMapping::recomputed_layers), or every so many'th (recomputed_every).
enum class SomeLayers : uint8_t { kNone, kFirst, kEvery, kCount };

// What a run is of, where recipes differ by it.
struct StackRun {
  StackRun(std::string of_model, bool has_experts = false, std::string on_device = "")  // NOLINT
      : model(std::move(of_model)), device(std::move(on_device)), experts(has_experts) {}

  std::string model;   // its name
  std::string device;  // the accelerator's name (hardware/accelerator.h); empty: not known
  bool experts;        // the model has mixtures of experts
};

// From a release or date on, until the next.
struct StackRelease : KernelForms, SoftwareBehaviour {
  // As tables of runs write it; empty: the earliest known. Compared as text, versions by year and
  // month as dates ("v25.02", "25.02" and "2025-02" alike).
  std::string since;
  std::string source;
  // Beginnings of plain names of models whose recipes differ from the rest of the release; empty:
  // all models.
  std::vector<std::string> models;
  // Beginnings of names of accelerators whose recipes do; empty: all.
  std::vector<std::string> devices;
  // It is of models with mixtures of experts alone.
  bool with_experts = false;
  // Of kept inputs only those that are divided over tensor-parallel ranks go to the host (DeepSpeed
  // before August of 2021, checkpointing.py: PA_TO_CPU).
  bool divides_on_host = false;
  bool fused_attention = false;
  // By chip, ClusterParameters::attention_slowdown of the kernels that this software has there; 1
  // on other chips.
  std::map<std::string, double> attention_slowdown;
  // Chips for which this software has KernelForms::grouped_experts, and fused_experts.
  std::vector<std::string> grouped_expert_chips, fused_expert_chips;
  bool ring_attention = false;  // ParallelMapping::ring, wherever there is context parallelism
  bool dropout = false;
  // Fine-tuning packs documents of this many tokens into a sequence, each of which attends to
  // itself alone; 0: it does not.
  int64_t packed_document = 0;
  // Rows are added to vocabularies until they are a multiple of this and of the tensor-parallel
  // ranks together; 0: none are.
  int32_t vocabulary_multiple = 0;
  bool sequence_parallel = false;  // wherever there is tensor parallelism
  bool overlap_tensor = false;
  bool balance_loss = false;    // ParallelMapping's, of models with experts
  bool chunked_tensor = false;  // ParallelMapping's, with sequence parallelism
  // ParallelMapping's, wherever experts are divided (dispatch: of whole experts; dispatch_fp8:
  // where GEMMs take 8 bits).
  ExpertDispatch dispatch = ExpertDispatch::kAllToAll;
  bool dispatch_fp8 = false, overlap_experts = false;
  bool dual_pipe = false;    // the schedule DualPipe, wherever 1F1B without chunks could be it
  int32_t moment_bits = 0;   // ParallelMapping::moment_bytes
  bool keeps_eight = false;  // ParallelMapping's, where GEMMs take 8 bits
  bool weighs_activations = false;  // TransformerConfig's
  int32_t gradient_bits = 0;        // ParallelMapping::gradient_bytes; 0: as the model's type asks
  // The same of gradients that are divided over replicas, of models in bfloat16 (DeepSpeed,
  // runtime/engine.py, get_data_types: under ZeRO they accumulate in the model's type unless
  // data_types.grad_accum_dtype says otherwise, which many who divide states alone set to fp32).
  int32_t divided_gradient_bits = 0;
  bool overlap_gradients = false;
  // The same where at least so much is divided (ParallelMapping::zero); 0: by overlap_gradients
  // alone (DeepSpeed, runtime/zero/config.py, overlap_comm_valid: stage 3).
  int32_t overlap_from = 0;
  int32_t zero = 0;  // where a run does not say what is divided
  // Weights that are divided stay gathered over all micro-batches of a pipeline, and gradients are
  // summed whole until the last one's (torchtitan, parallelize_llama.py: reshard_after_forward is
  // off; PyTorch, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync): as zero1.
  bool pipelines_keep_weights = false;
  // Under zero 3, ParallelMapping::hybrid of runs on a multiple of so many replicas; 0: all.
  int32_t shards = 0;
  PipelineBatches pipeline_batches = PipelineBatches::kAsStated;
  // Layers that chunks do not divide are the last chunk's fewer, beside further tokens and the
  // loss; otherwise the first ones have one more each.
  bool spares_last_chunk = false;
  bool further_tokens = false;                  // are predicted, where the model has modules for it
  Recompute selective = Recompute::kSelective;  // what it does of that name; kFull: it has no such
  Recompute recompute = Recompute::kNone;       // where a run does not say
  RecomputeModules modules;                     // of kModules
  // Activations of as many layers as do not fit are in the host's memory, where weights are divided
  // over replicas and a run does not say that it recomputes (Megatron Core, cpu_offloading).
  bool offloads_layers = false;
  SomeLayers some_layers = SomeLayers::kNone;
  LossForm loss = LossForm::kInPlace;
  std::optional<LossForm> adapter_loss;  // where adapters are trained; as `loss` unless stated
  bool compiled_loss = false;  // where kernels are compiled, the loss is too: LossForm::kFused
  bool gradient_placeholders = false;  // TransformerConfig's
  bool expandable_segments = false;    // TransformerConfig's
  // What it prints as memory is what the allocator reserved.
  bool prints_reserved = false;
  bool eager = false;  // TransformerConfig's, where kernels are not compiled

  bool for_all() const { return models.empty() && devices.empty() && !with_experts; }
  bool IsFor(const StackRun& run) const;
};

struct SoftwareStack {
  std::string name;
  std::vector<std::string> frameworks;  // words of a framework's name, in lower case
  std::vector<StackRelease> releases;   // in order
  std::string undated;  // the date that runs without one are taken to be of; empty: the first's
  std::string experts_since;  // no run of a model with experts is older; empty: as old as others
  bool generic = false;       // found where no other stack is: what others are built on
  bool specific = false;  // found before others: its name has that of what it is part of before it
  // Words of what runs on it where a run's division has ZeRO's name or DeepSpeed's, and on another
  // otherwise ("Accelerate"), where no framework's own word is there.
  std::vector<std::string> with_zero;
  // The name of the stack that runs with tensor or pipeline parallelism are of; empty: this one.
  std::string model_parallel;

  // The last release that is not later than `date` and is for the run.
  const StackRelease& At(const std::string& date, const StackRun& run) const;
};

// The date of a run as releases have it ("2025-03"), of what people write: 2025, 2025/3, 03/2025,
// March 2025, 20250301, v25.03; empty: it is none of these.
std::string ReleaseDate(const std::string& text);

// Errors: an unreadable file, unknown keys, no releases, releases out of order.
absl::StatusOr<SoftwareStack> LoadSoftwareStack(const std::string& file);
// All that are shipped.
absl::StatusOr<std::vector<SoftwareStack>> LoadSoftwareStacks();

// The one of which a word is in the framework's name, the first word there, and of these the
// longest; null: none. `sharding`: what a run says of how it divides.
const SoftwareStack* FindStack(std::span<const SoftwareStack> stacks, const std::string& framework,
                               const std::string& sharding = "");
// Of runs with tensor or pipeline parallelism, what stands for that stack; itself where none does.
const SoftwareStack* ForModelParallel(std::span<const SoftwareStack> stacks,
                                      const SoftwareStack* stack);

}  // namespace foretrace
