#include "simulator/sharding/dense_work.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace {
namespace {

constexpr int64_t kFloatBytes = 4;

DenseOp MakeOp(const std::string& name, const OperatorCall& call, const KernelModels& kernels,
               Precision gemms = Precision::kFloat32) {
  DenseOp op;
  op.name = name;
  for (const KernelWork& work : Kernels(call)) {
    const Estimate estimate = kernels.Predict(work, gemms);
    const auto launches = static_cast<double>(work.launches);
    for (int64_t launch = 0; launch < work.launches; ++launch) {
      op.kernels.push_back({name, estimate.time.ScaledBy(1 / launches), estimate.source});
    }
  }
  return op;
}

class DenseBuilder {
 public:
  DenseBuilder(const ShardingTask& task, const KernelModels& kernels, Precision gemms)
      : task_(task), kernels_(kernels), gemms_(gemms), batch_(task.local_batch()) {}

  DenseWork Build() {
    const std::vector<int64_t>& bottom = task_.dense.bottom;
    for (size_t i = 1; i < bottom.size(); ++i) {
      AddLayer(fmt::format("bottom.{}", i), bottom[i - 1], bottom[i], i > 1, work_.bottom_forward,
               work_.bottom_backward);
    }
    int64_t width = Interaction();
    for (size_t i = 0; i < task_.dense.top.size(); ++i) {
      AddLayer(fmt::format("top.{}", i + 1), width, task_.dense.top[i], true, work_.top_forward,
               work_.top_backward);
      width = task_.dense.top[i];
    }
    const int64_t outputs = batch_ * width;
    Op(work_.top_forward, "loss", ReductionOp{1, outputs, false}, Direction::kForward);
    Op(work_.top_backward, "loss.backward", ElementwiseOp{outputs, outputs}, Direction::kForward);
    // Backward runs the other way.
    for (auto* ops : {&work_.bottom_backward, &work_.interaction_backward, &work_.top_backward}) {
      std::reverse(ops->begin(), ops->end());
    }
    const auto tensors = static_cast<int64_t>(2 * (bottom.size() - 1 + task_.dense.top.size()));
    work_.optimizer.push_back(
        OptimizerStep(task_, kernels_, work_.parameters.count() / kFloatBytes, tensors));
    return std::move(work_);
  }

 private:
  void Op(std::vector<DenseOp>& ops, const std::string& name, OperatorCall::Shape shape,
          Direction pass) {
    ops.push_back(MakeOp(name, {std::move(shape), DType::kFloat32, pass}, kernels_, gemms_));
  }

  // A linear layer and its ReLU.
  void AddLayer(const std::string& name, int64_t in, int64_t out, bool input_gradient,
                std::vector<DenseOp>& forward, std::vector<DenseOp>& backward) {
    const LinearOp linear{batch_, out, in, true, input_gradient, true};
    const int64_t elements = batch_ * out;
    Op(forward, name + ".linear", linear, Direction::kForward);
    Op(forward, name + ".relu", ElementwiseOp{elements, elements}, Direction::kForward);
    Op(backward, name + ".linear.backward", linear, Direction::kBackward);
    backward.back().gradients = Bytes((in * out + out) * kFloatBytes);
    Op(backward, name + ".relu.backward", ElementwiseOp{elements, 2 * elements},
       Direction::kForward);
    work_.parameters += backward[backward.size() - 2].gradients;
    work_.activations += Bytes(2 * elements * kFloatBytes);
  }

  // Returns the width of what goes into the top MLP.
  int64_t Interaction() {
    const int64_t dense_width = task_.dense.bottom.back();
    int64_t width = dense_width;
    int64_t vectors = 1;
    for (const EmbeddingTable& t : task_.tables) {
      width += t.dim * t.vectors();
      vectors += t.vectors();
    }
    auto& forward = work_.interaction_forward;
    auto& backward = work_.interaction_backward;
    const ConcatOp concat{batch_ * width, vectors};
    Op(forward, "interaction.cat", concat, Direction::kForward);
    Op(backward, "interaction.cat.backward", concat, Direction::kBackward);
    work_.activations += Bytes(batch_ * width * kFloatBytes);
    if (!task_.dense.dot_interaction) return Averaged(width, dense_width);
    // DLRM: pairwise dot products of all vectors, those below the diagonal go on.
    const BatchedMatmulOp gemms{batch_, vectors, vectors, dense_width};
    const int64_t pairs = vectors * (vectors - 1) / 2;
    const IndexOp below{batch_ * pairs, pairs, batch_ * vectors * vectors};
    const ConcatOp with_dense{batch_ * (dense_width + pairs), 2};
    Op(forward, "interaction.bmm", gemms, Direction::kForward);
    Op(backward, "interaction.bmm.backward", gemms, Direction::kBackward);
    Op(forward, "interaction.index", below, Direction::kForward);
    Op(backward, "interaction.index.backward", below, Direction::kBackward);
    Op(forward, "interaction.cat2", with_dense, Direction::kForward);
    Op(backward, "interaction.cat2.backward", with_dense, Direction::kBackward);
    work_.activations += Bytes(batch_ * (vectors * vectors + dense_width + pairs) * kFloatBytes);
    return dense_width + pairs;
  }

  // The table vectors, of the `width` values of which `features` are none of theirs, averaged over
  // neighbours; the features join what is left.
  int64_t Averaged(int64_t width, int64_t features) {
    const int64_t stride = task_.dense.average;
    if (stride == 1) return width;
    const int64_t left = (width - features + stride - 1) / stride;
    Op(work_.interaction_forward, "interaction.average",
       ElementwiseOp{batch_ * left, batch_ * (width - features)}, Direction::kForward);
    Op(work_.interaction_backward, "interaction.average.backward",
       ElementwiseOp{batch_ * (width - features), batch_ * left}, Direction::kForward);
    const ConcatOp with_features{batch_ * (left + features), 2};
    Op(work_.interaction_forward, "interaction.cat2", with_features, Direction::kForward);
    Op(work_.interaction_backward, "interaction.cat2.backward", with_features,
       Direction::kBackward);
    work_.activations += Bytes(batch_ * (left + features) * kFloatBytes);
    return left + features;
  }

  const ShardingTask& task_;
  const KernelModels& kernels_;
  Precision gemms_;
  int64_t batch_;
  DenseWork work_;
};

}  // namespace

int64_t OptimizerStates(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kAdam:
      return 2;
    default:
      return 1;
  }
}

DenseOp OptimizerStep(const ShardingTask& task, const KernelModels& kernels, int64_t parameters,
                      int64_t tensors) {
  const OptimizerOp step{parameters, tensors, task.optimizer, OptimizerImpl::kForeach};
  return MakeOp("optimizer", {step, DType::kFloat32, Direction::kForward}, kernels);
}

DenseWork BuildDenseWork(const ShardingTask& task, const KernelModels& kernels, Precision gemms) {
  return DenseBuilder(task, kernels, gemms).Build();
}

}  // namespace foretrace
