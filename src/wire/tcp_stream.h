#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wire/control_stream.h"
#include "wire/frame_cipher.h"
#include "wire/frame_reader.h"
#include "wire/loop_core.h"

namespace kvrail {

// A ControlStream over one socket. Messages gather in one buffer while another is being written, so
// that all that one handler queues leaves in one system call.
class TcpStream final : public ControlStream, private LoopMember {
 public:
  TcpStream(std::shared_ptr<LoopCore> core, asio::ip::tcp::socket socket);

  void start(Handlers handlers) override;
  void send(const Message& message) override;
  void encrypt(const StreamKeys& keys) override;
  void set_max_message_bytes(std::uint32_t max_message_bytes) override {
    reader_.set_max_message_bytes(max_message_bytes);
  }
  void send_wake() override;
  void close(std::uint32_t linger_ms) override;
  const std::string& remote_address() const override { return remote_address_; }
  FrameFault frame_fault() const override { return frame_fault_; }
  std::int64_t last_received_ns() const override { return last_received_ns_; }
  std::int64_t last_sent_ns() const override { return last_sent_ns_; }

 private:
  enum class State {
    kOpen,
    kFailing,    // on_lost is on its way
    kLingering,  // closed by us; the rest is being sent
    kClosed,
  };

  std::shared_ptr<TcpStream> self();
  // On the loop's thread; false after the loop has ended.
  bool is_callable() const;
  // From the first operation on, the stream keeps itself alive until close_now().
  void hold();
  void shut_down() override;

  void read_more();
  void on_read(const asio::error_code& error, std::size_t size_bytes);
  // Hands out what has arrived; says why the stream cannot go on.
  Status deliver();

  void append(const Message& message);
  // Ends the frame that begins at `start` of queued_ and holds its message.
  void finish_frame(std::size_t start);
  void queue_wake();
  void on_queued();
  void flush_soon();
  void flush();
  void write_more();
  void on_written(const asio::error_code& error, std::size_t size_bytes);

  void linger(std::uint32_t linger_ms);
  void end_of_queue();
  void fail_soon(Status reason);
  void lose(const Status& reason);
  void drop_handlers();
  void close_now();

  const std::shared_ptr<LoopCore> core_;
  asio::ip::tcp::socket socket_;
  std::string remote_address_;
  std::shared_ptr<TcpStream> self_;
  State state_ = State::kOpen;
  std::int64_t last_received_ns_;
  std::int64_t last_sent_ns_;

  Handlers handlers_;
  bool reading_ = false;     // from start() or close() on
  bool delivering_ = false;  // handlers_ are in use
  std::optional<Status> lost_before_start_;
  FrameReader reader_;
  FrameFault frame_fault_ = FrameFault::kNone;

  // Frames are sealed when they are queued, in the order in which they leave.
  std::optional<FrameCipher> cipher_;
  std::vector<std::byte> queued_;
  std::vector<std::byte> in_flight_;
  std::size_t written_ = 0;  // of in_flight_
  bool writing_ = false;
  bool flush_posted_ = false;
  bool wake_queued_ = false;  // in queued_
  std::optional<asio::steady_timer> linger_timer_;

  // A Wake is posted or queued and has not left. send_wake() pairs with flush().
  std::atomic<bool> wake_pending_{false};
};

}  // namespace kvrail
