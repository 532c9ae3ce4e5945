#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/loop.h"

namespace strata {

class SimWorld;

// A Loop in virtual time. One task at a time; a task that takes time (Occupy) holds back those that
// follow it, and what it does after Occupy happens at the later time.
class SimLoop final : public Loop {
 public:
  absl::Time Now() const override;
  void Post(Task task) override;
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool InLoop() const override;

  // The loop is busy for `length` more. In a task: that task takes the time.
  void Occupy(absl::Duration length);

  // Runs nothing any more. Tasks left over are destroyed with the world.
  void Stop() { stopped_ = true; }

  const std::string& name() const { return name_; }

 private:
  friend class SimWorld;
  SimLoop(SimWorld& world, int index, std::string name)
      : world_(world), index_(index), name_(std::move(name)) {}

  SimWorld& world_;
  const int index_;
  const std::string name_;
  std::deque<Task> tasks_;
  absl::Time free_at_ = absl::InfinitePast();
  bool listed_ = false;  // among the loops that can run, or with a wake-up on its way
  bool stopped_ = false;
};

// One virtual clock, and one seeded scheduler that interleaves the ready tasks of all its loops.
// The order within a loop is kept. Single-threaded: everything runs in the thread that calls Run….
class SimWorld {
 public:
  struct Options {
    uint64_t seed = 1;
    // Each task takes up to this long, at random, in addition to what it Occupies.
    absl::Duration task_delay = absl::ZeroDuration();
  };
  explicit SimWorld(const Options& options);
  ~SimWorld();

  // Lives as long as the world.
  SimLoop& MakeLoop(std::string name);

  // Virtual; begins at the Unix epoch. A loop in a task may be ahead of it, see SimLoop::Now.
  absl::Time Now() const { return now_; }

  // Runs `event` at `when`, outside any loop. Events of one time run in the order of these calls.
  // Returns a key for CancelEvent.
  uint64_t At(absl::Time when, Task event);
  void CancelEvent(uint64_t key);

  // Runs until nothing is left to do (true) or until `deadline` would have passed (false).
  bool RunUntilIdle(absl::Time deadline);

  // Runs until `done` (true), until nothing is left to do or `deadline` would have passed (false).
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Time deadline);

  // Uniform in [0, bound), from the seed. `bound` > 0.
  uint64_t Random(uint64_t bound) { return random_() % bound; }
  // Uniform in [0, bound], from the seed; zero when `bound` is.
  absl::Duration RandomUpTo(absl::Duration bound);

  // Of time, loop and kind of everything that has run: equal seeds give equal hashes.
  uint64_t trace_hash() const { return trace_hash_; }
  int64_t tasks_run() const { return tasks_run_; }

  // Counts that a rare path was taken, so that a test can see which of them its seeds reach.
  void Probe(absl::string_view name) { ++probes_[std::string(name)]; }
  const std::map<std::string, int64_t>& probes() const { return probes_; }

 private:
  friend class SimLoop;
  using EventKey = std::pair<absl::Time, uint64_t>;

  void MakeRunnable(SimLoop& loop);
  void RunEvents();
  void RunOneTask();
  void Trace(int loop, uint64_t kind);

  absl::Time now_ = absl::UnixEpoch();
  std::mt19937_64 random_;
  const absl::Duration task_delay_;
  std::vector<std::unique_ptr<SimLoop>> loops_;
  std::vector<SimLoop*> runnable_;
  SimLoop* current_ = nullptr;
  std::map<EventKey, Task> events_;
  std::unordered_map<uint64_t, absl::Time> event_times_;
  uint64_t next_event_ = 1;
  uint64_t trace_hash_ = 0xcbf29ce484222325u;
  int64_t tasks_run_ = 0;
  std::map<std::string, int64_t> probes_;
};

}  // namespace strata
