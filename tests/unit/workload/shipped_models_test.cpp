// Every shipped transformer against the number of parameters that its authors published.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "simulator/graph/differentiate.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer_graph.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// Parameters, and half of the last digit that was printed: 0 where the released files were counted.
struct Published {
  double parameters, tolerance = 0;
};

const std::map<std::string, Published>& Table() {
  static const auto* const kTable = new std::map<std::string, Published>{
      {"bert-large", {335'141'888}},
      {"bloom-560m", {559'214'592}},
      {"bloom-1.1b", {1'065'314'304}},
      {"bloom-1.7b", {1'722'408'960}},
      {"bloom-3b", {3'002'557'440}},
      {"bloom-7.1b", {7'069'016'064}},
      {"bloom-176b", {176'247'271'424}},
      {"dbrx-132b", {131'596'523'520}},
      {"deepseek-7b", {6'910'365'696}},
      {"deepseek-67b", {67.4e9, 0.05e9}},
      {"deepseek-moe-16b", {16'375'728'128}},
      {"deepseek-v2", {235'741'434'880}},
      {"deepseek-v2-lite", {15'706'484'224}},
      {"deepseek-v3", {671e9, 0.5e9}},
      // And of each of 61 layers' index 1,536 x 8,192 + 7,168 x (128 + 64) + 2 x 128.
      {"deepseek-v3.2", {671e9 + 61 * 13'959'424.0, 0.5e9}},
      // Without the copies of their embeddings (FalconStoresItsEmbeddingTwice).
      {"falcon-7b", {6'921'720'704}},
      {"falcon-40b", {41'303'293'952}},
      {"falcon-180b", {178'557'088'768}},
      {"falcon-h1-0.5b", {0.521e9, 0.0005e9}},
      {"falcon-h1-1.5b-deep", {1.55e9, 0.005e9}},
      {"falcon-h1-7b", {7.59e9, 0.005e9}},
      {"falcon-h1-34b", {33.6e9, 0.05e9}},
      {"gemma-2b", {2'506'172'416}},
      {"gemma-7b", {8'537'680'896}},
      {"gemma2-2b", {2'614'341'888}},
      {"gemma2-9b", {9'241'705'984}},
      {"gemma2-27b", {27'227'128'320}},
      {"gemma3-1b", {999'885'952}},
      {"gemma3-4b", {3'880'263'168}},
      {"gemma3-12b", {11.77e9, 0.005e9}},
      {"gemma3-27b", {27'009'346'304}},
      // Its report counts the further token's module and no embeddings: 355e9.
      {"glm-4.5", {352.8e9, 0.1e9}},
      {"glm-4.5-air", {106e9, 1e9}},
      {"gpt-1t", {1008e9, 0.5e9}},
      {"gpt-22b", {22e9, 0.5e9}},
      {"gpt-j-6b", {6.05e9, 0.005e9}},
      {"gpt-neox-20b", {20'554'567'680}},
      {"gpt-oss-20b", {20.91e9, 0.005e9}},
      {"gpt-oss-120b", {116.83e9, 0.005e9}},
      {"gpt-small", {154'249'216}},  // not published: 8 (12 h^2 + 13 h) + (51,200 + 1,024 + 2) h
      {"gpt2-1.5b", {1'557'611'200}},
      {"gpt3-125m", {125e6, 0.5e6}},
      {"gpt3-350m", {350e6, 7e6}},
      {"gpt3-760m", {760e6, 1e6}},
      {"gpt3-1.3b", {1.3e9, 0.05e9}},
      {"gpt3-2.7b", {2.7e9, 0.05e9}},
      {"gpt3-5b", {5e9, 0.1e9}},
      {"gpt3-6.7b", {6.7e9, 0.05e9}},
      {"gpt3-13b", {13e9, 0.5e9}},
      {"gpt3-20b", {20e9, 0.5e9}},
      {"gpt3-40b", {40e9, 1e9}},
      {"gpt3-175b", {175e9, 0.5e9}},
      {"grok1-314b", {314e9, 3e9}},
      {"kimi-k2", {1.03e12, 0.01e12}},
      {"granite-4.0-h-1b", {1.5e9, 0.05e9}},
      {"granite-4.0-h-micro", {3e9, 0.5e9}},
      {"granite-4.0-h-small", {32e9, 0.5e9}},
      {"granite-4.0-h-tiny", {7e9, 0.5e9}},
      {"llama-7b", {6'738'415'616}},
      {"llama-13b", {13'015'864'320}},
      {"llama-33b", {32'528'943'616}},
      {"llama-65b", {65'285'660'672}},
      {"llama2-7b", {6'738'415'616}},
      {"llama2-13b", {13'015'864'320}},
      {"llama2-70b", {68'976'648'192}},
      {"llama2-34b", {33'743'970'304}},
      {"llama3-8b", {8'030'261'248}},
      {"llama3-70b", {70'553'706'496}},
      {"llama3.1-8b", {8'030'261'248}},
      {"llama3.1-70b", {70'553'706'496}},
      {"llama3.1-405b", {405'853'388'800}},
      {"llama3.2-1b", {1'235'814'400}},
      {"llama3.2-3b", {3'212'749'824}},
      {"llama3.3-70b", {70'553'706'496}},
      // Published are 109e9 and 400e9 with the vision encoder, of nearly 0.9e9.
      {"llama4-scout", {108.1e9, 0.5e9}},
      {"llama4-maverick", {400e9, 1.5e9}},
      {"mamba2-1.3b", {1.34e9, 0.005e9}},
      {"megatron-2.5b", {2.5e9, 0.05e9}},
      {"megatron-8.3b", {8.3e9, 0.05e9}},
      {"mistral-7b", {7'241'732'096}},
      {"mistral-large-123b", {122'610'069'504}},
      {"mistral-nemo-12b", {12'247'782'400}},
      {"mistral-small-24b", {23'572'403'200}},
      {"mixtral-8x7b", {46'702'792'704}},
      {"mixtral-8x22b", {140'620'634'112}},
      {"mpt-125m", {125.311e6, 0.5e3}},
      {"mpt-350m", {355.985e6, 0.5e3}},
      {"mpt-760m", {760.471e6, 0.5e3}},
      {"mpt-1b", {1.31595e9, 0.5e4}},
      {"mpt-3b", {2.65184e9, 0.5e4}},
      {"mpt-7b", {6.65886e9, 0.5e4}},
      {"mpt-13b", {12.854e9, 0.5e6}},
      {"mpt-30b", {29.9752e9, 0.5e5}},
      {"mpt-70b", {64.8624e9, 0.5e5}},
      // Named after the sizes without all of their 256,000 tokens' embeddings.
      {"nemotron3-4b", {4.2e9, 0.1e9}},
      {"nemotron3-8b", {8.5e9, 0.1e9}},
      {"nemotron3-22b", {21.3e9, 0.2e9}},
      // Released files of 4.99 and 3.98 GB in 16 bits.
      {"nemotron-h-4b", {4.485e9, 0.005e9}},
      {"nemotron-h-8b", {8.1e9, 0.05e9}},
      {"nemotron-h-47b", {47e9, 0.5e9}},
      {"nemotron-h-56b", {56e9, 0.5e9}},
      {"nemotron-nano-9b-v2", {8.89e9, 0.005e9}},
      {"nemotron-nano-12b-v2", {12.31e9, 0.005e9}},
      {"nemotron-3-nano-30b-a3b", {31.6e9, 0.05e9}},
      {"nemotron-3.5-lightning-30b-a3b", {31.6e9, 0.05e9}},
      {"nemotron-3-super-120b-a12b", {120.6e9, 0.1e9}},
      {"nemotron-3-ultra-550b-a55b", {550e9, 1e9}},
      {"nemotron4-15b", {15.6e9, 0.1e9}},
      {"nemotron4-340b", {341e9, 0.5e9}},
      {"opt-125m", {125'239'296}},
      {"opt-1.3b", {1'315'758'080}},
      {"opt-2.7b", {2'651'596'800}},
      {"opt-6.7b", {6'658'473'984}},
      {"opt-13b", {12'853'473'280}},
      {"opt-30b", {29'974'540'288}},
      {"opt-66b", {66e9, 0.5e9}},
      {"opt-175b", {175e9, 0.5e9}},
      {"opt-350m", {350e6, 7e6}},
      {"phi3-mini", {3'821'079'552}},
      {"phi3-medium", {13'960'238'080}},
      {"phi4-14b", {14'659'507'200}},
      {"phi4-mini", {3'836'021'760}},
      {"pythia-1b", {1'011'781'632}},
      {"pythia-1.4b", {1'414'647'808}},
      {"pythia-2.8b", {2'775'208'960}},
      {"pythia-6.9b", {6'857'302'016}},
      {"pythia-12b", {11'846'072'320}},
      {"qwen1.5-0.5b", {463'987'712}},
      {"qwen1.5-1.8b", {1'836'828'672}},
      {"qwen1.5-4b", {3'950'369'280}},
      {"qwen1.5-7b", {7'721'324'544}},
      {"qwen1.5-14b", {14'167'290'880}},
      {"qwen1.5-32b", {32'512'218'112}},
      {"qwen1.5-72b", {72'287'920'128}},
      {"qwen1.5-110b", {111'209'914'368}},
      {"qwen2-57b-a14b", {57.4e9, 0.05e9}},
      {"qwen2.5-0.5b", {494'032'768}},
      {"qwen2.5-1.5b", {1'543'714'304}},
      {"qwen2.5-3b", {3'085'938'688}},
      {"qwen2.5-7b", {7'615'616'512}},
      {"qwen2.5-14b", {14'770'033'664}},
      {"qwen2.5-32b", {32'763'876'352}},
      {"qwen2.5-72b", {72'706'203'648}},
      {"qwen3-0.6b", {596'049'920}},
      {"qwen3-1.7b", {1'720'574'976}},
      {"qwen3-4b", {4'022'468'096}},
      {"qwen3-8b", {8'190'735'360}},
      {"qwen3-14b", {14'768'307'200}},
      {"qwen3-32b", {32'762'123'264}},
      {"qwen3-30b-a3b", {30'532'122'624}},
      {"qwen3-235b-a22b", {235'093'634'560}},
      {"qwen3-next-80b-a3b", {79'674'391'296}},
      {"starcoder2-3b", {3'030'371'328}},
      {"starcoder2-7b", {7'173'923'840}},
      {"starcoder2-15b", {15'957'889'024}},
      {"turing-530b", {529.6e9, 0.5e9}},
      {"yi-6b", {6'061'035'520}},
      {"yi-9b", {8'829'407'232}},
      {"yi-34b", {34'388'917'248}},
  };
  return *kTable;
}

TEST(ShippedModelsTest, HaveTheirPublishedParameters) {
  size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(FORETRACE_SOURCE_DIR "/traces/workloads")) {
    if (entry.is_directory()) continue;  // studies
    const auto model = LoadModel(entry.path().string());
    ASSERT_TRUE(model.ok()) << model.status();
    if (!model->transformer) continue;
    const std::string name = entry.path().stem().string();
    const auto published = Table().find(name);
    ASSERT_NE(published, Table().end()) << name << ": add its published number of parameters";
    EXPECT_EQ(model->workload.name, name);
    EXPECT_NEAR(static_cast<double>(model->workload.ParameterCount()), published->second.parameters,
                published->second.tolerance)
        << name;
    ++checked;
  }
  EXPECT_EQ(checked, Table().size());
}

// The released files, and counts made of them, have one matrix more: the output layer, which is
// tied to the embedding in all three (config.json leaves tie_word_embeddings at its default; "only
// Falcon-11B doesn't share lm_head weight with word embeddings", vLLM's models/falcon.py), stored
// again.
TEST(ShippedModelsTest, FalconStoresItsEmbeddingTwice) {
  const std::pair<const char*, int64_t> stored[] = {{"falcon-7b", 7'217'189'760},
                                                    {"falcon-40b", 41'835'970'560},
                                                    {"falcon-180b", 179'522'565'120}};
  for (const auto& [name, parameters] : stored) {
    const auto model =
        LoadModel(std::string(FORETRACE_SOURCE_DIR "/traces/workloads/") + name + ".yaml");
    ASSERT_TRUE(model.ok()) << model.status();
    const TransformerConfig& c = *model->transformer;
    EXPECT_TRUE(IsTied(c)) << name;
    EXPECT_EQ(model->workload.ParameterCount() + c.hidden * c.vocabulary, parameters) << name;
  }
}

// Layers times the block's weights and what is outside are the model's: an output layer of its own
// only where it is not tied to the embedding.
TEST(ShippedModelsTest, GraphsHaveTheSameWeights) {
  for (const auto& [name, published] : Table()) {
    const auto model =
        LoadModel(std::string(FORETRACE_SOURCE_DIR "/traces/workloads/") + name + ".yaml");
    ASSERT_TRUE(model.ok()) << model.status();
    const TransformerConfig& c = *model->transformer;
    const auto weights_of = [](const TransformerConfig& kind, bool in_block) {
      const TransformerGraph graph = MakeTransformerGraph(kind);
      return Parameters(graph.graph, BindTransformer(graph, kind, {}), in_block);
    };
    int64_t weights = weights_of(c, false) - (IsTied(c) ? c.hidden * c.vocabulary : 0);
    for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
      weights += LayersOfKindIn(c, kind) * weights_of(WithLayerKind(c, kind), true);
    }
    EXPECT_EQ(weights, model->workload.ParameterCount()) << name;
  }
}

}  // namespace
}  // namespace foretrace
