// Receives the frames of one sender and counts them: frame_receiver HOST PORT CERTIFICATE KEY

#include "frames.hpp"

namespace {

struct Counts {
    std::uint64_t whole = 0, lost = 0, bytes = 0;
};

// Takes what has come of frames. A program would decode the payload, or put it into a jitter buffer.
void take(tack_frame_receiver *receiver, Counts &counts) {
    auto event = frames::sized<tack_frame_receiver_event>();
    while (tack_frame_receiver_next(receiver, &event) == 0) {
        if (event.event_type == TACK_FRAME_RECEIVER_EVENT_FRAME) {
            counts.whole++;
            counts.bytes += event.payload_len;
        } else {
            counts.lost++; // the sender has reset it at its deadline
        }
    }
}

bool run(frames::Endpoint &end, tack_config *config) {
    frames::Receiver receiver{tack_frame_receiver_new()};
    Counts counts;
    while (!end.is_closed()) {
        if (!end.turn(config, UINT64_MAX)) {
            return false;
        }
        if (end.conn() != nullptr) {
            tack_frame_receiver_read(receiver.get(), end.conn());
            take(receiver.get(), counts);
        }
    }
    std::printf("frames: %llu whole, %llu lost, %llu bytes\n", static_cast<unsigned long long>(counts.whole),
                static_cast<unsigned long long>(counts.lost), static_cast<unsigned long long>(counts.bytes));
    return end.report();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: %s HOST PORT CERTIFICATE KEY\n", argv[0]);
        return 2;
    }
    frames::Config config = frames::config();
    if (!config || tack_config_load_cert_chain_from_pem_file(config.get(), argv[3]) != 0 ||
        tack_config_load_priv_key_from_pem_file(config.get(), argv[4]) != 0) {
        std::fprintf(stderr, "cannot load %s or %s\n", argv[3], argv[4]);
        return 1;
    }
    frames::Endpoint end;
    if (!end.open(argv[1], argv[2], true)) {
        return 1;
    }
    end.print_port();
    return run(end, config.get()) ? 0 : 1;
}
