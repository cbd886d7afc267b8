#include "simulator/report/absent_text.h"

#include <fmt/format.h>

namespace foretrace {

std::string AbsentText(const AbsentInterval& interval, bool what_if) {
  const AbsentInterval& a = interval;
  std::string text = fmt::format(
      "  between {:.1f} and {:.1f} us, by what stands in for ranks without a trace ({}) in {} "
      "rendezvous\n  (communicators: {}): {:.1f} us never last, {:.1f} us alike, ",
      a.lower().us(), a.upper().us(), a.absent, a.rendezvous, a.communicators, a.never_last.us(),
      a.alike.us());
  if (what_if) text += fmt::format("{:.1f} us alike and changed likewise, ", a.changed_alike.us());
  return text + fmt::format("{:.1f} us as recorded\n", a.as_recorded.us());
}

}  // namespace foretrace
