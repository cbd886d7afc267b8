#include "simulator/serve/request.h"

#include <algorithm>

namespace foretrace::serve {

void SortByArrival(RequestTrace& trace) {
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
}

}  // namespace foretrace::serve
