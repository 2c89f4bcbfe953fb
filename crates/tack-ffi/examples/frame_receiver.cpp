// Receives the frames of one sender and counts them: frame_receiver HOST PORT CERTIFICATE KEY

#include <map>

#include "frames.hpp"

namespace {

constexpr std::size_t LONGEST_FRAME = 1 << 20;

// A frame of which some has come.
struct Frame {
    std::size_t received = 0, length = 0;
};

struct Counts {
    std::uint64_t whole = 0, incomplete = 0, bytes = 0;
};

// Reads what has come of a frame. Returns whether that is all that will.
bool read(tack_conn *conn, std::uint64_t stream, Frame &frame, Counts &counts) {
    static std::uint8_t block[65536];
    std::uint64_t code = 0;
    bool is_end = false;
    ssize_t len;
    while ((len = tack_conn_stream_recv(conn, stream, block, sizeof(block), &is_end, &code)) >= 0) {
        for (ssize_t at = 0; at < len && frame.received + at < frames::HEADER_LEN; at++) {
            frame.length = frame.length << 8 | block[at];
        }
        frame.received += static_cast<std::size_t>(len);
        counts.bytes += static_cast<std::uint64_t>(len);
        if (frame.received >= frames::HEADER_LEN && frame.length > LONGEST_FRAME) {
            tack_conn_stream_shutdown(conn, stream, TACK_SHUTDOWN_READ, 0);
            counts.incomplete++;
            return true;
        }
        if (is_end) {
            bool is_whole = frame.received == frames::HEADER_LEN + frame.length;
            (is_whole ? counts.whole : counts.incomplete)++;
            return true;
        }
    }
    if (len != TACK_ERR_DONE) {
        counts.incomplete++; // the sender has reset the stream at its deadline
        return true;
    }
    return false;
}

bool run(frames::Endpoint &end, tack_config *config) {
    std::map<std::uint64_t, Frame> incoming;
    Counts counts;
    while (!end.is_closed()) {
        if (!end.turn(config, UINT64_MAX)) {
            return false;
        }
        for (std::int64_t id; (id = tack_conn_stream_readable_next(end.conn())) >= 0;) {
            auto stream = static_cast<std::uint64_t>(id);
            if (read(end.conn(), stream, incoming[stream], counts)) {
                incoming.erase(stream);
            }
        }
    }
    std::printf("frames: %llu whole, %llu incomplete, %llu bytes\n",
                static_cast<unsigned long long>(counts.whole),
                static_cast<unsigned long long>(counts.incomplete + incoming.size()),
                static_cast<unsigned long long>(counts.bytes));
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
