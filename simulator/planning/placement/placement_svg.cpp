#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/base/xml.h"
#include "simulator/planning/placement/placement_output.h"

namespace foretrace {
namespace {

constexpr std::array<const char*, 8> kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                                 "#b07aa1", "#edc948", "#76b7b2", "#9c755f"};
constexpr int kMostColumns = 12;  // of recordings, whose operators may follow from nothing
constexpr int kColumn = 190, kRow = 34, kWidth = 170, kHeight = 20, kTop = 40;

const char* Colour(int32_t backend) {
  return kColours[static_cast<size_t>(backend) % kColours.size()];
}

struct Place {
  int row = 0;  // longest way from an input of the graph, or further down where that is full
  int column = 0;
  int x() const { return 10 + column * kColumn; }
  int y() const { return kTop + row * kRow; }
};

std::vector<Place> Layout(const OperatorView& dag) {
  std::vector<Place> places(static_cast<size_t>(dag.size()));
  std::vector<int> used;  // columns, by row
  for (int32_t id = 0; id < dag.size(); ++id) {
    Place& place = places[static_cast<size_t>(id)];
    for (const int32_t input : dag.op(id).inputs) {
      if (input == kNoProducer) continue;
      place.row = std::max(place.row, places[static_cast<size_t>(input)].row + 1);
    }
    const auto width = [&](int row) -> int& {
      used.resize(std::max(used.size(), static_cast<size_t>(row) + 1));
      return used[static_cast<size_t>(row)];
    };
    while (width(place.row) == kMostColumns) ++place.row;
    place.column = width(place.row)++;
  }
  return places;
}

}  // namespace

std::string PlacementSvg(const PlacementAnswer& answer) {
  const OperatorView& dag = *answer.dag;
  const std::vector<Place> places = Layout(dag);
  int right = 0, bottom = 0;
  for (const Place& place : places) {
    right = std::max(right, place.x() + kColumn);
    bottom = std::max(bottom, place.y() + kRow);
  }
  right = std::max(right, 20 + 110 * static_cast<int>(answer.backends.size()));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"10\">\n",
      right, bottom);
  int x = 10;
  for (int32_t i = 0; i < static_cast<int32_t>(answer.backends.size()); ++i, x += 110) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"5\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" "
        "y=\"15\">{}</text>\n",
        x, Colour(i), x + 16, XmlText(answer.backends[static_cast<size_t>(i)].name));
  }
  for (int32_t id = 0; id < dag.size(); ++id) {
    const Place& to = places[static_cast<size_t>(id)];
    for (const int32_t input : dag.op(id).inputs) {
      if (input == kNoProducer) continue;
      const Place& from = places[static_cast<size_t>(input)];
      svg += fmt::format("<path d=\"M{} {}L{} {}\" stroke=\"#999\"/>\n", from.x() + kWidth / 2,
                         from.y() + kHeight, to.x() + kWidth / 2, to.y());
    }
  }
  const OpPlacement& best = answer.best();
  for (size_t k = 0; k < best.choices.size(); ++k) {
    const KernelChoice& kernel = answer.choices[static_cast<size_t>(best.choices[k])];
    const bool in_call = best.calls[k] >= 0;
    for (const int32_t id : kernel.ops) {
      const Place& place = places[static_cast<size_t>(id)];
      const std::string label = fmt::format("{} {}", k + 1, dag.op(id).name);
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\"{}><title>{}: "
          "kernel "
          "{} of {}, {:.3f} us</title></rect><text x=\"{}\" y=\"{}\" fill=\"white\">{}</text>\n",
          place.x(), place.y(), kWidth, kHeight, Colour(kernel.backend),
          in_call ? " stroke=\"black\"" : "", XmlText(dag.op(id).type), k + 1,
          XmlText(answer.backends[static_cast<size_t>(kernel.backend)].name), kernel.time.us(),
          place.x() + 6, place.y() + 14, XmlText(Shorten(label, 26)));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace foretrace
