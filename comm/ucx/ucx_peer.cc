#include "comm/ucx/ucx_peer.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "comm/loop_calls.h"
#include "comm/ucx/ucx_tag.h"
#include "comm/wire_tag.h"
#include "kernels/status.h"

namespace strata {
namespace {

// How long a flush at Close may take before force is used.
constexpr absl::Duration kFlushTimeout = absl::Seconds(2);

// Announcements that travel together, at most: their buffer stays small.
constexpr size_t kMostReady = 256;

// Messages between transports: the empty ones by which two ranks meet, and verdicts.
constexpr uint64_t kMeeting = uint64_t{kMaxUcxRanks} << kSourceShift;
constexpr uint64_t kVerdict = kMeeting | uint64_t{1} << 32;

uint64_t Own(uint64_t kind, Rank source) { return kind | static_cast<uint64_t>(Index(source)); }

std::string Reason(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_CONNECTION_RESET:
      return "connection reset";
    case UCS_ERR_NOT_CONNECTED:
      return "connection closed";
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return "connection lost";
    default:
      return ucs_status_string(status);
  }
}

}  // namespace

UcxPeer::UcxPeer(AsioLoop& loop, std::shared_ptr<UcxWorker> worker, Rank self,
                 const PeerAddress& address)
    : loop_(loop),
      worker_(std::move(worker)),
      self_(self),
      address_(address),
      name_(PeerName(address)) {}

void UcxPeer::Open(Done met) {
  const std::string bytes = absl::HexStringToBytes(address_.address);
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(bytes.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &UcxPeer::OnError, .arg = this};
  if (const ucs_status_t status = ucp_ep_create(worker_->handle(), &params, &endpoint_);
      status != UCS_OK) {
    endpoint_ = nullptr;
    status_ = absl::UnavailableError(absl::StrCat(name_, ": ", Reason(status)));
    return PostDone(loop_, std::move(met), status_);
  }
  StartReceive(Kind::kReceive, Own(kMeeting, address_.rank), ~uint64_t{0}, {}, std::move(met));
  StartSend(Own(kMeeting, self_), {}, [](absl::Status) {});
  AwaitVerdict();
}

void UcxPeer::Send(Tag tag, std::span<const std::byte> view, Done done) {
  if (!status_.ok()) return PostDone(loop_, std::move(done), status_);
  outbox_.Push({.tag = tag, .view = view, .done = std::move(done)});
  SendMessages();
}

void UcxPeer::Recv(Tag tag, std::span<std::byte> view, Done done) {
  const uint64_t packed = Pack(address_.rank, tag);
  if (!status_.ok()) {
    ucp_tag_recv_info_t info;
    const bool arrived =
        lost_ && ucp_tag_probe_nb(worker_->handle(), packed, ~kOrderMask, 0, &info) != nullptr;
    if (!arrived) return PostDone(loop_, std::move(done), status_);
  }
  StartReceive(Kind::kReceive, packed, ~kOrderMask, view, std::move(done));
  if (status_.ok()) Announce(Pack(self_, tag));
  // From a lost peer it has ended at once, or only a part has arrived.
  if (lost_ && endpoint_ == nullptr && !closing_) Closed();
}

// Early messages

// One message announces all receives of a turn of the loop.
void UcxPeer::Announce(uint64_t tag) {
  ready_.push_back(tag);
  if (ready_.size() >= kMostReady) return SendReady();
  SchedulePump();
}

void UcxPeer::OnReady(Tag tag) {
  if (!status_.ok()) return;
  const absl::Status status = outbox_.OnReady(tag);
  if (absl::IsFailedPrecondition(status)) return OutOfStepAt(tag.operation);
  if (!status.ok()) return Lose(status);
  SchedulePump();
}

void UcxPeer::SchedulePump() {
  if (std::exchange(pump_scheduled_, true)) return;
  loop_.Post([self = shared_from_this()] {
    self->pump_scheduled_ = false;
    self->SendReady();
    self->SendMessages();
  });
}

void UcxPeer::SendReady() {
  if (ready_.empty()) return;
  std::vector<uint64_t> tags = std::exchange(ready_, {});
  const std::span<const uint64_t> sent = tags;
  Operation& operation = Add(Kind::kSend, 0, 0, [tags = std::move(tags)](absl::Status) {});
  ucp_request_param_t param = ParamOf(operation);
  param.cb.send = &UcxPeer::OnSent;
  Started(operation,
          ucp_am_send_nbx(endpoint_, kReadyId, nullptr, 0, sent.data(), sent.size_bytes(), &param));
}

void UcxPeer::SendMessages() {
  while (std::optional<OutMessage> message = outbox_.Pop()) {
    StartSend(Pack(self_, message->tag), message->view, std::move(message->done));
  }
}

// Operations

UcxPeer::Operations& UcxPeer::ListOf(Kind kind) {
  return kind == Kind::kSend ? sends_ : kind == Kind::kReceive ? receives_ : verdicts_;
}

UcxPeer::Operation& UcxPeer::Add(Kind kind, uint64_t tag, size_t bytes, Done done) {
  Operations& list = ListOf(kind);
  list.push_back({.peer = this, .kind = kind, .tag = tag, .bytes = bytes, .done = std::move(done)});
  list.back().self = std::prev(list.end());
  return list.back();
}

ucp_request_param_t UcxPeer::ParamOf(Operation& operation) {
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.user_data = &operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

void UcxPeer::StartSend(uint64_t tag, std::span<const std::byte> view, Done done) {
  Operation& operation = Add(Kind::kSend, tag, view.size(), std::move(done));
  ucp_request_param_t param = ParamOf(operation);
  param.cb.send = &UcxPeer::OnSent;
  Started(operation, ucp_tag_send_nbx(endpoint_, view.data(), view.size(), tag, &param));
}

void UcxPeer::StartReceive(Kind kind, uint64_t tag, uint64_t mask, std::span<std::byte> view,
                           Done done) {
  Operation& operation = Add(kind, tag, view.size(), std::move(done));
  ucp_request_param_t param = ParamOf(operation);
  // Without this flag a receive that ends at once does not say what it has received.
  param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = &UcxPeer::OnReceived;
  Started(operation,
          ucp_tag_recv_nbx(worker_->handle(), view.data(), view.size(), tag, mask, &param));
}

// UCX answers null for "done already" and then calls nobody, or has called back before it answers.
void UcxPeer::Started(Operation& operation, ucs_status_ptr_t result) {
  worker_->Kick();
  operation.starting = false;
  if (!UCS_PTR_IS_PTR(result)) return End(operation, UCS_PTR_RAW_STATUS(result));
  operation.request = result;
  if (operation.ended) CalledBack(result, *operation.ended, operation);
}

void UcxPeer::OnSent(void* request, ucs_status_t status, void* operation) {
  CalledBack(request, status, *static_cast<Operation*>(operation));
}

void UcxPeer::OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                         void* operation) {
  static_cast<Operation*>(operation)->info = *info;
  CalledBack(request, status, *static_cast<Operation*>(operation));
}

void UcxPeer::CalledBack(void* request, ucs_status_t status, Operation& operation) {
  if (operation.starting) {
    operation.ended = status;
    return;
  }
  operation.peer->End(operation, status);
  ucp_request_free(request);
}

void UcxPeer::End(Operation& operation, ucs_status_t status) {
  if (!operation.done) {
    given_up_.erase(operation.self);
    return;
  }
  const absl::Status ended = StatusOf(operation, status);
  if (ended.ok() && operation.kind == Kind::kSend) {
    counters_.sent_bytes += static_cast<int64_t>(operation.bytes);
  } else if (ended.ok() && operation.kind == Kind::kReceive) {
    counters_.received_bytes += static_cast<int64_t>(operation.bytes);
  }
  PostDone(loop_, std::move(operation.done), ended);
  ListOf(operation.kind).erase(operation.self);
  CloseIfIdle();
}

// Fails the peer where that is what it means.
absl::Status UcxPeer::StatusOf(const Operation& operation, ucs_status_t status) {
  const bool receive = operation.kind != Kind::kSend;
  const bool arrived = status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED;
  if (!status_.ok() && !(receive && lost_ && arrived)) return status_;
  if (!arrived) {
    LoseConnection(status);
    return status_;
  }
  if (!receive) return absl::OkStatus();
  const Tag tag = Unpack(operation.tag);
  if (operation.info.sender_tag != operation.tag) {
    OutOfStepAt(tag.operation);
    return status_;
  }
  if (status == UCS_OK && operation.info.length == operation.bytes) return absl::OkStatus();
  return Annotate(OtherSize(tag, static_cast<int64_t>(operation.info.length),
                            static_cast<int64_t>(operation.bytes)),
                  name_);
}

// Out of step

void UcxPeer::AwaitVerdict() {
  StartReceive(Kind::kVerdict, Own(kVerdict, address_.rank), ~uint64_t{0},
               std::as_writable_bytes(std::span(&verdict_, 1)),
               [self = shared_from_this()](absl::Status status) {
                 if (status.ok()) self->OnVerdict();
               });
}

void UcxPeer::OnVerdict() {
  if (!status_.ok()) return;
  Fail(Annotate(OutOfStep(verdict_), name_));
  CancelReceives();
}

// Tells the peer, so that both ends report the same. May be inside a callback of UCX.
void UcxPeer::OutOfStepAt(uint32_t operation) {
  if (!status_.ok()) return;
  Fail(Annotate(OutOfStep(operation), name_));
  own_verdict_ = operation;
  loop_.Post([self = shared_from_this()] {
    if (self->endpoint_ == nullptr) return;
    self->CancelReceives();
    self->StartSend(Own(kVerdict, self->self_), std::as_bytes(std::span(&self->own_verdict_, 1)),
                    [](absl::Status) {});
  });
}

// Ends

void UcxPeer::OnError(void* peer, ucp_ep_h, ucs_status_t status) {
  static_cast<UcxPeer*>(peer)->LoseConnection(status);
}

void UcxPeer::LoseConnection(ucs_status_t status) { Lose(absl::UnavailableError(Reason(status))); }

// May be inside a callback of UCX, where an endpoint cannot be closed.
void UcxPeer::Lose(const absl::Status& why) {
  if (status_.ok()) {
    lost_ = true;
    Fail(Annotate(why, name_));
  }
  loop_.Post([self = shared_from_this()] { self->CloseByForce(); });
}

// The first reason counts. What UCX does not have yet ends here.
void UcxPeer::Fail(const absl::Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  ready_.clear();
  for (OutMessage& message : outbox_.TakeAll()) PostDone(loop_, std::move(message.done), status_);
  CloseIfIdle();
}

void UcxPeer::Abort(const absl::Status& why) {
  Fail(why);
  lost_ = false;
  if (worker_->handle() != nullptr) CancelReceives();
}

// Those whose message is arriving at the moment stay.
void UcxPeer::CancelReceives() {
  for (Operations* list : {&receives_, &verdicts_}) {
    for (auto next = list->begin(); next != list->end();) {
      Operation& operation = *next++;
      ucp_request_cancel(worker_->handle(), operation.request);
    }
  }
  worker_->Kick();
}

void UcxPeer::CloseByForce() {
  if (endpoint_ == nullptr || worker_->handle() == nullptr) return;
  CancelReceives();
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.user_data = this;
  param.cb.send = [](void* request, ucs_status_t, void* peer) {
    auto& closed = *static_cast<UcxPeer*>(peer);
    closed.closing_ = false;
    closed.loop_.Post([self = closed.shared_from_this()] { self->Closed(); });
    ucp_request_free(request);
  };
  closing_ = true;
  const ucs_status_ptr_t result = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param);
  worker_->Kick();
  if (UCS_PTR_IS_PTR(result)) return;
  closing_ = false;
  Closed();
}

// What cannot be cancelled had begun to arrive; from a lost peer, its rest never will.
void UcxPeer::Closed() {
  if (worker_->handle() != nullptr) CancelReceives();
  if (lost_) {
    for (Operation& operation : receives_) {
      PostDone(loop_, std::exchange(operation.done, nullptr), status_);
    }
    given_up_.splice(given_up_.end(), receives_);
  }
  CloseIfIdle();
}

void UcxPeer::Drop(const absl::Status& why) {
  Fail(why);
  lost_ = false;
  CloseByForce();
}

void UcxPeer::EndAll() {
  closing_ = false;
  endpoint_ = nullptr;
  for (Operations* list : {&sends_, &receives_, &verdicts_}) {
    for (Operation& operation : *list) {
      PostDone(loop_, std::exchange(operation.done, nullptr), status_);
    }
    given_up_.splice(given_up_.end(), *list);
  }
  CloseIfIdle();
}

void UcxPeer::Close(Task closed) {
  closed_ = std::move(closed);
  CloseIfIdle();
}

void UcxPeer::CloseIfIdle() {
  if (!closed_ || busy() || closing_) return;
  if (endpoint_ == nullptr) {
    if (flush_timer_) loop_.Cancel(*std::exchange(flush_timer_, std::nullopt));
    return loop_.Post(std::exchange(closed_, nullptr));
  }
  if (flush_timer_) return;
  if (status_.ok()) status_ = absl::FailedPreconditionError("the transport is closed");
  flush_timer_ = loop_.PostAt(loop_.Now() + kFlushTimeout, [self = shared_from_this()] {
    self->flush_timer_.reset();
    self->CloseByForce();
  });
  loop_.Post([self = shared_from_this()] { self->Flush(); });
}

void UcxPeer::Flush() {
  if (endpoint_ == nullptr || worker_->handle() == nullptr) return;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = this;
  param.cb.send = [](void* request, ucs_status_t, void* peer) {
    auto& flushed = *static_cast<UcxPeer*>(peer);
    flushed.loop_.Post([self = flushed.shared_from_this()] { self->CloseByForce(); });
    ucp_request_free(request);
  };
  const ucs_status_ptr_t result = ucp_ep_flush_nbx(endpoint_, &param);
  worker_->Kick();
  if (!UCS_PTR_IS_PTR(result)) CloseByForce();
}

}  // namespace strata
