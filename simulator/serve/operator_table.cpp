#include "simulator/serve/operator_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

constexpr std::string_view kTime = "latency_ms";
constexpr double kMaxMs = 1e9;

// Rows that differ in one size alone, in its order.
enum class Along : uint8_t {
  kLine,    // between the nearest on either side
  kPowers,  // the same, by the logarithms of size and time
  kAlike,   // all do the same work: their median
};
struct Line {
  std::string key;
  double x = 0;
  Along along = Along::kLine;
};
// How experts are divided among devices, and tokens among experts.
struct Division {
  double devices = 1, widths = 1;
  std::string distribution;
};
struct Row {
  std::string precision;
  double ms = 0;
  std::vector<Line> lines;
  bool first_line_counts = false;  // else the mean of all
  std::string siblings;            // what rows of the same kernels and the same x share
  Division division;
};
using Points = std::map<double, double>;
using Lines = absl::flat_hash_map<std::string, Points>;
struct Table {
  std::string header;
  std::vector<Row> rows;
};

class Header {
 public:
  explicit Header(std::string_view line) : names_(SplitCsvLine(line)) {}
  int At(std::string_view name) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    return it == names_.end() ? -1 : static_cast<int>(it - names_.begin());
  }
  bool Has(std::string_view name) const { return At(name) >= 0; }
  size_t size() const { return names_.size(); }
  // All fields but those of the named columns and the time.
  std::string Rest(const std::vector<std::string>& fields,
                   std::initializer_list<std::string_view> without) const {
    std::string rest;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == kTime) continue;
      if (std::find(without.begin(), without.end(), names_[i]) != without.end()) continue;
      rest += fields[i] + ",";
    }
    return rest;
  }

 private:
  std::vector<std::string> names_;
};

enum class Kind : uint8_t { kNone, kGemm, kAttention, kLatentAttention, kExperts };

Kind KindOf(const Header& header) {
  if (!header.Has(kTime)) return Kind::kNone;
  if (header.Has("m") && header.Has("n") && header.Has("k")) return Kind::kGemm;
  if (header.Has("num_tokens") && header.Has("moe_dtype")) return Kind::kExperts;
  if (!header.Has("num_heads")) return Kind::kNone;
  return header.Has("num_key_value_heads") ? Kind::kAttention : Kind::kLatentAttention;
}

std::string_view PrecisionColumn(Kind kind) {
  switch (kind) {
    case Kind::kGemm:
      return "gemm_dtype";
    case Kind::kExperts:
      return "moe_dtype";
    case Kind::kLatentAttention:
      return "mla_dtype";
    default:
      return "attn_dtype";
  }
}

class Reader {
 public:
  Reader(std::string file, const Header& header, Kind kind)
      : file_(std::move(file)), header_(header), kind_(kind) {}

  absl::StatusOr<Row> Read(std::string_view line, size_t number) {
    const std::vector<std::string> fields = SplitCsvLine(line);
    if (fields.size() != header_.size()) {
      return InvalidInput("{}:{}: has {} fields, the header {}", file_, number, fields.size(),
                          header_.size());
    }
    problem_.clear();
    const auto size = [&](std::string_view name) { return Number(fields, name); };
    Row row;
    row.ms = size(kTime);
    const int precision = header_.At(PrecisionColumn(kind_));
    if (precision >= 0) row.precision = fields[static_cast<size_t>(precision)];
    switch (kind_) {
      case Kind::kGemm:
        // Along k the same tiles take more steps; along n they become more, by whole waves.
        row.lines = {{"k" + header_.Rest(fields, {"k"}), size("k"), Along::kLine},
                     {"n" + header_.Rest(fields, {"n"}), size("n"), Along::kLine}};
        row.first_line_counts = true;
        break;
      case Kind::kAttention: {
        const double heads = size("num_heads"), shared = size("num_key_value_heads");
        const std::string rest = header_.Rest(fields, {"num_heads", "num_key_value_heads"});
        row.lines = {{fmt::format("r{:g},{}", heads / shared, rest), heads, Along::kLine},
                     {"h" + header_.Rest(fields, {"num_heads"}), heads, Along::kPowers}};
        if (header_.Has("batch_size")) {
          const std::string sizes =
              header_.Rest(fields, {"num_heads", "num_key_value_heads", "batch_size"});
          row.lines.insert(row.lines.begin(), {fmt::format("w{:g},{:g},{}", heads / shared,
                                                           shared * size("batch_size"), sizes),
                                               heads, Along::kAlike});
        }
        row.first_line_counts = true;
        break;
      }
      case Kind::kLatentAttention:
        // Latents are read once for all heads; what each adds is its products.
        row.lines = {
            {header_.Rest(fields, {"num_heads", "tp_size"}), size("num_heads"), Along::kLine}};
        break;
      default:
        row.lines = {{header_.Rest(fields, {"num_tokens"}), size("num_tokens"), Along::kPowers}};
        row.siblings = header_.Rest(fields, {"distribution", "moe_ep_size", "moe_tp_size"});
        if (header_.Has("moe_ep_size")) row.division.devices = size("moe_ep_size");
        if (header_.Has("moe_tp_size")) row.division.widths = size("moe_tp_size");
        if (const int at = header_.At("distribution"); at >= 0) {
          row.division.distribution = fields[static_cast<size_t>(at)];
        }
    }
    if (!problem_.empty()) return InvalidInput("{}:{}: {}", file_, number, problem_);
    return row;
  }

 private:
  double Number(const std::vector<std::string>& fields, std::string_view name) {
    const std::string& text = fields[static_cast<size_t>(header_.At(name))];
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value > 0 && value <= kMaxMs) return value;
    if (problem_.empty()) problem_ = fmt::format("{} '{}' is no positive number", name, text);
    return 1;
  }

  std::string file_;
  const Header& header_;
  Kind kind_;
  std::string problem_;
};

// From the points of other sizes; nullopt: there are none, or none on one side.
std::optional<double> FromOthers(const Points& points, const Line& line) {
  if (line.along == Along::kAlike) {
    std::vector<double> others;
    for (const auto& [x, ms] : points) {
      if (x != line.x) others.push_back(ms);
    }
    return others.empty() ? std::nullopt : std::optional(Quantile(std::move(others), 0.5));
  }
  const auto at = points.find(line.x);
  if (at == points.begin() || std::next(at) == points.end()) return std::nullopt;
  const auto& [a, below] = *std::prev(at);
  const auto& [b, above] = *std::next(at);
  if (line.along == Along::kLine) return below + (above - below) * (line.x - a) / (b - a);
  const double weight = std::log(line.x / a) / std::log(b / a);
  return below * std::pow(above / below, weight);
}

// From the lines that it lies on; where its own time counts, that of its very shape first.
std::optional<double> Predict(const Row& row, const Lines& lines, bool own_counts) {
  for (const Line& line : row.lines) {
    const auto points = lines.find(line.key);
    if (!own_counts || line.along == Along::kAlike || points == lines.end()) continue;
    const auto own = points->second.find(line.x);
    if (own != points->second.end()) return own->second;
  }
  double sum = 0;
  int count = 0;
  for (const Line& line : row.lines) {
    const auto points = lines.find(line.key);
    if (points == lines.end()) continue;
    const auto ms = FromOthers(points->second, line);
    if (!ms) continue;
    if (row.first_line_counts) return ms;
    sum += *ms;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

// How far rows are from what their lines say of them, by what they share: experts of one shape run
// the same kernels, whose tiles and choices change with the number of tokens, however they are
// divided. The nearer the division, the more alike: tokens of an expert double with the devices.
class Siblings {
 public:
  Siblings(const std::vector<Row>& rows, const Lines& lines) {
    for (const Row& row : rows) {
      if (row.siblings.empty()) continue;
      const auto ms = Predict(row, lines, false);
      if (ms) misses_[row.siblings].push_back({&row, std::log(*ms / row.ms)});
    }
  }
  // What a row's prediction is to be multiplied by: the median of its siblings on other lines, each
  // by its weight.
  double Correction(const Row& row) const {
    constexpr size_t kFewest = 3;
    const auto at = misses_.find(row.siblings);
    if (row.siblings.empty() || at == misses_.end()) return 1;
    std::vector<Weighted> others;
    for (const auto& [sibling, miss] : at->second) {
      if (sibling->lines.front().key == row.lines.front().key) continue;
      others.push_back({miss, Weight(row.division, sibling->division)});
    }
    return others.size() < kFewest ? 1 : std::exp(-Median(std::move(others)));
  }

 private:
  struct Weighted {
    double value = 0, weight = 0;
  };
  struct Miss {
    const Row* row = nullptr;
    double log = 0;
  };

  // By the inverse square of how many doublings lie between.
  static double Weight(const Division& a, const Division& b) {
    constexpr double kOtherDistribution = 0.5;
    const double away =
        1 + std::abs(std::log2(a.devices / b.devices)) + std::abs(std::log2(a.widths / b.widths));
    return (a.distribution == b.distribution ? 1 : kOtherDistribution) / (away * away);
  }

  static double Median(std::vector<Weighted> values) {
    std::ranges::stable_sort(values, {}, &Weighted::value);
    double half = 0;
    for (const Weighted& v : values) half += v.weight / 2;
    double below = 0;
    for (const Weighted& v : values) {
      below += v.weight;
      if (below >= half) return v.value;
    }
    return values.back().value;
  }

  absl::flat_hash_map<std::string, std::vector<Miss>> misses_;
};

std::string_view FirstLine(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

absl::StatusOr<Table> ReadTable(const std::string& file, std::string_view text) {
  Table table{std::string(FirstLine(text)), {}};
  const Header header(table.header);
  const Kind kind = KindOf(header);
  if (kind == Kind::kNone) return InvalidInput("{}:1: is no table of operators", file);
  Reader reader(file, header, kind);
  size_t number = 0;
  for (std::string_view line : SplitLines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 || line.empty()) continue;
    FORETRACE_ASSIGN_OR_RETURN(Row row, reader.Read(line, number));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return InvalidInput("{}: has a header and no rows", file);
  return table;
}

// Whether a line has the row's very shape.
bool IsMeasured(const Row& row, const Lines& lines) {
  return std::any_of(row.lines.begin(), row.lines.end(), [&](const Line& line) {
    const auto points = lines.find(line.key);
    return line.along != Along::kAlike && points != lines.end() && points->second.contains(line.x);
  });
}

Lines LinesOf(const std::vector<Row>& rows) {
  Lines lines;
  for (const Row& row : rows) {
    for (const Line& line : row.lines) lines[line.key][line.x] = row.ms;
  }
  return lines;
}

absl::StatusOr<std::vector<OperatorErrors>> ErrorsOf(const std::string& file,
                                                     const std::vector<Row>& rows,
                                                     const std::vector<Row>& known,
                                                     bool own_counts) {
  const Lines lines = LinesOf(known);
  const Siblings siblings(known, lines);
  struct Group {
    size_t rows = 0;
    std::vector<double> percent;
  };
  std::map<std::string, Group> groups;
  for (const Row& row : rows) {
    Group& group = groups[row.precision];
    ++group.rows;
    const bool measured = own_counts && IsMeasured(row, lines);
    const auto ms = Predict(row, lines, own_counts);
    if (!ms) continue;
    const double corrected = measured ? *ms : *ms * siblings.Correction(row);
    group.percent.push_back(100 * std::abs(corrected / row.ms - 1));
  }
  std::vector<OperatorErrors> errors;
  for (auto& [precision, group] : groups) {
    if (group.percent.empty()) {
      return InvalidInput("{}: no row of {} lies between others: nothing can be held out", file,
                          precision);
    }
    errors.push_back({precision, group.rows, group.percent.size(), Quantile(group.percent, 0.5),
                      Quantile(group.percent, 0.9)});
  }
  return errors;
}

}  // namespace

bool IsOperatorTable(std::string_view text) {
  return KindOf(Header(FirstLine(text))) != Kind::kNone;
}

absl::StatusOr<std::vector<OperatorErrors>> HoldOutOperators(const std::string& file,
                                                             std::string_view text) {
  FORETRACE_ASSIGN_OR_RETURN(const Table table, ReadTable(file, text));
  return ErrorsOf(file, table.rows, table.rows, false);
}

absl::StatusOr<std::vector<OperatorErrors>> TestOperators(const std::string& file,
                                                          std::string_view text,
                                                          const std::string& test_file,
                                                          std::string_view test_text) {
  FORETRACE_ASSIGN_OR_RETURN(const Table known, ReadTable(file, text));
  FORETRACE_ASSIGN_OR_RETURN(const Table test, ReadTable(test_file, test_text));
  if (known.header != test.header) {
    return InvalidInput("{}:1: has other columns than {}: '{}', not '{}'", test_file, file,
                        test.header, known.header);
  }
  return ErrorsOf(test_file, test.rows, known.rows, true);
}

std::string OperatorText(const std::string& file, const std::vector<OperatorErrors>& errors) {
  const auto worst = std::ranges::max_element(
      errors, {}, [](const OperatorErrors& e) { return e.median_percent; });
  std::string text;
  if (worst != errors.end()) {
    text =
        fmt::format("Verdict: median error of held-out shapes {:.2f} %{}\n", worst->median_percent,
                    errors.size() > 1 ? ", which is " + worst->name + ", the furthest off" : "");
  }
  text += fmt::format(
      "{}: each shape predicted from its neighbours of other groups\n\n"
      "{:<20} {:>9} {:>9} {:>9} {:>9}\n",
      file, "error %", "rows", "held out", "median", "P90");
  for (const OperatorErrors& e : errors) {
    text += fmt::format("{:<20} {:>9} {:>9} {:>9.2f} {:>9.2f}\n", e.name, e.rows, e.held_out,
                        e.median_percent, e.p90_percent);
  }
  return text;
}

std::string OperatorJson(const std::string& file, const std::vector<OperatorErrors>& errors) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("table", file);
  out.Key("models");
  out.StartArray();
  for (const OperatorErrors& e : errors) {
    out.StartObject();
    out.Field("name", e.name);
    out.Field("rows", static_cast<uint64_t>(e.rows));
    out.Field("held_out", static_cast<uint64_t>(e.held_out));
    out.Field("median_percent", e.median_percent);
    out.Field("p90_percent", e.p90_percent);
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
