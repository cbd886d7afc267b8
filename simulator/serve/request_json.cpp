#include "simulator/serve/request_json.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

constexpr unsigned kParse = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag;
constexpr double kCharactersPerToken = 4;

// A number of an object within bounds; the first problem sticks.
class Fields {
 public:
  explicit Fields(const rapidjson::Value& object) : object_(object) {}
  bool Has(const char* key) const { return object_.HasMember(key); }
  double Number(const char* key, double low, double high) {
    const auto at = object_.FindMember(key);
    if (at == object_.MemberEnd() || !at->value.IsNumber()) {
      Fail(fmt::format("'{}' is missing or no number", key));
      return 0;
    }
    const double value = at->value.GetDouble();
    if (value >= low && value <= high) return value;
    Fail(fmt::format("'{}' {:g} is not from {:g} to {:g}", key, value, low, high));
    return 0;
  }
  int32_t Tokens(const char* key) {
    const double value = Number(key, 1, kMaxTokens);
    if (value != std::floor(value)) Fail(fmt::format("'{}' is not a whole number", key));
    return static_cast<int32_t>(value);
  }
  void Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  const std::string& problem() const { return problem_; }

 private:
  const rapidjson::Value& object_;
  std::string problem_;
};

void ReadHashes(const rapidjson::Value& object, Fields& fields, Request& request,
                RequestTrace& trace) {
  const auto at = object.FindMember("hash_ids");
  if (at == object.MemberEnd()) return;
  if (!at->value.IsArray()) return fields.Fail("'hash_ids' is no list");
  request.prefix_begin = static_cast<uint32_t>(trace.prefix_ids.size());
  for (const auto& id : at->value.GetArray()) {
    if (!id.IsUint64()) return fields.Fail("'hash_ids' holds what is no whole number");
    trace.prefix_ids.push_back(id.GetUint64());
  }
  request.prefix_blocks = at->value.Size();
}

absl::Status ReadLine(const std::string& where, std::string_view line, RequestTrace& trace) {
  rapidjson::Document document;
  document.Parse<kParse>(line.data(), line.size());
  if (document.HasParseError()) {
    return InvalidInput("{}: is no JSON: {}", where, GetParseError_En(document.GetParseError()));
  }
  if (!document.IsObject()) return InvalidInput("{}: is no JSON object", where);
  Fields fields(document);
  Request request;
  if (fields.Has("input_length")) {
    request.input_tokens = fields.Tokens("input_length");
    request.output_tokens = fields.Tokens("output_length");
    request.arrival =
        SimTime::FromSeconds(fields.Number("timestamp", 0, kMaxArrivalSeconds * 1e3) * 1e-3);
    ReadHashes(document, fields, request, trace);
  } else if (fields.Has("input_toks")) {
    request.input_tokens = fields.Tokens("input_toks");
    request.output_tokens = fields.Tokens("output_toks");
    request.arrival =
        SimTime::FromSeconds(fields.Number("arrival_time_ns", 0, kMaxArrivalSeconds * 1e9) * 1e-9);
  } else {
    fields.Fail("has neither input_length (Mooncake) nor input_toks (LLMServingSim)");
  }
  if (!fields.problem().empty()) return InvalidInput("{}: {}", where, fields.problem());
  trace.requests.push_back(request);
  return absl::OkStatus();
}

int32_t TokensOf(const rapidjson::Value& turn) {
  const auto text =
      turn.IsObject() ? turn.FindMember("value") : rapidjson::Value::ConstMemberIterator();
  if (!turn.IsObject() || text == turn.MemberEnd() || !text->value.IsString()) return 0;
  return static_cast<int32_t>(std::ceil(text->value.GetStringLength() / kCharactersPerToken));
}

}  // namespace

absl::Status ReadJsonLines(const std::string& file, std::string_view text, RequestTrace& trace) {
  size_t number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    FORETRACE_RETURN_IF_ERROR(ReadLine(fmt::format("{}:{}", file, number), line, trace));
  }
  return absl::OkStatus();
}

absl::Status ReadConversations(const std::string& file, const std::string& text,
                               RequestTrace& trace, std::vector<std::string>& notes) {
  rapidjson::Document document;
  document.Parse<kParse>(text.c_str());
  if (document.HasParseError() || !document.IsArray()) {
    return InvalidInput("{}: is no JSON list of conversations", file);
  }
  size_t left_out = 0;
  for (const auto& entry : document.GetArray()) {
    const auto turns = entry.IsObject() ? entry.FindMember("conversations")
                                        : rapidjson::Value::ConstMemberIterator();
    if (!entry.IsObject() || turns == entry.MemberEnd() || !turns->value.IsArray()) {
      return InvalidInput("{}: entry {} has no list 'conversations'", file,
                          trace.requests.size() + left_out);
    }
    Request request;
    if (turns->value.Size() >= 2) {
      request.input_tokens = TokensOf(turns->value[0]);
      request.output_tokens = TokensOf(turns->value[1]);
    }
    if (request.input_tokens > 0 && request.output_tokens > 0) {
      trace.requests.push_back(request);
    } else {
      ++left_out;
    }
  }
  notes.push_back(fmt::format("{}: lengths are taken as four characters a token", file));
  if (left_out > 0) {
    notes.push_back(fmt::format("{}: {} conversations without question and answer are left out",
                                file, left_out));
  }
  return absl::OkStatus();
}

}  // namespace foretrace::serve
