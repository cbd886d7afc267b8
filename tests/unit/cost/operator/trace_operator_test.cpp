#include "simulator/cost/operator/trace_operator.h"

#include <gtest/gtest.h>

#include <vector>

#include "simulator/cost/operator/elementwise_table.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

using Dims = std::vector<int64_t>;

// Looks a call up with float32 tensors of these shapes.
class Lookup {
 public:
  Lookup(std::string_view name, std::vector<Dims> in, std::vector<Dims> out = {},
         DType dtype = DType::kFloat32)
      : in_(std::move(in)), out_(std::move(out)) {
    std::vector<TensorShape> inputs, outputs;
    for (const Dims& d : in_) inputs.push_back({d, dtype});
    for (const Dims& d : out_) outputs.push_back({d, dtype});
    result_ = OperatorFromTrace(name, inputs, outputs);
  }
  bool found() const { return result_.has_value(); }
  bool assumed() const { return result_->assumed; }
  const ElementAccess& access() const { return result_->access; }
  const OperatorCall& op() const { return result_->op; }
  int64_t bytes() const { return TotalWork(result_->op).bytes.count(); }
  double flop() const { return TotalWork(result_->op).flop.count(); }
  template <typename T>
  const T& as() const {
    return std::get<T>(result_->op.shape);
  }

 private:
  std::vector<Dims> in_, out_;
  std::optional<TracedOperator> result_;
};

TEST(TraceOperator, AddmmAsKinetoWritesIt) {
  // trace_diff/control's first linear layer: bias, input, transposed weight, beta, alpha.
  const Lookup call("aten::addmm", {{96}, {1024, 512}, {512, 96}, {}, {}});
  ASSERT_TRUE(call.found());
  EXPECT_EQ(call.as<LinearOp>().m, 1024);
  EXPECT_EQ(call.as<LinearOp>().n, 96);
  EXPECT_EQ(call.as<LinearOp>().k, 512);
  EXPECT_DOUBLE_EQ(call.flop(), 2.0 * 1024 * 96 * 512 + 1024 * 96);
}

TEST(TraceOperator, AnIndexIsDividedByTheDimensionsThatAreBroadcastApart) {
  // Equal shapes: a view may order every dimension as it likes, but not those of one element.
  EXPECT_EQ(Lookup("aten::copy_", {{16, 1, 559, 64}, {16, 1, 559, 64}, {}}).access().dimensions, 3);
  // [b, h, s, d] and [1, 1, s, d]: s and d lie together in both, b and h in the first alone.
  const Lookup broadcast("aten::mul", {{16, 16, 559, 64}, {1, 1, 559, 64}});
  EXPECT_EQ(broadcast.access().dimensions, 2);
  EXPECT_EQ(broadcast.access().tensors, 3);
  EXPECT_EQ(broadcast.access().elements, 16 * 16 * 559 * 64);
  EXPECT_EQ(Lookup("aten::mul", {{16, 559, 1024}, {16, 559, 1}}).access().dimensions, 2);
  EXPECT_EQ(Lookup("aten::add_", {{4, 768, 14, 14}, {1, 768, 1, 1}, {}}).access().dimensions, 3);
}

TEST(TraceOperator, CallsOfServingEnginesMoveTheirTokens) {
  // 888 tokens with one key head of 64 into a cache of 4 M blocks.
  const Lookup write("_C_cache_ops::reshape_and_cache_flash",
                     {{888, 1, 64}, {888, 1, 64}, {4213816, 16, 1, 64}, {4213816, 16, 1, 64}});
  EXPECT_EQ(write.bytes(), 2 * 2 * 888 * 64 * 4);
  // Positions, 8 query heads and one key head; read and written.
  const Lookup rotary("_C::rotary_embedding", {{888}, {888, 512}, {888, 64}, {}, {131072, 64}});
  EXPECT_EQ(rotary.bytes(), 2 * 888 * (512 + 64) * 4);
  const Lookup attention("vllm::unified_attention_with_output",
                         {{888, 8, 64}, {888, 1, 64}, {888, 1, 64}, {888, 8, 64}});
  EXPECT_EQ(attention.as<AttentionOp>().kv_heads, 1);
  EXPECT_EQ(attention.as<AttentionOp>().sq, 888);
  EXPECT_TRUE(attention.as<AttentionOp>().causal);
  EXPECT_TRUE(attention.assumed());
  EXPECT_FALSE(Lookup("vllm::moe_forward", {{888, 3072}, {888, 128}}).found());
}

TEST(TraceOperator, SelectedRowsAreWhole) {
  const Lookup call("aten::index_select", {{30522, 512}, {}, {141}});
  EXPECT_EQ(call.as<IndexOp>().elements, 141 * 512);
  EXPECT_EQ(call.access().elements, 141 * 512);
}

TEST(TraceOperator, AddmmWithATwoDimensionalAddend) {
  const Lookup call("aten::addmm", {{8, 2}, {8, 4}, {4, 2}, {}, {}});
  EXPECT_EQ(call.as<LinearOp>().k, 4);
}

TEST(TraceOperator, MmThatDoesNotFitIsRefused) {
  EXPECT_FALSE(Lookup("aten::mm", {{8, 4}, {5, 2}}).found());
  EXPECT_FALSE(Lookup("aten::mm", {{8, 4}}).found());
}

TEST(TraceOperator, BmmAndLinear) {
  EXPECT_EQ(Lookup("aten::bmm", {{16, 27, 16}, {16, 16, 27}}).as<BatchedMatmulOp>().n, 27);
  const Lookup linear("aten::linear", {{2, 3, 8}, {5, 8}, {5}});
  EXPECT_EQ(linear.as<LinearOp>().m, 6);
  EXPECT_EQ(linear.as<LinearOp>().n, 5);
}

TEST(TraceOperator, ConvolutionTakesTheOutputSizeWhereItIsRecorded) {
  const Lookup full("aten::cudnn_convolution", {{2, 3, 224, 224}, {64, 3, 7, 7}, {}, {}},
                    {{2, 64, 112, 112}});
  EXPECT_EQ(full.as<Conv2dOp>().oh, 112);
  EXPECT_FALSE(full.assumed());
  const Lookup bare("aten::cudnn_convolution", {{2, 3, 224, 224}, {64, 3, 7, 7}});
  EXPECT_EQ(bare.as<Conv2dOp>().oh, 224);
  EXPECT_TRUE(bare.assumed());
}

TEST(TraceOperator, ConvolutionsOverOneAndThreeDimensionsHaveTheirGemms) {
  const Lookup volume("aten::cudnn_convolution", {{1, 192, 6, 130, 130}, {192, 192, 3, 3, 3}},
                      {{1, 192, 4, 128, 128}});
  ASSERT_TRUE(volume.found());
  EXPECT_FALSE(volume.assumed());
  // 4 x 128 x 128 results of 192 channels, each of 192 x 27 GEMMs.
  EXPECT_DOUBLE_EQ(volume.flop(), 2.0 * 4 * 128 * 128 * 192 * 192 * 27);
  EXPECT_EQ(volume.bytes(), 4 * (192 * 6 * 130 * 130 + 192 * 192 * 27 + 192 * 4 * 128 * 128));
  const KernelWork work = Kernels(volume.op())[0];
  EXPECT_EQ(work.m, 4 * 128 * 128);
  EXPECT_EQ(work.n, 192);
  EXPECT_EQ(work.k, 192 * 27);
  const Lookup sound("aten::conv1d", {{1, 80, 3000}, {512, 80, 3}, {512}}, {{1, 512, 1500}});
  ASSERT_TRUE(sound.found());
  EXPECT_DOUBLE_EQ(sound.flop(), 2.0 * 1500 * 512 * 80 * 3 + 1500 * 512);
}

TEST(TraceOperator, GroupNormReadsItsInputTwice) {
  const Lookup call("aten::native_group_norm", {{1, 320, 64, 64}, {320}, {320}});
  ASSERT_TRUE(call.found());
  EXPECT_EQ(call.bytes(), 3 * 4 * 320 * 64 * 64);
}

TEST(TraceOperator, AReductionThatKeepsTheLastDimensionRunsDownColumns) {
  const Lookup channels("aten::linalg_vector_norm", {{1, 384, 32, 32}}, {{1, 1, 32, 32}});
  EXPECT_EQ(channels.as<ReductionOp>().rows, 32 * 32);
  EXPECT_EQ(channels.as<ReductionOp>().cols, 384);
  EXPECT_TRUE(channels.as<ReductionOp>().across_rows);
  const Lookup rows("aten::mean", {{16, 559, 1024}}, {{16, 559, 1}});
  EXPECT_FALSE(rows.as<ReductionOp>().across_rows);
}

TEST(TraceOperator, ConvolutionBackwardKnowsItsOutputFromTheGradient) {
  const Lookup call("aten::convolution_backward",
                    {{2, 64, 112, 112}, {2, 3, 224, 224}, {64, 3, 7, 7}, {}}, {{64, 3, 7, 7}});
  EXPECT_EQ(call.op().pass, Direction::kBackward);
  EXPECT_EQ(call.as<Conv2dOp>().oh, 112);
  EXPECT_FALSE(call.as<Conv2dOp>().needs_input_gradient);
}

// Of nn.ConvTranspose2d(512, 256, 4, stride=2, padding=1), filters [512, 256, 4, 4]: each of 32 x
// 32 places is multiplied by them, for either gradient. Where channels are as many, sizes tell.
TEST(TraceOperator, GradientsOfTransposedConvolutions) {
  const Lookup call("aten::convolution_backward",
                    {{8, 256, 64, 64}, {8, 512, 32, 32}, {512, 256, 4, 4}});
  EXPECT_DOUBLE_EQ(TotalWork(call.op()).flop.count(), 2 * 2.0 * 8 * 32 * 32 * 512 * 256 * 16);
  const Lookup equal("aten::convolution_backward",
                     {{8, 256, 64, 64}, {8, 256, 32, 32}, {256, 256, 2, 2}});
  EXPECT_DOUBLE_EQ(TotalWork(equal.op()).flop.count(), 2 * 2.0 * 8 * 32 * 32 * 256 * 256 * 4);
  const Lookup plain("aten::convolution_backward",
                     {{8, 256, 32, 32}, {8, 256, 32, 32}, {256, 256, 3, 3}});
  EXPECT_DOUBLE_EQ(TotalWork(plain.op()).flop.count(), 2 * 2.0 * 8 * 32 * 32 * 256 * 256 * 9);
}

TEST(TraceOperator, BinaryWithOutArgumentReadsTwoOperands) {
  // mul(self, scalar, out=self), as DDP's gradient averaging shows in a trace.
  EXPECT_EQ(Lookup("aten::mul", {{512}, {}, {512}}).bytes(), 2 * 512 * 4);
  EXPECT_EQ(Lookup("aten::mul", {{1024, 512}, {1024, 512}}).bytes(), 3 * 1024 * 512 * 4);
  EXPECT_EQ(Lookup("aten::add", {{1024, 512}, {512}, {}}).bytes(), (2 * 1024 * 512 + 512) * 4);
}

TEST(TraceOperator, InPlaceAndTernary) {
  EXPECT_EQ(Lookup("aten::addcdiv_", {{10}, {10}, {10}, {}}).bytes(), 160);
  EXPECT_EQ(Lookup("aten::clamp_min_", {{10}, {}}).bytes(), 80);
  EXPECT_FALSE(Lookup("aten::add_", {}).found());
  // A single value has no dimensions: read and written.
  EXPECT_EQ(Lookup("aten::neg", {{}}).bytes(), 8);
}

TEST(TraceOperator, NormalisationsAndSoftmax) {
  const Lookup ln("aten::native_layer_norm", {{1024, 512}, {}, {512}, {512}, {}});
  EXPECT_EQ(ln.as<LayerNormOp>().rows, 1024);
  EXPECT_EQ(ln.as<LayerNormOp>().cols, 512);
  const Lookup back("aten::native_layer_norm_backward",
                    {{1024, 512}, {1024, 512}, {}, {1024, 1}, {1024, 1}, {512}, {512}, {}});
  EXPECT_EQ(back.as<LayerNormOp>().rows, 1024);
  EXPECT_EQ(back.op().pass, Direction::kBackward);
  EXPECT_EQ(Lookup("aten::_softmax", {{4, 8, 16}, {}, {}}).as<SoftmaxOp>().rows, 32);
  EXPECT_EQ(Lookup("aten::cudnn_batch_norm", {{2, 3, 4, 5}, {3}, {3}}).as<BatchNormOp>().h, 20);
}

TEST(TraceOperator, ReductionShapes) {
  const Lookup bias("aten::sum", {{1024, 96}, {}, {}, {}});
  EXPECT_EQ(bias.as<ReductionOp>().rows, 96);
  EXPECT_TRUE(bias.as<ReductionOp>().across_rows);
  const Lookup row("aten::all", {{1, 141}});
  EXPECT_EQ(row.as<ReductionOp>().cols, 141);
  const Lookup kept("aten::sum", {{512, 1024}}, {{1, 1024}});
  EXPECT_EQ(kept.as<ReductionOp>().rows, 1024);
  EXPECT_TRUE(kept.as<ReductionOp>().across_rows);
  const Lookup along("aten::sum", {{512, 1024}}, {{512}});
  EXPECT_FALSE(along.as<ReductionOp>().across_rows);
  EXPECT_EQ(Lookup("aten::sum", {{1024, 96}}, {{1024, 1}}).as<ReductionOp>().cols, 96);
}

TEST(TraceOperator, CopyConvertsTypes) {
  std::vector<TensorShape> in = {{Dims{}, DType::kUnknown}};
  const Dims dims = {100};
  in = {{dims, DType::kFloat16}, {dims, DType::kFloat32}, {{}, DType::kUnknown}};
  const auto traced = OperatorFromTrace("aten::copy_", in, {});
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(TotalWork(traced->op).bytes, Bytes(100 * 4 + 100 * 2));
}

TEST(TraceOperator, CumsumHasOneTensor) {
  // aten::cumsum(self, dim): 6 fp32 values read and written.
  const Lookup call("aten::cumsum", {{2, 3}, {}}, {{2, 3}});
  ASSERT_TRUE(call.found());
  EXPECT_EQ(call.bytes(), 2 * 6 * 4);
}

TEST(TraceOperator, CatNeedsShapesFromSomewhere) {
  EXPECT_FALSE(Lookup("aten::cat", {{}, {}}).found());
  EXPECT_EQ(Lookup("aten::cat", {{}, {}}, {{8, 4}}).bytes(), 256);
}

TEST(TraceOperator, OlderConvolutionBackwardHasItsInputFirst) {
  // kineto-tb_plugin's ResNet-50: a 1x1 convolution of stride 2; [n, k, oh, ow] is the gradient.
  const Lookup call("aten::cudnn_convolution_backward",
                    {{32, 512, 28, 28}, {32, 1024, 14, 14}, {1024, 512, 1, 1}, {}, {}});
  EXPECT_EQ(call.as<Conv2dOp>().h, 28);
  EXPECT_EQ(call.as<Conv2dOp>().oh, 14);
  // Two passes of 2 n k oh ow c FLOP each.
  EXPECT_DOUBLE_EQ(call.flop(), 2 * 2.0 * 32 * 1024 * 14 * 14 * 512);
}

TEST(TraceOperator, AttentionLayouts) {
  const Lookup sdpa("aten::_scaled_dot_product_flash_attention",
                    {{2, 16, 128, 64}, {2, 4, 256, 64}, {2, 4, 256, 64}});
  EXPECT_EQ(sdpa.as<AttentionOp>().heads, 16);
  EXPECT_EQ(sdpa.as<AttentionOp>().kv_heads, 4);
  EXPECT_EQ(sdpa.as<AttentionOp>().skv, 256);
  // The kernel call itself has the sequence before the heads.
  const Lookup inner("aten::_flash_attention_forward",
                     {{2, 128, 16, 64}, {2, 256, 4, 64}, {2, 256, 4, 64}});
  EXPECT_EQ(inner.as<AttentionOp>().heads, 16);
  EXPECT_EQ(inner.as<AttentionOp>().sq, 128);
  EXPECT_EQ(inner.flop(), sdpa.flop());
  // Q K^T and P V: 2 x 2 x 2 x 16 x 128 x 256 x 64.
  EXPECT_DOUBLE_EQ(sdpa.flop(), 4.0 * 2 * 16 * 128 * 256 * 64);
}

TEST(TraceOperator, BatchedLookup) {
  // DLRM-8's three tables of 40,017,450 rows of 16 in all, 384 bags of 128 samples, 2,304 lookups.
  const std::vector<Dims> in = {{0}, {640279200}, {0}, {0, 0}, {3},    {3},  {4},
                                {},  {},          {4}, {},     {2304}, {385}};
  const Lookup call("fbgemm::split_embedding_codegen_lookup_adagrad_function", in, {{128, 48}});
  ASSERT_TRUE(call.found());
  const auto& op = call.as<EmbeddingOp>();
  EXPECT_EQ(op.tables, 3);
  EXPECT_EQ(op.dim, 16);
  EXPECT_EQ(op.bags, 384);
  EXPECT_EQ(op.lookups, 2304);
  EXPECT_EQ(op.rows, 40017450);
  EXPECT_EQ(op.unique_rows, 2304);  // 768 of 13 million rows a table: hardly one is hit twice
  EXPECT_EQ(op.optimizer, OptimizerKind::kAdagrad);
  EXPECT_FALSE(op.rowwise);
  EXPECT_TRUE(op.fused_update);
  EXPECT_TRUE(call.assumed());
  // Rows of 16 floats, 8-byte indices and offsets, pooled rows.
  EXPECT_EQ(call.bytes(), 2304 * 64 + 2304 * 8 + 384 * 8 + 384 * 64);
  // Without the result the dimension is not known yet.
  EXPECT_EQ(
      Lookup("fbgemm::split_embedding_codegen_lookup_adagrad_function", in).as<EmbeddingOp>().dim,
      0);
}

TEST(TraceOperator, EmbeddingAndEmbeddingBag) {
  const Lookup rows("aten::embedding", {{1000, 64}, {8, 16}});
  // 128 rows of 64 floats read and written, 128 indices.
  EXPECT_EQ(rows.bytes(), 2 * 128 * 256 + 128 * 8);
  const Lookup bag("aten::_embedding_bag", {{1000, 64}, {100}, {10}});
  EXPECT_EQ(bag.as<EmbeddingOp>().lookups, 100);
  EXPECT_EQ(bag.as<EmbeddingOp>().bags, 10);
  // 1000 (1 - exp(-0.1)) = 95.16 distinct rows.
  EXPECT_EQ(bag.as<EmbeddingOp>().unique_rows, 95);
}

TEST(TraceOperator, FusedAdamMovesSevenTimesItsParameters) {
  // Two tensors of 100 and 20 parameters; parameters, gradients and both moments.
  const Lookup call("aten::_fused_adam_", {{100}, {20}, {100}, {20}, {100}, {20}, {100}, {20}});
  EXPECT_EQ(call.as<OptimizerOp>().params, 120);
  EXPECT_EQ(call.bytes(), 7 * 120 * 4);  // four read, three written
}

TEST(OpaqueOperator, ReadsItsArgumentsAndWritesItsResult) {
  const Dims large = {8, 4}, small = {4};
  const std::vector<TensorShape> in = {{large, DType::kFloat32}, {small, DType::kInt64}};
  const auto unknown = OpaqueOperator("fbgemm::permute_pooled_embs", in, {});
  ASSERT_TRUE(unknown.has_value());
  EXPECT_TRUE(unknown->assumed);
  EXPECT_EQ(TotalWork(unknown->op).bytes, Bytes(128 + 32 + 128));
  const std::vector<TensorShape> out = {{small, DType::kFloat32}};
  EXPECT_EQ(TotalWork(OpaqueOperator("my::op", in, out)->op).bytes, Bytes(128 + 32 + 16));
  EXPECT_FALSE(OpaqueOperator("aten::some_embedding_lookup", in, {}).has_value());
  EXPECT_FALSE(OpaqueOperator("my::op", {}, {}).has_value());
}

TEST(TraceOperator, UnknownNamesAreLeftToOthers) {
  EXPECT_FALSE(Lookup("aten::reshape", {{8, 4}}).found());
  EXPECT_FALSE(Lookup("fbgemm::bounds_check_indices", {{8, 4}}).found());
  EXPECT_FALSE(Lookup("", {{8, 4}}).found());
}

TEST(ElementwiseTable, EveryNameIsFound) {
  for (std::string_view name : {"__and__", "abs", "add", "where", "zzz", "sqrt", "tanh_backward"}) {
    EXPECT_EQ(FindElementwise(name).has_value(), name != "zzz") << name;
  }
  EXPECT_EQ(FindElementwise("relu_")->name, "relu");
}

TEST(TraceOperator, MasksAreToldApart) {
  const std::vector<int64_t> heads = {2, 12, 128, 64};
  const std::vector<TensorShape> shapes(3, TensorShape{heads, DType::kBFloat16});
  auto traced = OperatorFromTrace("aten::_scaled_dot_product_flash_attention", shapes, {});
  ASSERT_TRUE(traced.has_value());
  SetMask(AttentionMask::kUnknown, *traced);
  EXPECT_TRUE(traced->assumed);
  SetMask(AttentionMask::kCausal, *traced);
  EXPECT_FALSE(traced->assumed);
  EXPECT_TRUE(std::get<AttentionOp>(traced->op.shape).causal);
  SetMask(AttentionMask::kNone, *traced);
  EXPECT_FALSE(std::get<AttentionOp>(traced->op.shape).causal);
}

// Backward a softmax sums products of gradients and results, its logarithm gradients alone.
TEST(TraceOperator, LogarithmsOfASoftmaxReadLessAgain) {
  const std::vector<int64_t> matrix = {8, 2000};
  const std::vector<TensorShape> shapes(2, TensorShape{matrix, DType::kFloat32});
  const auto again = [&](std::string_view name) {
    return Kernels(OperatorFromTrace(name, shapes, {})->op).back().read_again;
  };
  EXPECT_EQ(again("aten::_softmax_backward_data"), Bytes(2 * 4 * 8 * 2000));
  EXPECT_EQ(again("aten::_log_softmax_backward_data"), Bytes(4 * 8 * 2000));
  EXPECT_EQ(again("aten::_log_softmax"), Bytes(2 * 4 * 8 * 2000));
}

// A scale for each row, or for every 128 elements of one.
TEST(TraceOperator, ScalesOfBlocks) {
  const std::vector<int64_t> x = {64, 512}, w = {512, 256}, rows = {64, 1}, blocks = {64, 4};
  const auto scaled = [&](const std::vector<int64_t>& scale) {
    const std::vector<TensorShape> shapes = {
        {x, DType::kFloat8}, {w, DType::kFloat8}, {scale, DType::kFloat32}};
    const auto traced = OperatorFromTrace("aten::_scaled_mm", shapes, {});
    return Kernels(traced->op)[0].block_scaled;
  };
  EXPECT_FALSE(scaled(rows));
  EXPECT_TRUE(scaled(blocks));
}

}  // namespace
}  // namespace foretrace
