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

// The encoder: its frames have the size that its rate allows. Each needs the one before, except key frames.
class Encoder {
  public:
    // Nine tenths of what the path could carry: the rest is for what frames differ by.
    void follow(std::uint64_t path_rate) {
        rate_ = std::clamp(path_rate * 9 / 10, LOWEST_RATE, HIGHEST_RATE);
    }
    // A frame is not delivered: the next one must do without it.
    void on_dropped() { last_ = TACK_NO_FRAME; }
    // Gives the next frame to the sender. Returns whether it was taken.
    bool encode(tack_frame_sender *sender, tack_conn *conn) {
        std::vector<std::uint8_t> payload(rate_ / FRAMES_PER_SECOND, 0xf0);
        auto kind = last_ == TACK_NO_FRAME ? TACK_FRAME_KEY : TACK_FRAME_DELTA;
        std::int64_t number = tack_frame_sender_send(sender, conn, kind, 0, 0, DEADLINE, last_, payload.data(),
                                                     payload.size());
        if (number >= 0) {
            last_ = static_cast<std::uint64_t>(number);
        }
        return number >= 0;
    }
    std::uint64_t rate() const { return rate_; }

  private:
    std::uint64_t rate_ = 10 * LOWEST_RATE;
    std::uint64_t last_ = TACK_NO_FRAME;
};

struct Counts {
    std::uint64_t given = 0, taken = 0, dropped = 0;
};

// Follows what has become of frames.
void follow(tack_frame_sender *sender, Encoder &encoder, Counts &counts) {
    auto event = frames::sized<tack_frame_sender_event>();
    while (tack_frame_sender_next(sender, &event) == 0) {
        if (event.event_type == TACK_FRAME_SENDER_EVENT_TAKEN) {
            counts.taken++;
        } else if (event.event_type == TACK_FRAME_SENDER_EVENT_DROPPED) {
            counts.dropped++;
            encoder.on_dropped();
        }
    }
}

void report(const frames::Endpoint &end, const Encoder &encoder, const Counts &counts) {
    auto media = frames::sized<tack_media_stats>();
    tack_conn_media_stats(end.conn(), &media);
    std::printf("frames: %llu given, %llu taken, %llu dropped\n", static_cast<unsigned long long>(counts.given),
                static_cast<unsigned long long>(counts.taken),
                static_cast<unsigned long long>(counts.dropped));
    std::printf("rate: encoder %llu, path %llu bytes/s\n", static_cast<unsigned long long>(encoder.rate()),
                static_cast<unsigned long long>(media.estimated_send_rate));
}

bool run(frames::Endpoint &end, std::uint64_t frame_count) {
    frames::Sender sender{tack_frame_sender_new(0)};
    Encoder encoder;
    Counts counts;
    Clock::time_point next{}, end_at = Clock::time_point::max();
    while (!end.is_closed()) {
        std::uint64_t most = UINT64_MAX;
        if (tack_conn_is_established(end.conn())) {
            auto now = Clock::now();
            if (now >= next && counts.given < frame_count) {
                counts.given += encoder.encode(sender.get(), end.conn());
                next = now + std::chrono::nanoseconds(1000000000 / FRAMES_PER_SECOND);
                end_at = now + std::chrono::nanoseconds(2 * DEADLINE);
            }
            bool is_last = counts.given == frame_count;
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
        // It fails where the connection is over.
        (void)tack_frame_sender_flush(sender.get(), end.conn());
        follow(sender.get(), encoder, counts);
    }
    report(end, encoder, counts);
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
