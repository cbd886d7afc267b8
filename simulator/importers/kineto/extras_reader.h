#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/importers/kineto/event_reader.h"
#include "simulator/importers/profile_extras.h"

namespace foretrace::kineto {

// The extras of one profile. Events that do not say when they were are passed over: importing the
// same file judges it.
class ExtrasReader : public EventSink {
 public:
  explicit ExtrasReader(std::string source) { extras_.source = std::move(source); }

  absl::Status OnEvent(const Event& event) override;
  absl::Status OnHeader(std::string_view key, std::string_view json_text) override;
  ProfileExtras Finish();

 private:
  void AddFrame(const Event& event, const ThreadSpan& at);
  void AddMemory(const Event& event, const ThreadSpan& at);

  ProfileExtras extras_;
  absl::flat_hash_map<std::string, uint32_t> index_;
  int64_t base_ns_ = 0;
};

}  // namespace foretrace::kineto
