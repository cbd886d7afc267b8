#include "simulator/planning/architect/architect_report.h"

#include <fmt/format.h>

#include <cmath>

#include "simulator/base/csv.h"
#include "simulator/base/gib.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/utf8.h"
#include "simulator/console/output.h"

namespace foretrace {
namespace {

std::string Placement(const ModelPlan& p) {
  return fmt::format("{{{},{},{}}}", p.placement.stages.size(), p.placement.data_parallel,
                     p.placement.width);
}

std::string ProofLine(const ScheduleStatistics& s) {
  std::string line = fmt::format("{} of {} layer schedules proven optimal", s.proven, s.layers);
  if (s.proven < s.layers) {
    line += fmt::format("; the others are at most {:.1f} % above their bounds", 100 * s.worst_gap);
  }
  return line + "\n";
}

void PlanFields(JsonWriter& json, const ModelPlan& plan) {
  json.StartObject();
  json.Field("throughput_samples_per_s", plan.throughput);
  json.Field("pipeline_stages", static_cast<int64_t>(plan.placement.stages.size()));
  json.Field("data_parallel", plan.placement.data_parallel);
  json.Field("tensor_parallel", plan.placement.width);
  json.Field("micro_batch", plan.placement.micro_batch);
  json.Field("recompute", plan.placement.recompute);
  json.Field("mfu", plan.mfu);
  json.EndObject();
}

void DesignFields(JsonWriter& json, const SizedDesign& d) {
  json.StartObject();
  json.Field("tensor_cores", d.design.tensor_cores);
  json.Field("vector_cores", d.design.vector_cores);
  json.Field("width", d.design.width);
  json.Field("depth", d.design.depth);
  json.Field("buffer_MB", d.design.buffer_MB);
  json.Field("area_mm2", d.area.mm2());
  if (d.watts > 0) json.Field("watts", d.watts);
  if (d.dollars > 0) json.Field("dollars", d.dollars);
  json.EndObject();
}

void SearchFields(JsonWriter& json, const ArchitectResult& r) {
  json.Field("designs", r.designs);
  json.Field("evaluated", static_cast<int64_t>(r.evaluated.size()));
  json.Field("bounded", r.bounded);
  json.Field("layer_schedules", r.statistics.layers);
  json.Field("layer_schedules_proven", r.statistics.proven);
  json.Field("worst_gap", r.statistics.worst_gap);
}

// Points of (x, y) with y from 0, as an SVG of fixed size.
struct Point {
  double x = 0, y = 0;
};
std::string Plot(const std::vector<Point>& points, std::string_view x, std::string_view y,
                 bool line) {
  double low = points.front().x, high = low, top = 0;
  for (const Point& p : points) {
    low = std::min(low, p.x);
    high = std::max(high, p.x);
    top = std::max(top, p.y);
  }
  const double span = high > low ? high - low : 1;
  top = top > 0 ? top : 1;
  std::string svg =
      "<svg viewBox='0 0 640 300' width='640' height='300' role='img'>"
      "<path d='M60 10V260H630' fill='none' stroke='#888'/>";
  std::string path;
  for (const Point& p : points) {
    const double px = 60 + 560 * (p.x - low) / span, py = 260 - 240 * p.y / top;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
    if (!line) svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='2' fill='#247'/>", px, py);
  }
  if (line) svg += fmt::format("<path d='{}' fill='none' stroke='#247'/>", path);
  svg += fmt::format("<text x='60' y='285'>{} from {:.6g} to {:.6g}</text>", x, low, high);
  svg += fmt::format("<text x='66' y='16'>{} up to {:.6g}</text></svg>\n", y, top);
  return svg;
}

std::string Plots(const ArchitectResult& search) {
  std::vector<Point> convergence, areas;
  double best = 0;
  for (const EvaluatedDesign& e : search.evaluated) {
    best = std::max(best, e.score);
    convergence.push_back({static_cast<double>(convergence.size() + 1), best});
    if (e.score > 0) areas.push_back({e.design.area.mm2(), e.score});
  }
  return Plot(convergence, "designs evaluated", "best score", true) +
         Plot(areas, "area in mm2", "score", false);
}

// Shares of the peak as table 5 has them, and what the design gains.
std::string AgainstCap(const ArchitectReport& r, const TextStyle& style) {
  using Align = TextTable::Align;
  if (!r.space.cap_design.has_value()) return "";
  TextTable table({{"model", Align::kLeft, true},
                   {"samples/s"},
                   {"{p,d,t}", Align::kLeft},
                   {"MFU %"},
                   {"common samples/s"},
                   {"MFU %"},
                   {"times"}});
  for (const ModelFindings& m : r.models) {
    if (!m.on_cap.has_value()) continue;
    table.AddRow({m.name, fmt::format("{:.1f}", m.on_cap->throughput), Placement(*m.on_cap),
                  fmt::format("{:.1f}", 100 * m.on_cap->mfu),
                  fmt::format("{:.1f}", m.common.throughput),
                  fmt::format("{:.1f}", 100 * m.common.mfu),
                  fmt::format("{:.2f}", m.common.throughput / m.on_cap->throughput)});
  }
  return fmt::format("\nAgainst the design of the cap, {}\n{}", Describe(*r.space.cap_design),
                     table.Format(style));
}

// "32, 64 or 80".
std::string SizesText(const std::vector<Bytes>& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 < sizes.size() ? ", " : " or ";
    text += between + fmt::format("{:g}", Gib(sizes[i]));
  }
  return text;
}

// The best common design, its machine and what it takes and costs.
std::string BestDesign(const ArchitectReport& r, bool sizes) {
  std::string out =
      fmt::format("Verdict: the best common design is {}, {:.1f} mm2 ({:.1f} % of the cap)\n",
                  Describe(r.best().design.design), r.best().design.area.mm2(),
                  100 * r.best().design.area.um2() / r.space.cap.um2());
  if (sizes) out += fmt::format("with {:g} GiB of HBM\n", Gib(r.training.hbm));
  if (r.space.machines.size() > 1) {
    out += fmt::format("with {:g} GB/s of memory and links of {:g} GB/s, of {} machines\n",
                       r.machine.hbm.gbps(), r.machine.link.gbps(), r.space.machines.size());
  }
  const auto at_most = [](const CostRates& rates) {
    return std::isinf(rates.cap) ? "" : fmt::format(", {:g} at most", rates.cap);
  };
  if (r.space.watts) {
    out += fmt::format("{:.1f} W by the space's rates{}\n", r.best().design.watts,
                       at_most(*r.space.watts));
  }
  if (r.space.dollars) {
    out += fmt::format("{:.0f} USD by the space's rates{}\n", r.best().design.dollars,
                       at_most(*r.space.dollars));
  }
  return out;
}

}  // namespace

std::string FormatArchitect(const ArchitectReport& r, TextStyle style) {
  using Align = TextTable::Align;
  const bool sizes = r.memory_sizes.size() > 1;
  TextTable table({{"model", Align::kLeft, true},
                   {sizes ? "best design and HBM" : "best design", Align::kLeft},
                   {"area %"},
                   {"samples/s"},
                   {"{p,d,t}", Align::kLeft},
                   {"mbs"},
                   {"recompute", Align::kLeft},
                   {"MFU %"},
                   {"common samples/s"},
                   {"MFU %"},
                   {"iteration s"},
                   {"simulated s"}});
  for (const ModelFindings& m : r.models) {
    const ModelPlan& p = m.best().plans[0];
    table.AddRow(
        {m.name,
         Describe(m.best().design.design) + (sizes ? fmt::format(" {:g} GiB", Gib(m.hbm)) : ""),
         fmt::format("{:.1f}", 100 * m.best().design.area.um2() / r.space.cap.um2()),
         fmt::format("{:.1f}", p.throughput), Placement(p),
         fmt::format("{}", p.placement.micro_batch), p.placement.recompute ? "yes" : "no",
         fmt::format("{:.1f}", 100 * p.mfu), fmt::format("{:.1f}", m.common.throughput),
         fmt::format("{:.1f}", 100 * m.common.mfu),
         fmt::format("{:.4g}", m.common.placement.batch.seconds()),
         m.simulated > SimTime() ? fmt::format("{:.4g}", m.simulated.seconds()) : "-"});
  }
  std::string out = BestDesign(r, sizes);
  out += fmt::format("Space {}: {} designs of feasible area, {} devices, {} GiB of HBM each\n\n",
                     r.space.name, r.common.designs, r.training.devices, SizesText(r.memory_sizes));
  out += table.Format(style) + "\n";
  out += AgainstCap(r, style) + "\n";
  for (const ModelFindings& m : r.models) {
    out += fmt::format("{}: {} designs evaluated, {} left out by bounds; ", m.name,
                       m.search.evaluated.size(), m.search.bounded);
    if (!r.exact) out += fmt::format("{} buckets of area; ", m.search.buckets);
    if (r.exact && r.hysteresis > 0) {
      out += fmt::format("hysteresis {} loses {:.1f} %; ", r.hysteresis, 100 * m.hysteresis_loss);
    }
    out += ProofLine(m.search.statistics);
  }
  for (const std::string& note : r.notes) out += "Note: " + note + "\n";
  return out;
}

std::string ArchitectJson(const ArchitectReport& r) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("space", r.space.name);
  json.Field("search", r.exact ? "exact" : "hysteresis");
  json.Field("hysteresis", r.hysteresis);
  json.Field("devices", r.training.devices);
  json.Field("objective", std::string(Name(r.objective)));
  json.Field("hbm_GiB", Gib(r.training.hbm));
  json.Field("hbm_GBps", r.machine.hbm.gbps());
  json.Field("link_GBps", r.machine.link.gbps());
  if (!r.notes.empty()) json.Field("notes", r.notes);
  json.Key("common");
  json.StartObject();
  json.Key("design");
  DesignFields(json, r.best().design);
  SearchFields(json, r.common);
  json.EndObject();
  json.Key("models");
  json.StartArray();
  for (const ModelFindings& m : r.models) {
    json.StartObject();
    json.Field("name", m.name);
    json.Field("weight", m.weight);
    json.Field("hbm_GiB", Gib(m.hbm));
    json.Key("design");
    DesignFields(json, m.best().design);
    json.Key("plan");
    PlanFields(json, m.best().plans[0]);
    json.Key("plan_on_common");
    PlanFields(json, m.common);
    if (m.on_cap.has_value()) {
      json.Key("plan_on_cap");
      PlanFields(json, *m.on_cap);
    }
    json.Field("iteration_on_common_s", m.common.placement.batch.seconds());
    if (m.simulated > SimTime()) {
      json.Field("simulated_iteration_on_common_s", m.simulated.seconds());
    }
    if (r.exact && r.hysteresis > 0) json.Field("hysteresis_loss", m.hysteresis_loss);
    SearchFields(json, m.search);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string DesignsCsv(const ArchitectReport& r) {
  std::string out =
      "model,order,tensor_cores,vector_cores,width,depth,buffer_MB,area_mm2,samples_per_s,"
      "pipeline_stages,data_parallel,tensor_parallel,micro_batch,recompute,mfu\n";
  for (const ModelFindings& m : r.models) {
    size_t order = 0;
    for (const EvaluatedDesign& e : m.search.evaluated) {
      ++order;
      if (e.plans.empty()) continue;
      const AcceleratorDesign& d = e.design.design;
      const ModelPlan& p = e.plans[0];
      out += CsvLineOf(OneLine(m.name), order, d.tensor_cores, d.vector_cores, d.width, d.depth,
                       d.buffer_MB, fmt::format("{:.6f}", e.design.area.mm2()),
                       fmt::format("{:.6f}", p.throughput), p.placement.stages.size(),
                       p.placement.data_parallel, p.placement.width, p.placement.micro_batch,
                       p.placement.recompute ? 1 : 0, fmt::format("{:.6f}", p.mfu));
    }
  }
  return out;
}

std::string ArchitectPage(const ArchitectReport& r) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      // HTML has no control characters but those of white space.
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n') {
        out += '?';
        continue;
      }
      out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    return out;
  };
  std::string page =
      "<!DOCTYPE html><meta charset='utf-8'><title>Accelerators</title>"
      "<style>body{font:14px sans-serif}svg text{font:12px sans-serif}</style><pre>" +
      escaped(FormatArchitect(r, TextStyle{})) + "</pre>\n";
  for (const ModelFindings& m : r.models) {
    page += "<h2>" + escaped(m.name) + "</h2>\n" + Plots(m.search);
  }
  if (r.models.size() > 1) page += "<h2>All models</h2>\n" + Plots(r.common);
  return page;
}

}  // namespace foretrace
