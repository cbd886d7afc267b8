#pragma once
// The process that holds a SimGrid engine, and the pipe to it.

#include <sys/types.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace {

struct Worker {
  pid_t pid = -1;
  int in = -1;   // read here what the worker writes
  int out = -1;  // write here what the worker reads
};

// Forks; the child runs `body(read_fd, write_fd)` and exits. SimGrid must not have been used in the
// calling process.
absl::StatusOr<Worker> StartWorker(const std::function<void(int, int)>& body);
// Closes the pipes and waits for the worker to end.
void StopWorker(Worker& worker);

// Whole buffers; false on end of file or error.
bool WriteAll(int fd, const void* data, size_t size);
bool ReadAll(int fd, void* data, size_t size);

}  // namespace foretrace
