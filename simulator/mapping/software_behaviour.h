#pragma once
// What training software does by itself, whatever the mapping.

#include <cstdint>
#include <span>
#include <string_view>

#include "simulator/base/time.h"

namespace foretrace {

// What a process's CPU takes to start work on its device, as measured of this software on some
// host; zero: not known.
struct CpuCosts {
  // A kernel that operator_graph.h's operators have, with the small ones around it: one by one,
  // forward by Python, backward by autograd, or of a compiled layer, either way.
  SimTime forward_kernel, backward_kernel, compiled_kernel;
  // What each kernel of a forward pass takes more, also when it runs again, where a policy in
  // Python decides about every operator whether its result is kept (Recompute::kOperators).
  SimTime policy;
  // Of a layer whose weights are divided over replicas: gathering them before a pass, and with the
  // reduction of their gradients.
  SimTime forward_hooks, backward_hooks;
  SimTime update;  // of a layer's weights, with norm and clipping of their gradients

  // All of the above, as a stack's file names them.
  struct Part {
    std::string_view key;
    SimTime CpuCosts::*cost;
  };
  static std::span<const Part> Parts();

  CpuCosts ScaledBy(double times) const;
  bool any() const;
};

struct SoftwareBehaviour {
  CpuCosts cpu;
  // The head dimension at which fused attention takes as many times as long as
  // ClusterParameters::attention_slowdown says; 0: at all. The first FlashAttention loses its time
  // in rescaling results after every block of keys and in handing them from warp to warp (Dao,
  // 2023, FlashAttention-2, sections 3.1.1 and 3.3), which goes by the head dimension, unlike a
  // score's exponential.
  int32_t attention_slowdown_depth = 0;
  // How often software works out a micro-batch's loss once more for its records: in 32 bits,
  // without gradients.
  int32_t recorded_losses = 0;
  // Norms, rotary embedding and gated activations are one kernel each; otherwise a framework's own
  // kernel for every elementary step, norms in 32 bits (layer_costs.cpp).
  bool fused_pointwise = true;
  // Weight gradients are added to the buffer that they accumulate in by their GEMMs; otherwise by a
  // kernel of its own.
  bool fused_accumulation = true;
  // Without interleaving a stage goes on only when what it sent and received between two passes is
  // through (Megatron-LM, pipeline_parallel/p2p_communication.py); false: transfers run beside it.
  bool blocking_transfers = false;
  // The same with interleaving (Megatron Core without overlap_p2p_comm).
  bool blocking_chunks = false;
  // What a stage sends a neighbour and what it receives from it are calls one after the other, each
  // of which the kernels that follow wait for (DeepSpeed, runtime/pipe/schedule.py, TrainSchedule,
  // and p2p.py), where Megatron-LM has one call for both.
  bool transfers_in_turn = false;
  // Each tensor-parallel rank sends the whole gradient back, not its share (DeepSpeed before 0.5.4,
  // runtime/pipe/engine.py, is_grad_partitioned).
  bool whole_gradient_messages = false;
  // Weights that are divided over replicas are divided parameter by parameter (PyTorch's FSDP2):
  // what was gathered is copied into whole parameters, gradients are cast and copied into the
  // buffer that is reduced (shard_copies.h).
  bool per_parameter_sharding = false;
  // Weights are views of one flat tensor a layer, whose gradient is put together of theirs
  // (PyTorch's first FSDP, torch/distributed/fsdp/flat_param.py, _get_unflat_views: torch.split,
  // whose backward pass concatenates).
  bool flat_parameters = false;
  // Before gradients are reduced, all that a device has are divided by the number of replicas, and
  // their norm is looked at for what is no number, unless a loss scale does that (Megatron Core,
  // distributed/param_and_grad_buffer.py, start_grad_sync and check_grads; without
  // average_in_collective, with check_for_nan_in_grad).
  bool scales_gradients = false, checks_gradients = false;
  // Scales of 8-bit operands come from the operands themselves (operand_casts.cpp); otherwise from
  // earlier steps, and weights are cast once an iteration.
  bool dynamic_scaling = false;
  // GEMMs in 8 bits promote their partial sums forward too, where scales go with blocks of what is
  // summed (Transformer Engine, common/recipe, Float8BlockScaling: use_split_accumulator;
  // DeepSeek-V3, section 3.3.2).
  bool promotes_forward = false;
  // What tensor-parallel ranks gather for GEMMs in 8 bits, and of gradients, each has cast before
  // (Transformer Engine, pytorch/module/layernorm_linear.py and base.py, grad_output_preprocess;
  // torchao, float8/float8_tensor_parallel.py).
  bool casts_before_gathers = true;
  // Largest magnitudes of 8-bit operands are reduced over all devices of a stage after every pass
  // of a chunk, so that all scale alike (Transformer Engine, pytorch/fp8.py,
  // reduce_and_update_fp8_tensors, with reduce_amax).
  bool reduces_scales = false;
  // Stages of a pipeline in bfloat16 reduce whole gradients, though optimizer states are divided,
  // and in bfloat16, though they accumulate in 32 bits (DeepSpeed, runtime/pipe/engine.py,
  // _bf16_reduce_grads; runtime/engine.py, communication_data_type).
  bool whole_reductions = false;
  // From zero 1 up to this, gradients are summed by all-reduces of whole buckets, of which each
  // replica keeps its part; 0: never (DeepSpeed since 0.12.4, runtime/zero/stage_1_and_2.py,
  // allreduce_and_scatter: 2; Colossal-AI, zero/low_level/low_level_optim.py: 1; nanotron,
  // optim/gradient_accumulator.py, get_fp32_accum_hook).
  int32_t sums_whole = 0;
  // Under zero 1 new weights are gathered when the update is over, also where reductions run behind
  // the backward pass (DeepSpeed, runtime/zero/stage_1_and_2.py, step: all_gather_dp_groups;
  // nanotron, optim/zero.py, _all_gather_params); otherwise beside passes as reductions are.
  bool gathers_after_update = false;
  // Weights that are divided over replicas are the optimizer's own, each device's part of which is
  // cast when it is gathered (a compiler's program: MaxText's weight_dtype and dtype), so that the
  // update casts and clears nothing.
  bool gathers_masters = false;
  // Weights of experts and others have an optimizer each, either of which gathers all new weights
  // when its own update ends, unless gathers run beside passes (Megatron Core until May of 2026,
  // optimizer/distrib_optimizer.py, step_with_ready_grads: start_param_sync of every model chunk).
  bool gathers_twice = false;
  // Weights that are divided over replicas are gathered one layer ahead; otherwise each layer waits
  // for its own, and a recomputed one gathers them once more.
  bool gathers_ahead = true;
  // Copies of divided weights sum their gradients once, after the last micro-batch, not after every
  // one (DeepSpeed, runtime/zero/mics.py, allreduce_mics_shard_grads, which looks at
  // is_gradient_accumulation_boundary).
  bool reduces_copies_last = false;
  // Kept inputs that go to the host's memory are copied through pageable memory, which the CPU and
  // with it the device waits for (DeepSpeed, runtime/activation_checkpointing/checkpointing.py:
  // .cpu() and .to(device); since August of 2026, commit 858e91eea, only of those that are divided
  // over tensor-parallel ranks); otherwise beside kernels, through pinned memory on a stream of its
  // own (torchtune's OffloadActivations with streams; DeepSpeed since then of the others).
  bool pageable_inputs = false;
  // Gathered weights that are needed again within so many elements of others stay (DeepSpeed,
  // runtime/zero/stage3.py, get_reuse_distance_in_numel).
  int64_t reuse_distance = 0;
  // What a process takes to make a token of its replica's next batch out of text, while devices
  // compute; zero: data are there as devices take them.
  SimTime token_preparation;
};

}  // namespace foretrace
