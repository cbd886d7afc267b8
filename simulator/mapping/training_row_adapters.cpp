// Fine-tuning: adapters beside frozen weights, and packed documents.

#include <algorithm>

#include <fmt/format.h>

#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// Of NeMo's recipes for speed, which adapt the query, key and value GEMM alone
// (nemo/collections/llm/recipes, finetune_performance_optimizations).
constexpr int32_t kAssumedRank = 16;

bool TrainsAdapters(const Fields& f) {
  return SaidOf(f, {"lora*", "qlora*", "peft*"}) == Told::kYes;
}

bool IsFineTuning(const Fields& f) {
  return TrainsAdapters(f) || SaidOf(f, {"sft*", "finetun*", "fine tun*"}) == Told::kYes;
}

// Of "LoRA r=8", "rank 16", "LoRA-32"; 0: none is stated.
int32_t RankIn(const std::vector<std::string>& words) {
  int32_t behind_name = 0;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const int32_t number = WholeNumber(words[i + 1]);
    if (number > 0 && (words[i] == "r" || words[i] == "rank")) return number;
    if (words[i] == "lora") behind_name = number;
  }
  return std::max(behind_name, 0);
}

}  // namespace

void SetAdapters(const Fields& f, TrainingRow& row) {
  if (Contains(f.Text("mapping"), "lora") || !TrainsAdapters(f)) return;
  const int32_t rank = RankIn(TextWords(f.Text("table") + "; " + f.Text("note")));
  row.mapping.lora = rank > 0 ? rank : kAssumedRank;
  row.mapping.lora_everywhere = SaidOf(f, {"all linear*"}) == Told::kYes;
  if (rank > 0 && row.mapping.lora_everywhere) return;
  row.notes.push_back(fmt::format(
      "LoRA of rank {} on {}, as {} stated", row.mapping.lora,
      row.mapping.lora_everywhere ? "every GEMM of a layer" : "queries, keys and values",
      rank > 0                      ? "no GEMMs are"
      : row.mapping.lora_everywhere ? "no rank is"
                                    : "neither is"));
}

void PackDocuments(const Fields& f, const StackRelease& release, TrainingRow& row) {
  if (release.packed_document == 0 || !IsFineTuning(f)) return;
  if (row.config.latent > 0 || row.config.decoder_layers > 0) {
    row.notes.emplace_back(
        "sequences taken as whole, as packed ones of such attention are not covered");
    return;
  }
  row.config.window = release.packed_document;
  row.config.window_pieces = true;
  row.config.global_every = 0;
  row.notes.push_back(fmt::format("sequences packed of documents of {} tokens, as none is stated",
                                  release.packed_document));
}

}  // namespace foretrace
