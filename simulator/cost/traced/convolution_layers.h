#pragma once
// Sizes of convolutions whose calls have no shapes, by what flows through the kernels around them.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/operator/operator.h"
#include "simulator/cost/traced/convolution_calls.h"
#include "simulator/cost/traced/launch_flow.h"

namespace foretrace {

// Batch norms have a block for each channel and activations as many elements as there are, so that
// pixels and channels of a convolution's result are known where these are behind it, and of its
// input by the convolution before. Where nothing but a norm lies between two convolutions of equal
// results, the second is a branch around what is added behind it and has the block's input. How
// many positions a filter has is told by the algorithm, by the filters' change of layout, and by
// what else moves as many elements as they have: their cast before, the average of their gradients
// behind the backward pass. Gradients follow: autograd goes through forward calls in reverse order.
class ConvolutionLayers {
 public:
  struct Found {
    Conv2dOp op;
    Direction pass = Direction::kForward;
    size_t first = 0, last = 0;  // kernels, by place
  };

  // Of calls without shapes, where there is none of kernels without calls. Keeps references to
  // `store`, `rank` and `flow`.
  ConvolutionLayers(const TraceStore& store, const RankTrace& rank, const LaunchFlow& flow,
                    const KernelCalls& calls);

  // `call`: or the first kernel of one without a call. nullopt: no convolution, or its neighbours
  // do not tell.
  std::optional<Found> Of(NodeIndex call) const;
  // Of all samples, where the kernel at that place is the norm of a convolution's result; 0: not
  // known.
  int64_t PixelsOfNorm(size_t place) const;

 private:
  struct Image {                       // of all samples
    int64_t pixels = 0, channels = 0;  // 0: not known
    bool operator==(const Image&) const = default;
  };
  struct Layer {
    Image in, out;
    int64_t rounded = 0;                // by how many channels at most `out` has too many
    int64_t positions = 0, groups = 1;  // 0: not known
    size_t moved = 0;                   // by the kernel at that place, where `out` has pixels
    bool first = false;                 // has no gradient of its input
    bool branch = false;
    bool halves = false;        // the image, itself or by a pool before
    bool concatenated = false;  // before the norm, so that `out` is all of what was
    bool fits = false;          // the tiles that were launched
  };
  using Call = ConvolutionCall;
  struct Between {  // two convolutions
    bool activated = false, added = false, pooled = false, multiplied = false;
    bool concatenated = false;  // with what is not known
  };

  void FindImages();
  void GuessImages();
  void FindResults();
  void FindInputs();
  void FindFilters();
  void FindNormGradients();
  Image ResultOf(const Call& call);
  void CorrectChannels(Layer& layer) const;
  int64_t ChannelsByTiles(const Call& call, int64_t elements) const;
  Between Look(const Call& before, const Call& call, const Layer& layer) const;
  bool FindByWeights(size_t place, Layer& layer) const;
  bool Fits(const Call& call, const Layer& layer) const;
  static int64_t UsualPositions(const Layer& layer);

  const TraceStore& store_;
  const RankTrace& rank_;
  const LaunchFlow& flow_;
  std::vector<Call> calls_;
  std::vector<Layer> layers_;
  int64_t images_ = 0;                             // samples
  absl::flat_hash_map<uint32_t, size_t> call_of_;  // by node, of those that fit
  absl::flat_hash_map<size_t, size_t> normed_;     // layers, by the place of their norm
};

}  // namespace foretrace
