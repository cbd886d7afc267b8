#include "simulator/graph/delta_rule.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "simulator/graph/scan_writer.h"

namespace foretrace {
namespace {

constexpr double kNormalised = 4;  // FLOP of a norm

class DeltaWriter : ScanWriter {
 public:
  // Queries and keys of `sharing` heads of values are read once.
  DeltaWriter(const StateScan& scan, int64_t chunks, int64_t turns, bool sharing)
      : ScanWriter(scan),
        turns_(turns),
        repeated_(ScanSize({steps_, s_.state})),
        batch_(ScanSize({chunks, s_.heads})),
        depth_(
            std::max<int64_t>(ScanSize({s_.groups, s_.width}) / std::max<int64_t>(s_.heads, 1), 1)),
        shared_(sharing ? std::max<int64_t>(s_.heads / std::max<int64_t>(s_.groups, 1), 1) : 1) {}

  CallList Forward() {
    Copy(Convolved());
    Convolve();
    Copy(readers_), Copy(readers_);
    Normalise();
    if (repeated_ > readers_) {
      for (int i = 0; i < 2; ++i) Pointwise(repeated_, readers_, 1, s_.dtype);
    }
    Copy(inputs_), Copy(inputs_);
    Pointwise(steps_, steps_ * element_ / kWideBytes, 1, kWide, 4);
    Pointwise(steps_, steps_, 1, s_.dtype, 2);
    Chunks(0);
    if (s_.samples > 1) Copy(inputs_);
    return std::move(calls_);
  }

  CallList Prompts(const PromptScan& p) {
    Convolve();
    Copy(Convolved());
    Normalise();
    Pointwise(steps_, steps_, 2, kWide, 6);
    CopyStates(p.continued, p.state_width);
    Chunks(inputs_ * element_);
    CopyStates(p.sequences, p.state_width);
    return std::move(calls_);
  }

  CallList Backward() {
    ThroughInverse();
    States();
    const int64_t c = s_.chunk, k = s_.state, v = depth_;
    const int64_t ck = ScanSize({c, k}), cc = ScanSize({c, c});
    Gemm(c, v, c, 2 * ck - cc, ScanSize({cc, k}));
    Gemm(k, v, 3 * c, 0, 0, turns_);
    Gemm(c, k, 3 * v, 4 * ck - ScanSize({k, v}), ScanSize({cc, v + 2 * k}));
    Gemm(c, k + v, c, ScanSize({c, k + v}), ScanSize({cc, 4 * k + v + 2 * c}));
    Pointwise(repeated_, 2 * repeated_, 1, s_.dtype);
    Pointwise(steps_, 2 * steps_, 1, kWide);
    Pointwise(steps_, steps_, 1, kWide);
    if (repeated_ > readers_) {
      for (int i = 0; i < 2; ++i) Pointwise(readers_, repeated_, 1, s_.dtype);
    }
    for (int i = 0; i < 2; ++i) Pointwise(readers_, 2 * readers_, 1, s_.dtype, 2 * kNormalised);
    for (int i = 0; i < 2; ++i) Pointwise(steps_, 2 * steps_, 1, kWide, 4);
    Copy(Convolved());
    Pointwise(Convolved(), 2 * Convolved(), 1, s_.dtype, 2 * PerConvolved());
    Copy(Convolved());
    Copy(Convolved() + inputs_ + 2 * steps_);
    return std::move(calls_);
  }

 private:
  // `elements` of each that it reads beside operands and result; negative where these are one.
  void Gemm(int64_t m, int64_t n, int64_t k, int64_t elements, int64_t products,
            int64_t turns = 0) {
    BatchedMatmulOp op{batch_, m, n, k};
    const int64_t bytes = ScanSize({batch_, std::abs(elements), element_});
    op.read_beside = (elements < 0 ? -bytes : bytes) + steps_ * 2 * kWideBytes + beside_;
    op.products_beside = products;
    op.turns = turns;
    Add(op, s_.dtype);
  }
  // What queries or keys of a chunk are fewer elements where heads share them.
  int64_t Shared() const { return ScanSize({s_.chunk, s_.state - s_.state / shared_}); }

  void Normalise() {
    for (int i = 0; i < 2; ++i) Pointwise(readers_, readers_, 1, s_.dtype, kNormalised);
  }
  // `gate`: bytes that are read for what comes behind.
  void Chunks(int64_t gate) {
    Pointwise(steps_, steps_, 1, kWide);
    const int64_t c = s_.chunk, k = s_.state;
    const int64_t ck = ScanSize({c, k}), cc = ScanSize({c, c});
    Gemm(c, c, k, -ck - Shared(), 0);
    ThroughInverse();
    States();
    beside_ = gate;
    Gemm(c, depth_, k + c, ck - cc - 2 * Shared(), ScanSize({cc, k}));
  }
  void ThroughInverse() { Gemm(s_.chunk, s_.state + depth_, s_.chunk, -Shared(), 0); }
  void States() { Gemm(s_.state, depth_, 2 * s_.chunk, -Shared(), 0, turns_); }

  int64_t turns_, repeated_, batch_, depth_, shared_;
  int64_t beside_ = 0;
};

int64_t ChunksOf(const StateScan& scan) { return (scan.tokens + scan.chunk - 1) / scan.chunk; }

}  // namespace

CallList DeltaCalls(const StateScan& scan, Direction pass) {
  const int64_t turns = ChunksOf(scan);
  DeltaWriter writer(scan, ScanSize({scan.samples, turns}), turns, false);
  return pass == Direction::kForward ? writer.Forward() : writer.Backward();
}

CallList DeltaPromptCalls(const StateScan& scan, const PromptScan& prompts) {
  return DeltaWriter(scan, prompts.chunks, prompts.longest, true).Prompts(prompts);
}

double LeastSecondsOfDelta(const StateScan& scan, const KernelWork& work, int32_t multiprocessors) {
  constexpr double kForward = 1.2e-6, kBackward = 2.3e-6, kMeasured = 64.0 * 128;
  if (multiprocessors <= 0 || work.kind != KernelKind::kBatchedGemm) return 0;
  const double turn = work.k > 2 * scan.chunk ? kBackward : kForward;
  const double size = static_cast<double>(ScanSize({scan.chunk, scan.state})) / kMeasured;
  const double serial = static_cast<double>(work.turns) * turn * size;
  return std::max(serial, work.flop.count() / (kFlopOfDecays * multiprocessors));
}

}  // namespace foretrace
