#include "wire/tcp_stream.h"

#include <cassert>
#include <chrono>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <asio/post.hpp>

#include "base/clock.h"
#include "wire/codec.h"
#include "wire/network.h"

namespace kvrail {
namespace {

// A larger buffer is given back when what it held is written.
constexpr std::size_t kKeptBytes = 256u << 10;

std::string remote_text(const asio::ip::tcp::socket& socket) {
  asio::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "a peer that is gone" : to_text(endpoint);
}

bool is_reset(const asio::error_code& error) {
  return error == asio::error::connection_reset || error == asio::error::broken_pipe ||
         error == asio::error::connection_aborted;
}

}  // namespace

TcpStream::TcpStream(std::shared_ptr<LoopCore> core, asio::ip::tcp::socket socket)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      remote_address_(remote_text(socket_)),
      last_received_ns_(now_ns()),
      last_sent_ns_(last_received_ns_),
      reader_(core_->limits().max_message_bytes) {
  set_up(socket_);
}

std::shared_ptr<TcpStream> TcpStream::self() {
  return std::static_pointer_cast<TcpStream>(shared_from_this());
}

bool TcpStream::is_callable() const {
  assert(core_->on_thread() || core_->ended());
  return !core_->ended();
}

void TcpStream::hold() {
  if (self_) return;
  self_ = self();
  core_->add(*this);
}

void TcpStream::start(Handlers handlers) {
  if (!is_callable()) return;
  if (state_ == State::kLingering || (state_ == State::kClosed && !lost_before_start_)) return;
  assert(!reading_);
  handlers_ = std::move(handlers);
  if (lost_before_start_) {
    asio::post(core_->io(), [self = self()] {
      if (self->lost_before_start_) self->lose(*std::exchange(self->lost_before_start_, {}));
    });
    return;
  }
  hold();
  read_more();
}

void TcpStream::read_more() {
  reading_ = true;
  const auto space = reader_.prepare();
  socket_.async_read_some(asio::buffer(space.data(), space.size()),
                          [self = self()](const asio::error_code& error, std::size_t size_bytes) {
                            self->on_read(error, size_bytes);
                          });
}

void TcpStream::on_read(const asio::error_code& error, std::size_t size_bytes) {
  if (state_ == State::kClosed || state_ == State::kFailing) return;
  if (state_ == State::kLingering) {
    // What the peer still sends is not for us; its end of stream means that it has everything.
    error ? close_now() : read_more();
    return;
  }
  if (error == asio::error::eof) {
    return lose({ErrorCode::kPeerLost, fmt::format("{} closed the stream", remote_address_)});
  }
  if (error) {
    return lose({ErrorCode::kPeerLost,
                 fmt::format("the stream of {} broke: {}", remote_address_, error.message())});
  }
  last_received_ns_ = now_ns();
  reader_.commit(size_bytes);
  Status fault;
  try {
    fault = deliver();
    if (fault.ok() && (state_ == State::kOpen || state_ == State::kLingering)) read_more();
  } catch (const std::exception& e) {
    fault = {ErrorCode::kLimit, fmt::format("the stream of {}: {}", remote_address_, e.what())};
  }
  if (!fault.ok()) lose(fault);
}

Status TcpStream::deliver() {
  Status fault;
  delivering_ = true;
  try {
    while (fault.ok() && state_ == State::kOpen) {
      const auto bytes = reader_.next();
      if (!bytes) break;
      Message message = decode(*bytes);
      const std::string_view name = name_of(message);
      fault = core_->attempt(name, [&] { handlers_.on_message(std::move(message)); });
    }
  } catch (const Error& e) {
    const auto* const frame_error = dynamic_cast<const FrameError*>(&e);
    frame_fault_ = frame_error != nullptr ? frame_error->fault() : FrameFault::kGarbage;
    fault = {e.code(), fmt::format("{} sent {}", remote_address_, e.what())};
  }
  delivering_ = false;
  if (state_ == State::kLingering || state_ == State::kClosed) {
    // A handler that closed the stream and threw as well has no on_lost any more.
    if (!fault.ok()) core_->report(fault);
    drop_handlers();
    return {};
  }
  return fault;
}

void TcpStream::send(const Message& message) {
  if (!is_callable() || state_ != State::kOpen) return;
  const std::size_t before = queued_.size();
  try {
    append(message);
  } catch (const std::exception& e) {
    queued_.resize(before);
    const auto* const error = dynamic_cast<const Error*>(&e);
    return fail_soon({error != nullptr ? error->code() : ErrorCode::kLimit, e.what()});
  }
  on_queued();
  flush_soon();
}

void TcpStream::append(const Message& message) {
  const std::size_t start = queued_.size();
  queued_.resize(start + kFrameHeaderBytes);
  encode_to(message, queued_);
  const std::size_t length = queued_.size() - start - kFrameHeaderBytes;
  if (length > core_->limits().max_message_bytes) {
    throw Error(
        ErrorCode::kLimit,
        fmt::format("the {} message for {} has {} bytes, which is above max_message_bytes "
                    "({}); raise it on both nodes",
                    name_of(message), remote_address_, length, core_->limits().max_message_bytes));
  }
  finish_frame(start);
}

void TcpStream::finish_frame(std::size_t start) {
  if (!cipher_) {
    const std::size_t length = queued_.size() - start - kFrameHeaderBytes;
    return put_frame_length(queued_.data() + start, static_cast<std::uint32_t>(length));
  }
  queued_.resize(queued_.size() + FrameCipher::kTagBytes);
  cipher_->seal(std::span(queued_).subspan(start));
}

void TcpStream::encrypt(const StreamKeys& keys) {
  assert(!cipher_);
  cipher_.emplace(keys.send);
  reader_.decrypt(keys.receive);
}

void TcpStream::send_wake() {
  // Pairs with the exchange in flush(): whoever finds the flag set is seen by the peer before the
  // Wake that is still to leave.
  if (wake_pending_.exchange(true, std::memory_order_acq_rel)) return;
  // Weak, since the loop may have ended: its queue would then keep the stream forever.
  asio::post(core_->io(), [weak = weak_from_this()] {
    if (const auto stream = weak.lock()) static_cast<TcpStream&>(*stream).queue_wake();
  });
}

void TcpStream::queue_wake() {
  if (state_ != State::kOpen) return;
  const auto& frame = core_->wake_frame();
  const std::size_t start = queued_.size();
  queued_.insert(queued_.end(), frame.begin(), frame.end());
  finish_frame(start);
  wake_queued_ = true;
  on_queued();
  flush();
}

void TcpStream::on_queued() {
  last_sent_ns_ = now_ns();
  hold();
  const std::size_t unsent = queued_.size() + in_flight_.size() - written_;
  if (unsent > core_->limits().max_queued_bytes) {
    fail_soon({ErrorCode::kQueueFull,
               fmt::format("{} takes nothing: {} bytes are queued for it, which is above {}",
                           remote_address_, unsent, core_->limits().max_queued_bytes)});
  }
}

void TcpStream::flush_soon() {
  if (flush_posted_ || writing_) return;
  flush_posted_ = true;
  asio::post(core_->io(), [self = self()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void TcpStream::flush() {
  if (writing_ || queued_.empty() || state_ == State::kFailing || state_ == State::kClosed) return;
  in_flight_.clear();
  if (in_flight_.capacity() > kKeptBytes) in_flight_.shrink_to_fit();
  in_flight_.swap(queued_);
  written_ = 0;
  writing_ = true;
  if (wake_queued_) {
    wake_queued_ = false;
    // Before the bytes leave: a later send_wake() needs a Wake of its own.
    wake_pending_.exchange(false, std::memory_order_acq_rel);
  }
  write_more();
}

void TcpStream::write_more() {
  socket_.async_write_some(asio::buffer(in_flight_.data() + written_, in_flight_.size() - written_),
                           [self = self()](const asio::error_code& error, std::size_t size_bytes) {
                             self->on_written(error, size_bytes);
                           });
}

void TcpStream::on_written(const asio::error_code& error, std::size_t size_bytes) {
  if (state_ == State::kClosed || state_ == State::kFailing) return;
  if (error) {
    if (state_ == State::kLingering) return close_now();
    // Last words of the peer may have arrived: the reader takes them and then finds the end.
    if (is_reset(error) && reading_) return;
    return lose({ErrorCode::kPeerLost,
                 fmt::format("cannot send to {}: {}", remote_address_, error.message())});
  }
  written_ += size_bytes;
  if (written_ < in_flight_.size()) return write_more();
  writing_ = false;
  in_flight_.clear();
  written_ = 0;
  queued_.empty() ? end_of_queue() : flush();
}

void TcpStream::close(std::uint32_t linger_ms) {
  if (!is_callable()) return;
  const auto keep = self();
  lost_before_start_.reset();
  if (state_ == State::kOpen && linger_ms > 0) {
    linger(linger_ms);
  } else if (state_ != State::kLingering || linger_ms == 0) {
    close_now();
  }
  if (!delivering_) drop_handlers();
}

void TcpStream::linger(std::uint32_t linger_ms) {
  hold();
  state_ = State::kLingering;
  linger_timer_.emplace(core_->io(), std::chrono::milliseconds(linger_ms));
  linger_timer_->async_wait([self = self()](const asio::error_code& error) {
    if (!error) self->close_now();
  });
  if (!reading_) read_more();
  if (!writing_ && queued_.empty()) end_of_queue();
}

void TcpStream::end_of_queue() {
  if (state_ != State::kLingering) return;
  // Closing with bytes unread would reset the stream and take our last words from the peer, so we
  // wait for its end of stream.
  asio::error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) close_now();
}

void TcpStream::fail_soon(Status reason) {
  if (state_ != State::kOpen) return;
  state_ = State::kFailing;
  hold();
  asio::post(core_->io(), [self = self(), reason = std::move(reason)] {
    if (self->state_ == State::kFailing) self->lose(reason);
  });
}

void TcpStream::lose(const Status& reason) {
  const auto keep = self();
  close_now();
  const Handlers handlers = std::exchange(handlers_, {});
  if (handlers.on_lost) {
    core_->call("on_lost", [&] { handlers.on_lost(reason); });
  } else {
    lost_before_start_ = reason;
  }
}

void TcpStream::shut_down() {
  if (state_ == State::kLingering) return;
  const auto keep = self();
  close_now();
  if (!delivering_) drop_handlers();
}

void TcpStream::drop_handlers() {
  // They may hold the last reference to whoever called us.
  const Handlers dropped = std::exchange(handlers_, {});
}

void TcpStream::close_now() {
  if (state_ == State::kClosed) return;
  const auto keep = std::move(self_);
  if (keep) core_->remove(*this);
  state_ = State::kClosed;
  if (linger_timer_) linger_timer_->cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  queued_ = {};
}

}  // namespace kvrail
