#include "simulator/graph/state_scan.h"

#include <algorithm>
#include <utility>

#include "simulator/graph/delta_rule.h"
#include "simulator/graph/scan_writer.h"

namespace foretrace {
namespace {

class CallWriter : ScanWriter {
 public:
  explicit CallWriter(const StateScan& scan)
      : CallWriter(scan, ScanSize({scan.samples, (scan.tokens + scan.chunk - 1) / scan.chunk})) {}
  CallWriter(const StateScan& scan, int64_t chunks)
      : ScanWriter(scan),
        chunks_(ScanSize({chunks, s_.groups})),
        states_(ScanSize({chunks_, s_.width, s_.state})),
        products_(ScanSize({chunks_, s_.chunk, s_.chunk})) {}

  CallList Forward() {
    Transpose(Projected());
    Convolve();
    Sums();
    ChunkStates();
    PassStates(s_.dtype);
    Products();
    const int64_t gate = inputs_ * element_;
    Gemm(s_.chunk, s_.width, s_.state + s_.chunk, Wider(products_) + Steps(2) + gate, gate);
    Transpose(inputs_);
    return std::move(calls_);
  }

  CallList Prompts(const PromptScan& p) {
    Convolve();
    Sums();
    ChunkStates();
    CopyStates(p.continued, p.state_width);
    PassStates(Kept(p.state_width));
    Products();
    Gemm(s_.chunk, s_.width, s_.state + s_.chunk,
         Wider(products_) + Steps(2) + inputs_ * element_ + states_ * (p.state_width - element_),
         0);
    CopyStates(p.sequences, p.state_width);
    return std::move(calls_);
  }

  CallList Backward() {
    Transpose(inputs_);
    Convolve();
    Sums();
    Products();
    ChunkStates();
    PassStates(kWide);
    // Of the gate, the result before it, the result's gradient and the input, whose product with
    // that is the skip's.
    Pointwise(inputs_, 4 * inputs_, 2, s_.dtype);
    Gemm(s_.width, s_.state, s_.chunk, Steps(1), Wider(states_));
    PassGradients();
    GradientOfInput();
    GradientsOfReaders();
    GradientOfDecays();
    Pointwise(Convolved(), 2 * Convolved(), 1, s_.dtype, 2 * PerConvolved());
    Transpose(Projected());
    return std::move(calls_);
  }

 private:
  int64_t Projected() const { return 2 * inputs_ + 2 * readers_ + steps_; }
  // What `n` elements of 32 bits take beyond the call's own.
  int64_t Wider(int64_t n) const { return n * (kWideBytes - element_); }
  // Steps and the sums of their decays.
  int64_t Steps(int64_t tensors) const { return tensors * steps_ * kWideBytes; }

  void Gemm(int64_t m, int64_t n, int64_t k, int64_t read_beside, int64_t written_beside) {
    Add(BatchedMatmulOp{chunks_, m, n, k, std::max<int64_t>(read_beside, 0),
                        std::max<int64_t>(written_beside, 0)},
        s_.dtype);
  }

  // Tokens come first, samples second, and the kernels take them the other way round; of one sample
  // both are the same.
  void Transpose(int64_t n) {
    if (s_.samples > 1) Copy(n);
  }

  void Sums() { Pointwise(steps_, steps_ * element_ / kWideBytes, 2, kWide); }

  void ChunkStates() { Gemm(s_.width, s_.state, s_.chunk, Steps(2), Wider(states_)); }

  void PassStates(DType to) { Pointwise(states_, states_, 1, kWide, 2, to); }

  void Products() { Gemm(s_.chunk, s_.chunk, s_.state, 0, Wider(products_)); }

  // Of states and their gradients in 32 bits both are written as GEMMs take them.
  void PassGradients() { Pointwise(states_, 2 * states_, 2, kWide, 2, s_.dtype); }

  // From the results of the same chunk and from the states that it adds to; the input itself is
  // read for the steps' gradient.
  void GradientOfInput() {
    Gemm(s_.chunk, s_.width, s_.state + s_.chunk, Wider(products_) + Steps(2) + inputs_ * element_,
         Steps(1));
  }

  void GradientsOfReaders() {
    // By chunk's states, each of one group for all of its heads.
    for (int i = 0; i < 2; ++i) {
      Gemm(s_.chunk, s_.state, s_.width, Steps(2) + readers_ * element_,
           Wider(readers_) + Steps(1));
      Sum(readers_);
    }
    Gemm(s_.chunk, s_.chunk, s_.width, Steps(2), Wider(products_));
    Sum(products_);
    for (int i = 0; i < 2; ++i) {
      Gemm(s_.chunk, s_.state, s_.chunk, Wider(products_) + readers_ * kWideBytes, 0);
    }
  }

  // What programs of a group's heads gave is added up, also where one has them all
  // (ssd_chunk_state.py, _chunk_state_bwd_db: dB.sum(2)).
  void Sum(int64_t n) { Pointwise(n, n, 1, kWide); }

  // ssd_combined.py: the end of each chunk is added, sums run backward between two reversals, and
  // what three kernels gave is added up.
  void GradientOfDecays() {
    for (int i = 0; i < 3; ++i) Pointwise(steps_, steps_, 1, kWide);
    Gemm(s_.chunk, s_.chunk, s_.width, products_ * kWideBytes + Steps(2), Steps(1));
    Pointwise(steps_, 2 * steps_, 1, kWide);
    Pointwise(steps_, 2 * steps_, 1, kWide);
    Pointwise(steps_, 2 * steps_ + steps_ * element_ / kWideBytes, 1, kWide, 4, s_.dtype);
  }

  // GEMMs in a batch; elements of tensors.
  int64_t chunks_, states_, products_;
};

}  // namespace

StateScan ScanOf(const OperatorGraph& graph, const Binding& sizes, const GraphOp& op) {
  const auto& input = graph.tensor(op.inputs[1]);
  const auto last = [&](size_t i) { return sizes.of(graph.tensor(op.inputs[i]).axes.back()); };
  StateScan scan;
  scan.samples = sizes.of(input.axes[0]);
  scan.groups = sizes.of(input.axes[1]);
  scan.tokens = sizes.of(input.axes[2]);
  scan.width = sizes.of(input.axes[3]);
  scan.state = last(2);
  scan.heads = sizes.of(graph.tensor(op.inputs[4]).axes[1]);
  scan.taps = last(kScanTensors);
  scan.chunk = std::max<int64_t>(op.chunk, 1);
  scan.dtype = input.dtype;
  scan.delta = op.function == kDeltaRule;
  return scan;
}

CallList ScanCalls(const StateScan& scan, Direction pass) {
  if (scan.delta) return DeltaCalls(scan, pass);
  CallWriter writer(scan);
  return pass == Direction::kForward ? writer.Forward() : writer.Backward();
}

bool WeighsByDecays(const StateScan& scan, const KernelWork& work) {
  if (work.kind != KernelKind::kBatchedGemm || work.m != scan.chunk) return false;
  const bool results = work.n == scan.width && work.k == scan.state + scan.chunk;
  return results || (work.n == scan.chunk && work.k == scan.width);
}

double LeastSecondsOfDecays(const StateScan& scan, const KernelWork& work,
                            int32_t multiprocessors) {
  if (scan.delta) return LeastSecondsOfDelta(scan, work, multiprocessors);
  if (multiprocessors <= 0 || !WeighsByDecays(scan, work)) return 0;
  return work.flop.count() / (kFlopOfDecays * multiprocessors);
}

int64_t SequenceStateBytes(const StateScan& scan, int64_t state_width) {
  const int64_t convolved = ScanSize({scan.groups, scan.width + 2 * scan.state});
  return ScanSize({scan.groups, scan.width, scan.state, state_width}) +
         ScanSize({scan.taps - 1, convolved, ElementSize(scan.dtype)});
}

CallList PromptScanCalls(const StateScan& scan, const PromptScan& prompts) {
  if (scan.delta) return DeltaPromptCalls(scan, prompts);
  return CallWriter(scan, prompts.chunks).Prompts(prompts);
}

KernelList UpdateKernels(const StateScan& scan, int64_t sequences, int64_t tokens,
                         int64_t state_width) {
  const int64_t element = ElementSize(scan.dtype);
  const int64_t inputs = ScanSize({scan.groups, scan.width});
  const int64_t readers = ScanSize({scan.groups, scan.state});
  const int64_t convolved = inputs + 2 * readers, states = ScanSize({inputs, scan.state});
  const int64_t rows = ScanSize({sequences, tokens});
  KernelWork convolution;
  convolution.kind = KernelKind::kElementwise;
  convolution.dtype = scan.dtype;
  convolution.read =
      Bytes(ScanSize({rows + ScanSize({sequences, scan.taps - 1}), convolved, element}));
  convolution.written = convolution.read;
  convolution.flop = Flop(static_cast<double>(rows) * static_cast<double>(convolved) *
                          (2 * static_cast<double>(scan.taps) + kScanActivation));
  // A state is multiplied by its decay, added to, and weighed for the result; under a delta rule
  // weighed for the value first.
  const double flop_of_state = scan.delta ? 7 : 5;
  const int64_t steps = scan.delta ? 2 * scan.heads : scan.heads;
  KernelWork update = convolution;
  update.read = Bytes(ScanSize({sequences, states, state_width}) +
                      ScanSize({rows, 2 * inputs + 2 * readers + steps, element}));
  update.written = Bytes(ScanSize({rows, states, state_width}) + ScanSize({rows, inputs, element}));
  update.flop = Flop(static_cast<double>(rows) * static_cast<double>(states) * flop_of_state);
  return {convolution, update};
}

}  // namespace foretrace
