#include "simulator/api/background.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/cli/program.h"
#include "simulator/console/command.h"
#include "simulator/replay/trace_options.h"

namespace foretrace::api {
inline namespace v1 {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

// Collects what a command prints, and the latest it said of its progress.
class CollectingConsole : public Console {
 public:
  absl::Status Print(std::string_view text) override {
    text_ += text;
    return absl::OkStatus();
  }
  TextStyle style() const override { return {}; }
  void Progress(std::string_view what, int64_t done, int64_t total) override {
    const std::lock_guard lock(mutex_);
    what_ = what;
    done_ = done;
    total_ = total;
    told_ = false;
  }
  // Tells `progress` what is new since the last time.
  void Tell(const Control& control) {
    std::unique_lock lock(mutex_);
    if (told_ || !control.progress) return;
    told_ = true;
    const std::string what = what_;
    const int64_t done = done_, total = total_;
    lock.unlock();
    control.progress(what, done, total);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  std::mutex mutex_;
  std::string what_;
  int64_t done_ = 0, total_ = 0;
  bool told_ = true;
};

// `work` in a thread of its own, while this one listens to `control`.
void RunWatched(const Control& control, CollectingConsole& console,
                const std::function<void(std::stop_token)>& work) {
  std::stop_source stop;
  const std::stop_callback forward(control.stop, [&stop] { stop.request_stop(); });
  if (!control.progress && !control.tick) {
    work(stop.get_token());
    return;
  }
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure;  // of the work or of the caller's functions
  std::thread thread([&] {
    std::exception_ptr thrown;
    try {
      work(stop.get_token());
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = thrown;
    done = true;
    ended.notify_all();
  });
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, kTick, [&] { return done; })) {
    if (stop.stop_requested() && failure != nullptr) continue;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      if (control.tick) control.tick();
      console.Tell(control);
    } catch (...) {
      thrown = std::current_exception();
      stop.request_stop();
    }
    lock.lock();
    if (failure == nullptr) failure = thrown;
  }
  lock.unlock();
  thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  console.Tell(control);
}

}  // namespace

std::string Execute(const Command& command, const Control& control) {
  CollectingConsole console;
  ProgramResult result;
  RunWatched(control, console, [&](std::stop_token stop) {
    result = RunProgram({.arguments = command.arguments,
                         .console = &console,
                         .stop = std::move(stop),
                         .traces = command.traces});
  });
  if (result.exit_code != 0) {
    throw Error(static_cast<Error::Kind>(result.exit_code), result.error);
  }
  return std::move(console).text();
}

std::shared_ptr<const TraceStore> ImportInBackground(const TraceOptions& traces,
                                                     const Control& control) {
  CollectingConsole console;
  absl::StatusOr<std::shared_ptr<const TraceStore>> store;
  RunWatched(control, console, [&](std::stop_token stop) {
    CommandContext context;
    context.console = &console;
    context.stop = std::move(stop);
    store = traces.Load(context);
  });
  if (store.ok()) return *std::move(store);
  const ProgramResult result = ResultOf(store.status());
  throw Error(static_cast<Error::Kind>(result.exit_code), result.error);
}

}  // namespace v1
}  // namespace foretrace::api
