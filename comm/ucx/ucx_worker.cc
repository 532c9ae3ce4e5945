#include "comm/ucx/ucx_worker.h"

#include <ucs/config/global_opts.h>
#include <ucs/config/types.h>
#include <ucs/debug/debug.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Work per turn of the loop, so that its other tasks get theirs.
constexpr int kTurns = 64;

absl::Status Check(ucs_status_t status, absl::string_view what) {
  if (status == UCS_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("UCX: ", what, ": ", ucs_status_string(status)));
}

// UCX takes SIGHUP for itself as soon as it is loaded, to log more from then on; a job whose
// terminal closes would go on. What was there before comes back, unless somebody has asked for it
// by name.
[[gnu::constructor]] void GiveBackSignals() {
  if (getenv("UCX_DEBUG_SIGNO") != nullptr || ucs_global_opts.debug_signo != SIGHUP) return;
  ucs_debug_disable_signal(SIGHUP);
}

// Settings that are ours to choose, whatever the environment says: the interface, so that nothing
// leaves by another one; eager, since a rendezvous costs 1 to 3 % and its put reaches 55 % of a
// link; copies, in pieces that fill the receiver's segment, since UCX 1.13 ends the process when a
// peer is lost in the middle of a send without copy (docs/decisions/0043-ucx-copies.md); connects
// that do not block the loop.
absl::Status Configure(ucp_config_t* config, const Interface& interface) {
  const std::pair<const char*, std::string> settings[] = {
      {"TLS", "tcp"},          {"NET_DEVICES", interface.name}, {"RNDV_THRESH", "inf"},
      {"ZCOPY_THRESH", "inf"}, {"TCP_TX_SEG_SIZE", "64k"},      {"TCP_RX_SEG_SIZE", "64k"},
      {"TCP_CONN_NB", "y"},    {"TCP_MAX_NUM_EPS", "inf"},
  };
  for (const auto& [name, value] : settings) {
    STRATA_RETURN_IF_ERROR(Check(ucp_config_modify(config, name, value.c_str()),
                                 absl::StrCat("set ", name, " to ", value)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<UcxWorker>> UcxWorker::Create(AsioLoop& loop,
                                                             const Interface& interface) {
  std::shared_ptr<UcxWorker> worker(new UcxWorker(loop));
  STRATA_RETURN_IF_ERROR(worker->Init(interface));
  return worker;
}

absl::Status UcxWorker::Init(const Interface& interface) {
  STRATA_RETURN_IF_ERROR(InitContext(interface));
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  STRATA_RETURN_IF_ERROR(Check(ucp_worker_create(context_, &params, &worker_), "worker"));
  ucp_am_handler_param_t ready = {};
  ready.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  ready.id = kReadyId;
  ready.cb = &UcxWorker::TakeReady;
  ready.arg = this;
  STRATA_RETURN_IF_ERROR(Check(ucp_worker_set_am_recv_handler(worker_, &ready), "handler"));
  STRATA_RETURN_IF_ERROR(InitAddress());
  int fd = -1;
  STRATA_RETURN_IF_ERROR(Check(ucp_worker_get_efd(worker_, &fd), "event descriptor"));
  boost::system::error_code error;
  events_.assign(fd, error);
  if (error) return absl::InternalError(absl::StrCat("UCX's descriptor: ", error.message()));
  WaitEvent();
  Kick();
  return absl::OkStatus();
}

absl::Status UcxWorker::InitContext(const Interface& interface) {
  // A peer's death is reported once, by us. The user's own choice wins.
  if (getenv("UCX_LOG_LEVEL") == nullptr) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  ucp_config_t* config = nullptr;
  STRATA_RETURN_IF_ERROR(Check(ucp_config_read(nullptr, nullptr, &config), "configuration"));
  absl::Status status = Configure(config, interface);
  if (status.ok()) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = Check(ucp_init(&params, config, &context_),
                   absl::StrCat("TCP on interface ", interface.name, " (", interface.address, ")"));
  }
  ucp_config_release(config);
  return status;
}

absl::Status UcxWorker::InitAddress() {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  STRATA_RETURN_IF_ERROR(Check(ucp_worker_get_address(worker_, &address, &bytes), "address"));
  address_ =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(address), bytes));
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

ucs_status_t UcxWorker::TakeReady(void* worker, const void*, size_t, void* data, size_t bytes,
                                  const ucp_am_recv_param_t*) {
  auto& on_ready = static_cast<UcxWorker*>(worker)->on_ready_;
  for (size_t at = 0; on_ready && at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    uint64_t tag = 0;
    std::memcpy(&tag, static_cast<const std::byte*>(data) + at, sizeof(tag));
    on_ready(tag);
  }
  return UCS_OK;
}

UcxWorker::~UcxWorker() { Shutdown(); }

void UcxWorker::Shutdown() {
  if (events_.is_open()) events_.release();  // UCX closes it
  if (worker_ != nullptr) ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) ucp_cleanup(std::exchange(context_, nullptr));
}

void UcxWorker::WaitEvent() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (error || self->worker_ == nullptr) return;
                       self->Progress();
                       self->WaitEvent();
                     });
}

void UcxWorker::Kick() {
  if (std::exchange(kicked_, true)) return;
  loop_.Post([self = shared_from_this()] {
    self->kicked_ = false;
    if (self->worker_ != nullptr) self->Progress();
  });
}

// The descriptor speaks only after an arm that says OK, and an arm says OK only when progress has
// found nothing to do. A wait on the descriptor is outstanding all the time.
void UcxWorker::Progress() {
  for (int i = 0; i < kTurns; ++i) {
    if (ucp_worker_progress(worker_) != 0) continue;
    if (ucp_worker_arm(worker_) == UCS_OK) return;
  }
  Kick();
}

void UcxWorker::ProgressNow() {
  while (worker_ != nullptr && ucp_worker_progress(worker_) != 0) {
  }
}

}  // namespace strata
