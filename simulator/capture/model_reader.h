#pragma once
// Reads a model off one iteration's calls; a detail of traced_model.h.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/capture/traced_calls.h"
#include "simulator/capture/traced_model.h"

namespace foretrace::traced {

// Sums over the whole iteration; divided by samples at the end.
struct Call {
  NodeIndex node;
  double forward_flop = 0, backward_flop = 0;
  int64_t forward_bytes = 0, backward_bytes = 0;
  int64_t result_elements = 0, result_bytes = 0;
  int64_t parameters = 0, parameter_bytes = 0;
  bool matched = false;            // has a backward pass
  std::vector<std::string> names;  // its own and those of the calls around it, as base names
};

// An autograd node: its device work, and what its gradient looks like.
struct Gradient {
  NodeIndex node;
  std::string base;
  double flop = 0;
  int64_t bytes = 0;
  int64_t elements = 0;  // of its first argument; 0 unknown
  int32_t call = kNoCall;
};

class ModelReader {
 public:
  ModelReader(const TraceStore& store, const RankTrace& rank, int64_t iteration)
      : rank_(rank), calls_(store, rank, iteration) {}

  // Errors: no call with a known operator.
  absl::Status Read();

  TracedModel Build(int64_t samples) const;

 private:
  void ReadForward();
  void AddCall(NodeIndex n);
  void ReadBackward();
  void Match();
  int32_t LastLookup() const;
  int64_t GradientElements(NodeIndex first_call, const std::string& base) const;
  void ReadParameters();
  void TakeParametersFromShapes();
  bool AccumulatesFirst(NodeIndex n) const;
  std::vector<bool> Needed() const;
  DType MainType() const;
  std::vector<std::string> Notes() const;

  const RankTrace& rank_;
  Calls calls_;
  std::vector<Call> forward_;
  std::map<std::pair<int32_t, int32_t>, int64_t> edges_;  // to bytes
  bool identified_ = false;                               // tensors have identities
  std::vector<Gradient> backward_;
  absl::flat_hash_map<uint32_t, size_t> backward_index_;  // by autograd node
  // The gradient that last wrote a storage.
  absl::flat_hash_map<int64_t, size_t> gradient_of_;
  int64_t parameter_tensors_ = 0, unmatched_ = 0, unplaced_parameters_ = 0;
  bool from_shapes_ = false;  // parameters are
};

}  // namespace foretrace::traced
