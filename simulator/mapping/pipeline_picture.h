#pragma once
// Pictures of a pipeline's schedule: which stage runs which pass when.

#include <string>
#include <vector>

#include "simulator/plan/pipeline_timing.h"

namespace foretrace {

struct PictureBox {
  PassKind kind = PassKind::kForward;
  int32_t microbatch = 0;
  int32_t chunk = 0;
  SimTime start, end;
};
struct PictureLane {
  std::string name;
  std::vector<PictureBox> boxes;  // in order of time
};
struct PipelinePicture {
  std::string title;
  SimTime end;
  std::vector<PictureLane> lanes;
};

// Of a timing of that pipeline; one name a stage.
PipelinePicture PictureOf(const TimedPipeline& pipeline, const PipelineTiming& timing,
                          std::vector<std::string> names, std::string title);

// A line a stage of `columns` characters of time: the last digit of the micro-batch going forward,
// its letter a to j going backward, '-' for weights' gradients split off, '.' for idle time. A
// column shows what takes most of it.
std::string PictureText(const PipelinePicture& picture, size_t columns);

// The same as SVG, with a box a pass (figure 3.9 of the GraphPipe paper). Beyond `max_boxes` the
// rest is left out, which the picture says.
std::string PictureSvg(const PipelinePicture& picture, size_t max_boxes = 20'000);

}  // namespace foretrace
