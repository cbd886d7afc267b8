// Measured memory of training against the memory model, to which nothing is fitted.

#include "simulator/mapping/memory_model.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "simulator/base/input.h"
#include "simulator/mapping/chunk_stash.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

constexpr double kMiB = 1 << 20;

// Llama 2 7B of `layers`. The profile is called bf16, but its parameter_size is 4 bytes a
// parameter and what a checkpointed layer keeps 4 bytes an activation: of 32 bits throughout.
TransformerConfig Llama(int64_t layers) {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 4096;
  c.heads = 32;
  c.ffn = 11008;
  c.vocabulary = 32000;
  c.sequence = 2048;
  c.layers = layers;
  c.dtype = DType::kFloat32;
  c.fused_attention = true;
  return c;
}

// Eight devices and samples, tensor parallelism with sequence parallelism, all states divided.
ParallelMapping Mapping(int32_t tensor) {
  ParallelMapping m;
  m.tensor = tensor;
  m.data = 8 / tensor;
  m.global_batch = 8;
  m.micro_batch = tensor;
  m.zero = 3;
  m.sequence_parallel = tensor > 1;
  return m;
}

double States(const MemoryLedger& use) {
  return static_cast<double>((use.weights + use.gradients + use.optimizer).count()) / kMiB;
}

class Errors {
 public:
  void Add(const char* what, int32_t tensor, double modelled, double measured) {
    const double error = 100 * (modelled / measured - 1);
    std::printf("%-24s tp%d  measured %7.1f MiB  modelled %7.1f  %+5.1f %%\n", what, tensor,
                measured, modelled, error);
    sum_ += std::abs(error);
    most_ = std::max(most_, std::abs(error));
    ++count_;
  }
  double mean() const { return sum_ / count_; }
  double most() const { return most_; }

 private:
  double sum_ = 0, most_ = 0;
  int count_ = 0;
};

// Of a layer: the second layer's share of what two take.
TEST(MemoryModelStudy, GalvatronProfiles) {
  const std::string path =
      RealData("galvatron/models__gpt__configs__memory_profiling_bf16_llama2-7b_all.json");
  FORETRACE_SKIP_WITHOUT(path);
  const auto text = ReadTextFile(path, kMaxTableBytes);
  ASSERT_TRUE(text.ok()) << text.status();
  rapidjson::Document profile;
  ASSERT_FALSE(profile.Parse(text->c_str()).HasParseError());
  const auto second = [&](const std::string& run, const char* what) {
    const auto at = [&](int layers) {
      const std::string key = "layernum[" + std::to_string(layers) + "]_bsz8_seq2048_rank0_" + what;
      return profile[run.c_str()][key.c_str()].GetDouble();
    };
    return at(2) - at(1);
  };
  Errors errors;
  for (const int32_t tensor : {1, 2, 4, 8}) {
    const ParallelMapping m = Mapping(tensor);
    const std::string run =
        "1_" + std::to_string(tensor) + "_" + std::to_string(8 / tensor) + "_sp";
    errors.Add("states of a layer", tensor,
               States(StageMemoryOf(Llama(2), m, 0)) - States(StageMemoryOf(Llama(1), m, 0)),
               second(run, "ms"));
    errors.Add("activations of a layer", tensor, LayerStash(Llama(1), m, Recompute::kNone) / kMiB,
               second(run, "act"));
  }
  errors.Add("checkpoint of a layer", 1, LayerStash(Llama(1), Mapping(1), Recompute::kFull) / kMiB,
             second("1_1_8_c_sp", "act"));
  // Embedding, output layer and the last norm, undivided.
  ParallelMapping alone;
  const MemoryLedger one = StageMemoryOf(Llama(1), alone, 0),
                     two = StageMemoryOf(Llama(2), alone, 0);
  const auto& others = profile["other_memory_pp_off_sp"]["2048"];
  errors.Add("states of the ends", 1, 2 * States(one) - States(two),
             others["model_states"]["1"].GetDouble());
  std::printf("mean %.1f %%, most %.1f %%\n", errors.mean(), errors.most());
  EXPECT_LE(errors.mean(), 4);
  EXPECT_LE(errors.most(), 8);
}

}  // namespace
}  // namespace foretrace
