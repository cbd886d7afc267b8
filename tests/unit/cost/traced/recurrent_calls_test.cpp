// Recurrences of cuDNN: one call, products of all steps.

#include "simulator/cost/traced/recurrent_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using Dims = std::vector<int64_t>;

Recurrence Find(std::string_view call, const std::vector<Dims>& arguments) {
  std::vector<TensorShape> inputs;
  for (const Dims& dims : arguments) inputs.push_back({dims, DType::kFloat16});
  return RecurrenceOf(call, inputs).value_or(Recurrence());
}

// (input, weights, stride, buffer, hx, cx, ...) of aten/src/ATen/native/native_functions.yaml: 512
// steps of 64 samples, 512 inputs to 1,024 hidden, four gates.
TEST(RecurrentCalls, WeightsSayWhatIsMultiplied) {
  const Dims x = {512, 64, 512}, state = {1, 64, 1024};
  const int64_t of_inputs = 4096 * 512, of_states = 4096 * 1024;
  const std::vector<Dims> lstm = {x, {4096, 512}, {4096, 1024}, {4096}, {4096}, {}, state, state};
  const Recurrence found = Find("aten::_cudnn_rnn", lstm);
  EXPECT_DOUBLE_EQ(found.inputs.count(), 2.0 * 512 * 64 * of_inputs);
  EXPECT_DOUBLE_EQ(found.recurrent.count(), 2.0 * 512 * 64 * of_states);
  EXPECT_EQ(found.steps, 512);
  EXPECT_DOUBLE_EQ(Find("aten::_cudnn_rnn_backward", lstm).flop().count(),
                   2 * found.flop().count());
  // Backward, the gradient of the state goes through the steps as the state does; that of all
  // weights is one product over all steps.
  EXPECT_DOUBLE_EQ(Find("aten::_cudnn_rnn_backward", lstm).recurrent.count(),
                   found.recurrent.count());
  // Profiles of older versions leave out the list; the buffer has biases too.
  const Recurrence older =
      Find("aten::_cudnn_rnn", {x, {}, {of_inputs + of_states + 8192}, state, state});
  EXPECT_DOUBLE_EQ(older.recurrent.count(), found.recurrent.count());
  EXPECT_NEAR(older.flop().count() / found.flop().count(), 1, 0.002);
  // A GRU has three gates and no cells, whatever the order of samples and steps.
  const Recurrence gru =
      Find("aten::_cudnn_rnn", {{64, 512, 512}, {3072, 512}, {3072, 1024}, state});
  EXPECT_DOUBLE_EQ(gru.recurrent.count(), 2.0 * 512 * 64 * 3072 * 1024);
  EXPECT_EQ(gru.steps, 512);
  EXPECT_EQ(Find("aten::_cudnn_rnn", {x}).steps, 0);
  EXPECT_EQ(Find("aten::lstm", lstm).steps, 0);
}

struct Kernel {
  std::string name;
  LaunchAttr launch;
};

// Of `kernels`, in order, within one call of an LSTM of so many steps of 64 samples, 512 to 1,024.
std::vector<double> Times(int64_t steps, const std::vector<Kernel>& kernels,
                          std::string_view call = "aten::_cudnn_rnn") {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(call, {0, 10000});
  const std::vector<Dims> arguments = {
      {steps, 64, 512}, {4096, 512}, {4096, 1024}, {1, 64, 1024}, {1, 64, 1024}};
  for (const Dims& dims : arguments) {
    Tensor tensor;
    tensor.dtype = DType::kFloat32;
    rank.builder().AddTensor(rank.Of(call), tensor, dims);
  }
  double at = 10;
  for (const Kernel& kernel : kernels) {
    rank.Kernel(kernel.name, {at, at + 2}, 7, {at + 4, at + 8});
    rank.Launched(kernel.name, kernel.launch).Waves(kernel.name, 500);
    at += 10;
  }
  const TraceStore store = job.Build();
  const KernelCostModel model(std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                                   std::vector<KernelModel>{}),
                              store);
  std::vector<double> times;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex node(i);
    if (store.ranks()[0].kind(node) != NodeKind::kKernel) continue;
    times.push_back(model.Predict(store, store.ranks()[0], node)->time.us());
  }
  return times;
}

// Eight steps, by cuDNN's standard algorithm: the inputs' products at once, 4,096 x 512 results in
// 32 x 8 blocks; then for each step 4,096 x 64 by a GEMM of 32 x 32 results a block, and the cells.
TEST(RecurrentCalls, ProductsOfStepsComeToTheCallsFlop) {
  std::vector<Kernel> kernels = {{"ampere_sgemm_128x64_tn inputs", {{32, 8, 1}, {128, 1, 1}}}};
  for (int step = 0; step < 8; ++step) {
    const std::string of_step = " " + std::to_string(step);
    kernels.push_back({"ampere_sgemm_32x32_sliced1x4_tn" + of_step, {{128, 2, 1}, {128, 1, 1}}});
    kernels.push_back({"void LSTM_elementWise_fp<float, float, float>(int)" + of_step,
                       {{512, 1, 1}, {128, 1, 1}}});
  }
  const std::vector<double> times = Times(8, kernels);
  double products = times[0];
  for (size_t i = 1; i < times.size(); i += 2) {
    products += times[i];
    EXPECT_LT(times[i + 1], 5);
  }
  // 2 x 8 x 64 x 4,096 x 1,536 FLOP at 67 TFLOP/s, of which few blocks reach a part.
  const double least = 2.0 * 8 * 64 * 4096 * 1536 / 67e6;
  EXPECT_GT(products, least);
  EXPECT_LT(products, 3 * least);
}

// Of one kernel that goes through all steps, 512 of them take four trips to L2 each, 193 cycles of
// 1.755 GHz, beside 2 x 64 x 4,096 x 1,024 FLOP.
TEST(RecurrentCalls, OneKernelGoesThroughSteps) {
  const std::vector<double> times =
      Times(512, {{"void RNN_blockPersist_fp_LSTM<float, float, float, float, 1, 512>(x)",
                   {{132, 1, 1}, {512, 1, 1}}}});
  const double waits = 512 * 4 * 193 / 1755.0, products = 512 * 2.0 * 64 * 4096 * 1024 / 67e6;
  EXPECT_GT(times[0], 0.8 * products + waits);
  EXPECT_LT(times[0], 1.3 * (products + waits));
}

// Backward, the kernel that goes through all steps multiplies the gradient of the state alone, as
// much as forward; the gradient of the state's weights, 4,096 x 1,024 results of 512 x 64 rows, is
// in a GEMM behind it, with that of the inputs' weights and of the inputs: three products of 4,096
// x 512 or twice that, 4 x 2 x 32,768 x 4,096 x 512 FLOP in all.
TEST(RecurrentCalls, WeightGradientsFollowTheKernelThatGoesThroughSteps) {
  const Kernel steps = {"void RNN_blockPersist_bp_LSTM<float, float, float, float, 1, 512>(x)",
                        {{132, 1, 1}, {512, 1, 1}}};
  const Kernel gemm = {"ampere_sgemm_128x128_nt", {{32, 16, 1}, {256, 1, 1}}};
  const std::vector<double> forward = Times(512, {steps}),
                            backward = Times(512, {steps, gemm}, "aten::_cudnn_rnn_backward");
  EXPECT_DOUBLE_EQ(backward[0], forward[0]);
  const double least = 4 * 2.0 * 32768 * 4096 * 512 / 67e6;
  EXPECT_GT(backward[1], least);
  EXPECT_LT(backward[1], 1.6 * least);
}

}  // namespace
}  // namespace foretrace
