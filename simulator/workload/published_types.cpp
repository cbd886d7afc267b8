// What transformers' classes of configurations have, by model_type
// (models/TYPE/configuration_TYPE.py and modeling_TYPE.py of release 4.57, and the remote code of
// models that came with their own). Where a key is missing, a class has the default that is given
// here.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "simulator/workload/published_config.h"
#include "simulator/workload/published_hybrids.h"
#include "simulator/workload/published_parts.h"

namespace foretrace {
namespace {

using Keys = PublishedKeys;
using Config = TransformerConfig;

void Llama(Keys& k, Config& c) { ReadLlama(k, c, {}); }
void Tied(Keys& k, Config& c) { ReadLlama(k, c, {.tied = true}); }

void Mistral(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 8});
  ReadWindows(k, c, 4096, 0);
}
void Mixtral(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 8});
  ReadWindows(k, c, 0, 0);
  ReadExperts(k, c);
}
void PhiMoe(Keys& k, Config& c) {
  Mixtral(k, c);
  if (c.qkv_biases) c.biases = true;
  c.norm_biases = true;
}
void GraniteMoe(Keys& k, Config& c) {
  Llama(k, c);
  ReadExperts(k, c);
  c.shared_ffn = k.Size({"shared_intermediate_size"}, 0);
}
void OlMoe(Keys& k, Config& c) {
  Llama(k, c);
  ReadExperts(k, c);
  c.qk_norm = true;
}
void Olmo2(Keys& k, Config& c) {
  Llama(k, c);
  ReadWindows(k, c, 0, 4);
  c.qk_norm = true;
  k.Note("norms lie after attention and feed-forward layers; taken as as many before them");
}

void NoteWindows(Keys& k) {
  if (k.Flag({"use_sliding_window"}, false)) {
    k.Note("windows of its last layers are left out (use_sliding_window)");
  }
}
void Qwen(Keys& k, Config& c) {
  Llama(k, c);
  c.ffn /= 2;  // it counts gate and value
  c.qkv_biases = true;
}
void Qwen2(Keys& k, Config& c) {
  Llama(k, c);
  c.qkv_biases = k.Flag({"qkv_bias"}, true);
  NoteWindows(k);
}
void Qwen2Moe(Keys& k, Config& c) {
  Qwen2(k, c);
  ReadQwenExperts(k, c);
}
void Qwen3(Keys& k, Config& c) {
  ReadLlama(k, c, {.head_size = 128});
  c.qk_norm = true;
  NoteWindows(k);
}
void Qwen3Moe(Keys& k, Config& c) {
  Llama(k, c);
  c.qk_norm = true;
  NoteWindows(k);
  ReadQwenExperts(k, c);
}

void Gemma(Keys& k, Config& c) { ReadLlama(k, c, {.head_size = 256, .tied = true}); }
void Gemma2(Keys& k, Config& c) {
  Gemma(k, c);
  ReadWindows(k, c, 4096, 2);
  c.post_norms = true;
}
void Gemma3(Keys& k, Config& c) {
  Gemma(k, c);
  ReadWindows(k, c, 4096, 6);
  c.post_norms = c.qk_norm = true;
}

void Phi3(Keys& k, Config& c) {
  Llama(k, c);
  ReadWindows(k, c, 0, 0);
}
// Attention and feed-forward layer side by side, behind one norm.
void Cohere(Keys& k, Config& c) {
  Tied(k, c);
  ReadWindows(k, c, 0, 4);
  c.parallel_norms = 1;
  c.qk_norm = k.Flag({"use_qk_norm"}, false);
}
void StableLm(Keys& k, Config& c) {
  Llama(k, c);
  c.qkv_biases = k.Flag({"use_qkv_bias"}, false);
  c.norm_biases = true;
  c.qk_norm = k.Flag({"qk_layernorm"}, false);
  c.parallel_norms = k.Flag({"use_parallel_residual"}, false) ? 1 : 0;
}
void Starcoder2(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 2, .tied = true});
  ReadWindows(k, c, 0, 0);
  c.gated = false;
  c.biases = k.Flag({"use_bias"}, true);
  c.norm_biases = true;
}
void Nemotron(Keys& k, Config& c) {
  Llama(k, c);
  c.gated = false;
  c.norm_biases = true;
}

void Glm(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 2, .head_size = 128, .qkv_biases = true});
}
void Glm4(Keys& k, Config& c) {
  Glm(k, c);
  c.post_norms = true;
}
void Glm4Moe(Keys& k, Config& c) {
  ReadLlama(k, c, {.head_size = 128});
  c.qk_norm = k.Flag({"use_qk_norm"}, false);
  ReadDeepSeekExperts(k, c);
}
void ChatGlm(Keys& k, Config& c) {
  Llama(k, c);
  const int64_t shared = k.Size({"multi_query_group_num"}, 1);
  c.kv_heads = k.Flag({"multi_query_attention"}, false) ? shared : 0;
}

void DeepSeek(Keys& k, Config& c) {
  Llama(k, c);
  ReadDeepSeekExperts(k, c);
}
void DeepSeekV2(Keys& k, Config& c) {
  DeepSeek(k, c);
  c.kv_heads = c.heads;
  c.rotary_size = k.Size({"qk_rope_head_dim"});
  c.head_size = k.Size({"qk_nope_head_dim"}) + c.rotary_size;
  c.value_size = k.Size({"v_head_dim"});
  c.latent = k.Size({"kv_lora_rank"});
  c.query_latent = k.Size({"q_lora_rank"}, 0);
}

void DeepSeekV32(Keys& k, Config& c) {
  DeepSeekV2(k, c);
  c.index_heads = k.Size({"index_n_heads"});
  c.index_size = k.Size({"index_head_dim"});
  c.index_keys = k.Size({"index_topk"});
}

void GptOss(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 8, .head_size = 64});
  ReadWindows(k, c, 128, 2);
  ReadExperts(k, c);
  c.qkv_biases.reset();
  c.biases = c.clamped = true;
}
void Llama4(Keys& k, Config& c) {
  ReadLlama(k, c, {.kv_heads = 8, .head_size = 128});
  ReadExperts(k, c);
  c.shared_ffn = c.ffn;
  c.experts_every = k.Size({"interleave_moe_layer_step"}, 1);
  const int64_t dense = k.Size({"intermediate_size_mlp"}, 0);
  c.dense_ffn = c.experts_every > 1 ? dense : 0;
  const int64_t pieces = k.IsNull("attention_chunk_size") ? 0 : 8192;
  c.window = k.Size({"attention_chunk_size"}, pieces);
  c.window_pieces = c.window > 0;
  c.global_every = c.window > 0 ? 4 : 0;  // layers without rotary positions
}
void Dbrx(Keys& k, Config& c) {
  c.family = TransformerFamily::kLlama;
  ReadSizes(k, c, {});
  Keys attention = k.Within("attn_config"), experts = k.Within("ffn_config");
  c.kv_heads = attention.Size({"kv_n_heads"}, 1);
  c.ffn = experts.Size({"ffn_hidden_size"});
  c.experts = experts.Size({"moe_num_experts"});
  c.top_k = experts.Size({"moe_top_k"});
  k.Merge(attention);
  k.Merge(experts);
}

// `positions`: of the class.
void ReadGpt(Keys& k, Config& c, bool tied, int64_t positions = 0) {
  c.family = TransformerFamily::kGpt;
  ReadSizes(k, c, {.tied = tied});
  if (c.positions == 0) c.positions = positions;
  c.ffn = k.Size({"intermediate_size", "n_inner", "ffn_dim"}, 0);
  c.dropout = k.Any({"attention_dropout", "hidden_dropout", "dropout", "attn_pdrop", "resid_pdrop",
                     "embd_pdrop", "resid_dropout", "embed_dropout", "attention_probs_dropout_prob",
                     "hidden_dropout_prob"});
}
void Gpt2(Keys& k, Config& c) { ReadGpt(k, c, true, 1024); }
void GptBigCode(Keys& k, Config& c) {
  Gpt2(k, c);
  if (k.Flag({"multi_query"}, true)) c.kv_heads = 1;
}
void GptNeo(Keys& k, Config& c) {
  ReadGpt(k, c, true, 2048);
  c.qkv_biases = false;
  k.Note("windows of every second layer are left out (attention_types)");
}
void Rotary(Keys& k, Config& c) {
  ReadGpt(k, c, false);
  c.learned_positions = false;
  c.rotary = true;
}
void GptNeoX(Keys& k, Config& c) {
  Rotary(k, c);
  if (!k.Flag({"attention_bias"}, true)) c.qkv_biases = false;
  c.parallel_norms = k.Flag({"use_parallel_residual"}, true) ? 2 : 0;
}
void GptJ(Keys& k, Config& c) {
  Rotary(k, c);
  c.qkv_biases = false;
  c.parallel_norms = 1;
}
void Phi(Keys& k, Config& c) {
  Rotary(k, c);
  c.parallel_norms = 1;
}
void Bloom(Keys& k, Config& c) {
  ReadGpt(k, c, true);
  c.ffn = 0;
  c.learned_positions = false;  // ALiBi
  c.embedding_norm = true;
}
void Opt(Keys& k, Config& c) {
  ReadGpt(k, c, true, 2048);
  c.sequence = std::min<int64_t>(c.positions, 2048);
  c.positions += 2;  // OPTLearnedPositionalEmbedding.offset
  const int64_t projected = k.Size({"word_embed_proj_dim"}, c.hidden);
  if (projected != c.hidden) {
    k.Note("embeddings of another width are taken as wide as layers (word_embed_proj_dim)");
  }
}
void Mpt(Keys& k, Config& c) {
  ReadGpt(k, c, true);
  Keys attention = k.Within("attn_config");
  const bool alibi = attention.Flag({"alibi"}, true), rope = attention.Flag({"rope"}, false);
  c.kv_heads = attention.Size({"kv_n_heads"}, 0);
  c.biases = c.norm_biases = !k.Flag({"no_bias"}, true);
  c.learned_positions = !alibi && !rope;
  c.rotary = rope;
  c.ffn = k.Size({"expansion_ratio"}, 4) * c.hidden;
  c.dropout = k.Any({"resid_pdrop", "emb_pdrop"});
  k.Merge(attention);
}
// Its GEMMs have no biases, its norms do.
void Falcon(Keys& k, Config& c) {
  c.family = TransformerFamily::kLlama;
  ReadSizes(k, c, {.tied = true});
  c.ffn = k.Size({"ffn_hidden_size"}, 4 * c.hidden);
  const bool second = k.Flag({"new_decoder_architecture"}, false);
  const int64_t shared = k.Size({"num_kv_heads", "n_head_kv"}, c.heads);
  c.kv_heads = second ? shared : k.Flag({"multi_query"}, true) ? 1 : c.heads;
  const bool beside = k.Flag({"parallel_attn"}, true) || second;
  const int64_t norms = k.Size({"num_ln_in_parallel_attn"}, second ? 2 : 1);
  c.parallel_norms = beside ? norms : 0;
  c.biases = k.Flag({"bias"}, false);
  c.norm_biases = true;
  c.gated = false;
  c.rotary = !k.Flag({"alibi"}, false);
}

void Bert(Keys& k, Config& c) {
  ReadGpt(k, c, true, 512);
  c.family = TransformerFamily::kBert;
}
void Roberta(Keys& k, Config& c) {
  Bert(k, c);
  c.sequence = c.positions - 2;  // the first two are of padding
}
void T5(Keys& k, Config& c) {
  c.family = TransformerFamily::kT5;
  c.hidden = k.Size({"d_model"});
  c.layers = k.Size({"num_layers"});
  c.decoder_layers = k.Size({"num_decoder_layers"}, c.layers);
  c.heads = k.Size({"num_heads"});
  c.head_size = k.Size({"d_kv"});
  c.ffn = k.Size({"d_ff"});
  c.vocabulary = k.Size({"vocab_size"});
  c.positions = k.Size({"n_positions"}, 512);
  c.tied = k.Flag({"tie_word_embeddings"}, true);
  c.gated = k.Word({"feed_forward_proj"}, "relu").starts_with("gated");
  c.dropout = k.Any({"dropout_rate"});
}

}  // namespace

const std::vector<PublishedType>& PublishedTypes() {
  static const auto* const kTypes =
      new std::vector<PublishedType>{{"baichuan", Llama},
                                     {"bert", Bert},
                                     {"bloom", Bloom},
                                     {"chatglm", ChatGlm},
                                     {"codegen", GptJ},
                                     {"cohere", Cohere},
                                     {"cohere2", Cohere},
                                     {"dbrx", Dbrx},
                                     {"deepseek", DeepSeek},
                                     {"deepseek_v2", DeepSeekV2},
                                     {"deepseek_v3", DeepSeekV2},
                                     {"deepseek_v32", DeepSeekV32},
                                     {"falcon", Falcon},
                                     {"falcon_h1", ReadFalconH1},
                                     {"gemma", Gemma},
                                     {"gemma2", Gemma2},
                                     {"gemma3_text", Gemma3},
                                     {"glm", Glm},
                                     {"glm4", Glm4},
                                     {"glm4_moe", Glm4Moe},
                                     {"glm_moe_dsa", DeepSeekV32},
                                     {"gpt2", Gpt2},
                                     {"gpt_bigcode", GptBigCode},
                                     {"gpt_neo", GptNeo},
                                     {"gpt_neox", GptNeoX},
                                     {"gpt_oss", GptOss},
                                     {"gptj", GptJ},
                                     {"granite", Llama},
                                     {"granitemoe", GraniteMoe},
                                     {"granitemoehybrid", ReadGraniteHybrid},
                                     {"granitemoeshared", GraniteMoe},
                                     {"internlm2", Llama},
                                     {"kimi_k2", DeepSeekV2},
                                     {"llama", Llama},
                                     {"llama4_text", Llama4},
                                     {"minicpm", Tied},
                                     {"mistral", Mistral},
                                     {"mixtral", Mixtral},
                                     {"mpt", Mpt},
                                     {"mt5", T5},
                                     {"nemotron", Nemotron},
                                     {"nemotron_h", ReadNemotronH},
                                     {"olmo", Llama},
                                     {"olmo2", Olmo2},
                                     {"olmo3", Olmo2},
                                     {"olmoe", OlMoe},
                                     {"opt", Opt},
                                     {"phi", Phi},
                                     {"phi3", Phi3},
                                     {"phimoe", PhiMoe},
                                     {"qwen", Qwen},
                                     {"qwen2", Qwen2},
                                     {"qwen2_5_vl", Qwen2},
                                     {"qwen2_5_vl_text", Qwen2},
                                     {"qwen2_moe", Qwen2Moe},
                                     {"qwen2_vl", Qwen2},
                                     {"qwen2_vl_text", Qwen2},
                                     {"qwen3", Qwen3},
                                     {"qwen3_moe", Qwen3Moe},
                                     {"qwen3_next", ReadQwen3Next},
                                     {"qwen3_vl_moe_text", Qwen3Moe},
                                     {"qwen3_vl_text", Qwen3},
                                     {"roberta", Roberta},
                                     {"smollm3", Tied},
                                     {"stablelm", StableLm},
                                     {"starcoder2", Starcoder2},
                                     {"t5", T5},
                                     {"xlm-roberta", Roberta}};
  return *kTypes;
}

}  // namespace foretrace
