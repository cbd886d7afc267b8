#include "simulator/cost/operator/kernel_work.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "simulator/cost/operator/element_work.h"

namespace foretrace {
namespace {

OperatorCall Make(OperatorCall::Shape shape, DType dtype = DType::kFloat32,
                  Direction pass = Direction::kForward) {
  return {std::move(shape), dtype, pass};
}

TEST(KernelWork, LinearForwardWithBias) {
  // y[2,3] = x[2,4] W[4,3] + b: 2*2*3*4 + 2*3 = 54 FLOP; reads 8 + 12 + 3 and writes 6 floats.
  const KernelList list = Kernels(Make(LinearOp{2, 3, 4, true}));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].kind, KernelKind::kGemm);
  EXPECT_DOUBLE_EQ(list[0].flop.count(), 54);
  EXPECT_EQ(list[0].read, Bytes(92));
  EXPECT_EQ(list[0].written, Bytes(24));
}

TEST(KernelWork, LinearBackwardIsTwoGemmsAndABiasSum) {
  const KernelList list =
      Kernels(Make(LinearOp{2, 3, 4, true}, DType::kFloat16, Direction::kBackward));
  ASSERT_EQ(list.size(), 3u);
  // dx[2,4] = dy[2,3] W^T: 2*2*4*3 FLOP, reads 6 + 12 halves, writes 8.
  EXPECT_DOUBLE_EQ(list[0].flop.count(), 48);
  EXPECT_EQ(list[0].read, Bytes(36));
  EXPECT_EQ(list[0].written, Bytes(16));
  // dW[3,4] = dy^T[3,2] x[2,4]: reads 6 + 8, writes 12.
  EXPECT_DOUBLE_EQ(list[1].flop.count(), 48);
  EXPECT_EQ(list[1].read, Bytes(28));
  EXPECT_EQ(list[1].written, Bytes(24));
  // db[3]: sums of 2 down each of 3 columns.
  EXPECT_EQ(list[2].kind, KernelKind::kReduction);
  EXPECT_TRUE(list[2].across_rows);
  EXPECT_EQ(list[2].read, Bytes(12));
  EXPECT_EQ(list[2].written, Bytes(6));
}

// Tokens that are no multiple of 8 are summed over: both operands' rows lie along the weights'
// sides, and threads load 16 bytes at once as ever.
TEST(KernelWork, WeightGradientsLoadAlongTheirSides) {
  const auto loads = [](OperatorCall::Shape shape) {
    return Kernels(Make(std::move(shape), DType::kBFloat16, Direction::kBackward))[1].load_elements;
  };
  EXPECT_EQ(loads(BatchedMatmulOp{40, 2460, 3072, 5120}), 8);
  EXPECT_EQ(loads(LinearOp{2461, 3072, 5120}), 8);
  EXPECT_EQ(loads(LinearOp{2461, 3072, 5124}), 4);
  // Nothing to say where rows are no wider than what is summed over, or that is wide itself.
  EXPECT_EQ(loads(LinearOp{2462, 3073, 5120}), 0);
  EXPECT_EQ(loads(LinearOp{2464, 3072, 5120}), 0);
}

// y[m,n] = x[m,k] W[n,k]: rows of both lie along k. dx sums over n, across W's rows; dW over m,
// across both's. Of x[m,k] w[k,n], as batches are, one lies across, of dx = dy w^T none.
TEST(KernelWork, SaysHowManyOperandsLieAcrossTheReduction) {
  const auto across = [](OperatorCall::Shape shape, Direction pass) {
    std::vector<int> all;
    for (const KernelWork& work : Kernels(Make(std::move(shape), DType::kBFloat16, pass))) {
      all.push_back(work.across_reduction);
    }
    return all;
  };
  EXPECT_EQ(across(LinearOp{64, 32, 16}, Direction::kForward), std::vector<int>({0}));
  EXPECT_EQ(across(LinearOp{64, 32, 16}, Direction::kBackward), std::vector<int>({1, 2}));
  EXPECT_EQ(across(BatchedMatmulOp{4, 64, 32, 16}, Direction::kForward), std::vector<int>({1}));
  EXPECT_EQ(across(BatchedMatmulOp{4, 64, 32, 16}, Direction::kBackward), std::vector<int>({0, 2}));
}

TEST(KernelWork, LinearBackwardOfAFirstLayerHasNoInputGradient) {
  LinearOp op{2, 3, 4, false};
  op.needs_input_gradient = false;
  EXPECT_EQ(Kernels(Make(op, DType::kFloat32, Direction::kBackward)).size(), 1u);
}

TEST(KernelWork, BatchedMatmul) {
  // 5 GEMMs of [2,4] by [4,3]: 5*2*24 FLOP, 5*(8+12) in, 5*6 out.
  const OperatorCall op = Make(BatchedMatmulOp{5, 2, 3, 4});
  const KernelList list = Kernels(op);
  EXPECT_DOUBLE_EQ(list[0].flop.count(), 240);
  EXPECT_EQ(list[0].read, Bytes(400));
  EXPECT_EQ(list[0].written, Bytes(120));
  // Backward does the same arithmetic twice.
  EXPECT_DOUBLE_EQ(
      TotalWork(Make(BatchedMatmulOp{5, 2, 3, 4}, DType::kFloat32, Direction::kBackward))
          .flop.count(),
      480);
}

TEST(KernelWork, ConvolutionForwardAndBackward) {
  // ResNet-50's first layer at batch 1: 3x224x224, 64 filters of 7x7, stride 2, padding 3.
  ASSERT_EQ(ConvOutputSize(224, 7, 2, 3, 1), 112);
  const Conv2dOp conv{1, 3, 224, 224, 64, 7, 7, 112, 112};
  const KernelList list = Kernels(Make(conv));
  // 2 * 64*112*112 * 3*7*7 = 236,027,904, the published 118 million multiply-adds.
  EXPECT_DOUBLE_EQ(list[0].flop.count(), 236027904);
  EXPECT_EQ(list[0].read, Bytes(4 * (150528 + 9408)));
  EXPECT_EQ(list[0].written, Bytes(4 * 802816));
  EXPECT_EQ(list[0].m, 12544);
  EXPECT_EQ(list[0].n, 64);
  EXPECT_EQ(list[0].k, 147);
  EXPECT_EQ(list[0].stride, 2);
  const KernelList backward = Kernels(Make(conv, DType::kFloat32, Direction::kBackward));
  ASSERT_EQ(backward.size(), 2u);
  for (const KernelWork& w : backward) EXPECT_DOUBLE_EQ(w.flop.count(), 236027904);
  EXPECT_EQ(backward[0].written, Bytes(4 * 150528));
  EXPECT_EQ(backward[1].written, Bytes(4 * 9408));
  // Of 64 * 49 products for an input pixel a stride of 2 leaves a quarter: 2 m n k is the FLOP.
  EXPECT_EQ(backward[0].m, 224 * 224);
  EXPECT_EQ(backward[0].n, 3);
  EXPECT_EQ(backward[0].k, 64 * 49 / 4);
  EXPECT_FALSE(backward[0].weight_gradient);
  EXPECT_TRUE(backward[1].weight_gradient);
}

TEST(KernelWork, DepthwiseConvolutionDividesByGroups) {
  const Conv2dOp conv{1, 8, 4, 4, 8, 3, 3, 4, 4, 8};
  EXPECT_DOUBLE_EQ(TotalWork(Make(conv)).flop.count(), 2.0 * 8 * 16 * 9);
}

TEST(KernelWork, FlashAttention) {
  // b 2, 4 heads, 2 key heads, 8 queries, 16 keys, depth 32: QK and PV are 2*2*4*8*16*32 each.
  const AttentionOp op{2, 4, 2, 8, 16, 32, false, true};
  const KernelList forward = Kernels(Make(op, DType::kFloat16));
  ASSERT_EQ(forward.size(), 1u);
  EXPECT_DOUBLE_EQ(forward[0].flop.count(), 2 * 65536);
  // q 2048, k and v 2048 each; o 2048 and 64 log-sums in fp32.
  EXPECT_EQ(forward[0].read, Bytes(2 * 3 * 2048));
  EXPECT_EQ(forward[0].written, Bytes(2 * 2048 + 64 * 4));
  const KernelList backward = Kernels(Make(op, DType::kFloat16, Direction::kBackward));
  EXPECT_DOUBLE_EQ(backward[0].flop.count(), 5 * 65536);
  AttentionOp causal = op;
  causal.causal = true;
  EXPECT_DOUBLE_EQ(Kernels(Make(causal, DType::kFloat16))[0].flop.count(), 65536);
}

TEST(KernelWork, PlainAttentionIsMatmulsAndSoftmax) {
  const AttentionOp op{1, 2, 2, 8, 8, 4, false, false};
  const KernelList forward = Kernels(Make(op));
  ASSERT_EQ(forward.size(), 4u);
  EXPECT_EQ(forward[0].kind, KernelKind::kBatchedGemm);
  EXPECT_EQ(forward[2].kind, KernelKind::kSoftmax);
  // Each matmul: 2 heads * 2*8*8*4.
  EXPECT_DOUBLE_EQ(forward[0].flop.count(), 1024);
  EXPECT_DOUBLE_EQ(forward[3].flop.count(), 1024);
  // Two of each GEMM, the product of both tensors of the softmax, that itself, and the scaling.
  const KernelList backward = Kernels(Make(op, DType::kFloat32, Direction::kBackward));
  EXPECT_EQ(backward.size(), 7u);
}

TEST(KernelWork, LayerNorm) {
  // [10, 6] fp16: x 60, gamma and beta 12 halves in; y 60 halves and 20 fp32 statistics out.
  const KernelList forward = Kernels(Make(LayerNormOp{10, 6}, DType::kFloat16));
  EXPECT_EQ(forward[0].read, Bytes(2 * 72));
  EXPECT_EQ(forward[0].written, Bytes(2 * 60 + 80));
  const KernelList backward =
      Kernels(Make(LayerNormOp{10, 6}, DType::kFloat16, Direction::kBackward));
  ASSERT_EQ(backward.size(), 2u);
  // dy, x, statistics and gamma in, dx out; then dy, x, statistics in, dgamma and dbeta out.
  EXPECT_EQ(backward[0].read, Bytes(240 + 80 + 12));
  EXPECT_EQ(backward[0].written, Bytes(120));
  EXPECT_EQ(backward[1].read, Bytes(240 + 80));
  EXPECT_EQ(backward[1].written, Bytes(24));
}

TEST(KernelWork, BatchNormReadsItsInputTwice) {
  // 2*3*4*5 = 120 floats = 480 bytes; 4 statistics for each of 3 channels read and written.
  const BatchNormOp op{2, 3, 4, 5};
  const KernelList forward = Kernels(Make(op));
  EXPECT_EQ(forward[0].read, Bytes(2 * 480 + 48));
  EXPECT_EQ(forward[0].written, Bytes(480 + 48));
  EXPECT_EQ(forward[0].rows, 3);
  EXPECT_EQ(forward[0].cols, 40);
  EXPECT_EQ(Kernels(Make(op, DType::kFloat32, Direction::kBackward))[0].read, Bytes(4 * 480 + 48));
}

TEST(KernelWork, SoftmaxAndDropout) {
  EXPECT_EQ(Kernels(Make(SoftmaxOp{4, 8}))[0].total_bytes(), 256);
  // Both tensors in and their product out, then once more with the result.
  const KernelList gradient = Kernels(Make(SoftmaxOp{4, 8}, DType::kFloat32, Direction::kBackward));
  ASSERT_EQ(gradient.size(), 2u);
  EXPECT_EQ(gradient[0].kind, KernelKind::kElementwise);
  EXPECT_EQ(gradient[0].total_bytes(), 384);
  EXPECT_EQ(gradient[1].total_bytes(), 384);
  // Neither fused kernels nor those of a logarithm multiply first.
  for (const SoftmaxOp& op : {SoftmaxOp{4, 8, true}, SoftmaxOp{4, 8, false, true}}) {
    EXPECT_EQ(Kernels(Make(op, DType::kFloat32, Direction::kBackward)).size(), 1u);
  }
  // 100 halves in and out, and a mask of 100 bytes.
  EXPECT_EQ(Kernels(Make(DropoutOp{100}, DType::kFloat16))[0].total_bytes(), 500);
  EXPECT_EQ(Kernels(Make(DropoutOp{100}, DType::kFloat16, Direction::kBackward))[0].total_bytes(),
            500);
}

TEST(KernelWork, ElementwiseChainReadsOperandsOnce) {
  // relu(x + bias) on [8, 4] with bias [4], fused: 36 reads, 32 writes.
  const ElementwiseOp op{32, 36, 1, 2};
  const KernelList list = Kernels(Make(op));
  EXPECT_EQ(list[0].read, Bytes(144));
  EXPECT_EQ(list[0].written, Bytes(128));
  EXPECT_DOUBLE_EQ(list[0].flop.count(), 64);
  // A comparison writes one byte each.
  ElementwiseOp compare{32, 64, 1, 1, DType::kBool};
  EXPECT_EQ(Kernels(Make(compare))[0].written, Bytes(32));
}

TEST(KernelWork, MovesOfData) {
  EXPECT_EQ(TotalWork(Make(ReductionOp{10, 7})).bytes, Bytes(4 * 80));
  EXPECT_EQ(TotalWork(Make(ConcatOp{10, 2})).bytes, Bytes(80));
  EXPECT_EQ(TotalWork(Make(CopyOp{10, false, DType::kFloat16})).bytes, Bytes(60));
  EXPECT_EQ(Kernels(Make(CopyOp{10, true}))[0].kind, KernelKind::kTranspose);
  EXPECT_EQ(TotalWork(Make(FillOp{10})).bytes, Bytes(40));
  EXPECT_EQ(Kernels(Make(MemcpyOp{1000}))[0].read, Bytes(1000));
  // 6 floats through 3 indices of 8 bytes.
  EXPECT_EQ(TotalWork(Make(IndexOp{6, 3, 100})).bytes, Bytes(24 + 24 + 24));
  EXPECT_EQ(TotalWork(Make(IndexOp{6, 3, 100}, DType::kFloat32, Direction::kBackward)).bytes,
            Bytes(400 + 24 + 24 + 24 + 24));
  // Pooling 16 to 4 with saved 8-byte indices.
  EXPECT_EQ(TotalWork(Make(PoolOp{16, 4, 4})).bytes, Bytes(64 + 16 + 32));
}

// 20 rows of 2,048 floats are 8 KiB each, in whole vectors of 16 bytes: a block for each 4 KiB.
// Rows of three floats go element by element, four a thread as far as there are so many, each
// behind its index.
TEST(KernelWork, GathersOfWholeVectorsHaveABlockARow) {
  const KernelWork rows = Kernels(Make(IndexOp{20 * 2048, 20, 0}))[0];
  EXPECT_EQ(rows.blocks, 40);
  EXPECT_EQ(rows.trips, 2);
  EXPECT_EQ(rows.instructions, 0);
  const KernelWork elements = Kernels(Make(IndexOp{3000, 1000, 0}))[0];
  EXPECT_EQ(elements.blocks, 0);
  EXPECT_EQ(elements.trips, 8);
  EXPECT_EQ(elements.instructions, IndexedInstructions(3000));
  EXPECT_EQ(Kernels(Make(IndexOp{300, 100, 0}))[0].trips, 4);
}

// Of 8 tensors of 4 floats each begins at 16 bytes; of 8 of 5 not all do.
TEST(KernelWork, UnalignedTensorsAreConcatenatedByElement) {
  EXPECT_EQ(Kernels(Make(ConcatOp{32, 8}))[0].instructions, 0);
  EXPECT_GT(Kernels(Make(ConcatOp{40, 8}))[0].instructions, 0);
}

// Random numbers of Philox's generator hide behind the bytes of vectors of four alone.
TEST(KernelWork, DropoutTakesInstructionsByItsVectors) {
  const auto each = [](int64_t elements) {
    return Kernels(Make(DropoutOp{elements}))[0].instructions / static_cast<double>(elements);
  };
  EXPECT_EQ(each(400), 0);
  EXPECT_DOUBLE_EQ(each(402), 47);
  EXPECT_DOUBLE_EQ(each(401), 33);
  EXPECT_EQ(Kernels(Make(DropoutOp{401}, DType::kFloat32, Direction::kBackward))[0].instructions,
            0);
}

// The gradient of a mean: 10 in, 70 out.
TEST(KernelWork, GradientsOfReductionsAreSpread) {
  const KernelList list = Kernels(Make(ReductionOp{10, 7}, DType::kFloat32, Direction::kBackward));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].kind, KernelKind::kElementwise);
  EXPECT_EQ(list[0].read, Bytes(40));
  EXPECT_EQ(list[0].written, Bytes(280));
}

TEST(KernelWork, OptimizerPasses) {
  const auto bytes = [](OptimizerKind kind, OptimizerImpl impl) {
    return TotalWork(Make(OptimizerOp{1, 1, kind, impl})).bytes.count() / 4;
  };
  EXPECT_EQ(bytes(OptimizerKind::kSgd, OptimizerImpl::kFused), 3);   // p, g in; p out
  EXPECT_EQ(bytes(OptimizerKind::kAdam, OptimizerImpl::kFused), 7);  // p, g, m, v in; p, m, v out
  EXPECT_EQ(bytes(OptimizerKind::kSgdMomentum, OptimizerImpl::kFused), 5);
  EXPECT_EQ(bytes(OptimizerKind::kAdagrad, OptimizerImpl::kFused), 5);
  // mul_ 2, add_ 3, mul_ 2, addcmul_ 3 (the gradient twice, cached), sqrt 2, div 2, add_ 2,
  // addcdiv_ 4.
  EXPECT_EQ(bytes(OptimizerKind::kAdam, OptimizerImpl::kForeach), 20);
  EXPECT_EQ(
      TotalWork(Make(OptimizerOp{100, 5, OptimizerKind::kAdam, OptimizerImpl::kLoop})).launches,
      40);
}

TEST(KernelWork, EmbeddingForwardAndFusedBackward) {
  // 12 lookups of 4 floats into 3 bags; 8-byte indices and offsets.
  EmbeddingOp op{12, 3, 4, 5};
  const KernelList forward = Kernels(Make(op));
  EXPECT_EQ(forward[0].read, Bytes(12 * 16 + 12 * 8 + 3 * 8));
  EXPECT_EQ(forward[0].written, Bytes(48));
  // Backward: a gradient row a lookup, 5 distinct rows read and written, row-wise state both ways.
  const KernelList backward = Kernels(Make(op, DType::kFloat32, Direction::kBackward));
  EXPECT_EQ(backward[0].read, Bytes(192 + 120 + 80 + 20));
  EXPECT_EQ(backward[0].written, Bytes(80 + 20));
}

TEST(KernelWork, HostileSizesSaturate) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  const KernelList list = Kernels(Make(LinearOp{big, big, big, true}));
  EXPECT_EQ(list[0].read, Bytes(int64_t{1} << 62));
  EXPECT_EQ(Kernels(Make(LinearOp{-3, 2, 2}))[0].flop.count(), 0);
  EXPECT_EQ(Kernels(Make(LinearOp{-3, 2, 2}))[0].written, Bytes(0));
}

TEST(KernelWork, ClassNamesRoundTrip) {
  for (int i = 0; i < static_cast<int>(KernelKind::kCount); ++i) {
    const auto kind = static_cast<KernelKind>(i);
    EXPECT_EQ(ParseKernelKind(Name(kind)), kind);
  }
}

}  // namespace
}  // namespace foretrace
