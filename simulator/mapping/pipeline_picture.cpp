#include "simulator/mapping/pipeline_picture.h"
#include "simulator/base/xml.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace foretrace {
namespace {

char Symbol(const PictureBox& box) {
  switch (box.kind) {
    case PassKind::kForward:
      return static_cast<char>('0' + box.microbatch % 10);
    case PassKind::kBackwardWeight:
      return '-';
    default:
      return static_cast<char>('a' + box.microbatch % 10);
  }
}

// Fills: forward, backward, input gradient, weight gradient.
constexpr std::array<std::string_view, 4> kFills = {"#a8c8f0", "#b8e0b0", "#b8e0b0", "#f0d8a0"};

}  // namespace

PipelinePicture PictureOf(const TimedPipeline& pipeline, const PipelineTiming& timing,
                          std::vector<std::string> names, std::string title) {
  PipelinePicture picture;
  picture.title = std::move(title);
  picture.end = timing.end;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const TimedStage& stage = pipeline.stages[s];
    PictureLane lane;
    lane.name = std::move(names[s]);
    for (size_t i = 0; i < stage.passes.size(); ++i) {
      const Pass& pass = stage.passes[i];
      lane.boxes.push_back(
          {pass.kind, pass.microbatch, pass.chunk, timing.pass_start[s][i], timing.pass_end[s][i]});
    }
    picture.lanes.push_back(std::move(lane));
  }
  return picture;
}

std::string PictureText(const PipelinePicture& picture, size_t columns) {
  std::string text = picture.title + "\n";
  if (picture.end == SimTime() || columns == 0) return text;
  size_t width = 0;
  for (const PictureLane& lane : picture.lanes) width = std::max(width, lane.name.size());
  const double column = static_cast<double>(picture.end.ps()) / static_cast<double>(columns);
  for (const PictureLane& lane : picture.lanes) {
    std::string line(columns, '.');
    // What takes most of each column; a column is idle if that is less than half of it.
    std::vector<double> most(columns, column / 2);
    for (const PictureBox& box : lane.boxes) {
      const double from = static_cast<double>(box.start.ps()) / column;
      const double to = static_cast<double>(box.end.ps()) / column;
      for (auto c = static_cast<size_t>(from); c < columns && static_cast<double>(c) < to; ++c) {
        const double share =
            (std::min(to, static_cast<double>(c + 1)) - std::max(from, static_cast<double>(c))) *
            column;
        if (share < most[c]) continue;
        most[c] = share;
        line[c] = Symbol(box);
      }
    }
    text += fmt::format("{:<{}} |{}|\n", lane.name, width, line);
  }
  text += fmt::format("{:<{}}  0{:>{}}\n", "", width,
                      fmt::format("{:.3f} ms", picture.end.us() * 1e-3), columns - 1);
  text +=
      "digits: micro-batch going forward; letters a-j: 0-9 going backward; -: weights' "
      "gradients; .: idle\n";
  return text;
}

std::string PictureSvg(const PipelinePicture& picture, size_t max_boxes) {
  constexpr double kWidth = 1600, kLane = 28, kTop = 30;
  size_t name = 0, boxes = 0;
  for (const PictureLane& lane : picture.lanes) name = std::max(name, lane.name.size());
  const double left = 7.0 * static_cast<double>(name) + 12;
  const double height = kTop + kLane * static_cast<double>(picture.lanes.size()) + 24;
  const double scale = kWidth / std::max(picture.end.us(), 1e-9);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<text x=\"4\" y=\"16\">{}</text>\n",
      left + kWidth + 10, height, XmlText(picture.title));
  bool cut = false;
  for (size_t s = 0; s < picture.lanes.size(); ++s) {
    const double y = kTop + kLane * static_cast<double>(s);
    svg += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>\n", y + 17,
                       XmlText(picture.lanes[s].name));
    // An equal share of the boxes to every stage.
    const size_t limit = max_boxes / std::max<size_t>(picture.lanes.size(), 1);
    boxes = 0;
    for (const PictureBox& box : picture.lanes[s].boxes) {
      if (++boxes > limit) {
        cut = true;
        break;
      }
      const double x = left + box.start.us() * scale, w = (box.end - box.start).us() * scale;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"24\" fill=\"{}\" "
          "stroke=\"#555\" stroke-width=\"0.5\"><title>{} {} chunk {}: {:.1f} to {:.1f} us</title>"
          "</rect>\n",
          x, y, w, kFills[static_cast<size_t>(box.kind)],
          box.kind == PassKind::kForward ? "forward" : "backward", box.microbatch, box.chunk,
          box.start.us(), box.end.us());
      if (w > 9) {
        svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                           x + w / 2, y + 16, box.microbatch);
      }
    }
  }
  svg += fmt::format("<text x=\"4\" y=\"{:.0f}\">{:.3f} ms{}</text>\n</svg>\n", height - 8,
                     picture.end.us() * 1e-3, cut ? "; later passes are left out" : "");
  return svg;
}

}  // namespace foretrace
