#include "simulator/planning/placement_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/base/json_writer.h"
#include "simulator/base/xml.h"

namespace foretrace {
namespace {

using Align = TextTable::Align;

const KernelChoice& Chosen(const PlacementAnswer& answer, int32_t choice) {
  return answer.choices[static_cast<size_t>(choice)];
}

std::string OpNames(const OperatorDag& dag, const std::vector<int32_t>& ops) {
  std::string text;
  for (const int32_t op : ops) text += (text.empty() ? "" : "+") + dag.op(op).name;
  return text;
}

struct Share {
  int64_t ops = 0;
  int64_t kernels = 0;
  SimTime time;  // with launches
};

std::vector<Share> Shares(const PlacementAnswer& answer) {
  std::vector<Share> shares(answer.backends.size());
  for (const int32_t choice : answer.placement.choices) {
    const KernelChoice& kernel = Chosen(answer, choice);
    Share& share = shares[static_cast<size_t>(kernel.backend)];
    share.ops += static_cast<int64_t>(kernel.ops.size());
    ++share.kernels;
    share.time += kernel.time + answer.launch;
  }
  return shares;
}

const std::string& BackendName(const PlacementAnswer& answer, int32_t backend) {
  return answer.backends[static_cast<size_t>(backend)].name;
}

// Kernels that have the operator, fastest first.
std::vector<const KernelChoice*> Candidates(const PlacementAnswer& answer, int32_t op) {
  std::vector<const KernelChoice*> candidates;
  for (const KernelChoice& choice : answer.choices) {
    if (std::ranges::binary_search(choice.ops, op)) candidates.push_back(&choice);
  }
  std::ranges::stable_sort(candidates, {}, [](const KernelChoice* c) {
    return c->time.us() / static_cast<double>(c->ops.size());
  });
  return candidates;
}

bool IsChosen(const PlacementAnswer& answer, const KernelChoice* candidate) {
  return std::ranges::any_of(answer.placement.choices,
                             [&](int32_t choice) { return &Chosen(answer, choice) == candidate; });
}

std::string ExplanationText(const PlacementAnswer& answer, const TextStyle& style) {
  const int32_t op = *answer.explained;
  TextTable table({{"backend", Align::kLeft},
                   {"time us"},
                   {"with launch us"},
                   {"placed", Align::kLeft},
                   {"operators", Align::kLeft, true}});
  for (const KernelChoice* candidate : Candidates(answer, op)) {
    table.AddRow({BackendName(answer, candidate->backend),
                  fmt::format("{:.3f}", candidate->time.us()),
                  fmt::format("{:.3f}", (candidate->time + answer.launch).us()),
                  IsChosen(answer, candidate) ? "yes" : "", OpNames(*answer.dag, candidate->ops)});
  }
  std::string text = fmt::format("\nKernels that can run {}, by time an operator\n{}",
                                 answer.dag->op(op).name, table.Format(style));
  for (const RefusedMatch& refused : answer.refused) {
    if (refused.root != op) continue;
    text += fmt::format("{}: refused {}\n", BackendName(answer, refused.backend), refused.why);
  }
  return text;
}

}  // namespace

std::string PlacementText(const PlacementAnswer& answer, const TextStyle& style) {
  const OpPlacement& placement = answer.placement;
  std::string text = fmt::format(
      "{}: {} operators, {:.3f} us in {} kernels, of which {:.3f} us are launches of {:.3f} us "
      "each.\nBest of {:.4g} placements (exact). Every time is a recorded one; {} "
      "of {} fitting kernels have no measured time and were not considered.\n\n",
      answer.dag->name(), answer.dag->size(), placement.cost.us(), placement.choices.size(),
      answer.launch.us() * static_cast<double>(placement.choices.size()), answer.launch.us(),
      placement.placements, answer.matches - answer.choices.size(), answer.matches);
  TextTable table({{"backend", Align::kLeft}, {"operators"}, {"kernels"}, {"us"}, {"share %"}});
  const std::vector<Share> shares = Shares(answer);
  for (size_t i = 0; i < shares.size(); ++i) {
    table.AddRow({answer.backends[i].name, std::to_string(shares[i].ops),
                  std::to_string(shares[i].kernels), fmt::format("{:.3f}", shares[i].time.us()),
                  fmt::format("{:.1f}", 100 * shares[i].time.us() / placement.cost.us())});
  }
  text += table.Format(style);
  if (!answer.unknown_types.empty()) {
    text += "\nOf the tables, operators that no backend here names were not used: ";
    for (size_t i = 0; i < answer.unknown_types.size(); ++i) {
      text += (i > 0 ? ", " : "") + answer.unknown_types[i];
    }
    text += "\n";
  }
  if (!answer.ablation.empty()) {
    TextTable steps({{"backends up to", Align::kLeft}, {"us"}, {"operators not covered"}});
    for (const AblationStep& step : answer.ablation) {
      steps.AddRow({step.added,
                    step.cost.has_value() ? fmt::format("{:.3f}", step.cost->us()) : "-",
                    std::to_string(step.uncovered)});
    }
    text += "\n" + steps.Format(style);
  }
  if (answer.explained.has_value()) text += ExplanationText(answer, style);
  return text;
}

std::string PlacementJson(const PlacementAnswer& answer) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  const auto write_kernel = [&](const KernelChoice& kernel) {
    json.StartObject();
    json.Field("backend", BackendName(answer, kernel.backend));
    json.Field("time_us", kernel.time.us());
    json.Field("source", "recorded");
    std::vector<std::string> names;
    for (const int32_t op : kernel.ops) names.push_back(answer.dag->op(op).name);
    json.Field("operators", names);
    json.EndObject();
  };
  json.StartObject();
  json.Field("network", answer.dag->name());
  json.Field("operators", int64_t{answer.dag->size()});
  json.Field("cost_us", answer.placement.cost.us());
  json.Field("launch_us", answer.launch.us());
  json.Field("placements", answer.placement.placements);
  json.Field("exact", true);
  json.Field("unknown_operators", answer.unknown_types);
  json.Key("kernels");
  json.StartArray();
  for (const int32_t choice : answer.placement.choices) write_kernel(Chosen(answer, choice));
  json.EndArray();
  json.Key("backends");
  json.StartArray();
  const std::vector<Share> shares = Shares(answer);
  for (size_t i = 0; i < shares.size(); ++i) {
    json.StartObject();
    json.Field("name", answer.backends[i].name);
    json.Field("operators", shares[i].ops);
    json.Field("kernels", shares[i].kernels);
    json.Field("time_us", shares[i].time.us());
    json.EndObject();
  }
  json.EndArray();
  json.Key("ablation");
  json.StartArray();
  for (const AblationStep& step : answer.ablation) {
    json.StartObject();
    json.Field("backends_up_to", step.added);
    json.Key("cost_us");
    if (step.cost.has_value()) {
      json.Double(step.cost->us());
    } else {
      json.Null();
    }
    json.Field("operators_not_covered", static_cast<int64_t>(step.uncovered));
    json.EndObject();
  }
  json.EndArray();
  if (answer.explained.has_value()) {
    json.Key("candidates");
    json.StartArray();
    for (const KernelChoice* kernel : Candidates(answer, *answer.explained)) write_kernel(*kernel);
    json.EndArray();
  }
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string PlacementSvg(const PlacementAnswer& answer) {
  constexpr std::array<const char*, 8> kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                                   "#b07aa1", "#edc948", "#76b7b2", "#9c755f"};
  constexpr int kWidth = 900, kRow = 18;
  const int rows = static_cast<int>(answer.placement.choices.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      kWidth, (rows + 2) * kRow);
  int x = 4;
  const auto colour = [&](int32_t backend) {
    return kColours[static_cast<size_t>(backend) % kColours.size()];
  };
  for (int32_t i = 0; i < static_cast<int32_t>(answer.backends.size()); ++i) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"3\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" "
        "y=\"13\">{}</text>\n",
        x, colour(i), x + 16, XmlText(BackendName(answer, i)));
    x += 110;
  }
  int y = 2 * kRow;
  for (const int32_t choice : answer.placement.choices) {
    const KernelChoice& kernel = Chosen(answer, choice);
    svg += fmt::format(
        "<rect x=\"4\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\"/><text x=\"10\" "
        "y=\"{}\" fill=\"white\">{}</text><text x=\"{}\" y=\"{}\">{:.3f} us</text>\n",
        y - kRow / 2, kWidth - 120, kRow - 3, colour(kernel.backend), y + 3,
        XmlText(Shorten(OpNames(*answer.dag, kernel.ops), 120)), kWidth - 100, y + 3,
        kernel.time.us());
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace foretrace
