#pragma once
// Transformer language models as layer graphs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/workload/weight_format.h"
#include "simulator/workload/workload.h"

namespace foretrace {

enum class TransformerFamily : uint8_t { kGpt, kLlama, kBert, kT5, kCount };
std::string_view Name(TransformerFamily family);

// How the loss over the vocabulary is computed. kInPlace: in 32 bits, in the buffer that the cast
// to them made, kernel by kernel (Megatron-LM, core/tensor_parallel/cross_entropy.py).
// kCompiledInPlace: the same with its four functions compiled (core/fusions/fused_cross_entropy.py,
// cross_entropy_loss_fusion). kOverwritten: by kernels of its own, which leave the gradient where
// the logits were, in the model's type (Transformer Engine until July of 2026,
// pytorch/cross_entropy.py; cross_entropy_fusion_impl te). kStepwise: cast, logarithm of softmax,
// choice of the target's, each with its own result, backward too
// (torch.nn.functional.cross_entropy of float()). kFused: one kernel each way, which keeps the
// logits in the model's type and their gradient takes their place's size alone (cross entropy
// compiled by torch.compile). kStepwiseParallel: kStepwise over a vocabulary that tensor-parallel
// ranks divide, where softmax and gradient are made of steps too
// (torch/distributed/tensor/parallel/loss.py); no software's of itself (LossOf).
enum class LossForm : uint8_t {
  kInPlace,
  kCompiledInPlace,
  kOverwritten,
  kStepwise,
  kFused,
  kStepwiseParallel,
  kCount
};

// Sizes are in elements. Families fix what is left open: GPT has biases, learned positions and a
// tied output layer; Llama has RMS norm, rotary positions, gated feed-forward layers, no biases and
// its own output layer; BERT is GPT with segment embeddings, post-norm and a pooler; T5 has an
// encoder and a decoder with cross attention, relative position biases, no biases otherwise.
struct TransformerConfig {
  std::string name = "transformer";
  TransformerFamily family = TransformerFamily::kGpt;
  int64_t hidden = 0;
  int64_t layers = 0;          // T5: of the encoder
  int64_t decoder_layers = 0;  // T5 only
  int64_t heads = 0;
  int64_t kv_heads = 0;   // 0: as many as heads; fewer: grouped-query attention
  int64_t head_size = 0;  // 0: hidden / heads
  int64_t ffn = 0;        // 0: 4 * hidden
  int64_t vocabulary = 0;
  int64_t sequence = 0;   // tokens per sample
  int64_t positions = 0;  // longest sequence; learned where the family does; 0: as sequence
  int64_t experts = 0;    // 0: dense; else every layer's feed-forward is a mixture
  int64_t top_k = 0;
  // A token chooses so many of equal groups of the experts, and its experts among these
  // (DeepSeek-V2, 2024, section 2.2.2; DeepSeek-V3, section 2.1.2). 0: among all.
  int64_t expert_groups = 0, chosen_groups = 0;
  DType dtype = DType::kFloat16;
  // Attention never writes its score matrix to device memory (FlashAttention).
  bool fused_attention = false;
  bool dropout = true;  // where the family has it; Llama never
  LossForm loss = LossForm::kInPlace;
  // Operators run one by one, as in PyTorch without a compiler: what a checkpointing policy keeps
  // by operator is kept also where nothing reads it.
  bool eager = false;
  // Where GEMMs add weight gradients to the buffer that they accumulate in, autograd is handed a
  // tensor of the weights' shape and type instead, of which one for each shape stays (Transformer
  // Engine, pytorch/module/base.py, get_dummy_wgrad).
  bool gradient_placeholders = false;
  // Routers' weights multiply what activations of experts give, not what the experts give, so that
  // the latter is not kept for the routers' gradient.
  bool weighs_activations = false;
  // Weights that are gathered from replicas are copied out of the buffer that they arrive in, the
  // forward pass's last of which stays until the next (PyTorch,
  // torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, wait_for_unshard).
  bool copies_gathered = false;
  // Under ZeRO 3 the divided weights are the optimizer's own, in 32 bits, and gathered in the
  // model's type; gradients are there from the pass that makes them until the optimizer has run
  // (PyTorch's FSDP with mixed precision; optim.Optimizer.zero_grad, set_to_none).
  bool sharded_masters = false;
  // The allocator's segments grow (CachingAllocator).
  bool expandable_segments = false;
  // Keys and values are copied for every head that shares them, and the copies kept.
  bool repeats_keys = false;
  // Departures from the family; what is not given is the family's.
  std::optional<bool> gated;              // feed-forward layers of three matrices
  std::optional<bool> biases;             // of GEMMs
  std::optional<bool> qkv_biases;         // of the first GEMMs of attention alone
  std::optional<bool> norm_biases;        // layer norm instead of RMS norm
  std::optional<bool> tied;               // output layer and embedding are one table
  std::optional<bool> learned_positions;  // a table of them
  std::optional<bool> rotary;
  bool qk_norm = false;         // RMS norm of each head's queries and keys
  bool attention_gate = false;  // of what attention gives, from a GEMM beside queries (Qwen3-Next)
  bool shared_gate = false;     // of what shared experts give, one number a token
  bool embedding_norm = false;  // of the embedding's result
  bool clamped = false;         // what experts' gated activations take is bounded (swiglu_limit)
  bool post_norms = false;  // of what attention and feed-forward layers give, too (Gemma 2, 2024)
  // The feed-forward layer reads what attention reads, not its result (GPT-J, 2021): the same norm
  // of it (1) or its own (2); 0: one after the other. Under tensor parallelism each is reduced by
  // itself, though software may add them up first.
  int64_t parallel_norms = 0;
  int64_t shared_ffn = 0;  // width of the shared experts, to which every token goes, all together
  // Elements of what experts are given and give, where one GEMM makes it of a token before it is
  // sent and one makes a token of it again (LatentMoE: NVIDIA, 2026, arXiv 2601.18089). Router and
  // shared experts read the token itself. 0: as many as `hidden`.
  int64_t expert_latent = 0;
  // Latent attention (DeepSeek-V2, 2024, section 2.1): keys and values from a vector of this many
  // elements, queries from one of `query_latent` (0: from the hidden state). 0: plain attention.
  // Of a head's `head_size` the `rotary_size` are rotated, of keys one vector for all heads; values
  // have `value_size`. As many key heads as heads.
  int64_t latent = 0, query_latent = 0, rotary_size = 0, value_size = 0;
  // Sparse attention over latents (DeepSeek-AI, 2025, "DeepSeek-V3.2", section 2.1): of all tokens
  // before it a token attends to the `index_keys` that score highest by `index_heads` heads of
  // `index_size`, whose queries are made from the queries' latent and whose key is one for all.
  // 0: to all. Inference has it; training does not.
  int64_t index_heads = 0, index_size = 0, index_keys = 0;
  // Layers whose feed-forward is dense, of width `dense_ffn`, in a mixture of experts: the first
  // ones, or all but every n-th.
  int64_t dense_first = 0, experts_every = 1, dense_ffn = 0;
  // Of models each of whose layers is one part with a norm and a residual of its own (Nemotron-H,
  // 2025, arXiv 2504.03624): a letter for each layer, as hybrid_override_pattern has them
  // (layer_pattern.h); one letter alone is of all layers. Empty: layers are attention and
  // feed-forward.
  std::string pattern;
  // State-space mixers (Mamba-2, arXiv 2405.21060): heads of so many elements, each with a state of
  // `state_size` for every element; heads of a group share what writes and reads their states. The
  // convolution before reaches over so many tokens; the scan goes by chunks of so many (Megatron
  // Core, ssm/mamba_mixer.py: d_conv, chunk_size). Of a gated delta net (arXiv 2412.06464): heads
  // of values, of so many elements each; elements of a key; heads of keys, which are as many
  // groups; chunks of 64 tokens at most.
  int64_t state_heads = 0, state_head_size = 0, state_size = 0, state_groups = 0;
  int64_t state_convolution = 4, state_chunk = 128;
  bool state_norm = true;  // of each group, before the mixer's last GEMM
  // Bits of an element of the states that inference keeps, as the published checkpoint asks for;
  // 0: those of the model's precision. Training has no such states.
  int64_t state_bits = 0;
  // Tokens that a layer attends to, its own included, where that is not all; every
  // `global_every`-th layer attends to all (0: none does). The last ones before a token, or those
  // of its own piece of the sequence (`window_pieces`: Llama 4, 2025). Inference has it; so
  // has training but where the sequence is divided (context parallelism).
  int64_t window = 0, global_every = 0;
  bool window_pieces = false;
  // Modules after the last layer that predict further tokens, each a layer (or
  // those of `further_pattern`), a GEMM that joins its two inputs, and the shared output layer
  // (DeepSeek-V3, 2024, section 2.2). Their weights are no part of the published count.
  int64_t further_tokens = 0;
  // Of a model with a pattern, which layers each of these modules has, by the same letters. Of
  // modules that share their weights each is counted with its own.
  std::string further_pattern;
  // Of the published checkpoint: GEMMs of layers, and those of experts that are chosen. Router,
  // norms, embedding and output layer have the model's precision. Inference has it; training takes
  // `dtype`.
  WeightFormat weights = WeightFormat::kModel, expert_weights = WeightFormat::kModel;
};

// Of a mixture of experts, how many layers are dense, and which.
int64_t DenseLayers(const TransformerConfig& config);
bool IsDenseLayer(const TransformerConfig& config, int64_t layer);
// The first size that `tensor` devices cannot share alike: heads; heads of keys and values, of
// which several devices may hold the same (Megatron Core and vLLM: one number divides the other);
// feed-forward widths, of experts unless these are whole.
struct UndividedSize {
  std::string_view what;
  int64_t size;
};
std::optional<UndividedSize> FirstUndivided(const TransformerConfig& config, int64_t tensor,
                                            bool whole_experts);
// Elements of a token as experts are given it.
int64_t ExpertWidth(const TransformerConfig& config);
// How many layers have a window.
int64_t WindowedLayers(const TransformerConfig& config);
// The same model with feed-forward parts of one kind alone.
TransformerConfig WithLayersOf(const TransformerConfig& config, bool dense);

// A model cut to so few layers that all of them are dense: without experts.
TransformerConfig WithoutIdleExperts(const TransformerConfig& config);

// What a model has, by its family or its own word.
bool IsGated(const TransformerConfig& config);
bool HasBiases(const TransformerConfig& config);
bool HasQkvBiases(const TransformerConfig& config);
bool HasNormBiases(const TransformerConfig& config);
bool IsTied(const TransformerConfig& config);
bool LearnsPositions(const TransformerConfig& config);
bool IsRotary(const TransformerConfig& config);
bool Drops(const TransformerConfig& config);

// Sizes that are zero because they follow from others, filled in.
TransformerConfig WithDefaults(TransformerConfig config);

// Whether a transformer with its defaults filled in can be built. Errors as below.
absl::Status CheckTransformer(const TransformerConfig& config);

// Errors: attention that training does not have (index_keys).
absl::Status CheckTrainedAttention(const TransformerConfig& config);

// Errors: sizes that are missing, negative, too large, or do not divide.
absl::StatusOr<Workload> BuildTransformer(const TransformerConfig& config);

}  // namespace foretrace
