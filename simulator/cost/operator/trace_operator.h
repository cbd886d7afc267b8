#pragma once
// From a framework call of a trace (name, tensor shapes and types) to an operator.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "simulator/base/dtype.h"
#include "simulator/cost/operator/operator.h"
#include "simulator/trace/kinds.h"

namespace foretrace {

// Shape and type of one tensor argument or result. Scalars and absent arguments have no dimensions.
struct TensorShape {
  std::span<const int64_t> dims;
  DType dtype = DType::kUnknown;
};

// How a kernel that takes each element on its own would find it.
struct ElementAccess {
  int64_t elements = 0;
  int64_t tensors = 2;  // read and written
  // By which an element's index is divided: those of more than one element, but neighbours that
  // every tensor has, or lacks, together count as one where tensors are broadcast.
  int64_t dimensions = 1;
  int64_t indices = 0;  // tensors of indices that a gather reads
  // Elements of the largest tensor of a concatenation, or of a call of which only the tensors are
  // known; 0: not known.
  int64_t largest = 0;
  int64_t rows = 0;  // that a gather moves whole, where its index is as large as its result
  // Tensors that neighbouring threads access at places apart; nullopt: not known.
  std::optional<int> scattered = std::nullopt;
};

struct TracedOperator {
  OperatorCall op;
  // The call does not say everything (a convolution without its output's size): usual values were
  // assumed, and estimates built on this count as extrapolated.
  bool assumed = false;
  ElementAccess access = {};  // of point-wise calls, copies, concatenations and gathers
  // A norm by a serving engine's kernel, which keeps no statistics, and the tensors that it adds to
  // its input first and writes back.
  bool engine_norm = false;
  int64_t residuals = 0;
  // An OpaqueOp whose bytes are what its kernels move: their names and launches say no more.
  bool weighed = false;
  bool every_kernel = false;  // each of which moves all of it
};

// The operator behind one innermost framework call such as "aten::addmm". `inputs` holds every
// argument in order, those without dimensions included or not; `outputs` may be empty, as in Kineto
// traces. nullopt: not a call that does device work, unknown, or without the shapes it takes.
std::optional<TracedOperator> OperatorFromTrace(std::string_view name,
                                                std::span<const TensorShape> inputs,
                                                std::span<const TensorShape> outputs);

// Tells attention how it is masked, which its tensors do not.
void SetMask(AttentionMask mask, TracedOperator& traced);

// For a call that OperatorFromTrace does not know: what its tensors weigh. The result is taken to
// be as large as the largest argument where it is not recorded. nullopt: no tensor has a shape and
// type, or the call gathers from a table, of which it reads an unknown part.
std::optional<TracedOperator> OpaqueOperator(std::string_view name,
                                             std::span<const TensorShape> inputs,
                                             std::span<const TensorShape> outputs);

// Gives a batched lookup, or its backward pass, the sum of its tables' dimensions: the second
// dimension of its result. Sets the mean dimension, the rows and the distinct rows.
void FinishLookup(int64_t total_dim, EmbeddingOp& op);

}  // namespace foretrace
