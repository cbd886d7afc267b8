#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/base/string_pool.h"
#include "simulator/engine/observer.h"
#include "simulator/exporters/timeline/timeline_writer.h"

namespace foretrace {

// Names are made ready once each.
class TimelineNames {
 public:
  explicit TimelineNames(const StringPool& strings) : strings_(strings), texts_(strings.size()) {
    for (size_t i = 0; i < waits_.size(); ++i) {
      waits_[i].emplace(fmt::format("wait: {}", Name(static_cast<WaitCause>(i))));
    }
  }
  const TimelineText& Of(StringId name) {
    std::optional<TimelineText>& text = texts_[name.value];
    if (!text.has_value()) {
      // A hostile name must not blow up the file by its repetitions.
      const std::string_view full = strings_.Get(name);
      text.emplace(full.substr(0, 1000));
    }
    return *text;
  }
  const TimelineText& Wait(WaitCause cause) const { return *waits_[static_cast<size_t>(cause)]; }

 private:
  const StringPool& strings_;
  std::vector<std::optional<TimelineText>> texts_;
  std::array<std::optional<TimelineText>, static_cast<size_t>(WaitCause::kCount)> waits_;
};

}  // namespace foretrace
