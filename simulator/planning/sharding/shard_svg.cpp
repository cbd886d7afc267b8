#include <fmt/format.h>

#include "simulator/base/xml.h"
#include "simulator/planning/sharding/shard_output.h"

namespace foretrace {
namespace {

constexpr double kLeft = 60, kWidth = 720, kRow = 18, kTop = 70;

struct Piece {
  std::string_view label;
  std::string_view colour;
  SimTime time;
};

std::vector<Piece> PiecesOf(const RankLoad& load) {
  const auto busy = [&](WorkPart part) { return load.busy[static_cast<size_t>(part)]; };
  return {{"lookup forward", "#1b6ca8", busy(WorkPart::kLookupForward)},
          {"lookup backward", "#63a4d4", busy(WorkPart::kLookupBackward)},
          {"dense", "#4f9d69", busy(WorkPart::kDense)},
          {"optimizer", "#a3c9a8", busy(WorkPart::kOptimizer)},
          {"exposed transfer", "#d1495b", load.exposed_transfer},
          {"waiting for ranks", "#edae49", load.waiting},
          {"idle", "#dddddd", load.idle}};
}

}  // namespace

std::string LoadSvg(const ShardingTask& task, const RankedPlan& plan) {
  const PlanEvaluation& e = plan.evaluation;
  const double height = kTop + kRow * static_cast<double>(e.ranks.size()) + 20;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n<text x=\"10\" y=\"20\" font-size=\"14\">{}: {}, {:.1f} us an "
      "iteration</text>\n",
      kLeft + kWidth + 20, height, XmlText(task.name), XmlText(plan.plan.sharder),
      e.iteration.us());
  double x = 10;
  for (const Piece& piece : PiecesOf(e.ranks.front())) {
    out += fmt::format(
        "<rect x=\"{:.0f}\" y=\"34\" width=\"10\" height=\"10\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"43\">{}</text>\n",
        x, piece.colour, x + 14, piece.label);
    x += 24 + 6.5 * static_cast<double>(piece.label.size());
  }
  const double scale = e.iteration > SimTime() ? kWidth / e.iteration.us() : 0;
  for (size_t r = 0; r < e.ranks.size(); ++r) {
    const double y = kTop + kRow * static_cast<double>(r);
    out += fmt::format("<text x=\"10\" y=\"{:.1f}\">rank {}</text>\n", y + 12, r);
    double at = kLeft;
    for (const Piece& piece : PiecesOf(e.ranks[r])) {
      const double width = piece.time.us() * scale;
      if (width <= 0) continue;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
          "fill=\"{}\"><title>{} {:.1f} us</title></rect>\n",
          at, y, width, kRow - 4, piece.colour, piece.label, piece.time.us());
      at += width;
    }
  }
  return out + "</svg>\n";
}

}  // namespace foretrace
