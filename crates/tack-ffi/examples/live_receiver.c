// Receives pictures and sound of one sender, and prints each: live_receiver HOST PORT CERTIFICATE KEY

#include "endpoint.h"

static const char *const KINDS[] = {"unknown", "key", "delta", "audio"};

// Prints what has come. A program would decode the payload, which belongs to the receiver until its next event.
static void print_frames(tack_frame_receiver *receiver) {
    tack_frame_receiver_event event;
    event.size = sizeof(event);
    while (tack_frame_receiver_next(receiver, &event) == 0) {
        switch (event.event_type) {
        case TACK_FRAME_RECEIVER_EVENT_FRAME:
            printf("frame %llu: %s, %zu bytes", (unsigned long long)event.number, KINDS[event.kind],
                   event.payload_len);
            if (event.depends_on != TACK_NO_FRAME) {
                printf(", needs %llu", (unsigned long long)event.depends_on);
            }
            printf("\n");
            break;
        case TACK_FRAME_RECEIVER_EVENT_LOST:
            printf("lost: %s\n", KINDS[event.kind]);
            break;
        case TACK_FRAME_RECEIVER_EVENT_MALFORMED:
            printf("stream %llu holds no frame: error %d\n", (unsigned long long)event.stream_id, (int)event.error);
            break;
        default:
            break;
        }
    }
}

static int run(struct endpoint *end, tack_config *config, tack_frame_receiver *receiver) {
    while (end->conn == NULL || !tack_conn_is_closed(end->conn)) {
        if (endpoint_turn(end, config, UINT64_MAX) != 0) {
            return -1;
        }
        if (end->conn != NULL) {
            tack_frame_receiver_read(receiver, end->conn);
            print_frames(receiver);
        }
    }
    return endpoint_report(end) ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST PORT CERTIFICATE KEY\n", argv[0]);
        return 2;
    }
    struct endpoint end;
    tack_config *config = endpoint_config("tack-live");
    tack_frame_receiver *receiver = tack_frame_receiver_new();
    if (config == NULL || receiver == NULL ||
        tack_config_load_cert_chain_from_pem_file(config, argv[3]) != 0 ||
        tack_config_load_priv_key_from_pem_file(config, argv[4]) != 0) {
        fprintf(stderr, "cannot load %s or %s\n", argv[3], argv[4]);
        return 1;
    }
    if (endpoint_open(&end, argv[1], argv[2], true) != 0) {
        return 1;
    }
    endpoint_print_port(&end);
    int result = run(&end, config, receiver);
    endpoint_close(&end);
    tack_frame_receiver_free(receiver);
    tack_config_free(config);
    return result == 0 ? 0 : 1;
}
