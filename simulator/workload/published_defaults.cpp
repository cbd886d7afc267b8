// Sizes by default of the classes that models of several kinds of data have within them
// (transformers, models/TYPE/configuration_TYPE.py of release 4.57).

#include "simulator/workload/published_config.h"

namespace foretrace {

std::map<std::string, int64_t> ClassDefaults(std::string_view type) {
  const auto sizes = [](int64_t vocabulary, int64_t hidden, int64_t ffn, int64_t layers,
                        int64_t heads, int64_t kv_heads, int64_t positions) {
    return std::map<std::string, int64_t>{{"vocab_size", vocabulary},
                                          {"hidden_size", hidden},
                                          {"intermediate_size", ffn},
                                          {"num_hidden_layers", layers},
                                          {"num_attention_heads", heads},
                                          {"num_key_value_heads", kv_heads},
                                          {"max_position_embeddings", positions}};
  };
  if (type == "gemma3_text") return sizes(262'208, 2304, 9216, 26, 8, 4, 131'072);
  if (type == "llama") return sizes(32'000, 4096, 11'008, 32, 32, 32, 2048);
  if (type == "mistral") return sizes(32'000, 4096, 14'336, 32, 32, 8, 131'072);
  if (type == "qwen2") return sizes(151'936, 4096, 22'016, 32, 32, 32, 32'768);
  if (type != "llama4_text") return {};
  auto llama4 = sizes(202'048, 5120, 8192, 48, 40, 8, 131'072);
  llama4.insert(
      {{"num_local_experts", 16}, {"num_experts_per_tok", 1}, {"intermediate_size_mlp", 16'384}});
  return llama4;
}

}  // namespace foretrace
