#include "comm/sim/sim_world.h"

#include <algorithm>

#include "kernels/status.h"

namespace strata {
namespace {

enum TraceKind : uint64_t { kTask = 1, kEvent = 2 };

}  // namespace

absl::Time SimLoop::Now() const { return InLoop() ? std::max(world_.now_, free_at_) : world_.now_; }

void SimLoop::Post(Task task) {
  // What a task does after it has Occupied its loop happens at that later time.
  const SimLoop* poster = world_.current_;
  if (poster != nullptr && poster != this && poster->Now() > world_.now_) {
    world_.At(poster->Now(), [this, task = std::move(task)]() mutable { Post(std::move(task)); });
    return;
  }
  tasks_.push_back(std::move(task));
  world_.MakeRunnable(*this);
}

TimerId SimLoop::PostAt(absl::Time when, Task task) {
  STRATA_CHECK(InLoop());
  return TimerId{world_.At(std::max(when, Now()),
                           [this, task = std::move(task)]() mutable { Post(std::move(task)); })};
}

void SimLoop::Cancel(TimerId timer) {
  STRATA_CHECK(InLoop());
  world_.CancelEvent(static_cast<uint64_t>(timer));
}

bool SimLoop::InLoop() const { return world_.current_ == this; }

void SimLoop::Occupy(absl::Duration length) { free_at_ = std::max(world_.now_, free_at_) + length; }

SimWorld::SimWorld(const Options& options)
    : random_(options.seed), task_delay_(options.task_delay) {}

SimWorld::~SimWorld() = default;

SimLoop& SimWorld::MakeLoop(std::string name) {
  loops_.emplace_back(new SimLoop(*this, static_cast<int>(loops_.size()), std::move(name)));
  return *loops_.back();
}

uint64_t SimWorld::At(absl::Time when, Task event) {
  const uint64_t key = next_event_++;
  when = std::max(when, now_);
  events_.emplace(EventKey(when, key), std::move(event));
  event_times_.emplace(key, when);
  return key;
}

void SimWorld::CancelEvent(uint64_t key) {
  const auto found = event_times_.find(key);
  if (found == event_times_.end()) return;
  events_.erase(EventKey(found->second, key));
  event_times_.erase(found);
}

absl::Duration SimWorld::RandomUpTo(absl::Duration bound) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(bound);
  return nanoseconds == 0 ? absl::ZeroDuration() : absl::Nanoseconds(Random(nanoseconds + 1));
}

void SimWorld::MakeRunnable(SimLoop& loop) {
  if (loop.listed_ || loop.stopped_ || loop.tasks_.empty() || &loop == current_) return;
  loop.listed_ = true;
  if (loop.free_at_ <= now_) {
    runnable_.push_back(&loop);
  } else {
    At(loop.free_at_, [this, &loop] {
      loop.listed_ = false;
      MakeRunnable(loop);
    });
  }
}

void SimWorld::Trace(int loop, uint64_t kind) {
  for (const uint64_t word :
       {static_cast<uint64_t>(absl::ToUnixNanos(now_)), static_cast<uint64_t>(loop), kind}) {
    trace_hash_ = (trace_hash_ ^ word) * 0x100000001b3u;
    trace_hash_ ^= trace_hash_ >> 29;
  }
}

void SimWorld::RunEvents() {
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    auto node = events_.extract(events_.begin());
    event_times_.erase(node.key().second);
    Trace(-1, kEvent);
    std::move(node.mapped())();
  }
}

void SimWorld::RunOneTask() {
  const size_t chosen = Random(runnable_.size());
  SimLoop& loop = *runnable_[chosen];
  runnable_[chosen] = runnable_.back();
  runnable_.pop_back();
  loop.listed_ = false;
  // It may have been stopped, or occupied from outside, since it was listed.
  if (loop.stopped_ || loop.free_at_ > now_) {
    MakeRunnable(loop);
    return;
  }
  Task task = std::move(loop.tasks_.front());
  loop.tasks_.pop_front();
  current_ = &loop;
  Trace(loop.index_, kTask);
  ++tasks_run_;
  std::move(task)();
  task = nullptr;
  current_ = nullptr;
  if (task_delay_ > absl::ZeroDuration()) loop.Occupy(RandomUpTo(task_delay_));
  MakeRunnable(loop);
}

bool SimWorld::RunUntil(absl::FunctionRef<bool()> done, absl::Time deadline) {
  STRATA_CHECK(current_ == nullptr);
  while (!done()) {
    RunEvents();
    if (!runnable_.empty()) {
      RunOneTask();
      continue;
    }
    if (events_.empty() || events_.begin()->first.first > deadline) return false;
    now_ = events_.begin()->first.first;
  }
  return true;
}

bool SimWorld::RunUntilIdle(absl::Time deadline) {
  RunUntil([] { return false; }, deadline);
  return runnable_.empty() && events_.empty();
}

}  // namespace strata
