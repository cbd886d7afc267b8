#include "simulator/replay/what_if/work_listing.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/utf8.h"
#include "simulator/report/report_json.h"

namespace foretrace {
namespace {

using ByName = absl::flat_hash_map<uint32_t, ListedWork>;  // by StringId

SimTime Recorded(const RankTrace& rank, NodeIndex n) {
  return rank.has_duration(n) ? rank.duration(n) : SimTime();
}

std::vector<ListedWork> Sorted(const TraceStore& store, ByName by_name) {
  std::vector<ListedWork> list;
  for (auto& [name, work] : by_name) {
    work.name = ValidUtf8(store.strings().Get(StringId(name)));
    list.push_back(std::move(work));
  }
  std::sort(list.begin(), list.end(), [](const ListedWork& a, const ListedWork& b) {
    return std::tuple(-a.device.ps(), -a.cpu.ps(), a.name) <
           std::tuple(-b.device.ps(), -b.cpu.ps(), b.name);
  });
  return list;
}

}  // namespace

std::vector<ListedWork> ListKernels(const TraceStore& store) {
  ByName kernels;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsDeviceKind(rank.kind(n))) continue;
      ListedWork& work = kernels[rank.name(n).value];
      ++work.count;
      work.device += Recorded(rank, n);
    }
  }
  return Sorted(store, std::move(kernels));
}

std::vector<ListedWork> ListOps(const TraceStore& store) {
  ByName ops;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const bool device = IsDeviceKind(rank.kind(n));
      if (rank.kind(n) == NodeKind::kCpuOp) {
        ListedWork& work = ops[rank.name(n).value];
        ++work.count;
        work.cpu += Recorded(rank, n);
      }
      if (!device) continue;
      const NodeIndex launcher = rank.launcher(n);
      std::vector<StringId> counted;
      for (NodeIndex at = rank.parent(launcher.valid() ? launcher : n); at.valid();
           at = rank.parent(at)) {
        const StringId name = rank.name(at);
        if (std::find(counted.begin(), counted.end(), name) != counted.end()) continue;
        counted.push_back(name);
        ops[name.value].device += Recorded(rank, n);
      }
    }
  }
  return Sorted(store, std::move(ops));
}

std::string WorkListText(const std::vector<ListedWork>& list, bool ops, const TextStyle& style) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns = {{"device us"}};
  if (ops) columns.push_back({"CPU us"});
  columns.push_back({"count"});
  columns.push_back(
      {ops ? "op (select with op=, cpu=)" : "kernel (select with name=)", Align::kLeft, true});
  TextTable table(columns);
  for (const ListedWork& work : list) {
    std::vector<std::string> row = {fmt::format("{:.1f}", work.device.us())};
    if (ops) row.push_back(fmt::format("{:.1f}", work.cpu.us()));
    row.push_back(fmt::format("{}", work.count));
    row.push_back(work.name);
    table.AddRow(std::move(row));
  }
  return table.Format(style);
}

std::string WorkListJson(const std::vector<ListedWork>& list, bool ops) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key(ops ? "ops" : "kernels");
  json.StartArray();
  for (const ListedWork& work : list) {
    json.StartObject();
    json.Key("name");
    json.String(work.name.data(), static_cast<rapidjson::SizeType>(work.name.size()));
    json.Key("count");
    json.Int64(work.count);
    json.Key("device_us");
    json.Double(work.device.us());
    if (ops) {
      json.Key("cpu_us");
      json.Double(work.cpu.us());
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
