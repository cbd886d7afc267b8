#include "simulator/serve/operator_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {
namespace {

using Points = std::map<double, double>;
using Lines = absl::flat_hash_map<std::string, Points>;
// From the points of other sizes; nullopt: there are none, or none on one side.
std::optional<double> FromOthers(const Points& points, const OperatorLine& line) {
  if (line.along == Along::kAlike) {
    std::vector<double> others;
    for (const auto& [x, ms] : points) {
      if (x != line.x) others.push_back(ms);
    }
    return others.empty() ? std::nullopt : std::optional(Quantile(std::move(others), 0.5));
  }
  const auto from = points.lower_bound(line.x), to = points.upper_bound(line.x);
  if (from == points.begin() || to == points.end()) return std::nullopt;
  const auto& [a, below] = *std::prev(from);
  const auto& [b, above] = *to;
  if (line.along == Along::kLine) return below + (above - below) * (line.x - a) / (b - a);
  const double weight = std::log(line.x / a) / std::log(b / a);
  return below * std::pow(above / below, weight);
}

// From the lines that it lies on; where its own time counts, that of its very shape first.
std::optional<double> Predict(const OperatorRow& row, const Lines& lines, bool own_counts) {
  for (const OperatorLine& line : row.lines) {
    const auto points = lines.find(line.key);
    if (!own_counts || line.along == Along::kAlike || points == lines.end()) continue;
    const auto own = points->second.find(line.x);
    if (own != points->second.end()) return own->second;
  }
  double sum = 0;
  int count = 0;
  for (const OperatorLine& line : row.lines) {
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
  Siblings(const std::vector<OperatorRow>& rows, const Lines& lines) {
    for (const OperatorRow& row : rows) {
      if (row.siblings.empty()) continue;
      const auto ms = Predict(row, lines, false);
      if (ms) misses_[row.siblings].push_back({&row, std::log(*ms / row.time.ms())});
    }
  }
  // What a row's prediction is to be multiplied by: the median of its siblings on other lines, each
  // by its weight.
  double Correction(const OperatorRow& row) const {
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
    const OperatorRow* row = nullptr;
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

// For rows that lie between no others on their own lines: how times are relative to the work that
// they do, along each of the other sizes.
class Across {
 public:
  explicit Across(const std::vector<OperatorRow>& rows) {
    absl::flat_hash_map<std::string, std::vector<MeasuredWork>> work;
    for (const OperatorRow& row : rows) work[row.kernels].push_back({row.work, row.time});
    for (const auto& [kernels, measured] : work) rates_[kernels] = RatesOf(measured);
    for (const OperatorRow& row : rows) {
      for (const OperatorLine& line : row.across) {
        ratios_[line.key][line.x] = row.time / rates_[row.kernels].TimeOf(row.work);
      }
    }
  }
  // Of a row's time on a device with `scale` of what the rows' device has.
  double Factor(const OperatorRow& row, const OperatorScale& scale) const {
    const auto at = rates_.find(row.kernels);
    if (at == rates_.end()) return 1;
    OperatorRates rates = at->second;
    rates.bytes_per_ms *= scale.bandwidth;
    rates.flop_per_ms *= scale.compute(row.precision);
    return rates.TimeOf(row.work) / at->second.TimeOf(row.work);
  }
  // On a device with `scale` of what the rows' device has.
  bool BoundByMemory(const OperatorRow& row, const OperatorScale& scale) const {
    const auto at = rates_.find(row.kernels);
    if (at == rates_.end()) return false;
    const double memory = row.work.bytes.count() / (at->second.bytes_per_ms * scale.bandwidth);
    return memory >=
           row.work.flop.count() / (at->second.flop_per_ms * scale.compute(row.precision));
  }
  // Where lines differ much, the fastest: tuning that fails on one of them makes all of it slow.
  std::optional<double> Predict(const OperatorRow& row) const {
    constexpr double kAlike = 1.5;
    const auto rates = rates_.find(row.kernels);
    if (rates == rates_.end()) return std::nullopt;
    std::vector<double> logs;
    for (const OperatorLine& line : row.across) {
      const auto points = ratios_.find(line.key);
      if (points == ratios_.end()) continue;
      if (const auto ratio = FromOthers(points->second, line)) logs.push_back(std::log(*ratio));
    }
    if (logs.empty()) return std::nullopt;
    const auto [least, most] = std::ranges::minmax(logs);
    double sum = 0;
    for (const double log : logs) sum += log;
    const double log =
        most - least > std::log(kAlike) ? least : sum / static_cast<double>(logs.size());
    return std::exp(log) * rates->second.TimeOf(row.work).ms();
  }

 private:
  absl::flat_hash_map<std::string, OperatorRates> rates_;
  Lines ratios_;
};

// Whether a line has the row's very shape.
bool IsMeasured(const OperatorRow& row, const Lines& lines) {
  return std::any_of(row.lines.begin(), row.lines.end(), [&](const OperatorLine& line) {
    const auto points = lines.find(line.key);
    return line.along != Along::kAlike && points != lines.end() && points->second.contains(line.x);
  });
}

Lines LinesOf(const std::vector<OperatorRow>& rows) {
  Lines lines;
  for (const OperatorRow& row : rows) {
    for (const OperatorLine& line : row.lines) lines[line.key][line.x] = row.time.ms();
  }
  return lines;
}

// Predicts rows from those that are known, on a device with `scale` of what theirs has.
class Predictor {
 public:
  Predictor(const std::vector<OperatorRow>& known, bool own_counts, const OperatorScale& scale)
      : lines_(LinesOf(known)),
        siblings_(known, lines_),
        across_(own_counts ? known : std::vector<OperatorRow>()),
        own_counts_(own_counts),
        scale_(scale) {}

  // What few measurements of the device leave of the predictions, in the median: of what is bound
  // by memory, of what is bound by arithmetic, and of all where either are too few. False: none of
  // them is predicted.
  bool Correct(const std::vector<OperatorRow>& few) {
    std::map<std::string, Misses> misses;
    for (const OperatorRow& row : few) {
      const auto ms = Ms(row);
      if (!ms) continue;
      Misses& same = misses[row.precision];
      const double log = std::log(row.time.ms() / *ms);
      same.all.push_back(log);
      same.bound[across_.BoundByMemory(row, scale_) ? 1 : 0].push_back(log);
    }
    misses_ = std::move(misses);
    return !misses_.empty();
  }
  std::optional<double> Ms(const OperatorRow& row) const {
    const bool measured = own_counts_ && IsMeasured(row, lines_);
    const auto ms = Predict(row, lines_, own_counts_);
    const auto there = !ms ? across_.Predict(row)
                           : std::optional(measured ? *ms : *ms * siblings_.Correction(row));
    if (!there) return there;
    return *there * across_.Factor(row, scale_) * Correction(row);
  }

 private:
  struct Misses {
    std::vector<double> all;
    std::array<std::vector<double>, 2> bound;  // by arithmetic, by memory
  };

  double Correction(const OperatorRow& row) const {
    constexpr size_t kFewest = 5;
    const auto at = misses_.find(row.precision);
    if (at == misses_.end()) return 1;
    const auto& own = at->second.bound[across_.BoundByMemory(row, scale_) ? 1 : 0];
    return std::exp(Quantile(own.size() < kFewest ? at->second.all : own, 0.5));
  }

  Lines lines_;
  Siblings siblings_;
  Across across_;
  bool own_counts_;
  OperatorScale scale_;
  std::map<std::string, Misses> misses_;  // by precision
};

std::vector<OperatorErrors> ErrorsOf(const std::vector<OperatorRow>& rows,
                                     const Predictor& predictor) {
  struct Group {
    size_t rows = 0;
    std::vector<double> relative;
  };
  std::map<std::string, Group> groups;
  for (const OperatorRow& row : rows) {
    Group& group = groups[row.precision];
    ++group.rows;
    if (const auto ms = predictor.Ms(row)) group.relative.push_back(*ms / row.time.ms() - 1);
  }
  std::vector<OperatorErrors> errors;
  for (auto& [precision, group] : groups) {
    errors.push_back(SummarizeOperator(precision, group.rows, std::move(group.relative)));
  }
  return errors;
}

absl::Status NoFewPredicted(const std::string& few_file, const std::string& file,
                            const OperatorRows& known) {
  std::set<std::string> types;
  for (const OperatorRow& row : known.rows) types.insert(row.precision);
  return InvalidInput(
      "{}: no row of these few is predicted from {}, so that none corrects it: take rows of its "
      "types ({}) whose sizes lie between its own; its columns are {}",
      few_file, file, fmt::join(types, ", "), known.header);
}

}  // namespace

double OperatorScale::compute(std::string_view precision) const {
  const auto has = [&](std::string_view word) { return precision.find(word) != precision.npos; };
  if (has("a16") || has("_wo")) return half;  // narrow weights alone
  if (has("a8") || has("fp8") || has("float8") || has("int8")) return eight_bits;
  return has("fp4") ? four_bits : half;
}

absl::StatusOr<std::vector<OperatorErrors>> HoldOutOperators(const std::string& file,
                                                             std::string_view text) {
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows table, ReadOperatorRows(file, text));
  auto errors = ErrorsOf(table.rows, Predictor(table.rows, false, {}));
  if (AllOperators(errors).held_out == 0) {
    return InvalidInput("{}: no row lies between others: nothing can be held out", file);
  }
  return errors;
}

absl::StatusOr<std::vector<OperatorErrors>> TestOperators(
    const std::string& file, std::string_view text, const std::string& test_file,
    std::string_view test_text, const OperatorScale& scale, const OperatorFile& few) {
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows known, ReadOperatorRows(file, text));
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows test, ReadOperatorRows(test_file, test_text));
  if (known.header != test.header) {
    return InvalidInput("{}:1: has other columns than {}: '{}', not '{}'", test_file, file,
                        test.header, known.header);
  }
  Predictor predictor(known.rows, true, scale);
  if (!few.text.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const OperatorRows rows, ReadOperatorRows(few.file, few.text));
    if (!predictor.Correct(rows.rows)) return NoFewPredicted(few.file, file, known);
  }
  return ErrorsOf(test.rows, predictor);
}

}  // namespace foretrace::serve
