#include "simulator/graph/delta_rule.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

constexpr DType kWide = DType::kFloat32;
constexpr int64_t kWideBytes = 4;
constexpr double kActivation = 4, kNormalised = 4;  // FLOP of SiLU, of a norm

class DeltaWriter {
 public:
  // Queries and keys of `sharing` heads of values are read once.
  DeltaWriter(const StateScan& scan, int64_t chunks, int64_t turns, bool sharing)
      : s_(scan),
        turns_(turns),
        rows_(SaturatingProduct({s_.samples, s_.tokens})),
        values_(SaturatingProduct({rows_, s_.groups, s_.width})),
        keys_(SaturatingProduct({rows_, s_.groups, s_.state})),
        steps_(SaturatingProduct({rows_, s_.heads})),
        repeated_(SaturatingProduct({steps_, s_.state})),
        batch_(SaturatingProduct({chunks, s_.heads})),
        depth_(std::max<int64_t>(s_.groups * s_.width / std::max<int64_t>(s_.heads, 1), 1)),
        shared_(sharing ? std::max<int64_t>(s_.heads / std::max<int64_t>(s_.groups, 1), 1) : 1),
        element_(ElementSize(s_.dtype)) {}

  CallList Forward() {
    Copy(keys_ + keys_ + values_);
    Convolve();
    Copy(keys_), Copy(keys_);
    Normalise();
    if (repeated_ > keys_) {
      for (int i = 0; i < 2; ++i) Pointwise(repeated_, keys_, 1, s_.dtype);
    }
    Copy(values_), Copy(values_);
    Pointwise(steps_, steps_ * element_ / kWideBytes, 1, kWide, 4);
    Pointwise(steps_, steps_, 1, s_.dtype, 2);
    Chunks(0);
    if (s_.samples > 1) Copy(values_);
    return std::move(calls_);
  }

  CallList Prompts(const PromptScan& p) {
    const DType kept = p.state_width == kWideBytes ? kWide : s_.dtype;
    const int64_t of_sequence = SaturatingProduct({s_.groups, s_.width, s_.state});
    const auto copy = [&](int64_t n) {
      if (n > 0) Add(CopyOp{SaturatingProduct({n, of_sequence}), true}, kept);
    };
    Convolve();
    Copy(keys_ + keys_ + values_);
    Normalise();
    Pointwise(steps_, steps_, 2, kWide, 6);
    copy(p.continued);
    Chunks(values_ * element_);
    copy(p.sequences);
    return std::move(calls_);
  }

  CallList Backward() {
    ThroughInverse();
    States();
    const int64_t c = s_.chunk, k = s_.state, v = depth_;
    Gemm(c, v, c, 2 * c * k - c * c, c * c * k);
    Gemm(k, v, 3 * c, 0, 0, turns_);
    Gemm(c, k, 3 * v, 4 * c * k - k * v, c * c * (v + 2 * k));
    Gemm(c, k + v, c, c * (k + v), c * c * (4 * k + v) + 2 * c * c * c);
    Pointwise(repeated_, 2 * repeated_, 1, s_.dtype);
    Pointwise(steps_, 2 * steps_, 1, kWide);
    Pointwise(steps_, steps_, 1, kWide);
    if (repeated_ > keys_) {
      for (int i = 0; i < 2; ++i) Pointwise(keys_, repeated_, 1, s_.dtype);
    }
    for (int i = 0; i < 2; ++i) Pointwise(keys_, 2 * keys_, 1, s_.dtype, 2 * kNormalised);
    for (int i = 0; i < 2; ++i) Pointwise(steps_, 2 * steps_, 1, kWide, 4);
    const int64_t convolved = values_ + 2 * keys_;
    Copy(convolved);
    Pointwise(convolved, 2 * convolved, 1, s_.dtype, 2 * PerConvolved());
    Copy(convolved);
    Copy(convolved + values_ + 2 * steps_);
    return std::move(calls_);
  }

 private:
  double PerConvolved() const { return 2 * static_cast<double>(s_.taps) + kActivation; }

  void Add(OperatorCall::Shape shape, DType dtype) {
    calls_.push_back({std::move(shape), dtype, Direction::kForward});
  }
  void Copy(int64_t n) { Add(CopyOp{n, true}, s_.dtype); }
  void Pointwise(int64_t n, int64_t read, int64_t outputs, DType dtype, double flop = 1) {
    Add(ElementwiseOp{n, read, outputs, flop}, dtype);
  }
  // `elements` of each that it reads beside operands and result; negative where these are one.
  void Gemm(int64_t m, int64_t n, int64_t k, int64_t elements, int64_t products,
            int64_t turns = 0) {
    BatchedMatmulOp op{batch_, m, n, k};
    op.read_beside = batch_ * elements * element_ + steps_ * 2 * kWideBytes + beside_;
    op.products_beside = products;
    op.turns = turns;
    Add(op, s_.dtype);
  }
  // What queries or keys of a chunk are fewer elements where heads share them.
  int64_t Shared() const { return s_.chunk * (s_.state - s_.state / shared_); }

  void Convolve() {
    const int64_t n = values_ + 2 * keys_;
    Pointwise(n, n, 1, s_.dtype, PerConvolved());
  }
  void Normalise() {
    for (int i = 0; i < 2; ++i) Pointwise(keys_, keys_, 1, s_.dtype, kNormalised);
  }
  // `gate`: bytes that are read for what comes behind.
  void Chunks(int64_t gate) {
    Pointwise(steps_, steps_, 1, kWide);
    const int64_t c = s_.chunk, k = s_.state;
    Gemm(c, c, k, -c * k - Shared(), 0);
    ThroughInverse();
    States();
    beside_ = gate;
    Gemm(c, depth_, k + c, c * k - c * c - 2 * Shared(), c * c * k);
  }
  void ThroughInverse() { Gemm(s_.chunk, s_.state + depth_, s_.chunk, -Shared(), 0); }
  void States() { Gemm(s_.state, depth_, 2 * s_.chunk, -Shared(), 0, turns_); }

  const StateScan& s_;
  const int64_t turns_;
  int64_t rows_, values_, keys_, steps_, repeated_, batch_, depth_, shared_, element_;
  int64_t beside_ = 0;
  CallList calls_;
};

int64_t ChunksOf(const StateScan& scan) { return (scan.tokens + scan.chunk - 1) / scan.chunk; }

}  // namespace

CallList DeltaCalls(const StateScan& scan, Direction pass) {
  const int64_t turns = ChunksOf(scan);
  DeltaWriter writer(scan, SaturatingProduct({scan.samples, turns}), turns, false);
  return pass == Direction::kForward ? writer.Forward() : writer.Backward();
}

CallList DeltaPromptCalls(const StateScan& scan, const PromptScan& prompts) {
  return DeltaWriter(scan, prompts.chunks, prompts.longest, true).Prompts(prompts);
}

double LeastSecondsOfDelta(const StateScan& scan, const KernelWork& work, int32_t multiprocessors) {
  constexpr double kForward = 1.2e-6, kBackward = 2.3e-6;
  if (work.kind != KernelKind::kBatchedGemm) return 0;
  const double turn = work.k > 2 * scan.chunk ? kBackward : kForward;
  const double serial = static_cast<double>(work.turns) * turn;
  if (multiprocessors <= 0) return serial;
  return std::max(serial, work.flop.count() / (kFlopOfDecays * multiprocessors));
}

}  // namespace foretrace
