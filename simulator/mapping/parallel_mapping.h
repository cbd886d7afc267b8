#pragma once
// A mapping of a transformer onto devices by tensor, sequence, context, expert, pipeline and data
// parallelism, with the same stage shape everywhere, as Megatron-LM lays models out.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/plan/schedule.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// kSelective: the attention core (Korthikanti et al., section 5). kOperators: every second matrix
// GEMM and what is no GEMM; outputs of attention are kept (torchtitan's selective
// checkpointing by operator). kAlternate: every second layer whole. kLight: what takes little and
// keeps much (graph/differentiate.h, RunLightAgain). kModules: ParallelMapping::modules.
enum class Recompute : uint8_t {
  kNone,
  kSelective,
  kFull,
  kOperators,
  kAlternate,
  kLight,
  kModules,
  kCount
};
std::string_view Name(Recompute recompute);
// Parts of layers, so that what is kept and what runs again are listed operator by operator.
constexpr bool RecomputesParts(Recompute recompute) {
  return recompute == Recompute::kLight || recompute == Recompute::kModules;
}

// Parts of layers that Megatron Core recomputes by name (--recompute-modules,
// transformer/transformer_config.py); which operators they have, recomputed_modules.h.
enum class RecomputeModule : uint8_t {
  kCoreAttention,
  kMlp,
  kMoe,
  kMoeActivation,
  kLayerNorm,
  kLatentUp,
  kSharedExperts,
  kCount
};
std::string_view Name(RecomputeModule module);

// A set of them.
struct RecomputeModules {
  uint8_t bits = 0;

  bool has(RecomputeModule module) const { return (bits >> static_cast<int>(module) & 1) != 0; }
  void add(RecomputeModule module) { bits |= static_cast<uint8_t>(1 << static_cast<int>(module)); }
  void remove(RecomputeModule module) {
    bits &= static_cast<uint8_t>(~(1 << static_cast<int>(module)));
  }
  bool empty() const { return bits == 0; }
  auto operator<=>(const RecomputeModules&) const = default;
};
// "mlp+core_attn", in the enumerators' order.
std::string ToString(RecomputeModules modules);
// What that writes, in any order, each once; nullopt: it is none.
std::optional<RecomputeModules> ParseRecomputeModules(std::string_view text);

// How tokens go to their experts and results back. kAllToAll: a copy of a token for each of its
// experts, by a collective (Megatron Core, --moe-token-dispatcher-type alltoall; torchtitan's
// standard). kDeepEp: one copy to each node that has some of its experts, to the device of the same
// place there, which hands it to those of its node that have them, once each; results come back
// added up (DeepEP; Megatron Core, flex with --moe-enable-deepep; torchtitan,
// expert_parallel_comm_backend deepep). kHybridEp: the same copies by other kernels (DeepEP's
// branch hybrid-ep; Megatron Core, flex with moe_flex_dispatcher_backend hybridep). kAllGather: all
// tokens of the group are gathered, each device takes those of its experts, and results are reduced
// and scattered (Megatron Core, allgather).
enum class ExpertDispatch : uint8_t { kAllToAll, kDeepEp, kHybridEp, kAllGather, kCount };
// Whether a device is sent each token once, whatever its experts there.
constexpr bool SendsOnce(ExpertDispatch dispatch) {
  return dispatch == ExpertDispatch::kDeepEp || dispatch == ExpertDispatch::kHybridEp;
}
std::string_view Name(ExpertDispatch dispatch);

struct ParallelMapping {
  int32_t tensor = 1;
  int32_t context = 1;   // parts of a sequence; keys and values are gathered, or
  bool ring = false;     // passed on from neighbour to neighbour behind attention, part by part, or
  bool ulysses = false;  // exchanged, all to all, for whole sequences of a part of the heads
  int32_t pipeline = 1;
  int32_t data = 1;    // replicas
  int32_t expert = 1;  // groups of devices that divide the experts
  // Devices that divide each expert's GEMMs: 0, as others, `tensor`; 1, none, and every device
  // of the tensor-parallel group has experts of its own (Megatron Core,
  // expert_tensor_parallel_size).
  int32_t expert_tensor = 0;
  int32_t micro_batch = 1;   // samples of one replica
  int32_t global_batch = 1;  // samples of all replicas
  int32_t chunks = 1;        // model chunks a stage; more than one: interleaved 1F1B
  // With chunks > 1 k1F1B or kZeroBubbleH1, which then interleave, or, of two, one that returns().
  ScheduleKind schedule = ScheduleKind::k1F1B;
  int32_t k = 1;  // of kKFKB
  Recompute recompute = Recompute::kNone;
  RecomputeModules modules;  // of kModules
  // Of each chunk only the first so many layers are recomputed whole, the others keep everything
  // (Megatron Core, recompute.py, method block with recompute_num_layers). -1: all are.
  int32_t recomputed_layers = -1;
  // Of a stage's layers only every so many'th is (torchtitan, selective_ac_option of a number). 0:
  // all are.
  int32_t recomputed_every = 0;
  // Of layers that are recomputed whole, so many run again at once, of which the first one's input
  // is kept (Megatron Core, recompute_method uniform with recompute_num_layers). 0: each by itself.
  int32_t recomputed_together = 0;
  // Kept inputs of recomputed layers are divided over the tensor-parallel group, and gathered
  // before the layers run again (DeepSpeed, partition_activations; Megatron Core,
  // distribute_saved_activations).
  bool divided_inputs = false;
  // They are in the host's memory until then (DeepSpeed, cpu_checkpointing).
  bool inputs_on_host = false;
  bool sequence_parallel = false;  // needs tensor > 1
  // What is divided over the replicas (ZeRO): 1 optimizer state, 2 gradients too, 3 weights too.
  int32_t zero = 0;
  // The gradients of a layer are reduced while earlier layers still run backward.
  bool overlap_gradients = false;
  // Backward, reductions over the tensor-parallel group run behind kernels that do not need them
  // (Megatron-LM, core/tensor_parallel/layers.py): of a layer's input gradient behind its weight
  // gradients; under sequence parallelism the gathering of its input behind the input gradient.
  bool overlap_tensor = true;
  // Forward, exchanges of sequence parallelism go part by part beside the GEMM that takes or
  // makes each part (torch.distributed._symmetric_memory, fused_all_gather_matmul and
  // fused_matmul_reduce_scatter). Backward the compiler finds no such pairs: what is gathered also
  // leads into weight gradients, what is scattered is a sum of several GEMMs
  // (torch/_inductor/fx_passes/micro_pipeline_tp.py).
  bool async_tensor = false;
  // Exchanges of sequence parallelism go part by part beside GEMMs, forward as above, backward
  // the gathering of gradients too (Transformer Engine's userbuffers, tp_comm_overlap).
  bool chunked_tensor = false;
  // Replicas that divide among them what `zero` divides; the others have copies, among which each
  // one's share of the gradients is reduced (PyTorch's HYBRID_SHARD; Megatron Core's
  // num_distributed_optimizer_instances). Experts are divided within each such group of replicas,
  // and their weights among those of the group that hold the same ones (torchtitan,
  // distributed/parallel_dims.py: dp_replicate x efsdp x ep are the same devices as dp_replicate x
  // fsdp x tp). 0: all replicas.
  int32_t hybrid = 0;
  // Under zero 3, replicas that divide a second copy of the weights among them, which forward
  // passes leave and backward passes gather instead of that of all replicas (ZeRO++, Wang et al.,
  // 2023, hpZ; DeepSpeed, zero_hpz_partition_size). 0: there is none.
  int32_t second_shards = 0;
  // Under zero 3, weights are gathered in 8 bits with a scale for each block, cast before and back
  // after it (qwZ; DeepSpeed, zero_quantized_weights).
  bool eight_bit_weights = false;
  // Embedding and output layer count as a layer each when layers are divided into chunks: the first
  // and the last chunk have one layer less than the others.
  bool counted_ends = false;
  // Layers of each chunk (LayersOf's order) where they are stated; empty: divided equally.
  std::vector<int32_t> layers;
  // The GEMMs of layers take operands of 8 bits, cast from and to the model's type.
  bool fp8 = false;
  // The same with a scale for each block of 32 values (OCP MX), or operands of 4 bits with one for
  // each 16 and for the tensor (NVFP4).
  bool mxfp8 = false, nvfp4 = false;
  // Weights are frozen; the query, key and value GEMM of a layer, or all its GEMMs, have an
  // adapter of two matrices of this rank (LoRA). 0: all weights are trained.
  int32_t lora = 0;
  bool lora_everywhere = false;
  // Where not all weights are trained, those of the last so many layers (0: of all layers), and of
  // each the GEMMs of attention or of its feed-forward layer with the router (neither: all its
  // weights). Embedding and output layer are frozen, and no backward pass goes below
  // (LLaMA-Factory, finetuning_type freeze).
  int32_t last_layers = 0;
  bool train_attention = false, train_ffn = false;
  // Of the ranks of expert parallelism, the busiest has so many percent more routed tokens than the
  // mean, and the others wait for it.
  int32_t expert_imbalance = 0;
  // Experts take so many percent of the mean number of tokens, and are padded to it; what is over
  // is dropped (GShard; Megatron Core, moe_expert_capacity_factor). 0: as they come.
  int32_t expert_capacity = 0;
  ExpertDispatch dispatch = ExpertDispatch::kAllToAll;
  // Tokens, and gradients of results, go to experts in 8 bits with a scale for each 128 values;
  // results and gradients of tokens go back as the model has them (DeepSeek-V3, section 3.3.3).
  bool dispatch_fp8 = false;
  // What experts exchange runs beside kernels of another micro-batch's opposite pass (Megatron
  // Core, --overlap-moe-expert-parallel-comm; DeepSeek-V3, section 3.2.1).
  bool overlap_experts = false;
  // The loss that balances experts counts tokens over all devices that a sequence is divided among,
  // by an all-reduce that every layer's router waits for (Megatron Core,
  // transformer/moe/moe_utils.py, switch_load_balancing_loss_func, sequence_partition_group).
  bool balance_loss = false;
  // The host keeps the optimizer's states, which its processors update, and under zero 2 and 3 the
  // gradients (DeepSpeed's ZeRO-Offload); under zero 3 also the weights, of which each layer's are
  // copied to the device before they are gathered (PyTorch's CPUOffloadPolicy).
  bool offload = false, offload_weights = false;
  // In which gradients are kept and reduced; 0: as the model's type asks (GradientBytes).
  int32_t gradient_bytes = 0;
  // In which Adam's two moments are kept; 0: 4.
  int32_t moment_bytes = 0;
  // What GEMMs took in 8 bits is kept so for the weights' gradients, with a scale for each 128
  // values; so is what gated activations took, and in 12 bits what attention gave, which its own
  // backward pass reads too (DeepSeek-V3, section 3.3.3). Otherwise all is kept as the model has
  // it.
  bool keeps_eight = false;

  int64_t devices() const { return int64_t{tensor} * context * pipeline * data; }
  int32_t microbatches() const { return global_batch / (data * micro_batch); }
  // DualPipe feeds both ends of the pipeline: each device has two stages, that of either direction
  // (ModelChunk), and half of the micro-batches goes each way.
  bool dual() const { return schedule == ScheduleKind::kDualPipe; }
  // ZB-V and DualPipeV go down the line of devices and back up: the first has the model's both
  // ends.
  bool returns() const {
    return schedule == ScheduleKind::kZeroBubbleV || schedule == ScheduleKind::kDualPipeV;
  }
  // Whether several chunks a stage take turns, where there are.
  bool interleaves() const {
    return schedule == ScheduleKind::k1F1B || schedule == ScheduleKind::kZeroBubbleH1;
  }
  // Whether passes either way run in pairs, and some weights' gradients come apart, later; and
  // whether all of these do.
  bool paired() const { return dual() || schedule == ScheduleKind::kDualPipeV; }
  bool zero_bubble() const {
    return schedule == ScheduleKind::kZeroBubbleH1 || schedule == ScheduleKind::kZeroBubbleV;
  }
  // Whether forward and backward passes take turns.
  bool alternates() const {
    return schedule != ScheduleKind::kGPipe && schedule != ScheduleKind::kKFKB;
  }
  int32_t held_chunks() const { return dual() ? 2 : chunks; }
  int32_t chunk_microbatches() const { return dual() ? microbatches() / 2 : microbatches(); }
  // Devices of a stage that hold the same dense weights, and with those of other stages.
  int32_t replicas() const { return data * context; }
  int32_t copies() const { return replicas() * (dual() ? 2 : 1); }
  // Of these, those that divide what `zero` divides, and how many times that is there.
  int32_t shards() const { return hybrid > 0 ? hybrid : copies(); }
  int32_t shard_groups() const { return copies() / shards(); }
  // Tensor-parallel groups of experts, each of which holds some of them; and those that hold the
  // same.
  int32_t expert_groups() const { return replicas() * tensor / expert_width(); }
  int32_t expert_replicas() const { return expert_groups() / expert; }
  int32_t expert_copies() const { return expert_replicas() * (dual() ? 2 : 1); }
  // Of these, those that divide what `zero` divides of them.
  int32_t expert_shards() const { return expert_copies() / shard_groups(); }
  // Whether whole groups of expert parallelism are among the replicas that divide weights.
  bool divides_experts_in_groups() const { return expert_copies() % shard_groups() == 0; }
  int32_t expert_width() const { return expert_tensor > 0 ? expert_tensor : tensor; }
  // Layers for each input that is kept; into how many parts it is divided.
  int32_t layers_an_input() const { return recomputed_together > 1 ? recomputed_together : 1; }
  int32_t input_parts() const { return divided_inputs && !sequence_parallel ? tensor : 1; }
  // Whether some layers are recomputed whole and others not at all.
  bool recomputes_some() const { return recomputed_layers >= 0 || recomputed_every > 0; }
  // Whether of recomputed layers no more than parts run again.
  bool repeats_parts() const {
    return recompute == Recompute::kNone || recompute == Recompute::kSelective ||
           recompute == Recompute::kLight || recompute == Recompute::kModules;
  }
  bool uses_host() const { return offload || inputs_on_host; }
  bool narrow() const { return fp8 || mxfp8 || nvfp4; }
  // Whether what is outside of layers is trained too.
  bool trains_ends() const {
    return lora == 0 && last_layers == 0 && !train_attention && !train_ffn;
  }
  // Tokens routed to the busiest rank's experts, in mean ones.
  double expert_load() const {
    return (expert_capacity > 0 ? expert_capacity : 100 + expert_imbalance) / 100.0;
  }
  auto operator<=>(const ParallelMapping&) const = default;
  // By what mappings of a search mostly differ in.
  template <typename H>
  friend H AbslHashValue(H h, const ParallelMapping& m) {
    return H::combine(std::move(h), m.tensor, m.context, m.pipeline, m.data, m.expert,
                      m.expert_tensor, m.micro_batch, m.global_batch, m.recompute,
                      m.sequence_parallel, m.zero);
  }
};

// "tp8 pp4 dp16 mb2 v2 full sp", as in tables; what is at its default beyond these is left out. The
// global batch is not part of it.
std::string ToString(const ParallelMapping& mapping);

// Reads what ToString writes, words in any order; missing ones keep their defaults. "gb512" gives
// the global batch, else `global_batch` is taken. `source` names the text in messages.
absl::StatusOr<ParallelMapping> ParseMapping(const std::string& text, int32_t global_batch,
                                             const std::string& source);
// The same onto `mapping`, of which what no word says stays.
// In lower case, without commas between them ("tp8,pp4"; those of layers=6,7 stay).
std::vector<std::string> MappingWords(const std::string& text);
absl::Status AddWords(const std::string& text, const std::string& source, ParallelMapping& mapping);
// The number behind a word: 8 of "tp" in "tp8 pp4"; nullopt: no such word.
std::optional<int32_t> NumberOf(std::string_view word, const std::string& text);

// No degree or batch size comes near this; products of two stay inside 32 bits times 2.
inline constexpr int32_t kMaxDegree = 1 << 20;

// Whether each degree and size is one that a mapping can have, whatever the model.
absl::Status CheckDegrees(const ParallelMapping& mapping);

// Whether the degrees divide what they divide. The message (infeasible) names the condition, among
// them GraphPipe's C1 (layers are partitioned), C3 (devices are) and C5 (micro-batches), and what
// would satisfy it. `devices` 0: any number.
absl::Status CheckMapping(const TransformerConfig& model, const ParallelMapping& mapping,
                          int64_t devices);

// Of these conditions those of layers and of the schedule, which follow from the stages, their
// chunks and the micro-batches alone.
absl::Status CheckStages(const TransformerConfig& model, const ParallelMapping& mapping);

// Which of the model's chunks a chunk of a stage is, and whether it has the embedding, or the
// output layer; and whether any chunk of the stage has.
int32_t ModelChunk(const ParallelMapping& mapping, int32_t stage, int32_t chunk);
bool HasEmbedding(const ParallelMapping& mapping, int32_t stage, int32_t chunk);
bool HasHead(const ParallelMapping& mapping, int32_t stage, int32_t chunk);
bool HasEmbedding(const ParallelMapping& mapping, int32_t stage);
bool HasHead(const ParallelMapping& mapping, int32_t stage);

// Layers of one chunk of a stage, and of all of its chunks.
int64_t LayersOf(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
                 int32_t chunk);
int64_t StageLayers(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage);
// Which of the model's layers a chunk begins with, and how many of a chunk's, or of all of a
// stage's, are of which kind (LayerKindOf).
int64_t FirstLayer(const TransformerConfig& model, const ParallelMapping& mapping, int32_t stage,
                   int32_t chunk);
using LayerCounts = std::array<int64_t, kMostLayerKinds>;
LayerCounts LayersByKind(const TransformerConfig& model, const ParallelMapping& mapping,
                         int32_t stage, int32_t chunk);
LayerCounts StageLayersByKind(const TransformerConfig& model, const ParallelMapping& mapping,
                              int32_t stage);
// And of the modules that predict further tokens, which are where the output layer is.
LayerCounts StageLayersWithFurther(const TransformerConfig& model, const ParallelMapping& mapping,
                                   int32_t stage);

// Layers without a backward pass (ParallelMapping::last_layers), all in the model's first chunk,
// and how many of a chunk's, or of all of a stage's, have one.
int64_t FrozenLayers(const TransformerConfig& model, const ParallelMapping& mapping);
int64_t TrainedLayersOf(const TransformerConfig& model, const ParallelMapping& mapping,
                        int32_t stage, int32_t chunk);
int64_t StageTrainedLayers(const TransformerConfig& model, const ParallelMapping& mapping,
                           int32_t stage);

// Layers that `chunks` do not divide, as DeepSpeed's uniform partition has them (runtime/utils.py,
// partition_uniform): the first chunks have one more.
std::vector<int32_t> SpreadLayers(int64_t layers, int64_t chunks);

// A stage's chunks in the order in which their last backward passes end.
std::vector<int32_t> ChunksByEnd(const ParallelMapping& mapping, int32_t stage);

// The schedule of one stage. Errors: micro-batches that interleaving cannot group,
// or DualPipe and DualPipeV have too few of.
absl::StatusOr<PassList> StagePasses(const ParallelMapping& mapping, int32_t stage);

// That of a mapping whose passes are paired(), of two micro-batches a stage: more of them only
// repeat the steady state.
PassList FewestPairs(const ParallelMapping& mapping, int32_t stage);

// Passes between forward and end of backward at most, in passes of one chunk.
int64_t ChunksInFlight(const ParallelMapping& mapping, int32_t stage);

}  // namespace foretrace
