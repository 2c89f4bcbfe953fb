// Sends frames with deadlines, as an encoder that follows the rate of the path would make them:
// frame_sender HOST PORT CERTIFICATE FRAMES

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "frames.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t FRAMES_PER_SECOND = 30;
constexpr std::uint64_t LOWEST_RATE = 25000;    // bytes per second
constexpr std::uint64_t HIGHEST_RATE = 1250000; // bytes per second
constexpr std::uint64_t DEADLINE = 300000000;   // nanoseconds
constexpr std::uint8_t URGENCY = 3;

// The encoder: its frames have the size that its rate allows.
class Encoder {
  public:
    // Nine tenths of what the path could carry: the rest is for what frames differ by.
    void follow(std::uint64_t path_rate) {
        rate_ = std::clamp(path_rate * 9 / 10, LOWEST_RATE, HIGHEST_RATE);
    }
    std::vector<std::uint8_t> frame() const {
        std::size_t len = rate_ / FRAMES_PER_SECOND;
        std::vector<std::uint8_t> frame(frames::HEADER_LEN + len, 0xf0);
        for (std::size_t at = 0; at < frames::HEADER_LEN; at++) {
            frame[at] = static_cast<std::uint8_t>(len >> (8 * (frames::HEADER_LEN - 1 - at)));
        }
        return frame;
    }
    std::uint64_t rate() const { return rate_; }

  private:
    std::uint64_t rate_ = 10 * LOWEST_RATE;
};

struct Counts {
    std::uint64_t sent = 0, dropped = 0, expired = 0;
};

// Sends a frame on a stream of its own, which is reset at its deadline.
void send(tack_conn *conn, std::uint64_t stream, const std::vector<std::uint8_t> &frame, Counts &counts) {
    // One that does not fit now would be late. The other streams are older: they go first.
    if (tack_conn_stream_priority(conn, stream, URGENCY, false) != 0 ||
        tack_conn_stream_writable(conn, stream, frame.size()) != 1) {
        tack_conn_stream_shutdown(conn, stream, TACK_SHUTDOWN_WRITE, 0);
        counts.dropped++;
        return;
    }
    std::uint64_t code = 0;
    ssize_t written = tack_conn_stream_send(conn, stream, frame.data(), frame.size(), true, &code);
    tack_conn_set_stream_deadline(conn, stream, DEADLINE);
    counts.sent += written == static_cast<ssize_t>(frame.size());
}

bool run(frames::Endpoint &end, std::uint64_t frame_count) {
    Encoder encoder;
    Counts counts;
    std::uint64_t stream = 2; // the client's unidirectional streams: 2, 6, 10, ...
    Clock::time_point next{}, end_at = Clock::time_point::max();
    while (!end.is_closed()) {
        std::uint64_t most = UINT64_MAX;
        if (tack_conn_is_established(end.conn())) {
            auto now = Clock::now();
            if (now >= next && counts.sent + counts.dropped < frame_count) {
                // Streams that the peer has not allowed yet wait for the next frame.
                if (tack_conn_peer_streams_left_uni(end.conn()) > 0) {
                    send(end.conn(), stream, encoder.frame(), counts);
                    stream += 4;
                } else {
                    counts.dropped++;
                }
                next = now + std::chrono::nanoseconds(1000000000 / FRAMES_PER_SECOND);
                end_at = now + std::chrono::nanoseconds(2 * DEADLINE);
            }
            bool is_last = counts.sent + counts.dropped == frame_count;
            if (is_last && now >= end_at) {
                tack_conn_close(end.conn(), true, 0, nullptr, 0);
            }
            auto wait = (is_last ? end_at : next) - now;
            most = static_cast<std::uint64_t>(std::max<std::int64_t>(wait.count(), 0));
        }
        if (!end.turn(nullptr, most)) {
            return false;
        }
        if (std::uint64_t rate = tack_conn_send_rate_change(end.conn()); rate > 0) {
            encoder.follow(rate);
        }
        while (tack_conn_stream_expired_next(end.conn()) >= 0) {
            counts.expired++;
        }
    }
    tack_media_stats media{};
    media.size = sizeof(media);
    tack_conn_media_stats(end.conn(), &media);
    std::printf("frames: %llu sent, %llu dropped, %llu expired\n", static_cast<unsigned long long>(counts.sent),
                static_cast<unsigned long long>(counts.dropped),
                static_cast<unsigned long long>(counts.expired));
    std::printf("rate: encoder %llu, path %llu bytes/s\n", static_cast<unsigned long long>(encoder.rate()),
                static_cast<unsigned long long>(media.estimated_send_rate));
    return end.report();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: %s HOST PORT CERTIFICATE FRAMES\n", argv[0]);
        return 2;
    }
    frames::Config config = frames::config();
    if (!config || tack_config_load_verify_locations_from_file(config.get(), argv[3]) != 0) {
        std::fprintf(stderr, "cannot load %s\n", argv[3]);
        return 1;
    }
    tack_config_verify_peer(config.get(), true);
    frames::Endpoint end;
    bool is_good = end.open(argv[1], argv[2], false) && end.connect("localhost", config) &&
                   run(end, std::strtoull(argv[4], nullptr, 10));
    return is_good ? 0 : 1;
}
