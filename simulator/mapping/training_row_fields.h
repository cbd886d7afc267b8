#pragma once
// One row of a table of training jobs, by the names of its columns.

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/mapping/training_row_text.h"
#include "simulator/mapping/training_rows.h"

namespace foretrace {

// Whether `text` in lower case has `part`.
bool Contains(const std::string& text, std::string_view part);

// The columns of a table by its first line, in any order and case; some also have other names
// (training_row_columns.cpp).
class TableHeader {
 public:
  explicit TableHeader(std::string_view line);

  struct Column {
    std::string name;  // that the table gives it
    size_t index = 0;
  };
  // Those of that name, then those of its other names.
  std::span<const Column> Of(const std::string& column) const;
  bool Has(std::string_view column) const { return !Of(std::string(column)).empty(); }
  // Those that nothing is read from, but what else tables tell of a job: as they are written there.
  std::vector<std::string> Unread() const;
  char separator() const { return separator_; }
  size_t width() const { return width_; }

 private:
  char separator_;
  size_t width_ = 0;
  std::map<std::string, std::vector<Column>> columns_;
};

class Fields {
 public:
  Fields(const TableHeader& header, std::vector<std::string> values)
      : header_(header), values_(std::move(values)) {}

  // Of the first column of that name, or its other names, that states it. Without blanks around it;
  // empty where the row says that it is not known ("n/a", "nan", "-").
  std::string Text(const std::string& column) const;
  bool States(const std::string& column) const;
  // A positive whole number; `absent` where none is stated. Otherwise says why in `error`.
  int64_t Int(const std::string& column, int64_t absent, std::string& error) const;
  double Number(const std::string& column) const;  // 0: none, or with a unit
  // "80 GiB" apart, the unit in lower case without blanks; 0: no finite number.
  struct Amount {
    double value = 0;
    std::string unit;
  };
  Amount NumberAndUnit(const std::string& column) const { return AmountIn(Text(column)); }
  // 1 or true.
  bool Says(const std::string& column) const;
  // Columns that say the same by two names, or twice, but not the same; empty: none.
  std::string Differing() const;

 private:
  std::string Cell(size_t index) const;
  static Amount AmountIn(const std::string& text);

  const TableHeader& header_;
  std::vector<std::string> values_;
};

// "1", "true", "yes", "on", "enabled".
bool SaysYes(const Fields& f, const std::string& column);

// Sizes that the row states replace the named model's.
void ReadSizes(const Fields& f, TrainingRow& row, std::string& error);
// The first size that neither row nor model states; empty: none.
std::string MissingSize(const TransformerConfig& c);
// Degrees, micro-batches and layers of chunks; `error`: what contradicts itself.
void ReadMapping(const Fields& f, TrainingRow& row, std::string& error);
void SpreadOverChunks(TrainingRow& row);
// What a word of the column `mapping` says of a degree or a batch for which there may be a column
// ("vp": v4); nullopt: none does, or no number that can be one.
std::optional<int32_t> DegreeWord(const Fields& f, std::string_view column);
// That the column and the words contradict one another.
std::string OtherThanWords(const Fields& f, std::string_view column);
// The column `mapping` onto `m`, for a row whose degrees and software are read; `selective` is what
// the software has of that name, and a batch that its pipeline divides stays divided.
absl::Status AddRowWords(const Fields& f, const TrainingRow& row, ParallelMapping& m);
// The same over what the row's other columns and its software say. `error`: what columns say
// otherwise.
void ReadWords(const Fields& f, TrainingRow& row, std::string& error);
// What a row says in no word that is known, in its notes and apart.
void NoteUnread(std::string what, TrainingRow& row);
// Whether a word of the column `mapping` is of recomputation.
bool SaysRecomputation(const Fields& f);
// Recomputation as columns and people say it; nullopt: in no word that is known.
std::optional<Recompute> RecomputeIn(const std::string& text, Recompute selective);
// The modules that it names, and whether these are more than attention, which selective
// recomputation has by itself.
RecomputeModules ModulesIn(const std::string& text);
bool SelectsModules(RecomputeModules modules);
// Of what is not computed in 8 bits or fewer; kUnknown: in no word that is known.
DType PrecisionOf(const std::string& text);
// Of GEMMs in 8 bits or fewer, and how their operands are scaled. Of a row whose software is read.
void SetGemmFormat(const Fields& f, TrainingRow& row);
// What a row says in words of what is trained, or how.
Told SaidOf(const Fields& f, std::initializer_list<std::string_view> terms);
// Which kernels the software runs, and what the row says of these: torch.compile, the loss,
// attention. Of a row whose software is read.
void SetKernelsOf(const Fields& f, TrainingRow& row);
// Adapters beside frozen weights.
void SetAdapters(const Fields& f, TrainingRow& row);
// Documents packed into the sequences of fine-tuning, where software does.
void PackDocuments(const Fields& f, const StackRelease& release, TrainingRow& row);
// The order of a pipeline's passes, as the column `schedule` or the note names it, and two chunks a
// stage where it interleaves and no column says how many. Of a row whose degrees are read.
// The name of what it is; empty: none is said. Whether the mapping can have it, SettleSchedule says
// once it is known what replicas divide.
std::string SetPipeline(const Fields& f, TrainingRow& row);
void SettleSchedule(const std::string& schedule, TrainingRow& row);
// Whether the column `schedule` is another than a word of the column `mapping`, which `stated` is.
bool SaysOtherSchedule(const Fields& f, const ParallelMapping& stated);
// Of a row whose degrees and software are read.
void SetRecomputation(const Fields& f, TrainingRow& row);
// Of layers that are recomputed alone, how many, where a text has their number: behind "block"
// (Megatron's method), "first" or "last" (llm-foundry's activation_checkpointing_target:
// "first-8"); 0: none.
int32_t ChosenLayers(const std::string& text);
// How inputs of layers that are recomputed whole are kept; of a row whose recomputation is read.
// `error`: a column that is no number of layers.
void SetKeptInputs(const Fields& f, TrainingRow& row, std::string& error);
// Whether nothing is to hide communication: the column `overlap`, or a note.
bool OverlapsNothing(const Fields& f);
// TrainingRow::memory_gib and reserved_gib. `error`: columns that contradict one another.
void ReadMemory(const Fields& f, TrainingRow& row, std::string& error);
// Of a step, as stated or by the tokens a second; 0: neither.
double StepSeconds(const Fields& f, const TrainingRow& row);
// What software does without being told, by what the row calls it, and what the row says of it:
// division over replicas, overlap, recomputation, precision of GEMMs, adapters. `error`: what
// contradicts itself.
void ReadSoftware(const Fields& f, std::span<const SoftwareStack> stacks, TrainingRow& row,
                  std::string& error);

}  // namespace foretrace
