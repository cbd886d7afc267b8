#include "simulator/graph/state_scan.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

constexpr DType kWide = DType::kFloat32;
constexpr int64_t kWideBytes = 4;

class CallWriter {
 public:
  explicit CallWriter(const StateScan& scan)
      : s_(scan),
        rows_(SaturatingProduct({s_.samples, s_.tokens})),
        chunks_(SaturatingProduct({s_.samples, (s_.tokens + s_.chunk - 1) / s_.chunk, s_.groups})),
        inputs_(SaturatingProduct({rows_, s_.groups, s_.width})),
        readers_(SaturatingProduct({rows_, s_.groups, s_.state})),
        steps_(SaturatingProduct({rows_, s_.heads})),
        states_(SaturatingProduct({chunks_, s_.width, s_.state})),
        products_(SaturatingProduct({chunks_, s_.chunk, s_.chunk})),
        element_(ElementSize(s_.dtype)) {}

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
    const int64_t convolved = inputs_ + 2 * readers_;
    Pointwise(convolved, 2 * convolved, 1, s_.dtype, 2 * PerConvolved());
    Transpose(Projected());
    return std::move(calls_);
  }

 private:
  double PerConvolved() const { return 2 * static_cast<double>(s_.taps) + kActivation; }
  int64_t Projected() const { return 2 * inputs_ + 2 * readers_ + steps_; }
  // What `n` elements of 32 bits take beyond the call's own.
  int64_t Wider(int64_t n) const { return n * (kWideBytes - element_); }
  // Steps and the sums of their decays.
  int64_t Steps(int64_t tensors) const { return tensors * steps_ * kWideBytes; }

  void Add(OperatorCall::Shape shape, DType dtype) {
    calls_.push_back({std::move(shape), dtype, Direction::kForward});
  }
  void Pointwise(int64_t n, int64_t read, int64_t outputs, DType dtype, double flop = 1,
                 DType to = DType::kUnknown) {
    Add(ElementwiseOp{n, read, outputs, flop, to}, dtype);
  }
  void Gemm(int64_t m, int64_t n, int64_t k, int64_t read_beside, int64_t written_beside) {
    Add(BatchedMatmulOp{chunks_, m, n, k, std::max<int64_t>(read_beside, 0),
                        std::max<int64_t>(written_beside, 0)},
        s_.dtype);
  }

  // Tokens come first, samples second, and the kernels take them the other way round; of one sample
  // both are the same.
  void Transpose(int64_t n) {
    if (s_.samples > 1) Add(CopyOp{n, true}, s_.dtype);
  }

  void Convolve() {
    const int64_t n = inputs_ + 2 * readers_;
    Pointwise(n, n, 1, s_.dtype, PerConvolved());
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

  static constexpr double kActivation = 4;  // FLOP of SiLU

  const StateScan& s_;
  // Elements: of tokens; of GEMMs in a batch; of tensors.
  int64_t rows_, chunks_, inputs_, readers_, steps_, states_, products_;
  int64_t element_;
  CallList calls_;
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
  return scan;
}

CallList ScanCalls(const StateScan& scan, Direction pass) {
  CallWriter writer(scan);
  return pass == Direction::kForward ? writer.Forward() : writer.Backward();
}

bool WeighsByDecays(const StateScan& scan, const KernelWork& work) {
  if (work.kind != KernelKind::kBatchedGemm || work.m != scan.chunk) return false;
  const bool results = work.n == scan.width && work.k == scan.state + scan.chunk;
  return results || (work.n == scan.chunk && work.k == scan.width);
}

}  // namespace foretrace
