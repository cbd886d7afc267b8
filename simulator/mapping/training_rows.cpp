#include "simulator/mapping/training_rows.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/ranges.h>

#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

// What no row goes without; a column that has a default may be missing.
constexpr std::array<std::string_view, 3> kColumns = {"model", "gpus", "gpu"};

// What a prediction would pass over in silence: mixers of a model that is not known, which would be
// taken for attention.
std::string NotCovered(const Fields& f, const std::optional<TransformerConfig>& known) {
  if (known && HasStates(*known)) return "";
  const std::string model = PlainName(f.Text("model"));
  for (const std::string_view hybrid :
       {"mamba", "nemotronh", "hybrid", "falconh1", "granite40h", "deltanet", "jamba", "zamba",
        "bamba", "qwen3next", "kimilinear", "minimax01", "minimaxtext01", "lightningattention"}) {
    if (model.find(hybrid) == std::string::npos) continue;
    return fmt::format(
        "model '{}': a model with state-space layers or linear attention needs a file that says "
        "which layers they are; foretrace list workloads says which have one (Nemotron-H, Granite "
        "4.0 H, Falcon-H1, Qwen3-Next)",
        f.Text("model"));
  }
  return "";
}

// Of a row with sizes of its own, a model by another name only if it is as wide: fewer layers of
// it.
absl::StatusOr<std::optional<TransformerConfig>> FindModel(const Fields& f,
                                                           const ModelByName& find) {
  const std::string name = f.Text("model");
  if (!f.States("hidden")) return find(name, false);
  FORETRACE_ASSIGN_OR_RETURN(auto other, find(name, false));
  std::string unread;
  if (other && other->hidden > 0 && other->hidden == f.Int("hidden", 0, unread) &&
      other->heads == f.Int("heads", other->heads, unread)) {
    return other;
  }
  return find(name, true);
}

// Fewer layers than the model has are its first ones.
void ReadPattern(const std::optional<TransformerConfig>& known, TrainingRow& row) {
  if (row.config.pattern.empty()) return;
  const int64_t further = row.config.further_tokens;
  CutPattern(row.config);
  if (row.config.further_tokens < further) {
    row.notes.push_back(
        "modules for further tokens, whose layers these have none of, are left out");
  }
  if (row.config.layers < known->layers) {
    row.notes.push_back(fmt::format("the model's first {} layers of {}, {}", row.config.layers,
                                    known->layers, row.config.pattern));
  }
  row.notes.push_back(PatternNote(row.config));
}

// Of a model with a size that neither the row nor a file states.
std::string NoSizes(const std::string& model, const std::string& missing, bool known,
                    const MeantName& meant) {
  if (model.empty()) return "model is not stated";
  const std::string near = meant ? meant(model) : "";
  return fmt::format(
      "{}{}: {} is not stated; state layers, hidden, heads, ffn and vocab, or give {}.yaml in "
      "--workloads",
      known ? fmt::format("model '{}'", model) : fmt::format("no model '{}' is known", model),
      near.empty() ? "" : fmt::format(" (did you mean {}?)", near), missing, LowerCase(model));
}

// No kernel is launched faster than the one, nobody waits longer than the other (eleven days).
constexpr double kShortestStepSeconds = 1e-6, kLongestStepSeconds = 1e6;

// What the run took, in time and memory.
void ReadMeasured(const Fields& f, TrainingRow& row, std::string& error) {
  const double step = StepSeconds(f, row);
  const auto died = [&](const char* column) { return LowerCase(f.Text(column)) == "oom"; };
  row.out_of_memory = f.Says("oom") || died("oom") || died("step_s") || died("step_ms");
  const bool possible = step >= kShortestStepSeconds && step <= kLongestStepSeconds;
  if (error.empty() && !possible && !row.out_of_memory) {
    error = "no step_s is stated, nor step_ms or tokens_per_s_per_gpu";
    for (const char* column : {"tokens_per_s_per_gpu", "step_ms", "step_s"}) {
      if (!f.States(column)) continue;
      error = step > 0 ? fmt::format("{} '{}' means a step of {:.4g} s; steps take {:g} to {:g} s",
                                     column, f.Text(column), step, kShortestStepSeconds,
                                     kLongestStepSeconds)
                       : fmt::format("{} '{}' is not a positive number", column, f.Text(column));
    }
  }
  row.measured = SimTime::FromSeconds(possible && !row.out_of_memory ? step : 0);
  ReadMemory(f, row, error);
}

// Whether the mapping can be one of the model's; empty: it can.
std::string CheckChunks(const TrainingRow& row) {
  const ParallelMapping& m = row.mapping;
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  if (row.config.layers < chunks && !m.counted_ends) {
    return fmt::format(
        "{} layers are fewer than the {} chunks of pp {} and vp {}, of which some would have none",
        row.config.layers, chunks, m.pipeline, m.chunks);
  }
  const bool parts = m.chunks > 1 && m.microbatches() > m.pipeline;
  return std::string(
      CheckMapping(row.config, parts ? WholeGroups(m, true) : m, row.gpus).message());
}

void NotBefore(std::string date, const char* as, TrainingRow& row) {
  if (date <= row.earliest) return;
  row.earliest = std::move(date);
  row.earliest_as = as;
}

absl::Status ReadRow(const Fields& f, const ModelByName& find,
                     std::span<const SoftwareStack> stacks, const MeantName& meant,
                     const EarliestDates& dates, TrainingRow& row) {
  row.model = f.Text("model");
  row.gpu = f.Text("gpu");
  row.source = f.Text("source");
  FORETRACE_ASSIGN_OR_RETURN(const auto known, FindModel(f, find));
  std::string error = NotCovered(f, known);
  if (error.empty()) error = f.Differing();
  if (known) row.config = *known;
  if (known && known->name != row.model) {
    row.notes.push_back(fmt::format("the model is taken to be {}", known->name));
  }
  row.taken_as = known ? known->name : row.model;
  row.config.name = row.model;
  if (known && dates.model) NotBefore(dates.model(row.taken_as), "the model was published", row);
  if (dates.accelerator) row.accelerator = dates.accelerator(row.gpu);
  if (dates.device) NotBefore(dates.device(row.gpu), "there were such devices", row);
  ReadSizes(f, row, error);
  ReadPattern(known, row);
  const bool cut = WithoutIdleExperts(row.config).experts != row.config.experts;
  if (cut) {
    row.notes.push_back(fmt::format("all {} layers are dense, as the first {} of the model are",
                                    row.config.layers, row.config.dense_first));
    row.config = WithoutIdleExperts(row.config);
  }
  ReadMapping(f, row, error);
  ReadSoftware(f, stacks, row, error);
  ReadWords(f, row, error);
  DType dtype = PrecisionOf(f.Text("precision"));
  if (known && f.Text("precision").empty()) {
    dtype = known->dtype;
    row.notes.push_back(fmt::format("precision {}, the model's, as none is stated", Name(dtype)));
  }
  if (dtype != DType::kUnknown) row.config.dtype = dtype;
  if (Contains(f.Text("precision"), "tf32")) {
    row.notes.emplace_back(
        "GEMMs in tf32 are timed as those in fp32, without tensor cores, and so too long");
  }
  if (error.empty() && row.gpu.empty()) error = "gpu is not stated";
  if (error.empty() && dtype == DType::kUnknown) {
    error = fmt::format(
        "precision '{}' is not known; known are fp32, tf32, fp16, bf16, fp8, mxfp8 and nvfp4",
        f.Text("precision"));
  }
  if (const std::string missing = MissingSize(row.config); error.empty() && !missing.empty()) {
    error = NoSizes(row.model, missing, known.has_value(), meant);
  }
  if (error.empty() && row.mapping.expert > 1 && cut) {
    error = fmt::format(
        "ep {}, but all {} layers are dense, as the first ones of model '{}' are; a column "
        "dense_layers says otherwise",
        row.mapping.expert, row.config.layers, row.model);
  } else if (error.empty() && row.mapping.expert > 1 && row.config.experts == 0) {
    error = fmt::format(
        "ep {}, but model '{}' has no experts that are known: a file in --workloads can say them",
        row.mapping.expert, row.model);
  }
  if (error.empty()) {
    absl::Status sizes = CheckTransformer(WithDefaults(row.config));
    if (sizes.ok()) sizes = CheckTrainedAttention(row.config);
    if (!sizes.ok()) error = std::string(sizes.message());
  }
  ReadMeasured(f, row, error);
  SpreadOverChunks(row);
  if (error.empty()) error = CheckChunks(row);
  row.refused = std::move(error);
  return absl::OkStatus();
}

absl::StatusOr<TableHeader> ReadHeader(const std::string& path, std::istream& file) {
  std::string line;
  if (!std::getline(file, line)) return InvalidInput("{}: the file is empty", path);
  TableHeader header(line);
  const std::vector<std::string> unread = header.Unread();
  const std::string others =
      unread.empty() ? "" : fmt::format("; not read are {}", fmt::join(unread, ", "));
  for (const std::string_view column : kColumns) {
    if (header.Has(column)) continue;
    return InvalidInput("{}:1: column '{}' is missing{}", path, column, others);
  }
  if (!header.Has("step_s") && !header.Has("step_ms") && !header.Has("tokens_per_s_per_gpu")) {
    return InvalidInput(
        "{}:1: column 'step_s' is missing, and so are 'step_ms' and 'tokens_per_s_per_gpu'{}", path,
        others);
  }
  return header;
}

}  // namespace

ParallelMapping WholeGroups(ParallelMapping m, bool up) {
  const int64_t one = int64_t{m.data} * m.micro_batch * m.pipeline;
  const int64_t groups = (m.global_batch + (up ? one - 1 : 0)) / one;
  if (one * groups <= INT32_MAX) m.global_batch = static_cast<int32_t>(one * groups);
  return m;
}

bool IsTrainingTable(const std::string& path) {
  const auto text = ReadTextFile(path, kMaxTableBytes);
  if (!text.ok()) return false;
  const TableHeader header(text->substr(0, text->find('\n')));
  return header.Has("model") && header.Has("gpus");
}

namespace {

// The next line, with those after it that a field in quotes goes on over (a few at most: what is
// never closed is a slip of the pen).
bool NextRow(std::istream& file, std::string& text, int& number) {
  constexpr int kMostLines = 20;
  if (!std::getline(file, text)) return false;
  ++number;
  const auto open = [](const std::string& t) { return std::ranges::count(t, '"') % 2 != 0; };
  const std::streampos after = file.tellg();
  std::string whole = text, line;
  for (int lines = 1; open(whole) && lines < kMostLines && std::getline(file, line); ++lines) {
    whole += "\n" + line;
    if (open(whole)) continue;
    text = whole;
    number += lines;
    return true;
  }
  if (open(text)) {
    file.clear();
    file.seekg(after);
  }
  return true;
}

// In the first row that is judged, or where none is in why the first one is not.
void NoteUnreadColumns(const TableHeader& header, std::vector<TrainingRow>& rows) {
  const std::vector<std::string> unread = header.Unread();
  if (unread.empty()) return;
  const std::string what = fmt::format(
      "columns that are not read: {} (words in a column mapping say what a mapping has)",
      fmt::join(unread, ", "));
  const auto judged =
      std::ranges::find_if(rows, [](const TrainingRow& row) { return row.refused.empty(); });
  if (judged != rows.end()) {
    NoteUnread(what, *judged);
  } else {
    rows.front().refused += "; " + what;
  }
}

// Of a row with more than the header names: a separator within a field moved what follows it.
std::string TooWide(const TableHeader& header, const std::vector<std::string>& values) {
  for (size_t i = header.width(); i < values.size(); ++i) {
    if (values[i].find_first_not_of(" \t\r") == std::string::npos) continue;
    return fmt::format("{} values for {} columns; a field that holds '{}' stands in quotes",
                       values.size(), header.width(), header.separator());
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<TrainingRow>> LoadTrainingRows(const std::string& path,
                                                          const ModelByName& find,
                                                          std::span<const SoftwareStack> stacks,
                                                          const MeantName& meant,
                                                          const EarliestDates& dates) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, kMaxTableBytes));
  std::istringstream file(content);
  FORETRACE_ASSIGN_OR_RETURN(const auto header, ReadHeader(path, file));
  std::vector<TrainingRow> rows;
  std::string text;
  int number = 1;
  for (int first = 2; NextRow(file, text, number); first = number + 1) {
    if (text.find_first_not_of(" \r,;\t") == std::string::npos || text[0] == '#') continue;
    TrainingRow row;
    row.name = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), first);
    std::vector<std::string> values = SplitCsvLine(text, header.separator());
    const std::string wide = TooWide(header, values);
    FORETRACE_RETURN_IF_ERROR(
        ReadRow(Fields(header, std::move(values)), find, stacks, meant, dates, row));
    if (!wide.empty()) row.refused = wide;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return InvalidInput("{}: no rows", path);
  NoteUnreadColumns(header, rows);
  return rows;
}

void AssumeRecomputation(TrainingRow& row, Bytes memory) {
  if (row.recompute_stated || memory == Bytes()) return;
  // By half: software that selects keeps less than all, and how much differs. What recomputes
  // whole layers or nothing keeps what is predicted, but for its error.
  const bool selects = row.software.selective != Recompute::kFull;
  const Bytes clearly(memory.count() + memory.count() / (selects ? 2 : 10));
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const bool attention = row.software.selective == Recompute::kSelective;
    if (recompute == Recompute::kSelective && (row.config.fused_attention || !attention)) continue;
    // Layers in parts, of which software recomputes some.
    if (recompute == Recompute::kFull && row.mapping.overlap_experts) return;
    ParallelMapping mapping = row.mapping;
    mapping.recompute = recompute;
    if (recompute != Recompute::kFull && MemoryOf(row.config, mapping).total() > clearly) continue;
    if (recompute == Recompute::kFull && row.software.offloads_layers && mapping.zero >= 3) {
      row.notes.emplace_back(
          "activations of some layers in the host's memory, as the software's recipes have it, "
          "copied beside kernels");
      return;
    }
    if (recompute == row.mapping.recompute) return;
    row.mapping = mapping;
    row.notes.push_back(fmt::format(
        "{} recomputation, without which the run would not fit in memory", Name(recompute)));
    return;
  }
}

}  // namespace foretrace
