// config.json of published models against the same models in traces/workloads, which are written
// from their papers; and what a file must not be believed in.

#include "simulator/workload/published_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "simulator/base/yaml.h"
#include "simulator/workload/workload_yaml.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::Contains;
using testing::HasSubstr;

// What a model computes, whichever family's word it is told by. The lengths that training takes
// and positions that are not learned are no part of it.
std::string Described(const TransformerConfig& c) {
  return fmt::format(
      "{} hidden {} layers {}+{} heads {}/{} of {} ffn {} vocabulary {} experts {} of {} in {}/{} "
      "shared {} of {} dense {} every {} of {} gated {} biases {} {} {} tied {} positions {} "
      "rotary {} "
      "norms {} {} {} {} gates {} {} clamped {} latent {} {} {} {} index {} {} {} window {} {} {} "
      "further {} "
      "'{}' "
      "mixer {} {} {} {} {} {} {} '{}' weights {} {}",
      Name(c.family), c.hidden, c.layers, c.decoder_layers, c.heads, c.kv_heads, c.head_size, c.ffn,
      c.vocabulary, c.top_k, c.experts, c.chosen_groups, c.expert_groups, c.shared_ffn,
      c.expert_latent, c.dense_first, c.experts_every, c.dense_ffn, IsGated(c), HasBiases(c),
      HasQkvBiases(c), HasNormBiases(c), IsTied(c), LearnsPositions(c) ? c.positions : 0,
      IsRotary(c), c.qk_norm, c.embedding_norm, c.post_norms, c.parallel_norms, c.attention_gate,
      c.shared_gate, c.clamped, c.latent, c.query_latent, c.rotary_size, c.value_size,
      c.index_heads, c.index_size, c.index_keys, c.window, c.global_every, c.window_pieces,
      c.further_tokens, c.further_pattern, c.state_heads, c.state_head_size, c.state_size,
      c.state_groups, c.state_convolution, c.state_chunk, c.state_norm, c.pattern, Name(c.weights),
      Name(c.expert_weights));
}

TEST(PublishedConfigTest, SaysWhatShippedModelsSay) {
  const auto all = ReadYaml(FORETRACE_SOURCE_DIR "/tests/data/models/published.json");
  ASSERT_TRUE(all.ok()) << all.status();
  int models = 0;
  for (const auto& entry : *all) {
    const std::string name = entry.first.Scalar();
    const auto shipped =
        LoadModel(std::string(FORETRACE_SOURCE_DIR "/traces/workloads/") + name + ".yaml");
    ASSERT_TRUE(shipped.ok()) << shipped.status();
    const auto published = ReadPublishedConfig(entry.second, name);
    ASSERT_TRUE(published.ok()) << published.status();
    const TransformerConfig read = WithDefaults(published->config);
    EXPECT_EQ(Described(read), Described(*shipped->transformer)) << name;
    ++models;
  }
  EXPECT_GE(models, 30);
}

absl::StatusOr<ModelFile> Read(const std::string& text, const std::string& source = "config.json") {
  return ParseModel(text, source);
}

// A line of a file that is right, with something before its end.
std::string Llama(const std::string& more, const std::string& layers = "num_hidden_layers") {
  return R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 256,
             "num_attention_heads": 8, "vocab_size": 100, "torch_dtype": "float16", ")" +
         layers + "\": 2" + more + "}";
}

std::string Error(const std::string& text) { return std::string(Read(text).status().message()); }

TEST(PublishedConfigTest, SaysWhatItSupposes) {
  const auto model =
      Read(Llama(R"(, "max_position_embeddings": 131072)"), "models/tiny/config.json");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->workload.name, "tiny");
  EXPECT_EQ(model->transformer->name, "tiny");
  EXPECT_EQ(model->transformer->sequence, 4096);
  EXPECT_EQ(model->transformer->positions, 131'072);
  EXPECT_EQ(model->transformer->kv_heads, 8);
  EXPECT_EQ(model->workload.dtype, DType::kFloat16);
  EXPECT_THAT(model->notes,
              Contains(HasSubstr("training samples of 4096 tokens are supposed, where "
                                 "the model takes up to 131072")));
}

// Embedding 50,432 x 4,096, of each of 32 layers 12 x 4,096^2 and two scales, one at the end; ALiBi
// has no positions: 6,649,286,656, as MosaicML counts mpt-7b (no_bias is also of its norms).
TEST(PublishedConfigTest, MptHasNeitherBiasesNorPositions) {
  const auto model = Read(R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
      "max_seq_len": 2048, "no_bias": true, "vocab_size": 50432, "expansion_ratio": 4,
      "attn_config": {"alibi": true, "rope": false}, "torch_dtype": "bfloat16"})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->workload.ParameterCount(), 6'649'286'656);
}

// Layers by name are those by letter; of a module for a further token, too. Experts have latents.
TEST(PublishedConfigTest, NemotronHListsLayersByName) {
  const auto read = [](const std::string& layers, const std::string& further) {
    return Read(R"({"model_type": "nemotron_h", "num_hidden_layers": null, )" + layers + ", " +
                further + R"(, "num_nextn_predict_layers": 1, "hidden_size": 256,
      "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
      "mamba_num_heads": 16, "mamba_head_dim": 32, "ssm_state_size": 32, "n_groups": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512,
      "moe_latent_size": 64, "mamba_ssm_cache_dtype": "float32", "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 1024,
      "vocab_size": 1000, "torch_dtype": "bfloat16"})");
  };
  const auto letters =
      read(R"("hybrid_override_pattern": "ME*E")", R"("mtp_hybrid_override_pattern": "*E")");
  const auto names = read(R"("layers_block_type": ["mamba", "moe", "attention", "moe"])",
                          R"("mtp_layers_block_type": ["attention", "moe"])");
  const auto later = read(R"("layers_block_type": ["linear_attention", "moe", "full_attention",
                             "moe"])",
                          R"("mtp_layers_block_type": ["full_attention", "moe"])");
  for (const auto* model : {&letters, &names, &later}) {
    ASSERT_TRUE(model->ok()) << model->status();
    const TransformerConfig& c = *(*model)->transformer;
    EXPECT_EQ(c.layers, 4);
    EXPECT_EQ(c.pattern, "ME*E");
    EXPECT_EQ(c.further_pattern, "*E");
    EXPECT_EQ(c.further_tokens, 1);
    EXPECT_EQ(c.expert_latent, 64);
    EXPECT_EQ(c.state_bits, 32);
  }
  const auto unknown =
      read(R"("layers_block_type": ["mamba", "rwkv"])", R"("mtp_layers_block_type": [])");
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("'rwkv', which is not modelled"));
}

// phi-2: 2,779,683,840 parameters, as the release holds. Each of 32 layers 12 x 2,560^2, 4 x 2,560
// of attention's biases, 5 x 2,560 of the feed-forward layer's and 2 x 2,560 of its norm; 2 x
// 51,200 x 2,560 of both ends and 2 x 2,560 of the last norm. The output layer's 51,200 biases are
// left out.
TEST(PublishedConfigTest, PhiHasOneNormForBothPartsOfALayer) {
  const auto model = Read(R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
      "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": null, "tie_word_embeddings": false, "vocab_size": 51200,
      "resid_pdrop": 0.1})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->workload.ParameterCount(), 2'779'683'840 - 51'200);
}

// OPTConfig and RobertaConfig have 2,048 and 512 positions by default, of which Roberta's first two
// are of padding.
TEST(PublishedConfigTest, PositionsOfTheClass) {
  const auto tokens = [](const std::string& type) {
    const auto model = Read("{\"model_type\": \"" + type + R"(", "hidden_size": 64, "ffn_dim": 256,
        "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 100})");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->transformer->sequence : 0;
  };
  EXPECT_EQ(tokens("opt"), 2048);
  EXPECT_EQ(tokens("roberta"), 510);
}

// A map within another leaves out what its class has; the type of weights is the whole's.
TEST(PublishedConfigTest, ModelsOfTextAndImagesHaveOneOfText) {
  const auto model = Read(R"({"model_type": "llava", "torch_dtype": "float16", "vision_config": {},
      "text_config": {"model_type": "llama", "vocab_size": 32064}})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->transformer->layers, 32);
  EXPECT_EQ(model->transformer->vocabulary, 32'064);
  EXPECT_EQ(model->workload.dtype, DType::kFloat16);
  EXPECT_THAT(model->notes, Contains(HasSubstr("the model of text alone")));
  EXPECT_THAT(model->notes, Contains(HasSubstr("num_hidden_layers 32")));
}

TEST(PublishedConfigTest, QuantisedWeights) {
  const auto weights = [](const std::string& quantised) {
    const auto model = Read(Llama(", \"quantization_config\": {" + quantised + "}"));
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->transformer->weights : WeightFormat::kCount;
  };
  EXPECT_EQ(weights(R"("quant_method": "fp8", "weight_block_size": [128, 128])"),
            WeightFormat::kFp8Block);
  EXPECT_EQ(weights(R"("quant_method": "fp8")"), WeightFormat::kFp8);
  EXPECT_EQ(weights(R"("quant_method": "awq", "bits": 4)"), WeightFormat::kInt4);
  EXPECT_EQ(weights(R"("quant_method": "gptq", "bits": 8)"), WeightFormat::kModel);
}

TEST(PublishedConfigTest, WindowsAsLayersHaveThem) {
  const std::string gemma = R"({"model_type": "gemma3_text", "hidden_size": 64, "head_dim": 8,
      "intermediate_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8,
      "num_hidden_layers": 4, "vocab_size": 100, "sliding_window": 16, "layer_types": )";
  const auto read = Read(gemma + R"(["sliding_attention", "full_attention", "sliding_attention",
      "full_attention"]})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->transformer->window, 16);
  EXPECT_EQ(read->transformer->global_every, 2);
  EXPECT_THAT(Error(gemma + R"(["full_attention", "full_attention", "sliding_attention",
      "full_attention"]})"),
              HasSubstr("'layer_types' is not of all layers"));
  EXPECT_THAT(Error(gemma + R"(["linear_attention"]})"), HasSubstr("'linear_attention'"));
  EXPECT_EQ(Error(gemma + R"({"a": 1}})"), "config.json: 'layer_types' is not a list");
}

TEST(PublishedConfigTest, RefusesWhatIsMissingOrMisspelt) {
  EXPECT_EQ(Error(Llama("", "num_hidden_layer")),
            "config.json: lacks 'num_hidden_layers'; 'num_hidden_layer' is none of its keys");
  EXPECT_EQ(Error(Llama(R"(, "num_key_value_head": 2)")),
            "config.json: unknown key 'num_key_value_head'; 'num_key_value_heads' is meant, or "
            "remove it");
  EXPECT_EQ(Error(Llama(R"(, "num_key_value_heads": "two")")),
            "config.json: 'num_key_value_heads' is not a whole number");
  EXPECT_EQ(Error(Llama(R"(, "num_key_value_heads": -2)")),
            "config.json: 'num_key_value_heads' is negative");
  EXPECT_EQ(Error(Llama(R"(, "num_key_value_heads": 2000000000)")),
            "config.json: 'num_key_value_heads' is above 10^9");
  EXPECT_THAT(Error(Llama(R"(, "num_key_value_heads": 3)")),
              HasSubstr("heads 8 is not a multiple of kv_heads 3"));
  EXPECT_THAT(Error(R"({"model_type": "vit", "hidden_size": 768})"),
              HasSubstr("model_type 'vit' is not known"));
  EXPECT_THAT(Error(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 768})"),
              HasSubstr("config.json: lacks 'model_type'; known are"));
}

TEST(PublishedConfigTest, TypesAreInOrderOfNames) {
  EXPECT_TRUE(std::ranges::is_sorted(PublishedTypes(), {}, &PublishedType::name));
}

// What these classes have where a file does not say (transformers 4.57, configuration_TYPE.py).
TEST(PublishedConfigTest, ClassesHaveDefaults) {
  const auto positions = [](const std::string& type) {
    const auto model = Read("{\"model_type\": \"" + type + R"(", "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
        "vocab_size": 1000})");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->transformer->positions : 0;
  };
  EXPECT_EQ(positions("gpt2"), 1024);
  EXPECT_EQ(positions("gpt_bigcode"), 1024);
  EXPECT_EQ(positions("gpt_neo"), 2048);
  EXPECT_EQ(positions("bert"), 512);
  EXPECT_EQ(positions("roberta"), 512);
  for (const std::string type : {"glm", "glm4"}) {
    const auto model = Read("{\"model_type\": \"" + type + R"(", "hidden_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 256,
        "vocab_size": 1000})");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->transformer->kv_heads, 2);
    EXPECT_EQ(model->transformer->head_size, 128);
    EXPECT_TRUE(HasQkvBiases(*model->transformer));
  }
}

TEST(PublishedConfigTest, NullChunksOfAttentionAreNone) {
  const auto window = [](const std::string& more) {
    const auto model = Read(R"({"model_type": "llama4_text", "hidden_size": 512,
        "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 256,
        "num_local_experts": 4, "num_experts_per_tok": 1, "vocab_size": 1000)" +
                            more + "}");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? model->transformer->window : -1;
  };
  EXPECT_EQ(window(""), 8192);
  EXPECT_EQ(window(", \"attention_chunk_size\": null"), 0);
}

TEST(PublishedConfigTest, NotesWhatIsLeftOut) {
  const auto biases = Read(Llama(", \"mlp_bias\": true"));
  ASSERT_TRUE(biases.ok()) << biases.status();
  EXPECT_THAT(biases->notes, Contains(HasSubstr("mlp_bias")));
  const auto windows = Read(R"({"model_type": "qwen3", "hidden_size": 512, "num_hidden_layers": 4,
      "num_attention_heads": 8, "intermediate_size": 256, "vocab_size": 1000,
      "use_sliding_window": true})");
  ASSERT_TRUE(windows.ok()) << windows.status();
  EXPECT_THAT(windows->notes, Contains(HasSubstr("use_sliding_window")));
}

TEST(PublishedConfigTest, EntriesOfListsAreScalars) {
  EXPECT_THAT(Error(R"({"model_type": "mistral", "hidden_size": 512, "num_hidden_layers": 2,
      "num_attention_heads": 8, "intermediate_size": 256, "vocab_size": 1000,
      "layer_types": [{}, "full_attention"]})"),
              HasSubstr("'layer_types' has an entry"));
}

// By what it says, whatever it is called; a recording that mentions a type is none.
TEST(PublishedConfigTest, FilesOfOtherNames) {
  const TempFolder folder;
  EXPECT_TRUE(NamesPublishedModel(folder.Write("qwen.json", Llama(""))));
  EXPECT_FALSE(NamesPublishedModel(
      folder.Write("trace.json", R"({"model_type": "llama", "traceEvents": []})")));
  EXPECT_FALSE(NamesPublishedModel(folder.Write("other.json", "{}")));
  EXPECT_FALSE(NamesPublishedModel(folder.Write("cut.json", "{\"model_type\": \"llama\",")));
  EXPECT_FALSE(NamesPublishedModel("/dev/null"));
}

TEST(PublishedConfigTest, AFolderStandsForItsFile) {
  const TempFolder folder;
  const std::string file = folder.Write("tiny-llama/config.json", Llama(""));
  const std::string path = std::filesystem::path(file).parent_path().string();
  const auto model = LoadModel(path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->workload.name, "tiny-llama");
  std::filesystem::remove(file);
  EXPECT_THAT(std::string(LoadModel(path).status().message()),
              HasSubstr("a folder without a config.json"));
}

}  // namespace
}  // namespace foretrace
