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
  if (f.Says(column) || text == "on" || text == "enabled") return true;
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

// Layers that run again at once, as Megatron's --recompute-num-layers (before 2022
// --checkpoint-num-layers) of method "uniform" has them, of the `most` that a chunk has.
int32_t LayersTogether(const Fields& f, const std::vector<std::string>& said, int64_t most,
                       TrainingRow& row, std::string& error) {
  const std::string column = f.Text("recompute_num_layers");
  int64_t layers = column == "0" || column == "0.0" ? 0 : f.Int("recompute_num_layers", 0, error);
  if (layers == 0) layers = LayersIn(said);
  // The column of recomputation may name the method, "block 4" also how many.
  const std::vector<std::string> words = TextWords(f.Text("recompute"));
  const auto named = std::ranges::find(words, "block");
  if (layers == 0 && named != words.end() && named + 1 != words.end()) {
    layers = WholeNumber(*(named + 1));
  }
  const bool block = LowerCase(f.Text("recompute_method")) == "block" || named != words.end() ||
                     ToldOf(said, {"method block", "block method"}) == Told::kYes;
  if (block && layers < most && layers > 0) {
    row.notes.push_back(fmt::format(
        "recomputation of {} layers a chunk (block) is taken for recomputation of all", layers));
  }
  if (block) return 0;
  // Halves of layers are counted, and kept, by themselves (DeepSpeedExamples,
  // Megatron-LM-v1.1.5-ZeRO3 and its successors,
  // setup_deepspeed_random_and_activation_checkpointing: num_layers *= 2).
  if (ToldOf(said, {"split transformers"}) == Told::kYes) layers /= 2;
  if (layers > most) {
    row.notes.push_back(
        fmt::format("{} layers that run again at once taken for the {} of a chunk", layers, most));
  }
  return static_cast<int32_t>(std::min(layers, most));
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
  const int32_t together = LayersTogether(f, said, most, row, error);
  if (together > 1) m.recomputed_together = together;
  m.inputs_on_host |= on_host;
  DivideInputs(divided, on_host, row);
}

}  // namespace foretrace
