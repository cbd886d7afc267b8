#include "simulator/planning/sweep/sweep_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/console/output.h"

namespace foretrace {
namespace {

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// For a line whose fields are divided by tabs.
std::string OneField(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '|') c = ' ';
  }
  return text;
}

bool IsTime(std::string_view column) {
  return !column.ends_with("per_s") &&
         (column.ends_with("_us") || column.ends_with("_ns") || column.ends_with("_s"));
}

// Six digits, and whole numbers where there are more before the point: no exponents of what people
// read as a size or a time.
std::string Digits(double value) {
  const double size = std::abs(value);
  return size >= 999'999.5 && size < 1e15 ? fmt::format("{:.0f}", value)
                                          : fmt::format("{:.6g}", value);
}

std::string Shown(const SweepValue& value) {
  return value.number.has_value() ? Digits(*value.number) : value.text;
}

// Where the first axis has its first value and the others have theirs.
size_t FirstOf(const SweptCommand& swept, size_t point) {
  return point % (swept.points() / swept.axes().front().values.size());
}

}  // namespace

std::string Encode(const SweepPoint& point) {
  if (!point.feasible) return (point.failed ? "failed\t" : "no\t") + OneField(point.why);
  std::string line = "ok";
  for (const SweepValue& value : point.values) {
    line += value.number.has_value() ? fmt::format("\tn{}", *value.number)
                                     : "\tt" + OneField(value.text);
  }
  return line;
}

bool Decode(const std::string& line, const std::vector<std::string>& columns, SweepPoint& point) {
  std::vector<std::string> fields;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find('\t', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  point.feasible = fields.front() == "ok";
  if (!point.feasible) {
    point.why = fields.size() == 2 ? fields[1] : "";
    point.failed = fields.front() == "failed";
    return (point.failed || fields.front() == "no") && fields.size() == 2;
  }
  if (fields.size() != columns.size() + 1) return false;
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::string& field = fields[c + 1];
    if (field.empty()) return false;
    SweepValue value{columns[c], std::nullopt, ""};
    if (field[0] == 'n') {
      value.number = ParseNumber(std::string_view(field).substr(1));
      if (!value.number.has_value()) return false;
    } else {
      value.text = field.substr(1);
    }
    point.values.push_back(std::move(value));
  }
  return true;
}

absl::Status AddScaling(const std::string& scaling, SweepReport& report) {
  report.scaling = scaling;
  if (scaling.empty()) return absl::OkStatus();
  const SweepAxis& axis = report.swept->axes().front();
  for (const std::string& value : axis.values) {
    const std::optional<double> number = ParseNumber(value);
    if (!number.has_value() || *number <= 0) {
      return InvalidInput("--scaling: {} of --over {} is no number over 0", value, axis.name);
    }
  }
  if (!IsTime(report.columns.front())) {
    return InvalidInput("--scaling: {} is no time; give one as the first --value",
                        report.columns.front());
  }
  for (size_t p = 0; p < report.points.size(); ++p) {
    SweepPoint& point = report.points[p];
    const size_t first = FirstOf(*report.swept, p);
    const SweepPoint& base = report.points[first];
    if (!point.feasible || !base.feasible) continue;
    const std::optional<double> time = point.values.front().number;
    const std::optional<double> from = base.values.front().number;
    if (!time || !from || *time <= 0) continue;
    const double more =
        *ParseNumber(report.swept->Value(p, 0)) / *ParseNumber(report.swept->Value(first, 0));
    point.efficiency = *from / *time / (scaling == "strong" ? more : 1);
  }
  return absl::OkStatus();
}

namespace {

bool AnswersAlike(const SweepPoint& a, const SweepPoint& b) {
  if (a.feasible != b.feasible || a.failed != b.failed) return false;
  if (!a.feasible) return true;
  return std::ranges::equal(a.values, b.values, [](const SweepValue& x, const SweepValue& y) {
    return x.number == y.number && x.text == y.text;
  });
}

// How many points on the next value of the axis is.
size_t StrideOf(const SweptCommand& swept, size_t axis) {
  size_t stride = 1;
  for (size_t a = axis + 1; a < swept.axes().size(); ++a) stride *= swept.axes()[a].values.size();
  return stride;
}

// The last part of each value's path, where no other column is called that.
std::vector<std::string> Headings(const SweptCommand& swept, const SweepReport& report) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::map<std::string, int> used;
  for (const SweepAxis& axis : swept.axes()) ++used[axis.name];
  for (const std::string& column : report.columns) ++used[last(column)];
  std::vector<std::string> headings;
  for (const std::string& column : report.columns) {
    headings.push_back(used[last(column)] == 1 ? last(column) : column);
  }
  return headings;
}

// How many points can be met, between what the first column lies, and where.
std::string Verdict(const SweepReport& report) {
  std::optional<size_t> least, most;
  size_t met = 0, failed = 0;
  const auto number = [&](size_t p) { return report.points[p].values.front().number; };
  for (size_t p = 0; p < report.points.size(); ++p) {
    failed += report.points[p].failed ? 1 : 0;
    if (!report.points[p].feasible) continue;
    ++met;
    if (!number(p).has_value()) continue;
    if (!least || *number(p) < *number(*least)) least = p;
    if (!most || *number(p) > *number(*most)) most = p;
  }
  const std::string heading = Headings(*report.swept, report).front();
  std::string text = fmt::format("{} of {} points can be met", met, report.points.size());
  if (failed > 0) text += fmt::format(", {} failed", failed);
  if (least && *number(*least) < *number(*most)) {
    text += fmt::format("; {} from {} ({}) to {} ({})", heading, Digits(*number(*least)),
                        report.swept->Label(*least), Digits(*number(*most)),
                        report.swept->Label(*most));
  } else if (least) {
    text += fmt::format("; {} is {} in all", heading, Digits(*number(*least)));
  }
  return text;
}

}  // namespace

std::vector<std::string> AxesWithoutEffect(const SweepReport& report) {
  const SweptCommand& swept = *report.swept;
  std::vector<std::string> names;
  if (std::ranges::none_of(report.points, &SweepPoint::feasible)) return names;
  for (size_t a = 0; a < swept.axes().size(); ++a) {
    const size_t values = swept.axes()[a].values.size();
    if (values < 2) continue;
    const size_t stride = StrideOf(swept, a);
    bool alike = true;
    for (size_t p = 0; alike && p < report.points.size(); ++p) {
      const size_t value = p / stride % values;
      alike = AnswersAlike(report.points[p], report.points[p - value * stride]);
    }
    if (alike) names.push_back(swept.axes()[a].name);
  }
  return names;
}

std::string SweepText(const SweepReport& report, const TextStyle& style) {
  using Align = TextTable::Align;
  const SweptCommand& swept = *report.swept;
  std::vector<TextTable::Column> columns;
  for (const SweepAxis& axis : swept.axes()) columns.push_back({axis.name, Align::kRight, false});
  const std::vector<std::string> headings = Headings(swept, report);
  for (size_t c = 0; c < report.columns.size(); ++c) {
    const std::string& column = report.columns[c];
    bool text = false;
    for (const SweepPoint& point : report.points) {
      for (const SweepValue& value : point.values) {
        text |= value.column == column && !value.number.has_value();
      }
    }
    columns.push_back({headings[c], text ? Align::kLeft : Align::kRight, text});
  }
  if (!report.scaling.empty()) columns.push_back({"efficiency", Align::kRight, false});
  TextTable table(columns);
  std::string failures;
  for (size_t p = 0; p < report.points.size(); ++p) {
    const SweepPoint& point = report.points[p];
    std::vector<std::string> cells;
    for (size_t a = 0; a < swept.axes().size(); ++a) cells.emplace_back(swept.Value(p, a));
    for (const SweepValue& value : point.values) cells.push_back(Shown(value));
    if (!point.feasible) {
      for (size_t c = 0; c < report.columns.size(); ++c) cells.emplace_back("-");
      failures += fmt::format("{}: {}\n", swept.Label(p), point.why);
    }
    if (!report.scaling.empty()) {
      cells.push_back(point.efficiency ? fmt::format("{:.3f}", *point.efficiency) : "-");
    }
    table.AddRow(std::move(cells));
  }
  std::string text = fmt::format("Verdict: {}\n\n", Verdict(report)) + table.Format(style);
  if (!report.scaling.empty()) {
    text += fmt::format("efficiency: {} scaling of {} over {}, from its first value\n",
                        report.scaling, headings.front(), swept.axes().front().name);
  }
  for (const std::string& name : AxesWithoutEffect(report)) {
    text += fmt::format("note: {} changes none of these values\n", name);
  }
  return text + failures;
}

std::string SweepJson(const SweepReport& report) {
  const SweptCommand& swept = *report.swept;
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("swept", swept.command());
  json.Field("verdict", Verdict(report));
  json.Key("axes");
  json.StartArray();
  for (const SweepAxis& axis : swept.axes()) {
    json.StartObject();
    json.Field("name", axis.name);
    json.Field("values", axis.values);
    json.EndObject();
  }
  json.EndArray();
  json.Field("values", report.columns);
  json.Field("scaling", report.scaling);
  json.Field("without_effect", AxesWithoutEffect(report));
  json.Key("points");
  json.StartArray();
  for (size_t p = 0; p < report.points.size(); ++p) {
    const SweepPoint& point = report.points[p];
    json.StartObject();
    for (size_t a = 0; a < swept.axes().size(); ++a) {
      json.Field(swept.axes()[a].name, swept.Value(p, a));
    }
    json.Field("feasible", point.feasible);
    if (!point.feasible) {
      json.Field("failed", point.failed);
      json.Field("why_not", point.why);
    }
    for (const SweepValue& value : point.values) {
      if (value.number) {
        json.Field(value.column, *value.number);
      } else {
        json.Field(value.column, value.text);
      }
    }
    if (point.efficiency) json.Field("efficiency", *point.efficiency);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
