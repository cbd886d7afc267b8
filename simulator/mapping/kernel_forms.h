#pragma once
// In which kernels software runs what fewer could.

#include <cstdint>

namespace foretrace {

struct KernelForms {
  // Queries, keys and values, and both halves of a gated activation's input, are GEMMs of their
  // own, whose input gradients are added up.
  bool separate_gemms = false;
  // Rotary embedding multiplies complex numbers: its operands are cast to 32 bits and back by
  // kernels of their own, compiled or not, as compilers leave complex numbers to the framework
  // (torch/_inductor/lowering.py, fallback_node_due_to_unsupported_type).
  bool complex_rotary = false;
  // Keys and values are copied for every head that shares them, and their gradients added up.
  bool repeats_keys = false;
  // Of a GEMM that makes grouped queries, keys and values at once, queries and values are copied
  // out, and their gradients together (Megatron Core, transformer/attention.py,
  // get_query_key_value_tensors; its split's backward pass).
  bool copies_groups = false;
  // Norms are one kernel each way also where other steps are a framework's own (PyTorch from 2.9
  // on, _fused_rms_norm).
  bool fused_norms = false;
  // The kernel of a norm's input gradients also adds up its weights', for every multiprocessor the
  // rows that it goes through, in 32 bits; another one adds up those sums (Transformer Engine,
  // common/rmsnorm/rmsnorm_bwd_kernels.cuh and common/layer_norm; Apex's FastLayerNorm, which
  // Megatron-LM's persistent layer norm is, contrib/csrc/layer_norm/ln_bwd_kernels.cuh). Otherwise
  // two kernels read the rows each.
  bool summed_norms = false;
  // What the steps of attention over a ring give is merged in 32 bits by PyTorch's own kernels,
  // all keys and values gathered at once (ring_attention.h); otherwise as Transformer Engine has
  // it.
  bool wide_merges = false;
  // Layers run as a compiler's kernels (torch.compile), which wait for an exchange where it starts
  // (torch/distributed/_functional_collectives.py, _maybe_wrap_tensor).
  bool compiled = false;
  // The GEMMs of a device's experts run one expert after another, and their results are put
  // together (Megatron Core, transformer/moe/experts.py, SequentialMLP).
  bool sequential_experts = false;
  // Experts find, take and give back their tokens one after another too (expert_loop.h).
  bool looped_experts = false;
  // The CPU asks the device how many tokens go to each rank of expert parallelism, and waits
  // (PyTorch needs them on the CPU: torchtitan, distributed/expert_parallel.py, _token_dispatch).
  bool asks_for_splits = false;
  // One kernel goes through the tiles of all of a device's experts (PyTorch,
  // aten/src/ATen/native/cuda/GroupMM.cu; DeepGEMM, m_grouped_gemm); otherwise a kernel for each.
  bool grouped_experts = false;
  // With operands of MXFP8 one kernel goes through the tiles of all of a device's experts,
  // multiplies by the activation what their first GEMM gives, or by its gradient, and casts it for
  // the second (Transformer Engine on Blackwell with NVTE_CUTEDSL_FUSED_GROUPED_MLP, cuDNN's
  // grouped_gemm_swiglu and grouped_gemm_dswiglu).
  bool fused_experts = false;
  // Of experts with biases the second GEMM's is multiplied with routers' weights and added in 32
  // bits, expert by expert, and what they clamp is by kernels before the activation's (Megatron
  // Core, transformer/moe/experts.py, TEGroupedMLP._apply_bias; fusions/fused_bias_geglu.py,
  // weighted_bias_quick_geglu_impl; expert_kernels.h). The kernel of fused_experts does all of it.
  bool stepwise_expert_biases = false;
  // Routers' choices are made by a framework's own kernels, one for each step (Megatron Core
  // without moe_router_fusion; expert_kernels.h).
  bool stepwise_choices = false;
  // Experts take a fixed number of tokens, which PyTorch's own kernels choose, gather and add up
  // (Megatron Core, moe_pad_expert_input_to_capacity; expert_kernels.h).
  bool padded_experts = false;
  // Kernels that read and write the scores of attention beside softmax and dropout: scaling, mask.
  int32_t score_steps = 0;
  // Queries, keys and values are copied head by head for the GEMMs of attention that is not fused,
  // and their gradients back.
  bool copies_heads = false;
  // GELU by its tanh form, step by step (transformers/activations.py, gelu_new).
  bool stepwise_gelu = false;
  // Biases before activations and residual additions, or dropout before the latter, are kernels of
  // their own (Megatron-LM 1.1.5 without bias_gelu_fusion and bias_dropout_fusion).
  bool separate_bias = false, separate_dropout = false;
  // The optimizer is one kernel over all tensors; otherwise PyTorch's foreach kernels, one for each
  // step of the update.
  bool fused_optimizer = true;
};

}  // namespace foretrace
