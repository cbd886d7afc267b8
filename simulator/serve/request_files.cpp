#include "simulator/serve/request_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/request_json.h"
#include "simulator/serve/shared_prefix.h"

namespace foretrace::serve {
namespace {

constexpr int32_t kSharedPrefixBlock = 16;

// "2023-11-16 18:17:03.9799600" as seconds of its month; nullopt: it is none.
std::optional<double> SecondsOfStamp(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  char between = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%lf", &year, &month, &day,
                               &between, &hour, &minute, &second);
  if (read != 7 || hour > 23 || minute > 59 || second < 0 || second >= 61) return std::nullopt;
  return ((day * 24.0 + hour) * 60 + minute) * 60 + second;
}

absl::Status ReadAzure(const std::string& file, RequestTrace& trace) {
  FORETRACE_ASSIGN_OR_RETURN(
      CsvColumns table, CsvColumns::Open(file, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}));
  while (table.Next()) {
    Request request;
    const auto seconds = SecondsOfStamp(table.row().Text(0));
    if (!seconds) {
      table.Fail(fmt::format("TIMESTAMP '{}' is not YYYY-MM-DD HH:MM:SS", table.row().Text(0)));
      break;
    }
    request.arrival = SimTime::FromSeconds(*seconds);
    request.input_tokens = table.row().Integer(1, 1, kMaxTokens);
    request.output_tokens = table.row().Integer(2, 1, kMaxTokens);
    trace.requests.push_back(request);
  }
  return table.status();
}

bool ReadHashes(const std::string& text, Request& request, RequestTrace& trace) {
  request.prefix_begin = static_cast<uint32_t>(trace.prefix_ids.size());
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    uint64_t id = 0;
    if (!absl::SimpleAtoi(word, &id)) return false;
    trace.prefix_ids.push_back(id);
    ++request.prefix_blocks;
  }
  return true;
}

absl::Status ReadCsv(const std::string& file, RequestTrace& trace) {
  FORETRACE_ASSIGN_OR_RETURN(CsvColumns table,
                             CsvColumns::Open(file, {"input_tokens", "output_tokens"}));
  const bool in_ms = !table.Has("arrival_s");
  const int32_t arrival = table.Also(in_ms ? "arrival_ms" : "arrival_s");
  const int32_t priority = table.Also("priority"), hashes = table.Also("block_hashes");
  const int32_t shared = table.Also("shared_prefix_tokens");
  if (arrival < 0) {
    return InvalidInput("{}:1: the header has neither arrival_s nor arrival_ms", file);
  }
  const double unit = in_ms ? 1e-3 : 1;
  std::vector<int32_t> shared_tokens;
  while (table.Next()) {
    const CsvRow& row = table.row();
    Request request;
    request.input_tokens = row.Integer(0, 1, kMaxTokens);
    request.output_tokens = row.Integer(1, 1, kMaxTokens);
    request.arrival = SimTime::FromSeconds(
        row.Number(static_cast<size_t>(arrival), 0, kMaxArrivalSeconds / unit) * unit);
    if (priority >= 0)
      request.priority = row.Integer(static_cast<size_t>(priority), -1000000, 1000000);
    if (shared >= 0)
      shared_tokens.push_back(row.Integer(static_cast<size_t>(shared), 0, kMaxTokens));
    if (shared >= 0 && shared_tokens.back() > request.input_tokens) {
      table.Fail(fmt::format("shared_prefix_tokens {} are more than input_tokens {}",
                             shared_tokens.back(), request.input_tokens));
    }
    if (hashes >= 0 && !ReadHashes(row.Text(static_cast<size_t>(hashes)), request, trace)) {
      table.Fail("block_hashes are not whole numbers between spaces");
    }
    trace.requests.push_back(request);
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  if (shared >= 0 && hashes < 0) ShareEarlierPrefixes(shared_tokens, kSharedPrefixBlock, trace);
  return absl::OkStatus();
}

absl::Status ReadAny(const std::string& file, RequestTrace& trace,
                     std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxTableBytes));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return ReadJsonLines(file, text, trace);
  if (first != std::string::npos && text[first] == '[') {
    return ReadConversations(file, text, trace, notes);
  }
  if (text.starts_with("TIMESTAMP")) return ReadAzure(file, trace);
  return ReadCsv(file, trace);
}

// Bits that are the same everywhere: the standard library's distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  // In (0, 1).
  double Uniform() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;  // PCG (O'Neill, 2014)
    uint64_t x = state_;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    return (static_cast<double>(x >> 11) + 0.5) * 0x1p-53;
  }
  double Normal() {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

struct Lengths {
  enum class Kind : uint8_t { kFixed, kUniform, kLogNormal } kind = Kind::kFixed;
  double a = 0, b = 0;

  int32_t Draw(Random& random) const {
    double x = a;
    if (kind == Kind::kUniform) x = std::floor(a + random.Uniform() * (b - a + 1));
    // The mean of a log-normal is exp(mu + sigma^2 / 2).
    if (kind == Kind::kLogNormal) x = std::exp(std::log(a) - b * b / 2 + b * random.Normal());
    return static_cast<int32_t>(std::clamp(std::round(x), 1.0, double{kMaxTokens}));
  }
};

absl::StatusOr<Lengths> ParseLengths(const char* option, const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Lengths lengths;
  std::vector<double> numbers;
  for (size_t i = parts.size() > 1 ? 1 : 0; i < parts.size(); ++i) {
    double number = 0;
    if (!absl::SimpleAtod(parts[i], &number) || !(number > 0 && number <= kMaxTokens)) break;
    numbers.push_back(number);
  }
  const bool fixed = parts.size() == 1 && numbers.size() == 1;
  const bool uniform = parts[0] == "uniform" && numbers.size() == 2 && numbers[0] <= numbers[1];
  const bool log_normal = parts[0] == "lognormal" && numbers.size() == 2 && numbers[1] <= 10;
  if (!fixed && !uniform && !log_normal) {
    return InvalidInput("{} '{}': give a length (512), uniform:LOW:HIGH or lognormal:MEAN:SIGMA",
                        option, text);
  }
  lengths.kind = fixed     ? Lengths::Kind::kFixed
                 : uniform ? Lengths::Kind::kUniform
                           : Lengths::Kind::kLogNormal;
  lengths.a = numbers[0];
  lengths.b = numbers.back();
  return lengths;
}

}  // namespace

absl::StatusOr<RequestTrace> ReadRequests(const std::string& file, int32_t prefix_block_tokens,
                                          std::vector<std::string>& notes) {
  RequestTrace trace;
  trace.source = file;
  FORETRACE_RETURN_IF_ERROR(ReadAny(file, trace, notes));
  if (trace.requests.empty()) return InvalidInput("{}: holds no requests", file);
  if (!trace.prefix_ids.empty() && trace.prefix_block_tokens == 0) {
    trace.prefix_block_tokens = prefix_block_tokens;
  }
  SortByArrival(trace);
  const SimTime first = trace.requests.front().arrival;
  for (Request& request : trace.requests) request.arrival -= first;
  return trace;
}

absl::StatusOr<RequestTrace> GenerateRequests(const RequestGenerator& generator) {
  if (generator.count < 1) return InvalidInput("--count must be at least 1");
  FORETRACE_ASSIGN_OR_RETURN(const Lengths input, ParseLengths("--input", generator.input));
  FORETRACE_ASSIGN_OR_RETURN(const Lengths output, ParseLengths("--output", generator.output));
  RequestTrace trace;
  trace.source = "generated requests";
  trace.generated = true;
  Random random(generator.seed);
  double at = 0;
  for (int32_t i = 0; i < generator.count; ++i) {
    if (generator.rate > 0 && i > 0) at -= std::log(random.Uniform()) / generator.rate;
    if (at > kMaxArrivalSeconds) {
      return InvalidInput("--rate {:g}: request {} would arrive after a month", generator.rate, i);
    }
    Request request;
    request.arrival = SimTime::FromSeconds(at);
    request.input_tokens = input.Draw(random);
    request.output_tokens = output.Draw(random);
    trace.requests.push_back(request);
  }
  return trace;
}

}  // namespace foretrace::serve
