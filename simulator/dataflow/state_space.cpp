#include <initializer_list>

#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

using Axes = absl::InlinedVector<AxisId, 2>;
using Loops = std::array<Axes, kLoops>;
using In = std::initializer_list<OpId>;

// Operations of the selective scan for each element of a channel's state: discretised A and B x,
// the recurrence, and the sum with C (the authors' mamba_ssm counts 9). Backward it runs again, and
// once each for the gradients of states and of parameters.
constexpr double kScanFlop = 9, kBackwardScans = 3;

class BlockBuilder {
 public:
  explicit BlockBuilder(const StateSpaceSizes& s)
      : hidden_(graph.AddAxis("hidden", s.hidden)),
        seq_(graph.AddAxis("seq", s.sequence)),
        inner_(graph.AddAxis("ffn", s.inner > 0 ? s.inner : 2 * s.hidden)),
        rank_(graph.AddAxis("rank", s.rank > 0 ? s.rank : (s.hidden + 15) / 16)),
        states_(graph.AddAxis("states", 2 * s.state)),
        scan_flop_(kScanFlop * static_cast<double>(s.state)),
        taps_flop_(2 * static_cast<double>(s.taps)) {}

  struct Forward {
    OpId first, last;
    OpId norm, to_inner, to_gate, convolved, activated, to_rank, to_states, steps, scan, gate;
  };
  Forward AddForward() {
    Forward f;
    f.first = Pointwise("Add_Prev_Layer", hidden_, {});
    f.norm = Add("Norm", GraphOpKind::kNorm, {{{}, {hidden_}, {}, {seq_}}}, {f.first});
    f.to_inner = Gemm("IN_PROJ_X", inner_, hidden_, {f.norm});
    f.to_gate = Gemm("IN_PROJ_Z", inner_, hidden_, {f.norm});
    f.convolved = AlongSequence("CONV", {f.to_inner}, taps_flop_);
    f.activated = Pointwise("SiLU", inner_, {f.convolved});
    f.to_rank = Gemm("X_PROJ_DT", rank_, inner_, {f.activated});
    f.to_states = Gemm("X_PROJ_BC", states_, inner_, {f.activated});
    f.steps = Gemm("DT_PROJ", inner_, rank_, {f.to_rank});
    f.scan = AlongSequence("SCAN", {f.activated, f.steps, f.to_states}, scan_flop_);
    f.gate = Pointwise("GATE", inner_, {f.scan, f.to_gate});
    const OpId out = Gemm("OUT_PROJ", hidden_, inner_, {f.gate});
    f.last = Pointwise("Add", hidden_, {out, f.first});
    graph.Carry({f.last, f.first});
    return f;
  }

  void AddBackward(const Forward& f) {
    pass_ = Direction::kBackward;
    const OpId loss = Pointwise("Loss_bwd", hidden_, {});
    const OpId out = Gemm("OUT_PROJ_bwd", inner_, hidden_, {loss});
    const OpId gate = Pointwise("GATE_bwd", inner_, {out, f.scan, f.to_gate});
    const OpId scan = AlongSequence("SCAN_bwd", {gate, f.activated, f.steps, f.to_states},
                                    kBackwardScans * scan_flop_);
    // Gradients of B and C are summed over channels.
    const OpId states = Add("SCAN_bwd_BC", GraphOpKind::kBatchedMatmul,
                            {{{}, {states_}, {inner_}, {seq_}}}, {scan, f.activated});
    const OpId steps = Gemm("DT_PROJ_bwd", rank_, inner_, {scan});
    const OpId from_rank = Gemm("X_PROJ_DT_bwd", inner_, rank_, {steps});
    const OpId from_states = Gemm("X_PROJ_BC_bwd", inner_, states_, {states});
    const OpId activated =
        Pointwise("SiLU_bwd", inner_, {scan, from_rank, from_states, f.convolved});
    const OpId convolved = AlongSequence("CONV_bwd", {activated, f.to_inner}, 2 * taps_flop_);
    const OpId x = Gemm("IN_PROJ_X_bwd", hidden_, inner_, {convolved});
    const OpId z = Gemm("IN_PROJ_Z_bwd", hidden_, inner_, {gate});
    const OpId norm =
        Add("Norm_bwd", GraphOpKind::kNorm, {{{}, {hidden_}, {}, {seq_}}}, {x, z, f.first});
    graph.Carry({Pointwise("Add_bwd", hidden_, {norm, loss}), loss});
    Update("OUT_PROJ_weight_update", hidden_, inner_, loss, f.gate);
    Update("DT_PROJ_weight_update", inner_, rank_, scan, f.to_rank);
    Update("X_PROJ_DT_weight_update", rank_, inner_, steps, f.activated);
    Update("X_PROJ_BC_weight_update", states_, inner_, states, f.activated);
    Update("IN_PROJ_X_weight_update", inner_, hidden_, convolved, f.norm);
    Update("IN_PROJ_Z_weight_update", inner_, hidden_, gate, f.norm);
  }

  LoopGraph graph;

 private:
  OpId Add(const char* name, GraphOpKind kind, Loops loops, In in, double times = 1,
           bool whole_sequence = false, TensorRole role = TensorRole::kActivation) {
    LoopNest nest;
    nest.axes = std::move(loops);
    nest.pass = pass_;
    nest.times = times;
    if (role == TensorRole::kGradient) nest.streamed = Loop::kK;
    if (kind == GraphOpKind::kNorm) nest.whole[static_cast<size_t>(Loop::kM)] = true;
    nest.whole[static_cast<size_t>(Loop::kN)] = whole_sequence;
    return graph.Add(name, kind, std::move(nest), in, role);
  }
  OpId Pointwise(const char* name, AxisId rows, In in) {
    return Add(name, GraphOpKind::kElementwise, {{{}, {rows}, {}, {seq_}}}, in);
  }
  // Of a position and those before it, so that a chip has all of them.
  OpId AlongSequence(const char* name, In in, double flop) {
    return Add(name, GraphOpKind::kOpaque, {{{}, {inner_}, {}, {seq_}}}, in, flop, true);
  }
  OpId Gemm(const char* name, AxisId to, AxisId from, In in) {
    return Add(name, GraphOpKind::kMatmul, {{{}, {to}, {from}, {seq_}}}, in);
  }
  void Update(const char* name, AxisId to, AxisId from, OpId gradient, OpId activation) {
    Add(name, GraphOpKind::kBatchedMatmul, {{{}, {to}, {seq_}, {from}}}, {gradient, activation}, 1,
        false, TensorRole::kGradient);
  }

  Direction pass_ = Direction::kForward;
  AxisId hidden_, seq_, inner_, rank_, states_;
  double scan_flop_, taps_flop_;  // of a channel and position
};

}  // namespace

Workload MakeStateSpace(const StateSpaceSizes& sizes) {
  BlockBuilder builder(sizes);
  const BlockBuilder::Forward forward = builder.AddForward();
  if (sizes.train) builder.AddBackward(forward);
  Workload w = MakeWorkload("state space", std::move(builder.graph));
  StackLayers(sizes.layers, sizes.batch, sizes.sequence, sizes.hidden, w);
  return w;
}

}  // namespace foretrace::dataflow
