// What the sender and the receiver of frames share: a configuration, and objects of the library that are freed where
// they end.

#ifndef TACK_EXAMPLES_FRAMES_HPP
#define TACK_EXAMPLES_FRAMES_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "endpoint.h"

namespace frames {

constexpr const char *PROTOCOL = "tack-frames";

struct Deleter {
    void operator()(tack_config *config) const { tack_config_free(config); }
    void operator()(tack_frame_sender *sender) const { tack_frame_sender_free(sender); }
    void operator()(tack_frame_receiver *receiver) const { tack_frame_receiver_free(receiver); }
};
using Config = std::unique_ptr<tack_config, Deleter>;
using Sender = std::unique_ptr<tack_frame_sender, Deleter>;
using Receiver = std::unique_ptr<tack_frame_receiver, Deleter>;

// A configuration in the video profile.
inline Config config() {
    Config config{endpoint_config(PROTOCOL)};
    tack_config_set_profile(config.get(), TACK_PROFILE_VIDEO);
    return config;
}

// A struct of the library that begins with its size.
template <typename Sized> Sized sized() {
    Sized value{};
    value.size = sizeof(value);
    return value;
}

// A socket and its connection, which end together.
class Endpoint {
  public:
    Endpoint() { end_.socket = -1; }
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;
    ~Endpoint() {
        if (end_.socket >= 0) {
            endpoint_close(&end_);
        }
    }
    bool open(const char *host, const char *port, bool is_server) {
        return endpoint_open(&end_, host, port, is_server) == 0;
    }
    bool connect(const char *name, const Config &config) {
        return endpoint_connect(&end_, name, config.get()) == 0;
    }
    bool turn(tack_config *config, std::uint64_t most) { return endpoint_turn(&end_, config, most) == 0; }
    bool report() const { return endpoint_report(&end_); }
    void print_port() const { endpoint_print_port(&end_); }
    tack_conn *conn() const { return end_.conn; }
    bool is_closed() const { return end_.conn != nullptr && tack_conn_is_closed(end_.conn); }

  private:
    endpoint end_{};
};

} // namespace frames

#endif
