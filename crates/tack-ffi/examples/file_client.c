// Fetches a file: file_client HOST PORT CERTIFICATE FILE
//
// CERTIFICATE is what the server is known by, with the name "localhost".

#include "endpoint.h"

// Writes what has come to the file. Returns 1 at its end, 0 before that, or -1 with a message.
static int read_answer(tack_conn *conn, FILE *file) {
    static uint8_t block[65536];
    bool is_end = false;
    uint64_t code = 0;
    ssize_t len;
    while ((len = tack_conn_stream_recv(conn, 0, block, sizeof(block), &is_end, &code)) >= 0) {
        if (fwrite(block, 1, (size_t)len, file) != (size_t)len) {
            fprintf(stderr, "cannot write the file: %s\n", strerror(errno));
            return -1;
        }
        if (is_end) {
            return 1;
        }
    }
    if (len == TACK_ERR_STREAM_RESET) {
        fprintf(stderr, "the server has reset the stream: code %llu\n", (unsigned long long)code);
        return -1;
    }
    return 0;
}

static int fetch(struct endpoint *end, FILE *file) {
    bool is_asked = false, is_all = false;
    while (!tack_conn_is_closed(end->conn)) {
        if (endpoint_turn(end, NULL, UINT64_MAX) != 0) {
            return -1;
        }
        if (tack_conn_is_established(end->conn) && !is_asked) {
            uint64_t code;
            is_asked = tack_conn_stream_send(end->conn, 0, NULL, 0, true, &code) == 0;
        }
        if (is_asked && !is_all) {
            int result = read_answer(end->conn, file);
            if (result < 0) {
                return -1;
            }
            is_all = result == 1;
            if (is_all) {
                tack_conn_close(end->conn, true, 0, NULL, 0);
            }
        }
    }
    return endpoint_report(end) && is_all ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST PORT CERTIFICATE FILE\n", argv[0]);
        return 2;
    }
    struct endpoint end;
    tack_config *config = endpoint_config("tack-file");
    FILE *file = fopen(argv[4], "wb");
    if (file == NULL || config == NULL ||
        tack_config_load_verify_locations_from_file(config, argv[3]) != 0) {
        fprintf(stderr, "cannot open %s or %s\n", argv[4], argv[3]);
        return 1;
    }
    tack_config_verify_peer(config, true);
    if (endpoint_open(&end, argv[1], argv[2], false) != 0 ||
        endpoint_connect(&end, "localhost", config) != 0) {
        return 1;
    }
    int result = fetch(&end, file);
    endpoint_close(&end);
    tack_config_free(config);
    if (fclose(file) != 0) {
        fprintf(stderr, "cannot write %s: %s\n", argv[4], strerror(errno));
        result = -1;
    }
    return result == 0 ? 0 : 1;
}
