#pragma once
// Iteration time of a transformer under a parallel mapping: durations of passes and messages from
// physical parameters, their order from the pipeline schedule.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/graph/operator_graph.h"
#include "simulator/mapping/device_measurements.h"
#include "simulator/mapping/exchange_times.h"
#include "simulator/mapping/kernel_forms.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/pass_kernels.h"
#include "simulator/mapping/software_behaviour.h"
#include "simulator/plan/pipeline_timing.h"

namespace foretrace {

struct DeepEpDevice;

// What a device and its network attain, and how software runs them. Defaults: A100-SXM4-80GB, eight
// to a node with NVSwitch and one 200 Gb/s NIC each; peaks from data sheets.
struct ClusterParameters : SoftwareBehaviour {
  FlopRate peak = FlopRate::Teraflops(312);
  FlopRate peak_fp8, peak_fp4;      // of GEMMs in 8 and 4 bits; zero: not stated
  double matrix_efficiency = 0.73;  // of the peak, for large GEMMs
  // A GEMM with smallest dimension m attains m / (m + this) of that. Fits to measured iterations
  // find 0: their GEMMs are all large.
  double matrix_half_size = 0;
  Bandwidth peak_memory = Bandwidth::GBps(2039);
  double memory_efficiency = 0.8;
  std::shared_ptr<const ExchangeTimes> exchanges;  // null: of one device, which exchanges nothing
  // What links attain in training of the rates that `exchanges` rests on: 1, where nothing is
  // fitted. Of groups within a node, and of those that leave it.
  double node_share = 1, nic_share = 1;
  FlatLinks flat;
  // What each device of a node gets of the way to the host's memory when all use it, and that
  // memory's own rate, which they share; zero: not stated.
  Bandwidth host_link, host_memory;
  // What one core moves between that memory and a pinned buffer, as copies of pageable memory ask
  // for; zero: not stated.
  Bandwidth host_staging;
  // Replaces peaks and efficiencies, and `exchanges` where collectives within a node were measured;
  // null: closed forms alone.
  std::shared_ptr<const DeviceMeasurements> measured;
  // What GEMMs of 16 and of 8 bits keep up at the power limit (Accelerator::sustained), which short
  // measurements exceed; zero: not known.
  FlopRate sustained, sustained_fp8;
  // A GEMM in 8 bits takes this share of its time in 16 bits. The peak's is half; at the power
  // limit the clock falls with it: GEMMs of 2,048 and more on each side on an H100, quantisation
  // taken off (aiconfigurator, h100_sxm gemm of TensorRT-LLM: 0.57 to 0.59). Shapes bound by
  // something else do not get faster by it than by their smaller operands.
  double eight_bit_share = 0.58;
  // The same of GEMMs in 4 bits, by the device's peaks alone as nothing was measured; 0: it has
  // none. Devices that multiply 4 bits scale operands by blocks.
  double four_bit_share = 0;
  // GEMMs in 8 bits of a backward pass take this many times as long as forward ones. Transformer
  // Engine and torchao promote their partial sums to 32 bits as they go (_2X_ACC_DGRAD and
  // _2X_ACC_WGRAD in transformer_engine/pytorch/module/base.py; use_fast_accum in
  // torchao/float8/config.py), without which GEMMs are 1.1 to 1.2 times as fast on Hopper
  // (pytorch/ao, issue 2377); later chips sum in 32 bits anyway. Forward ones where
  // SoftwareBehaviour::promotes_forward.
  double split_accumulation = 1;
  // Fused attention takes this many times as long as the device's best kernels of it.
  double attention_slowdown = 1;
  KernelForms forms;
  // Weights that are divided over replicas are cast to 8 bits before they are gathered.
  bool eight_bit_gathers = false;
  // Operands in 8 bits have a scale for each row of what a GEMM sums over (operand_casts.cpp).
  bool scaled_by_row = false;
  // What kernels that run beside a collective take longer where the device's multiprocessors or the
  // collective's channels are not known: measured on eight A100 (Galvatron,
  // overlap_coefficient.json: 1.1256).
  double overlap_slowdown = 0.1256;
  // Standard deviation of GEMMs and attention between devices of one kind, relative to the median.
  // Sinha et al. (2022), "Not all GPUs are created equal", abstract: 8 % on average between devices
  // of a cluster, taken as the range between a box plot's whiskers, 5.4 deviations; kernels bound
  // by memory hardly differ. A job waits for its slowest device.
  double device_spread = 0.015;
  double slowest_device = 1;  // of a mapping's, how many times as long as the median; TimePasses
  double gemm_slowdown = 1;   // a measured GEMM takes this many times as long within training
  // The CPU issues the kernels of one layer's forward pass no faster; also of its backward pass.
  SimTime launch_floor;
  SimTime issue = SimTime::FromUs(5);  // what the CPU takes to issue one kernel
  // Between two kernels of a busy stream, which measurements of single kernels leave out; and from
  // a kernel to a collective that waits for it on its own stream, or back (LaunchLatencies).
  SimTime kernel_gap, stream_wait;
  std::shared_ptr<const DeepEpDevice> deep_ep;  // expert_dispatch.h; null: not known
  int32_t devices_per_node = 8;
  int32_t multiprocessors = 0;  // of a device; 0: not known
};

// A layer's gradients over the replicas.
struct LayerExchange {
  CollectiveOp op = CollectiveOp::kReduceScatter;
  SimTime time;
  Bytes bytes;
  // Then, where replicas divide in groups (hsdpN), of each one's share among the copies of its
  // group.
  SimTime copies;
  Bytes share;
  bool waited = false;  // by the layer's backward pass
  SimTime All() const { return time + copies; }
  SimTime Waited() const { return waited ? All() : SimTime(); }
};

// The gathering of a layer's weights (ZeRO stage 3), one layer ahead; zero where there is none.
struct LayerGather {
  SimTime dense, experts;
  SimTime All() const { return dense + experts; }
};

// Equal exchanges of a pass, as the sharded graph has them.
struct PassExchange {
  ShardGroup group = ShardGroup::kTensor;
  CollectiveOp op = CollectiveOp::kUnknown;  // unknown: of several kinds, in whole layers
  SimTime time;                              // of one
  Bytes bytes;
  int32_t count = 1;
  // Kernels that do not need it run beside it, for `cover` beside each of `count`, and what follows
  // waits for both; or it goes on where the one before, then one, ends, beside the same kernels.
  // Otherwise the pass waits for it.
  bool beside = false, goes_on = false;
  SimTime cover;
  // How many times as long these kernels take meanwhile, of the first of those that go on.
  double slowed = 1;
};
inline bool OfExperts(ShardGroup group) {
  return group == ShardGroup::kExpert || group == ShardGroup::kExpertNodes ||
         group == ShardGroup::kExpertPeers;
}
struct PassExchanges {
  using List = std::vector<PassExchange>;
  List forward, backward;  // recomputation included

  const List& of(bool is_forward) const { return is_forward ? forward : backward; }
  List& of(bool is_forward) { return is_forward ? forward : backward; }
  // What is not hidden of them.
  SimTime Sum(bool is_forward) const {
    SimTime sum, cover;
    for (const PassExchange& e : of(is_forward)) {
      if (!e.goes_on) cover = SimTime::FromPs(e.cover.ps() * e.count);
      const SimTime time = SimTime::FromPs(e.time.ps() * e.count);
      const SimTime hidden = std::min(cover, time);
      cover -= hidden;
      sum += time - hidden;
    }
    return sum;
  }
};

// Weights outside of the layers, divided over replicas (ZeRO stages 2 and 3). They are of the root
// module, whose weights are gathered before a micro-batch's forward pass begins and whose gradients
// are reduced after its backward pass (torch/distributed/fsdp/_runtime_utils.py, _root_pre_forward
// and _post_backward_hook): nothing hides either.
struct RootExchange {
  SimTime gather;
  Bytes weights;
  LayerExchange gradient;
};

// What an input that layers are recomputed from adds to one of their passes (kept_inputs.h), first
// of all that they do.
struct KeptInput {
  SimTime kernels;       // copies within the device
  PassExchange gather;   // of its parts, which the layers wait for; zero: it is whole
  SimTime waited;        // for the host, or from there: the device does nothing else meanwhile
  SimTime beside, room;  // the same beside kernels, and how much of that one layer's pass hides

  // Where layers together hide so much: what devices only communicate.
  SimTime Exposed(SimTime hidden) const {
    return gather.time + waited + std::max(beside - hidden, SimTime());
  }
  bool any() const { return kernels + gather.time + waited + beside > SimTime(); }
};

// What a process's CPU takes to start work (cpu_costs.h), of one micro-batch: a layer's passes; all
// passes of what is before and after the layers. Of an iteration: the update of a layer's weights.
struct CpuTimes {
  SimTime forward, backward, first, last, update;
};

struct PassTimes {
  // One layer, one micro-batch, with all exchanges but those of the input that is kept of it.
  SimTime layer_forward, layer_backward;
  KeptInput kept_forward, kept_backward;  // of layers that have a backward pass alone
  SimTime layer_weight;  // of layer_backward: the weights' gradient, where it is split off
  PassKernels forward_kernels, backward_kernels;      // of a layer
  SimTime embedding_forward, embedding_backward;      // on the first stage
  SimTime head_forward, head_backward;                // output layer and loss, on the last stage
  PassExchanges embedding_exchanges, head_exchanges;  // part of these
  // Those of the sharded graph; the ones that kernels hide come first.
  PassExchanges layer_exchanges;
  // That exchanges of experts are spread over, where they tell nodes apart.
  int32_t expert_nodes = 1;
  // Reduce-scatters of a layer's gradients (ZeRO stages 2 and 3): dense ones over the replicas,
  // experts' over those that hold the same experts.
  LayerExchange gradient, expert_gradient;
  // Both, where they run behind the next layer's backward pass instead of each layer waiting, and
  // what then goes on among copies beside the next reductions, by other links.
  SimTime reduce_behind, copies_behind;
  // Backward, of a second partition where there is one (hpzN).
  LayerGather forward_gather, backward_gather;
  SimTime gathers_forward, gathers_backward;  // part of a layer's passes, where none run ahead
  Bytes weight_bytes, expert_weight_bytes;
  SimTime scale_reduction;             // after a chunk's pass, forward or backward
  RootExchange first_root, last_root;  // of the first stage; of the last where there are several
  // Of a micro-batch between neighbouring stages: what is passed on, and its gradient back, which
  // takes longer where software says so and stages wait for their messages.
  SimTime transfer, gradient_transfer;
  Bytes transfer_bytes;
  bool blocking_transfers = false, blocking_chunks = false;  // ClusterParameters'
  // After the last backward pass, or during it (overlap_gradients): dense, then expert gradients.
  SimTime gradient_reduction, expert_reduction;
  Bytes gradient_bytes, expert_gradient_bytes;
  // Then, of an output layer that shares the embedding's table, between the first and the last
  // stage, which each have a copy.
  SimTime tied_reduction;
  Bytes tied_bytes;
  SimTime optimizer;  // with clipping, casts and clearing of the gradients
  // Of models whose layers are of several kinds, what those of the second one and on take, of
  // which only what is of one layer is looked at (mixed_layers.h, TimesOf); empty: layers are
  // alike.
  std::vector<std::shared_ptr<const PassTimes>> others;
  // Of mappings that recompute some layers whole, what the others take, by kind too
  // (mixed_layers.h, TimesOf); null: layers are alike in that.
  std::shared_ptr<const PassTimes> kept;
  // Of passes without another micro-batch's opposite pass beside them (LonePasses), where that
  // hides what experts exchange; null: passes are alike.
  std::shared_ptr<const PassTimes> lone;
  CpuTimes cpu;
  CostSources sources;  // of the kernels of one micro-batch: a layer, and what is outside of layers

  SimTime Exchanges(bool forward) const {
    const SimTime exchanged = layer_exchanges.Sum(forward);
    return forward ? exchanged : exchanged + gradient.Waited() + expert_gradient.Waited();
  }
  // Of a layer's both passes, gathers that nothing covers included.
  SimTime LayerExchanges() const {
    return Exchanges(true) + Exchanges(false) + gathers_forward + gathers_backward;
  }
  const KeptInput& Kept(bool forward) const { return forward ? kept_forward : kept_backward; }
  const LayerGather& GatherOf(bool forward) const {
    return forward ? forward_gather : backward_gather;
  }
  SimTime Gather(bool forward) const { return GatherOf(forward).All(); }
};

struct IterationEstimate {
  SimTime time;
  SimTime pipeline;  // until the last pass
  SimTime loading;   // preparation of the next batch beside all that, which `time` is not below
  SimTime cpu;       // starting all that, which `time` is not below either; zero: not known
  bool CpuBound() const { return cpu > SimTime() && cpu == time; }
  PassTimes passes;
  double bubble = 0;  // idle share of the stages' time until the last pass
  // Share of the iteration in which devices only communicate, the mean over stages; what stages
  // wait for each other is the bubble.
  double exposed_communication = 0;
  double model_flop_utilisation = 0;  // of PeakOf
};

// The peak of what GEMMs of the mapping's layers take: 16 bits, or fewer where it says so and the
// device's rate in these is stated.
FlopRate PeakOf(const ParallelMapping& mapping, const ClusterParameters& cluster);

// Model FLOP over what the devices that the mapping takes could do in the time (PaLM, appendix B):
// the one definition of utilisation, of all kinds of mapping.
double ModelFlopUtilisation(Flop of_iteration, SimTime iteration, FlopRate peak, int64_t devices);

// Times many mappings of one model on one cluster. What they share is worked out once: the passes
// of layers by all that these depend on (PassView). Thread-safe.
class IterationModel {
 public:
  // The model must have one stack of layers, which the functions check.
  IterationModel(const TransformerConfig& model, ClusterParameters cluster);

  const TransformerConfig& model() const { return layers_.model(); }
  const ModelLayers& layers() const { return layers_; }
  HostUse host() const {
    const bool link = cluster_.host_link > Bandwidth();
    return {link, link && cluster_.host_memory > Bandwidth()};
  }
  // Errors: as CheckMapping; what the device or the platform's file does not state; exchanges that
  // the network cannot time.
  absl::StatusOr<PassTimes> Passes(const ParallelMapping& mapping) const;
  // Where the pipeline has become periodic the periods left are counted, not simulated, which gives
  // the same result to the bit.
  absl::StatusOr<IterationEstimate> Estimate(const ParallelMapping& mapping) const;

 private:
  const ClusterParameters& ClusterOf(int64_t devices) const;
  absl::StatusOr<PassTimes> OfMapping(const ParallelMapping& mapping) const;
  // As if all layers of a kind were recomputed alike.
  absl::StatusOr<PassTimes> OfLayers(const ParallelMapping& mapping) const;
  // Of one kind of layers; of the cluster, what the slowest of a mapping's devices takes.
  using PassKey = std::pair<ParallelMapping, double>;
  using KnownPasses = Memo<PassKey, absl::StatusOr<PassTimes>>;
  // `experts_apart`: as AddIterationCosts has it.
  absl::StatusOr<PassTimes> OfKind(const LayersOfKind& kind, const KnownPasses& known,
                                   const ParallelMapping& mapping, const ClusterParameters& cluster,
                                   bool experts_apart) const;

  ModelLayers layers_;
  ClusterParameters cluster_;
  Flop flop_;                                       // ModelFlopOf
  Memo<int64_t, ClusterParameters> clusters_;       // by devices, with their slowest one
  std::array<KnownPasses, kMostLayerKinds> known_;  // by kind
};

// Of one mapping alone.
absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster);
absl::StatusOr<IterationEstimate> EstimateIteration(const TransformerConfig& model,
                                                    const ParallelMapping& mapping,
                                                    const ClusterParameters& cluster);

// A pass of `layers` layers. With weights to gather, each layer waits for its own, whose gathering
// starts with the layer before. With gradients to reduce behind it, the link reduces the layer
// before's first; the pass ends with the last layer's.
SimTime PassDuration(SimTime layer, int64_t layers, SimTime weight_gather,
                     SimTime reduce_behind = SimTime());
// The same of layers that differ, in the order of the pass. What `copies` takes comes after each
// one's reduction, by links of its own, one after another; the pass ends with the last of these.
struct LayerPass {
  SimTime layer, gather, reduce, copies;
};
SimTime PassDuration(absl::Span<const LayerPass> layers);

// Whether what is left to reduce after the passes starts with each layer's gradient.
bool ReducesByLayer(const ParallelMapping& mapping);

// Part `index` of a reduction that goes layer by layer, in the order of the backward pass.
SimTime ReductionPart(SimTime reduction, int64_t layers, int64_t index);

// Stages with `layer` durations each, embedding on the first chunk of the first stage, head on the
// last chunk of the last.
absl::StatusOr<TimedPipeline> PipelineOf(const TransformerConfig& model,
                                         const ParallelMapping& mapping, const PassTimes& passes);

}  // namespace foretrace
