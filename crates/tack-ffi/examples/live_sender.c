// Sends pictures and sound with deadlines: live_sender HOST PORT CERTIFICATE PICTURES
//
// A picture needs the one before, except the first of a group; each has a piece of sound. The C++ example shows how an
// encoder follows the rate of the path.

#include "endpoint.h" // first: it asks for ppoll

#include <stdlib.h>
#include <time.h>

#define SECOND 1000000000u
#define INTERVAL (SECOND / 30)
#define LIFETIME (SECOND / 2)
#define GROUP 10
#define KEY_LEN 9000
#define DELTA_LEN 1500
#define AUDIO_LEN 160

struct source {
    tack_frame_sender *frames;
    uint64_t pictures, made, last;
    uint64_t taken, dropped;
    // When the next picture is due, and when all have arrived or are late; nanoseconds.
    uint64_t next, end;
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

// Makes a picture, and the sound that goes with it. Returns 0, or -1 with a message.
static int make_frames(struct source *source, tack_conn *conn) {
    static const uint8_t payload[KEY_LEN];
    bool is_key = source->made % GROUP == 0 || source->last == TACK_NO_FRAME;
    int64_t picture = tack_frame_sender_send(source->frames, conn, is_key ? TACK_FRAME_KEY : TACK_FRAME_DELTA, 0, 0,
                                             LIFETIME, is_key ? TACK_NO_FRAME : source->last, payload,
                                             is_key ? KEY_LEN : DELTA_LEN);
    int64_t sound = tack_frame_sender_send(source->frames, conn, TACK_FRAME_AUDIO, 0, 0, LIFETIME, TACK_NO_FRAME,
                                           payload, AUDIO_LEN);
    if (picture < 0 || sound < 0) {
        fprintf(stderr, "cannot send: error %lld\n", (long long)(picture < 0 ? picture : sound));
        return -1;
    }
    source->last = (uint64_t)picture;
    source->made++;
    source->next = now() + INTERVAL;
    source->end = now() + 2 * (uint64_t)LIFETIME;
    return 0;
}

// Follows what has become of frames. A picture that is not delivered has the next one stand for itself.
static void follow(struct source *source) {
    tack_frame_sender_event event;
    event.size = sizeof(event);
    while (tack_frame_sender_next(source->frames, &event) == 0) {
        if (event.event_type == TACK_FRAME_SENDER_EVENT_TAKEN) {
            source->taken++;
        } else if (event.event_type == TACK_FRAME_SENDER_EVENT_DROPPED) {
            printf("frame %llu is dropped: cause %d\n", (unsigned long long)event.number, (int)event.cause);
            source->dropped++;
            source->last = TACK_NO_FRAME;
        }
    }
}

static int run(struct endpoint *end, struct source *source) {
    while (!tack_conn_is_closed(end->conn)) {
        uint64_t most = UINT64_MAX;
        if (tack_conn_is_established(end->conn) && !tack_conn_is_draining(end->conn)) {
            bool is_done = source->made == source->pictures;
            uint64_t due = is_done ? source->end : source->next, at = now();
            if (at < due) {
                most = due - at;
            } else if (is_done) {
                tack_conn_close(end->conn, true, 0, NULL, 0);
            } else if (make_frames(source, end->conn) != 0) {
                return -1;
            } else {
                most = INTERVAL;
            }
        }
        if (endpoint_turn(end, NULL, most) != 0) {
            return -1;
        }
        // It fails where the connection is over.
        (void)tack_frame_sender_flush(source->frames, end->conn);
        follow(source);
    }
    printf("frames: %llu taken, %llu dropped\n", (unsigned long long)source->taken,
           (unsigned long long)source->dropped);
    return endpoint_report(end) ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST PORT CERTIFICATE PICTURES\n", argv[0]);
        return 2;
    }
    struct endpoint end;
    struct source source = {tack_frame_sender_new(0), strtoull(argv[4], NULL, 10), 0, TACK_NO_FRAME, 0, 0, 0, 0};
    tack_config *config = endpoint_config("tack-live");
    if (source.frames == NULL || config == NULL ||
        tack_config_load_verify_locations_from_file(config, argv[3]) != 0) {
        fprintf(stderr, "cannot load %s\n", argv[3]);
        return 1;
    }
    tack_config_set_profile(config, TACK_PROFILE_VIDEO);
    tack_config_verify_peer(config, true);
    if (endpoint_open(&end, argv[1], argv[2], false) != 0 || endpoint_connect(&end, "localhost", config) != 0) {
        return 1;
    }
    int result = run(&end, &source);
    endpoint_close(&end);
    tack_frame_sender_free(source.frames);
    tack_config_free(config);
    return result == 0 ? 0 : 1;
}
