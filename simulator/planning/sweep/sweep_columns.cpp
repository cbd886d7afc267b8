#include <fmt/ranges.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <charconv>

#include "simulator/base/error.h"
#include "simulator/planning/sweep/sweep.h"

namespace foretrace {
namespace {

using rapidjson::Value;

// The member of a list that "[0]" or "[-1]" names; null: none.
const Value* Entry(const Value& list, std::string_view index) {
  int64_t at = 0;
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), at);
  if (error != std::errc() || end != index.data() + index.size() || !list.IsArray()) return nullptr;
  if (at < 0) at += list.Size();
  if (at < 0 || at >= list.Size()) return nullptr;
  return &list[static_cast<rapidjson::SizeType>(at)];
}

// Null: the document has no such member.
const Value* Find(const Value& root, std::string_view path) {
  const Value* at = &root;
  while (!path.empty() && at != nullptr) {
    if (path.front() == '[') {
      const size_t close = path.find(']');
      if (close == std::string_view::npos) return nullptr;
      at = Entry(*at, path.substr(1, close - 1));
      path.remove_prefix(close + 1);
      continue;
    }
    if (path.front() == '.') path.remove_prefix(1);
    const size_t end = std::min(path.find_first_of(".["), path.size());
    const Value key(path.data(), static_cast<rapidjson::SizeType>(end));
    if (!at->IsObject()) return nullptr;
    const auto member = at->FindMember(key);
    at = member == at->MemberEnd() ? nullptr : &member->value;
    path.remove_prefix(end);
  }
  return at;
}

// Paths of numbers and texts; of lists the first entry.
void ListColumns(const Value& value, const std::string& path, std::vector<std::string>& out) {
  constexpr size_t kMost = 80;
  if (out.size() >= kMost) return;
  if (value.IsNumber() || value.IsString()) out.push_back(path);
  if (value.IsArray() && !value.Empty()) ListColumns(value[0], path + "[0]", out);
  if (!value.IsObject()) return;
  for (const auto& member : value.GetObject()) {
    const std::string key(member.name.GetString(), member.name.GetStringLength());
    ListColumns(member.value, path.empty() ? key : path + "." + key, out);
  }
}

}  // namespace

absl::StatusOr<std::vector<SweepValue>> ReadColumns(const std::string& json,
                                                    const std::vector<std::string>& columns) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError() || !document.IsObject()) {
    return InvalidInput("the command answers with no JSON document");
  }
  std::vector<SweepValue> values;
  for (const std::string& column : columns) {
    const Value* value = Find(document, column);
    SweepValue out{column, std::nullopt, ""};
    if (value != nullptr && value->IsNumber()) {
      out.number = value->GetDouble();
    } else if (value != nullptr && value->IsString()) {
      out.text = std::string(value->GetString(), value->GetStringLength());
    } else if (value != nullptr && value->IsBool()) {
      out.text = value->GetBool() ? "yes" : "no";
    } else if (value == nullptr || !value->IsNull()) {
      std::vector<std::string> there;
      ListColumns(document, "", there);
      return InvalidInput("--value: the answer has no number or text {}; it has {}", column,
                          fmt::join(there, ", "));
    }
    values.push_back(std::move(out));
  }
  return values;
}

std::vector<std::string> DefaultColumns(std::string_view command) {
  if (command == "predict") return {"step_time_us", "baseline_us"};
  if (command == "search") {
    return {"mappings[0].iteration_time_us", "mappings[0].memory_bytes_max", "mappings[0].mapping"};
  }
  if (command == "shard") {
    return {"plans[0].iteration_time_us", "plans[0].memory_bytes_max", "plans[0].sharder"};
  }
  if (command == "collective") return {"rows[-1].time_us", "rows[-1].busbw_GBps"};
  if (command == "serve") {
    return {"summary.output_tokens_per_s", "summary.ttft_s.mean", "summary.tpot_s.mean"};
  }
  if (command == "validate") return {"summary.mape_percent", "summary.max_percent"};
  if (command == "calibrate") return {"mean_of_models.mape_percent"};
  if (command == "dataflow") return {"iteration_ns", "utilisation"};
  if (command == "generate") return {"iteration_time_us", "nodes"};
  if (command == "place") return {"cost_us"};
  if (command == "diff") return {"difference_us"};
  if (command == "inspect") return {"nodes"};
  return {};
}

}  // namespace foretrace
