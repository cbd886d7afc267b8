#include "simulator/network/simgrid/worker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "simulator/base/error.h"

namespace foretrace {

bool WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t done = read(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

absl::StatusOr<Worker> StartWorker(const std::function<void(int, int)>& body) {
  int down[2];
  int up[2];
  if (pipe(down) != 0) {
    return absl::InternalError(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  }
  if (pipe(up) != 0) {
    close(down[0]);
    close(down[1]);
    return absl::InternalError(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  }
  // Output that waits in stdio buffers must not come out twice.
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(down[1]);
    close(up[0]);
    std::signal(SIGPIPE, SIG_IGN);
    // What the parent watches for by a thread of its own (Ctrl-C) ends a child at once.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    body(down[0], up[1]);
    _exit(0);
  }
  close(down[0]);
  close(up[1]);
  if (pid < 0) {
    close(down[1]);
    close(up[0]);
    return absl::InternalError(fmt::format("cannot start a worker: {}", std::strerror(errno)));
  }
  return Worker{pid, up[0], down[1]};
}

void StopWorker(Worker& worker) {
  if (worker.pid < 0) return;
  close(worker.in);
  close(worker.out);
  while (waitpid(worker.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  worker.pid = -1;
}

}  // namespace foretrace
