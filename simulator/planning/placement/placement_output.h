#pragma once
// A placement of a network on backends, as text, JSON and a picture.

#include <optional>
#include <string>
#include <vector>

#include "simulator/backends/backend.h"
#include "simulator/backends/graph_placement.h"
#include "simulator/backends/op_placement.h"
#include "simulator/backends/operator_view.h"
#include "simulator/backends/pattern_generator.h"
#include "simulator/base/json_writer.h"
#include "simulator/report/text_table.h"

namespace foretrace {

struct AblationStep {
  std::string added;  // to the backends of the steps before
  size_t uncovered = 0;
  std::optional<SimTime> cost;
};

struct PlacementAnswer {
  const OperatorView* dag = nullptr;
  std::vector<Backend> backends;
  size_t matches = 0;
  std::vector<KernelChoice> choices;  // those of the matches with a time
  std::vector<RefusedMatch> refused;
  std::vector<std::string> unknown_types;  // in the tables, but of no backend
  SimTime launch;
  OpPlacement placement;            // by operator
  std::vector<OpPlacement> ranked;  // the cheapest ones by operator, where asked for
  std::optional<EngineCall> engine;
  std::optional<GraphPlacement> graph;  // with calls of the engine
  std::vector<AblationStep> ablation;
  std::optional<int32_t> explained;
  std::vector<std::string> notes;

  // The cheapest there is.
  const OpPlacement& best() const {
    return graph.has_value() && graph->best().cost < placement.cost ? graph->best() : placement;
  }
};

std::string PlacementText(const PlacementAnswer& answer, const TextStyle& style);
std::string PlacementJson(const PlacementAnswer& answer);
// Of these, the ranked placements, where there are several, and the candidates of the operator that
// is explained.
std::string PlacementDetails(const PlacementAnswer& answer, const TextStyle& style);
void WritePlacementDetails(const PlacementAnswer& answer, JsonWriter& json);
// The graph from top to bottom, each operator in its backend's colour and with the number of its
// kernel (figure 2.12).
std::string PlacementSvg(const PlacementAnswer& answer);

}  // namespace foretrace
