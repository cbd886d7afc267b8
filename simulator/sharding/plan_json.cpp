#include "simulator/sharding/plan_json.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <set>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

std::string_view ComputeKernel(const TablePlacement& p) {
  if (p.kind == PlacementKind::kDataParallel) return "dense";
  return p.uvm ? "fused_uvm_caching" : "fused";
}

class PlanReader {
 public:
  PlanReader(const ShardingTask& task, const std::string& file) : task_(task), file_(file) {}

  absl::StatusOr<ShardingPlan> Read(const rapidjson::Value& root) {
    if (!root.IsObject()) return Bad("the top must be an object");
    const bool wrapped = root.HasMember("plan");
    const rapidjson::Value& tables = wrapped ? root["plan"] : root;
    if (!tables.IsObject()) return Bad("'plan' must be an object of tables");
    plan_.sharder = file_;
    plan_.tables.resize(task_.tables.size());
    std::set<std::string> known;
    for (size_t t = 0; t < task_.tables.size(); ++t) {
      const std::string& name = task_.tables[t].name;
      known.insert(name);
      const auto found = tables.FindMember(name.c_str());
      if (found == tables.MemberEnd()) {
        return Bad(fmt::format("table '{}' of {} is not in the plan", name, task_.file));
      }
      FORETRACE_RETURN_IF_ERROR(ReadTable(t, found->value));
    }
    for (const auto& member : tables.GetObject()) {
      if (!known.contains(member.name.GetString())) {
        return Bad(fmt::format("table '{}' is not in {}", member.name.GetString(), task_.file));
      }
    }
    return std::move(plan_);
  }

 private:
  absl::Status Bad(std::string_view what) const { return InvalidInput("{}: {}", file_, what); }

  absl::Status ReadTable(size_t t, const rapidjson::Value& value) {
    const std::string& name = task_.tables[t].name;
    const auto bad = [&](std::string_view what) {
      return Bad(fmt::format("table '{}': {}", name, what));
    };
    if (!value.IsObject() || !value.HasMember("sharding_type") || !value.HasMember("ranks") ||
        !value["sharding_type"].IsString() || !value["ranks"].IsArray()) {
      return bad("needs a string 'sharding_type' and a list 'ranks'");
    }
    TablePlacement& p = plan_.tables[t];
    const std::string type = value["sharding_type"].GetString();
    for (p.kind = PlacementKind::kTable; p.kind != PlacementKind::kCount;
         p.kind = static_cast<PlacementKind>(static_cast<int>(p.kind) + 1)) {
      if (Name(p.kind) == type) break;
    }
    if (p.kind == PlacementKind::kCount)
      return bad(fmt::format("unknown sharding_type '{}'", type));
    for (const auto& rank : value["ranks"].GetArray()) {
      if (!rank.IsInt()) return bad("'ranks' must hold numbers");
      p.ranks.push_back(rank.GetInt());
    }
    if (value.HasMember("compute_kernel")) {
      const rapidjson::Value& kernel = value["compute_kernel"];
      p.uvm = kernel.IsString() && kernel.GetString() == std::string_view("fused_uvm_caching");
      if (!kernel.IsString() || kernel.GetString() != std::string_view(ComputeKernel(p))) {
        return bad(fmt::format(
            "its 'compute_kernel' cannot be simulated; that of {} is {}", type,
            p.kind == PlacementKind::kDataParallel ? "dense" : "fused or fused_uvm_caching"));
      }
    }
    return CheckShards(t, value);
  }

  // Whether a shard's placement, where it has one, names the rank: "rank:3/cuda:3".
  static bool PlacedOn(const rapidjson::Value& shard, int32_t rank) {
    if (!shard.HasMember("placement")) return true;
    const rapidjson::Value& place = shard["placement"];
    const std::string want = fmt::format("rank:{}", rank);
    if (!place.IsString() || !std::string_view(place.GetString()).starts_with(want)) return false;
    const char after = place.GetString()[want.size()];
    return after == '/' || after == '\0';
  }

  // Other splits than this project's would be simulated wrongly.
  absl::Status CheckShards(size_t t, const rapidjson::Value& value) const {
    const TablePlacement& p = plan_.tables[t];
    const auto spec = value.FindMember("sharding_spec");
    if (spec == value.MemberEnd() || !spec->value.IsObject() || p.ranks.empty()) {
      return absl::OkStatus();
    }
    const auto shards = spec->value.FindMember("shards");
    if (shards == spec->value.MemberEnd() || !shards->value.IsArray()) return absl::OkStatus();
    const std::vector<Shard> expected = ShardsOf(task_.tables[t], static_cast<int32_t>(t), p);
    const auto& list = shards->value.GetArray();
    bool same = list.Size() == expected.size();
    for (rapidjson::SizeType i = 0; same && i < list.Size(); ++i) {
      const Shard& s = expected[i];
      const auto pair = [&](const char* key, int64_t a, int64_t b) {
        if (!list[i].IsObject() || !list[i].HasMember(key)) return false;
        const rapidjson::Value& v = list[i][key];
        return v.IsArray() && v.Size() == 2 && v[0].IsInt64() && v[1].IsInt64() &&
               v[0].GetInt64() == a && v[1].GetInt64() == b;
      };
      same = pair("shard_offsets", s.first_row, s.first_column) &&
             pair("shard_sizes", s.rows, s.columns);
      if (same && !PlacedOn(list[i], p.ranks[i % p.ranks.size()])) {
        return Bad(
            fmt::format("table '{}': shard {} is placed on another rank than 'ranks' says ({})",
                        task_.tables[t].name, i, p.ranks[i % p.ranks.size()]));
      }
    }
    if (same) return absl::OkStatus();
    return Bad(
        fmt::format("table '{}': its shards are not the even split of {} over {} ranks, which is "
                    "all that can be simulated",
                    task_.tables[t].name, Name(p.kind), p.ranks.size()));
  }

  const ShardingTask& task_;
  const std::string& file_;
  ShardingPlan plan_;
};

}  // namespace

std::string PlanJson(const ShardingTask& task, const ShardingPlan& plan, int32_t ranks_per_node) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter w(buffer);
  w.SetIndent(' ', 1);
  w.SetFormatOptions(rapidjson::kFormatSingleLineArray);
  w.StartObject();
  w.Key("sharder");
  w.String(plan.sharder.c_str());
  w.Key("plan");
  w.StartObject();
  for (size_t t = 0; t < plan.tables.size(); ++t) {
    const TablePlacement& p = plan.tables[t];
    w.Key(task.tables[t].name.c_str());
    w.StartObject();
    w.Key("sharding_type");
    w.String(std::string(Name(p.kind)).c_str());
    w.Key("compute_kernel");
    w.String(std::string(ComputeKernel(p)).c_str());
    w.Key("ranks");
    w.StartArray();
    for (const int32_t r : p.ranks) w.Int(r);
    w.EndArray();
    w.Key("sharding_spec");
    if (p.kind == PlacementKind::kDataParallel) {
      w.Null();  // torchrec shards no copies
    } else {
      w.StartObject();
      w.Key("shards");
      w.StartArray();
      const auto shards = ShardsOf(task.tables[t], static_cast<int32_t>(t), p);
      for (size_t i = 0; i < shards.size(); ++i) {
        const Shard& s = shards[i];
        w.StartObject();
        w.Key("shard_offsets");
        w.StartArray();
        w.Int64(s.first_row);
        w.Int64(s.first_column);
        w.EndArray();
        w.Key("shard_sizes");
        w.StartArray();
        w.Int64(s.rows);
        w.Int64(s.columns);
        w.EndArray();
        w.Key("placement");
        w.String(fmt::format("rank:{}/cuda:{}", p.ranks[i], p.ranks[i] % ranks_per_node).c_str());
        w.EndObject();
      }
      w.EndArray();
      w.EndObject();
    }
    w.EndObject();
  }
  w.EndObject();
  w.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

absl::StatusOr<ShardingPlan> ParsePlanJson(const ShardingTask& task, const std::string& text,
                                           const std::string& file) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (document.HasParseError()) {
    return InvalidInput("{}: not JSON at byte {}: {}", file, document.GetErrorOffset(),
                        rapidjson::GetParseError_En(document.GetParseError()));
  }
  return PlanReader(task, file).Read(document);
}

absl::StatusOr<ShardingPlan> ReadPlanJson(const ShardingTask& task, const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxJsonBytes));
  return ParsePlanJson(task, text, file);
}

}  // namespace foretrace
