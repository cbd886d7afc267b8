// The column `mapping` of a row, beside its other columns.

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/recomputed_modules.h"
#include "simulator/mapping/training_row_division.h"
#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

std::vector<std::string> WordsOf(const Fields& f) {
  return f.States("mapping") ? MappingWords(f.Text("mapping")) : std::vector<std::string>();
}

bool SaysOneOf(const std::vector<std::string>& words, std::initializer_list<std::string_view> any) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return std::ranges::find(any, word) != any.end(); });
}

}  // namespace

std::optional<int32_t> DegreeWord(const Fields& f, std::string_view column) {
  constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"vp", "v"}, {"micro_batch", "mb"}, {"global_batch", "gb"}};
  std::string_view word = column;
  for (const auto& [name, as_word] : kOtherNames) {
    if (column == name) word = as_word;
  }
  std::optional<int32_t> value = NumberOf(word, f.Text("mapping"));
  if (!value && column == "vp") value = NumberOf(column, f.Text("mapping"));
  return value && *value >= 1 && *value <= kMaxDegree ? value : std::nullopt;
}

std::string OtherThanWords(const Fields& f, std::string_view column) {
  return fmt::format("{} '{}' and mapping '{}' contradict one another", column,
                     f.Text(std::string(column)), f.Text("mapping"));
}

bool SaysRecomputation(const Fields& f) {
  return std::ranges::any_of(WordsOf(f), [](const std::string& word) {
    return ParseEnum<Recompute>(word).has_value() || word.starts_with("recompute=");
  });
}

absl::Status AddRowWords(const Fields& f, const TrainingRow& row, ParallelMapping& m) {
  const std::vector<std::string> words = WordsOf(f);
  if (words.empty()) return absl::OkStatus();
  if (SaysOneOf(words, {"ulysses"})) m.ring = false;
  if (SaysOneOf(words, {"ring"})) m.ulysses = false;
  // Of 8 bits a word says which.
  if (SaysOneOf(words, {"fp8", "mxfp8", "nvfp4"})) m.fp8 = m.mxfp8 = m.nvfp4 = false;
  const int32_t divided = m.micro_batch;
  const absl::Status read = AddWords(f.Text("mapping"), "mapping", m);
  m.micro_batch = divided;
  if (SaysOneOf(words, {Name(Recompute::kSelective)})) m.recompute = row.software.selective;
  return read;
}

namespace {

// Whether a column of precisions can mean the kind of GEMMs that words say.
bool PrecisionAllows(const std::string& precision, const ParallelMapping& stated) {
  const bool four = Contains(precision, "fp4"), blocks = Contains(precision, "mx");
  const bool eight = Contains(precision, "fp8") || Contains(precision, "float8");
  if (stated.nvfp4) return four;
  return eight && !four && (stated.mxfp8 || !blocks);
}

// The first column that says otherwise than words of the column `mapping`; empty: none does.
// `stated`: what the words alone say.
std::string OtherColumn(const Fields& f, const TrainingRow& row, const ParallelMapping& stated) {
  const std::vector<std::string> words = WordsOf(f);
  const bool zero = NumberOf("zero", f.Text("mapping")).has_value();
  const int32_t sharding = DivisionIn(ShardingOf(f)).zero;
  const bool pure = stated.gradient_bytes == 4 && Contains(f.Text("sharding"), "pure");
  if (pure || (zero && sharding >= 0 && stated.zero != sharding)) return "sharding";
  std::string wrong;
  const StatedDivision division = DivisionOfRow(f, row.mapping, wrong);
  const bool counted = division.shards > 0 || division.copies > 0;
  const bool grouped =
      stated.hybrid > 0 && counted && stated.hybrid != (division.hybrid ? row.mapping.hybrid : 0);
  if (grouped || (division.whole && zero && stated.zero > 0)) return division.column;
  if (SaysOtherSchedule(f, stated)) return "schedule";
  const auto recompute = RecomputeIn(f.Text("recompute"), row.software.selective);
  // Of selective recomputation words may name the modules.
  const bool modules_of = recompute == row.software.selective && recompute != Recompute::kFull &&
                          stated.recompute == Recompute::kModules;
  if (!f.Text("recompute").empty() && recompute && SaysRecomputation(f) && !modules_of &&
      *recompute != stated.recompute) {
    return "recompute";
  }
  for (const char* column : {"recompute", "recompute_modules"}) {
    RecomputeModules modules = ModulesIn(f.Text(column));
    modules.bits &= static_cast<uint8_t>(~IdleModules(row.config, modules).bits);
    const bool other = SelectsModules(modules) && modules != stated.modules;
    // Full recomputation may name what it has.
    const bool parts = recompute != Recompute::kFull;
    if (other && parts && SaysRecomputation(f)) return column;
  }
  if (stated.narrow() && f.States("precision") && !PrecisionAllows(f.Text("precision"), stated)) {
    return "precision";
  }
  const bool hides = SaysOneOf(words, {"overlap", "tp-async", "tp-chunked", "ep-overlap"});
  if (hides && OverlapsNothing(f)) return f.Text("overlap").empty() ? "note" : "overlap";
  // Of a batch that the software's pipeline divides a word may say either.
  const std::optional<int32_t> micro = DegreeWord(f, "micro_batch");
  std::string unread;
  if (micro && f.States("micro_batch") && *micro != row.mapping.micro_batch &&
      *micro != f.Int("micro_batch", 0, unread)) {
    return "micro_batch";
  }
  return "";
}

}  // namespace

void ReadWords(const Fields& f, TrainingRow& row, std::string& error) {
  if (!f.States("mapping")) return;
  row.recompute_stated |= SaysRecomputation(f);
  ParallelMapping m = row.mapping;
  const absl::Status read = AddRowWords(f, row, m);
  if (error.empty() && !read.ok()) error = std::string(read.message());
  // What software does by itself is no word of the row.
  ParallelMapping stated;
  std::tie(stated.tensor, stated.context, stated.pipeline, stated.data, stated.expert,
           stated.expert_tensor, stated.chunks, stated.micro_batch, stated.global_batch) =
      std::tie(m.tensor, m.context, m.pipeline, m.data, m.expert, m.expert_tensor, m.chunks,
               m.micro_batch, m.global_batch);
  if (read.ok() && AddRowWords(f, row, stated).ok()) {
    row.idle = IdleChoice(stated);
    const std::string other = OtherColumn(f, row, stated);
    if (error.empty() && !other.empty()) error = OtherThanWords(f, other);
  }
  row.mapping = std::move(m);
}

}  // namespace foretrace
