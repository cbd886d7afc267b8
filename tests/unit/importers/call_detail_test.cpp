// What a call's scalars and strides say of it (importers/kineto/call_detail.h).

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

std::string CallEvent(const std::string& name, const std::string& arguments) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name +
         R"(","pid":100,"tid":100,"ts":1000,"dur":10,"args":{)" + arguments +
         R"(}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":20,"ts":1009,"dur":4,)"
         R"("args":{"device":0,"stream":20}})";
}

AttentionMask MaskOf(const std::string& name, const std::string& concrete) {
  const auto store = ImportEvents(CallEvent(name, R"("Concrete Inputs":[)" + concrete + "]"));
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return AttentionMask::kUnknown;
  const RankTrace& rank = store->ranks()[0];
  return rank.attention_mask(FindNode(*store, rank, name));
}

// (query, key, value, dropout_p, is_causal, ...) and, of the memory-efficient kernels, the eleventh
// of the backward pass and a number for the mask.
TEST(Kineto, ScalarsSayHowAttentionIsMasked) {
  const std::string flash = "aten::_scaled_dot_product_flash_attention";
  EXPECT_EQ(MaskOf(flash, R"("","","","0.","True","False","")"), AttentionMask::kCausal);
  EXPECT_EQ(MaskOf(flash, R"("","","","0.","False","False","")"), AttentionMask::kNone);
  EXPECT_EQ(MaskOf(flash, R"("","","","0.","","False","")"), AttentionMask::kUnknown);
  EXPECT_EQ(MaskOf(flash, R"("","","")"), AttentionMask::kUnknown);
  EXPECT_EQ(MaskOf(flash + "_backward", R"("","","","","","","","","","","0.","True")"),
            AttentionMask::kCausal);
  const std::string efficient = "aten::_efficient_attention_forward";
  EXPECT_EQ(MaskOf(efficient, R"("","","","","","","","","0.","0","True")"), AttentionMask::kNone);
  EXPECT_EQ(MaskOf(efficient, R"("","","","","","","","","0.","1","True")"),
            AttentionMask::kCausal);
  // PyTorch 2.1 has one argument less before it: whether the sums are kept stands there.
  EXPECT_EQ(MaskOf(efficient, R"("","","","","","","","0.","1","True")"), AttentionMask::kUnknown);
  EXPECT_EQ(MaskOf("aten::add", R"("","","","","True")"), AttentionMask::kUnknown);
}

std::vector<int64_t> ResultOf(const std::string& name, const std::string& dims,
                              const std::string& concrete) {
  const auto store = ImportEvents(
      CallEvent(name, R"("Input Dims":[)" + dims + R"(],"Concrete Inputs":[)" + concrete +
                          R"(],"Input type":["float","float","Scalar","Scalar","Scalar"])"));
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  const RankTrace& rank = store->ranks()[0];
  for (const Tensor& tensor : rank.tensors(FindNode(*store, rank, name))) {
    const auto result = rank.dims(tensor);
    if (tensor.is_output) return {result.begin(), result.end()};
  }
  return {};
}

// A place of the grid each; what is padded is as much larger, the last dimension first.
TEST(Kineto, ResultsOfSamplingAndPadding) {
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(ResultOf("aten::grid_sampler_2d", "[8,256,64,64],[8,128,32,2],[],[],[]",
                     R"("","","0","0","False")"),
            (Dims{8, 256, 128, 32}));
  EXPECT_EQ(ResultOf("aten::grid_sampler_2d", "[8,256,64,64],[8,128,2],[],[],[]",
                     R"("","","0","0","False")"),
            Dims());
  EXPECT_EQ(ResultOf("aten::reflection_pad1d", "[8,512,16000],[]", R"("","[3, 4]")"),
            (Dims{8, 512, 16007}));
  EXPECT_EQ(
      ResultOf("aten::replication_pad3d", "[1,512,3,90,160],[]", R"("","[1, 1, 1, 1, 2, 0]")"),
      (Dims{1, 512, 5, 92, 162}));
  EXPECT_EQ(ResultOf("aten::replication_pad3d", "[1,512,3],[]", R"("","[1, 1, 1, 1, 1, 1, 2, 0]")"),
            Dims());
  EXPECT_EQ(ResultOf("aten::reflection_pad1d", "[8,512,4],[]", R"("","[-3, -3]")"), Dims());
}

std::optional<int> ScatteredOf(const std::string& dims, const std::string& strides,
                               const std::string& type = "float") {
  const std::string event =
      CallEvent("aten::copy_", R"("Input Strides":[)" + strides + R"(],"Input Dims":[)" + dims +
                                   R"(],"Input type":[")" + type + R"(",")" + type + R"("])");
  const auto store = ImportEvents(event);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return std::nullopt;
  const RankTrace& rank = store->ranks()[0];
  return rank.scattered_tensors(FindNode(*store, rank, "aten::copy_"));
}

// What is left of the dimensions of Wan2.1's and Qwen1.5's tensors (H100, traces/README.md).
TEST(Kineto, StridesSayWhichDimensionsAreOne) {
  const auto left = [](const std::string& name, const std::string& dims,
                       const std::string& strides) {
    const auto store =
        ImportEvents(CallEvent(name, R"("Input Strides":[)" + strides + R"(],"Input Dims":[)" +
                                         dims + R"(],"Input type":["float","float"])"));
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return -1;
    const RankTrace& rank = store->ranks()[0];
    return rank.index_dimensions(FindNode(*store, rank, name));
  };
  constexpr const char* kHeads = "[16,16,559,64],[16,16,559,64]";
  EXPECT_EQ(left("aten::add", kHeads, "[572416,35776,64,1],[572416,35776,64,1]"), 1);
  EXPECT_EQ(left("aten::add", kHeads, "[572416,64,1024,1],[572416,35776,64,1]"), 4);
  EXPECT_EQ(
      left("aten::mul", "[16,16,559,64],[1,1,559,64]", "[572416,35776,64,1],[35776,35776,64,1]"),
      2);
  // A result of its own lies as its operand does, in the order of these strides.
  EXPECT_EQ(left("aten::neg", "[16,16,559,32]", "[572416,64,1024,1]"), 2);
  // A slice goes on within a channel, five dimensions or not.
  EXPECT_EQ(left("aten::copy_", "[1,96,2,256,256],[1,96,2,256,256]",
                 "[12582912,131072,65536,256,1],[25165824,262144,65536,256,1]"),
            2);
  EXPECT_EQ(left("aten::add_", "[1,96,4,256,256],[1,96,1,1,1]",
                 "[25165824,262144,65536,256,1],[96,1,1,1,1]"),
            2);
  EXPECT_EQ(left("aten::add", "[1],[1]", "[1],[1]"), 0);
  EXPECT_EQ(left("aten::add", "[4611686018427387904,2],[2]", "[2,1],[1]"), 0);
}

// A class token before an image's patches, which a convolution left channel by channel.
TEST(Kineto, StridesOfAListSayWhetherMostOfItIsScattered) {
  const auto scattered = [](const std::string& dims, const std::string& strides) {
    const std::string event =
        CallEvent("aten::cat", R"("Input Strides":[[)" + strides + R"(],[]],"Input Dims":[[)" +
                                   dims + R"(],[]],"Input type":["TensorList","Scalar"])");
    const auto store = ImportEvents(event);
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return std::optional<int>();
    const RankTrace& rank = store->ranks()[0];
    return rank.scattered_tensors(FindNode(*store, rank, "aten::cat"));
  };
  constexpr const char* kTokens = "[4,1,768],[4,196,768]";
  EXPECT_EQ(scattered(kTokens, "[768,768,1],[150528,768,1]"), 0);
  EXPECT_EQ(scattered(kTokens, "[0,768,1],[150528,1,196]"), 1);
  EXPECT_EQ(scattered(kTokens, "[0,1,4],[150528,768,1]"), 0);  // of the small one alone
  EXPECT_EQ(scattered("[4,64,56,56],[4,64,56,56]", "[200704,1,3584,64],[200704,1,3584,64]"), 0);
  EXPECT_EQ(scattered("[4],[4]", "[],[]"), std::nullopt);
}

// Threads go along the first tensor's dimension of the smallest stride.
TEST(Kineto, StridesSayWhichTensorsAreScattered) {
  constexpr const char* kMatrices = "[3000,2000],[3000,2000]";
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000,1],[2000,1]"), 0);
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000,1],[1,3000]"), 1);
  EXPECT_EQ(ScatteredOf(kMatrices, "[1,3000],[1,3000]"), 0);  // both alike
  // Rows of 256 are gone through by a block of 512 elements, which then has their neighbours.
  EXPECT_EQ(ScatteredOf("[3000,256],[3000,256]", "[256,1],[1,3000]"), 0);
  EXPECT_EQ(ScatteredOf("[3000,512],[3000,512]", "[512,1],[1,3000]"), 1);
  // Every second float lies in a sector with others; every eighth does not, nor every second of
  // complex numbers of 16 bytes.
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000,1],[4000,2]"), 0);
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000,1],[16000,8]"), 1);
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000,1],[1,3000]", "c10::complex<double>"), 1);
  // A permutation of outer dimensions leaves the last where it is.
  EXPECT_EQ(ScatteredOf("[8,12,64,64],[8,12,64,64]", "[49152,4096,64,1],[49152,64,768,1]"), 0);
  // A dimension of one element is none.
  EXPECT_EQ(ScatteredOf("[1,3000,2000],[3000,2000]", "[6000000,2000,1],[1,3000]"), 1);
  // A column that is spread over rows is cached; what is missing or does not fit is not known.
  EXPECT_EQ(ScatteredOf("[3000,2000],[3000,1]", "[2000,1],[1,1]"), 0);
  EXPECT_EQ(ScatteredOf(kMatrices, ""), std::nullopt);
  EXPECT_EQ(ScatteredOf(kMatrices, "[2000],[1]"), std::nullopt);
  EXPECT_EQ(ScatteredOf(kMatrices, "[9223372036854775807,1],[1,9223372036854775807]"), 1);
}

}  // namespace
}  // namespace foretrace
