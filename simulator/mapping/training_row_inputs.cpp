// How a row keeps the inputs of layers that it recomputes.

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_row_text.h"

namespace foretrace {
namespace {

// Whether the column says yes; what is neither yes nor no is said, and no.
bool FlagOf(const Fields& f, const std::string& column, TrainingRow& row) {
  constexpr std::string_view kNo[] = {"",  "0",   "0.0",      "false", "no",
                                      "n", "off", "disabled", "none"};
  const std::string text = LowerCase(f.Text(column));
  if (SaysYes(f, column)) return true;
  if (std::ranges::find(kNo, text) == std::end(kNo)) {
    NoteUnread(fmt::format("{} '{}' is neither yes nor no: taken for no", column, f.Text(column)),
               row);
  }
  return false;
}

// The number behind one of the terms, or of layers behind "every"; 0: none.
int32_t LayersIn(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (const std::string_view term : {"recompute num layers", "checkpoint num layers",
                                        "checkpoint every", "checkpoints every"}) {
      const size_t count = TermAt(words, i, term), number = i + count;
      if (count == 0 || number >= words.size()) continue;
      // Others are checkpoints of a run, every so many steps.
      const bool layers = number + 1 < words.size() && words[number + 1].starts_with("layer");
      if (term.ends_with("every") && !layers) continue;
      const int32_t value = WholeNumber(words[number]);
      if (value > 0 && value <= kMaxDegree) return value;
    }
  }
  return 0;
}

// The number behind a word of the column of recomputation ("block 4", "block, 4 layers"); 0: none.
int32_t NumberBehind(const std::vector<std::string>& words, std::string_view name) {
  auto at = std::ranges::find(words, name);
  if (at == words.end()) return 0;
  for (++at; at != words.end() && (*at == "," || *at == "("); ++at) {
  }
  if (at == words.end()) return 0;
  // "first 2 stages" counts others than layers.
  const auto next = at + 1;
  const bool others = next != words.end() && name != "uniform" && !next->starts_with("layer") &&
                      !next->starts_with("block") && next->size() > 1;
  return others ? 0 : WholeNumber(*at);
}

// How a row recomputes layers of a chunk, as Megatron's --recompute-method and
// --recompute-num-layers have it (before 2022 --checkpoint-num-layers).
struct LayersSaid {
  bool block = false;   // so many layers alone, else so many at once
  int64_t layers = -1;  // none are said
};

LayersSaid LayersOfMethod(const Fields& f, const std::vector<std::string>& said,
                          std::string& error) {
  LayersSaid out;
  const std::string column = f.Text("recompute_num_layers");
  const std::vector<std::string> words = TextWords(f.Text("recompute"));
  if (column == "0" || column == "0.0") {
    out.layers = 0;
  } else if (f.States("recompute_num_layers")) {
    out.layers = f.Int("recompute_num_layers", 0, error);
  } else if (const int32_t layers = LayersIn(said); layers > 0) {
    out.layers = layers;
  }
  const std::string method = LowerCase(f.Text("recompute_method"));
  const int32_t chosen = ChosenLayers(f.Text("recompute"));
  out.block = method == "block" || std::ranges::find(words, "block") != words.end() ||
              ToldOf(said, {"method block", "block method"}) == Told::kYes || chosen > 0;
  const int32_t behind = out.block ? chosen : NumberBehind(words, "uniform");
  if (out.layers < 0 && behind > 0) out.layers = behind;
  return out;
}

// Of the `most` layers that a chunk has.
void SetLayers(const Fields& f, const std::vector<std::string>& said, int64_t most,
               TrainingRow& row, std::string& error) {
  ParallelMapping& m = row.mapping;
  LayersSaid stated = LayersOfMethod(f, said, error);
  const std::string method = LowerCase(f.Text("recompute_method"));
  if (f.States("recompute_method") && method != "block" && method != "uniform") {
    NoteUnread(fmt::format("recompute_method '{}' is taken for uniform; known are uniform and "
                           "block",
                           f.Text("recompute_method")),
               row);
  }
  if (stated.block) {
    if (stated.layers == 0 && error.empty()) {
      m.recompute = Recompute::kNone;
      row.notes.emplace_back("recomputation of 0 layers a chunk (block) is none");
    } else if (stated.layers > 0 && stated.layers < most) {
      m.recomputed_layers = static_cast<int32_t>(stated.layers);
    }
    return;
  }
  // Halves of layers are counted, and kept, by themselves (DeepSpeedExamples,
  // Megatron-LM-v1.1.5-ZeRO3 and its successors,
  // setup_deepspeed_random_and_activation_checkpointing: num_layers *= 2).
  if (ToldOf(said, {"split transformers"}) == Told::kYes) stated.layers /= 2;
  if (stated.layers > most) {
    row.notes.push_back(fmt::format("{} layers that run again at once taken for the {} of a chunk",
                                    stated.layers, most));
  }
  const auto together = static_cast<int32_t>(std::min(stated.layers, most));
  if (together > 1 && m.recomputed_every == 0) m.recomputed_together = together;
}

// What is divided over tensor-parallel ranks, where there is something to divide.
void DivideInputs(bool divided, bool on_host, TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  const bool can_be = m.tensor > 1 && !m.sequence_parallel;
  m.divided_inputs |= divided && can_be;
  if (divided && !can_be) {
    row.notes.emplace_back(
        m.tensor == 1 ? "partitioned activations: tp 1 leaves nothing to divide them over"
                      : "partitioned activations: taken as sequence parallelism divides them");
  }
  if (on_host && !m.divided_inputs && can_be && row.software.divides_on_host) {
    m.divided_inputs = true;
    row.notes.emplace_back(
        "kept activations divided, as the software copied only such to the host");
  }
}

}  // namespace

int32_t ChosenLayers(const std::string& text) {
  const std::vector<std::string> words = TextWords(text);
  return std::max(
      {NumberBehind(words, "block"), NumberBehind(words, "first"), NumberBehind(words, "last")});
}

void SetKeptInputs(const Fields& f, TrainingRow& row, std::string& error) {
  ParallelMapping& m = row.mapping;
  const std::vector<std::string> said = TextWords(f.Text("note") + "; " + f.Text("recompute"));
  const auto says = [&](std::initializer_list<std::string_view> terms) {
    return ToldOf(said, terms) == Told::kYes;
  };
  const bool columns_divide =
      FlagOf(f, "partition_activations", row) | FlagOf(f, "distribute_saved_activations", row);
  const bool divided =
      columns_divide ||
      says({"partition activations", "partitioned activations", "activation partitioning",
            "distribute saved activations", "distributed saved activations"});
  const bool columns_copy =
      FlagOf(f, "cpu_checkpointing", row) | FlagOf(f, "checkpoint_in_cpu", row);
  const bool checkpoints_on_host =
      columns_copy ||
      says({"cpu checkpoint*", "checkpoint in cpu", "checkpoints in cpu", "checkpoints on cpu",
            "checkpoints in host", "checkpoints on the host"});
  const bool on_host = checkpoints_on_host ||
                       says({"activation offload*", "activations offload*", "offload* activation*",
                             "activation cpu offload*", "activations cpu offload*"});
  if (!row.recompute_stated && !SaysRecomputation(f) && (divided || checkpoints_on_host)) {
    m.recompute = Recompute::kFull;
    row.recompute_stated = true;
    row.notes.emplace_back("full recomputation, whose kept inputs those are");
  }
  if (m.recompute != Recompute::kFull) {
    if (divided || on_host) {
      row.notes.emplace_back(
          "activations that are divided, or on the host, are covered where whole layers are "
          "recomputed: taken to stay where they are");
    }
    return;
  }
  const int64_t chunks = std::max<int64_t>(int64_t{m.pipeline} * m.chunks, 1);
  const int64_t most = std::max<int64_t>((row.config.layers + chunks - 1) / chunks, 1);
  SetLayers(f, said, most, row, error);
  if (m.recompute != Recompute::kFull) return;
  m.inputs_on_host |= on_host;
  DivideInputs(divided, on_host, row);
}

}  // namespace foretrace
