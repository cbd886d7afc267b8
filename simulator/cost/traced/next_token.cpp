#include "simulator/cost/traced/next_token.h"

#include <string_view>

#include "simulator/base/contains.h"

namespace foretrace {
namespace {

// Rotary embeddings: products of complex numbers (Llama's own code), generated code around these,
// or kernels of their own; else each half of a head changes places with the other, negated.
bool TurnsHeads(std::string_view name) {
  return ContainsAny(name, {"MulFunctor<c10::complex<float>", "view_as_complex", "rotary", "Rotary",
                            "rope_", "_rope", "Rope", "RoPE"});
}

// A loss of so many rows: whole, or in chunks; without that of each sequence's last token.
bool IsLossOf(int64_t rows, std::string_view name, const LaunchAttr& launch) {
  constexpr int64_t kLeastSequence = 16;
  if (!ContainsAny(name, {"LogSoftMax", "log_softmax", "cross_entropy", "CrossEntropy"}))
    return false;
  const int64_t of_it = launch.grid[0];
  return of_it > 1 && of_it <= rows && (rows % of_it == 0 || rows - of_it < rows / kLeastSequence);
}

bool Adds(std::string_view name) {
  return ContainsAny(name, {"CUDAFunctor_add", "CUDAFunctorOnSelf_add", "AddFunctor"});
}

bool Activates(std::string_view name) {
  return ContainsAny(name, {"gelu", "Gelu", "GELU", "silu", "relu", "tanh_kernel"}) &&
         !ContainsAny(name, {"ackward"});
}

class Reading {
 public:
  Reading(const RankTrace& rank, const LaunchFlow& flow) : rank_(rank), flow_(flow) {}

  bool SaysNext() const {
    bool turned = false, loss = false;
    int before = 0, norms = 0;
    for (size_t i = 0; i < flow_.order().size(); ++i) {
      const std::string_view name = flow_.name(i);
      const LaunchAttr* launch = rank_.launch(flow_.order()[i]);
      if (!loss && launch != nullptr && IsLossOf(flow_.rows(), name, *launch)) {
        if (HasHead(i)) return false;
        loss = true;
      }
      turned = turned || TurnsHeads(name) || (flow_.at(i).attention && SwapsHalves(i));
      if (!ContainsAny(name, {"layer_norm_grad_input", "LayerNormBackward"})) continue;
      ++norms;
      before += IsAdded(i) ? 1 : 0;
    }
    return loss && (turned || 2 * before > norms);
  }

 private:
  bool SwapsHalves(size_t attention) const {
    constexpr size_t kTurns = 12;  // kernels between a layer and attention, to turn both
    bool negated = false, joined = false;
    for (const size_t p : flow_.Before(attention, kTurns)) {
      if (flow_.at(p).gemm) break;
      negated |= ContainsAny(flow_.name(p), {"neg_kernel"});
      joined |= ContainsAny(flow_.name(p), {"CatArray"});
    }
    return negated && joined;
  }
  // Whether a norm's gradient is added to another before a layer is given it.
  bool IsAdded(size_t norm) const {
    constexpr size_t kParts = 4;  // its weights' gradients, and casts
    for (const size_t b : flow_.Behind(norm, kParts)) {
      if (flow_.at(b).gemm || flow_.at(b).attention) return false;
      if (Adds(flow_.name(b))) return true;
    }
    return false;
  }
  // Whether an activation is what the norm before the last layer is given.
  bool HasHead(size_t loss) const {
    constexpr size_t kWithin = 16;
    bool layer = false, norm = false;
    for (const size_t p : flow_.Before(loss, kWithin)) {
      const LaunchPlace& place = flow_.at(p);
      if (norm && (place.gemm || Adds(flow_.name(p)))) return false;
      if (norm && Activates(flow_.name(p))) return true;
      norm |= layer && place.rows > 0;
      layer |= place.gemm;
    }
    return false;
  }

  const RankTrace& rank_;
  const LaunchFlow& flow_;
};

}  // namespace

bool SaysNextToken(const RankTrace& rank, const LaunchFlow& flow) {
  return Reading(rank, flow).SaysNext();
}

}  // namespace foretrace
