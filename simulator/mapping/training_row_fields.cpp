#include "simulator/mapping/training_row_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"

namespace foretrace {

bool Contains(const std::string& text, std::string_view part) {
  return LowerCase(text).find(part) != std::string::npos;
}

std::string Fields::Text(const std::string& column) const {
  for (const TableHeader::Column& c : header_.Of(column)) {
    if (std::string text = Cell(c.index); !text.empty()) return text;
  }
  return "";
}

std::string Fields::Cell(size_t index) const {
  if (index >= values_.size()) return "";
  const std::string& whole = values_[index];
  const size_t first = whole.find_first_not_of(" \t"), last = whole.find_last_not_of(" \t");
  std::string text = first == std::string::npos ? "" : whole.substr(first, last + 1 - first);
  static constexpr std::string_view kNothing[] = {"n/a", "na", "nan", "null", "-", "?"};
  const std::string lower = LowerCase(text);
  for (const std::string_view nothing : kNothing) {
    if (lower == nothing) return "";
  }
  return text;
}

bool Fields::States(const std::string& column) const {
  const std::string text = Text(column);
  return !text.empty() && LowerCase(text) != "none";
}

namespace {

// 128,256 and 1,048,576.5 GB, as people write them, without the commas.
std::string WithoutSeparators(std::string text) {
  const size_t first = text.find(',');
  if (first == std::string::npos || first == 0 || first > 3) return text;
  for (size_t at = first; at < text.size() && text[at] != '.' && text[at] != ' '; at += 4) {
    const std::string three = text.substr(at + 1, 3);
    const bool digits = three.find_first_not_of("0123456789") == std::string::npos;
    if (text[at] != ',' || three.size() != 3 || !digits) return text;
  }
  std::erase(text, ',');
  return text;
}

}  // namespace

int64_t Fields::Int(const std::string& column, int64_t absent, std::string& error) const {
  if (!States(column)) return absent;
  std::string text = Text(column);
  // Tables of numbers where some are missing write whole ones as 8.0.
  if (const size_t point = text.find('.'); point != std::string::npos && point > 0) {
    if (text.find_first_not_of('0', point + 1) == std::string::npos) text.erase(point);
  }
  text = WithoutSeparators(text);
  // Sequences of 8k tokens have 8,192.
  const bool thousands = column == "seq" && (text.ends_with('k') || text.ends_with('K'));
  if (thousands) text.pop_back();
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (whole && value > 0 && value <= int64_t{1} << 30) return thousands ? 1024 * value : value;
  if (error.empty()) {
    error = fmt::format("{} '{}' is not a positive whole number", column, Text(column));
  }
  return absent;
}

Fields::Amount Fields::AmountIn(const std::string& said) {
  const std::string text = WithoutSeparators(said);
  Amount amount;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), amount.value);
  if (code != std::errc() || !std::isfinite(amount.value)) return Amount();
  amount.unit = LowerCase(std::string(end, text.data() + text.size()));
  std::erase(amount.unit, ' ');
  return amount;
}

double Fields::Number(const std::string& column) const {
  const Amount amount = NumberAndUnit(column);
  return amount.unit.empty() ? amount.value : 0;
}

bool Fields::Says(const std::string& column) const {
  const std::string text = LowerCase(Text(column));
  return text == "1" || text == "1.0" || text == "true" || text == "yes" || text == "y";
}

bool SaysYes(const Fields& f, const std::string& column) {
  const std::string text = LowerCase(f.Text(column));
  return f.Says(column) || text == "on" || text == "enabled";
}

namespace {

// Of a model with experts the column may mean its dense layers, as configurations have it
// (intermediate_size beside moe_intermediate_size).
void ReadFeedForward(const Fields& f, TrainingRow& row, std::string& error) {
  TransformerConfig& c = row.config;
  const int64_t known = c.ffn, stated = f.Int("ffn", known, error);
  if (stated == known || (c.experts > 0 && stated == c.dense_ffn)) return;
  c.ffn = stated;
  if (c.experts == 0 || known == 0) return;
  row.notes.push_back(
      fmt::format("ffn {} taken for each expert's, where the model has {}", stated, known));
}

}  // namespace

void ReadSizes(const Fields& f, TrainingRow& row, std::string& error) {
  TransformerConfig& c = row.config;
  const auto set = [&](const char* column, int64_t& size) { size = f.Int(column, size, error); };
  const int64_t hidden = c.hidden, heads = c.heads;
  set("layers", c.layers);
  set("hidden", c.hidden);
  set("heads", c.heads);
  set("kv_heads", c.kv_heads);
  ReadFeedForward(f, row, error);
  if (f.Text("dense_layers") == "0") {
    c.dense_first = 0;
  } else {
    set("dense_layers", c.dense_first);
  }
  set("experts", c.experts);
  set("top_k", c.top_k);
  set("vocab", c.vocabulary);
  set("seq", c.sequence);
  if (c.latent == 0 && (c.hidden != hidden || c.heads != heads)) c.head_size = 0;
  if (c.latent > 0) c.kv_heads = c.heads;
  // Of latent attention, whose keys have a rotated part, the column says the other one, or the
  // values'.
  if (c.latent == 0) set("head_dim", c.head_size);
  if (f.States("seq")) c.positions = 0;
}

std::string MissingSize(const TransformerConfig& c) {
  const std::pair<const char*, int64_t> sizes[] = {{"layers", c.layers},
                                                   {"hidden", c.hidden},
                                                   {"heads", c.heads},
                                                   {"vocab", c.vocabulary},
                                                   {"seq", c.sequence}};
  for (const auto& [what, size] : sizes) {
    if (size <= 0) return what;
  }
  return "";
}

namespace {

// As the column states it, or else a word of `mapping`; so few that products of three are inside 63
// bits. `error`: both do, and differ.
int32_t Degree(const Fields& f, const char* column, int64_t absent, std::string& error) {
  const std::optional<int32_t> word = DegreeWord(f, column);
  const int64_t value = f.Int(column, word.value_or(absent), error);
  if (value > kMaxDegree && error.empty()) {
    error = fmt::format("{} {} is more than {}", column, value, kMaxDegree);
  }
  if (word && *word != value && error.empty()) error = OtherThanWords(f, column);
  return static_cast<int32_t>(std::min<int64_t>(value, kMaxDegree));
}

// The same of what software says as 0, or not at all, where it does not use it: one, or `absent`.
int32_t DegreeInUse(const Fields& f, const char* column, int32_t absent, std::string& error) {
  if (f.Text(column) != "0" && f.Text(column) != "0.0") return Degree(f, column, absent, error);
  const bool other = DegreeWord(f, column).value_or(absent) != absent;
  if (other && error.empty()) error = OtherThanWords(f, column);
  return absent;
}

// Whether the stated tokens a second and device are those of this batch in the stated step.
bool TokensAreOfBatch(const Fields& f, int32_t gpus, int64_t batch, int64_t sequence) {
  const double stated = f.Number("tokens_per_s_per_gpu") * gpus * f.Number("step_s");
  const double tokens = static_cast<double>(batch) * static_cast<double>(sequence);
  return stated > 0 && std::abs(stated / tokens - 1) < 0.05;
}

// Samples of an iteration and of a micro-batch, of which one may follow from the other.
void ReadBatch(const Fields& f, TrainingRow& row, std::string& error) {
  ParallelMapping& m = row.mapping;
  int64_t batch = Degree(f, "global_batch", 0, error);
  const int64_t accumulation = Degree(f, "grad_accum", 0, error);
  // Software may divide the one that the column states (CheckMicroBatch).
  int64_t micro = f.Int("micro_batch", DegreeWord(f, "micro_batch").value_or(0), error);
  if (micro > kMaxDegree) {
    if (error.empty()) error = fmt::format("micro_batch {} is more than {}", micro, kMaxDegree);
    micro = kMaxDegree;
  }
  if (batch == 0 && micro > 0 && accumulation > 0) batch = m.data * micro * accumulation;
  // Memory alone is judged of a run without enough of it, which hangs on micro-batches.
  const bool any_batch = batch == 0 && f.Says("oom");
  if (error.empty() && batch == 0 && !any_batch) {
    error = "no global_batch is stated, nor micro_batch with grad_accum";
  }
  if (micro == 0 && accumulation > 0 && batch > 0) micro = batch / (m.data * accumulation);
  if (micro == 0) {
    micro = 1;
    row.notes.emplace_back("micro-batches of one sample, as none is stated");
  }
  if (any_batch) batch = m.data * micro * std::max<int64_t>(accumulation, 1);
  m.global_batch = static_cast<int32_t>(batch);
  m.micro_batch = static_cast<int32_t>(micro);
  if (error.empty() && batch % (m.data * micro) != 0) {
    error = fmt::format("global_batch {} is no multiple of {} replicas of micro-batch {}", batch,
                        m.data, micro);
  }
  if (error.empty() && accumulation > 0 && batch != m.data * micro * accumulation) {
    const std::string contradiction =
        fmt::format("global_batch {} is not dp {} x micro_batch {} x grad_accum {}", batch, m.data,
                    micro, accumulation);
    if (!TokensAreOfBatch(f, row.gpus, batch, row.config.sequence)) {
      error = contradiction;
    } else {
      row.notes.push_back(contradiction + ": the batch is taken, as the tokens a second are of it");
    }
  }
}

}  // namespace

void ReadMapping(const Fields& f, TrainingRow& row, std::string& error) {
  ParallelMapping& m = row.mapping;
  const auto degree = [&](const char* column, int64_t absent) {
    return Degree(f, column, absent, error);
  };
  row.gpus = degree("gpus", 0);
  row.gpus_per_node = degree("gpus_per_node", 8);
  row.node_stated = f.States("gpus_per_node");
  m.tensor = degree("tp", 1);
  m.pipeline = degree("pp", 1);
  const auto used = [&](const char* column, int32_t absent) {
    return DegreeInUse(f, column, absent, error);
  };
  m.context = used("cp", 1);
  m.chunks = used("vp", 1);
  m.expert = used("ep", 1);
  const bool whole = Contains(f.Text("note"), "expert tensor parallel 1");
  m.expert_tensor = whole ? 1 : used("etp", 0);
  const int64_t model = int64_t{m.tensor} * m.pipeline * m.context;
  m.data = degree("dp", std::max<int64_t>(row.gpus / model, 1));
  const bool follows = f.States("dp") || DegreeWord(f, "dp");
  if (row.gpus == 0) {
    if (error.empty() && !follows) error = "gpus is not stated, nor dp, from which it would follow";
    row.gpus = static_cast<int32_t>(std::min<int64_t>(model * m.data, kMaxDegree));
  }
  if (error.empty() && !follows && row.gpus % model != 0) {
    error = fmt::format("tp {} x pp {} x cp {} does not divide gpus {}", m.tensor, m.pipeline,
                        m.context, row.gpus);
  }
  if (error.empty() && model * m.data != row.gpus) {
    error = fmt::format("tp {} x pp {} x cp {} x dp {} is {}, but gpus says {}", m.tensor,
                        m.pipeline, m.context, m.data, model * m.data, row.gpus);
  }
  ReadBatch(f, row, error);
}

double StepSeconds(const Fields& f, const TrainingRow& row) {
  // "12.3 s" as well; the number's own unit stands over that of the column's name.
  for (const auto& [column, of_column] : {std::pair("step_s", 1.0), std::pair("step_ms", 1e-3)}) {
    if (!f.States(column)) continue;
    const auto [value, unit] = f.NumberAndUnit(column);
    if (unit.empty()) return of_column * value;
    const std::string each = unit.substr(0, unit.find('/'));  // "s/it"
    if (each == "s" || each == "sec" || each == "seconds") return value;
    return each == "ms" ? 1e-3 * value : 0;
  }
  const double rate = f.Number("tokens_per_s_per_gpu") * row.gpus;
  const double tokens =
      static_cast<double>(row.mapping.global_batch) * static_cast<double>(row.config.sequence);
  return rate > 0 ? tokens / rate : 0;
}

void SpreadOverChunks(TrainingRow& row) {
  ParallelMapping& m = row.mapping;
  if (!m.layers.empty() || m.counted_ends) return;
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  const int64_t each = (row.config.layers + chunks - 1) / chunks;
  const int64_t last = row.config.layers - each * (chunks - 1);
  if (row.software.spares_last_chunk && last > 0 && last < each) {
    m.layers.assign(static_cast<size_t>(chunks), static_cast<int32_t>(each));
    m.layers.back() = static_cast<int32_t>(last);
    row.notes.push_back(
        fmt::format("{} layers on {} chunks: {} each, the last {}, as the software's "
                    "recipes have it",
                    row.config.layers, chunks, each, last));
    return;
  }
  if (row.config.layers % chunks != 0 && (row.config.layers + 2) % chunks == 0) {
    m.counted_ends = true;
    row.notes.push_back(
        fmt::format("{} layers on {} chunks: embedding and output layer count as a layer each, as "
                    "nothing else is stated",
                    row.config.layers, chunks));
  } else if (row.config.layers % chunks != 0 && row.config.layers > chunks) {
    m.layers = SpreadLayers(row.config.layers, chunks);
    row.notes.push_back(fmt::format(
        "{} layers on {} chunks: the first {} one more, as nothing else is stated",
        row.config.layers, chunks,
        row.config.layers % chunks == 1 ? "has"
                                        : fmt::format("{} have", row.config.layers % chunks)));
  }
}

void NoteUnread(std::string what, TrainingRow& row) {
  row.unread.push_back(what);
  row.notes.push_back(std::move(what));
}

Told SaidOf(const Fields& f, std::initializer_list<std::string_view> terms) {
  return ToldOf(
      f.Text("table") + "; " + f.Text("note") + "; " + f.Text("model") + "; " + f.Text("case"),
      terms);
}

}  // namespace foretrace
