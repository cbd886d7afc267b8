#pragma once
// A header, software and models for tables of training jobs in tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/mapping/training_rows.h"
#include "tests/support/temp_folder.h"

namespace foretrace {

inline constexpr const char* kHeader =
    "model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,gpus_per_node,tp,pp,dp,cp,vp,ep,"
    "micro_batch,grad_accum,global_batch,precision,sharding,recompute,framework,oom,step_s,table\n";

inline std::vector<SoftwareStack> Stacks() {
  StackRelease nemo, composer;
  nemo.fused_attention = nemo.sequence_parallel = nemo.overlap_tensor = nemo.overlap_gradients =
      true;
  nemo.packed_document = 200;
  nemo.chunked_tensor = true;
  nemo.gradient_bits = 16;
  composer.fused_attention = composer.overlap_gradients = true;
  composer.attention_slowdown = {{"GA100", 2}};
  return {{"nemo", {"nemo"}, {nemo}}, {"composer", {"composer"}, {composer}}};
}

inline absl::StatusOr<std::optional<TransformerConfig>> KnownModel(const std::string& name,
                                                                   bool /*own_sizes*/) {
  if (name != "known" && name != "alias" && name != "experts") return std::nullopt;
  TransformerConfig c;
  c.name = "known";
  c.family = TransformerFamily::kLlama;
  c.hidden = 4096;
  c.layers = 32;
  c.heads = 32;
  c.head_size = 64;
  c.vocabulary = 32000;
  c.sequence = 2048;
  if (name == "experts") {
    c.name = name;
    c.experts = 64;
    c.top_k = 2;
  }
  return c;
}

// Rows of a table with the columns date and note too.
inline std::vector<TrainingRow> RowsOf(const std::string& rows,
                                       const std::vector<SoftwareStack>& stacks) {
  std::string header = kHeader;
  header.insert(header.size() - 1, ",date,note");
  const TempFolder folder;
  const std::string path = folder.path() + "/forms.csv";
  std::ofstream(path) << header << rows;
  auto read = LoadTrainingRows(path, KnownModel, stacks);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : std::vector<TrainingRow>();
}

// Of a row whose division, recomputation and precision are these words.
inline std::string RowOf(const std::string& precision, const std::string& sharding,
                         const std::string& recompute) {
  return "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16," + precision + "," + sharding + "," + recompute +
         ",NeMo,0,1,,,\n";
}

using Cells = std::vector<std::pair<std::string, std::string>>;

// Of a row with these cells and, where they do not say them, those of a job of `model` on 16 GPUs.
inline TrainingRow Judge(Cells cells, const std::string& model = "known",
                         const std::vector<SoftwareStack>& stacks = Stacks()) {
  const Cells others = {{"model", model},      {"gpus", "16"},        {"gpu", "H100"},
                        {"precision", "BF16"}, {"framework", "NeMo"}, {"step_s", "1"},
                        {"global_batch", "32"}};
  for (const auto& other : others) {
    const auto same = [&](const auto& cell) { return cell.first == other.first; };
    if (std::ranges::none_of(cells, same)) cells.push_back(other);
  }
  std::string header, row;
  for (const auto& [column, text] : cells) {
    header += (header.empty() ? "" : ",") + column;
    row += (row.empty() ? "\"" : ",\"") + text + "\"";
  }
  const TempFolder folder;
  const std::string path = folder.path() + "/cells.csv";
  std::ofstream(path) << header << "\n" << row << "\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? rows->at(0) : TrainingRow();
}

}  // namespace foretrace
