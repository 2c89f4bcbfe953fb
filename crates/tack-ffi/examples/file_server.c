// Serves one file to one client: file_server HOST PORT CERTIFICATE KEY FILE
//
// The client opens a stream and ends it; the file is the answer.

#include "endpoint.h"

// What is left of the file.
struct answer {
    FILE *file;
    uint8_t block[65536];
    size_t len, written;
    bool is_asked, is_all_read, is_done;
};

static int write_answer(tack_conn *conn, struct answer *answer) {
    while (!answer->is_done) {
        if (answer->written == answer->len && !answer->is_all_read) {
            answer->len = fread(answer->block, 1, sizeof(answer->block), answer->file);
            answer->written = 0;
            answer->is_all_read = answer->len < sizeof(answer->block);
            if (ferror(answer->file)) {
                fprintf(stderr, "cannot read the file\n");
                return -1;
            }
        }
        uint64_t code = 0;
        ssize_t written = tack_conn_stream_send(conn, 0, answer->block + answer->written,
                                                answer->len - answer->written, answer->is_all_read, &code);
        if (written == TACK_ERR_DONE) {
            return 0; // no room: the rest goes when some has left
        }
        if (written < 0) {
            fprintf(stderr, "cannot write: error %zd, code %llu\n", written, (unsigned long long)code);
            return -1;
        }
        answer->written += (size_t)written;
        answer->is_done = answer->is_all_read && answer->written == answer->len;
    }
    return 0;
}

static int serve(struct endpoint *end, tack_config *config, struct answer *answer) {
    while (end->conn == NULL || !tack_conn_is_closed(end->conn)) {
        if (endpoint_turn(end, config, UINT64_MAX) != 0) {
            return -1;
        }
        if (!answer->is_asked && end->conn != NULL) {
            uint8_t request[16];
            bool is_end = false;
            uint64_t code;
            while (tack_conn_stream_recv(end->conn, 0, request, sizeof(request), &is_end, &code) >= 0) {
                answer->is_asked = answer->is_asked || is_end;
            }
        }
        if (answer->is_asked && !tack_conn_is_draining(end->conn) && write_answer(end->conn, answer) != 0) {
            return -1;
        }
    }
    return endpoint_report(end) ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s HOST PORT CERTIFICATE KEY FILE\n", argv[0]);
        return 2;
    }
    static struct answer answer;
    struct endpoint end;
    tack_config *config = endpoint_config("tack-file");
    answer.file = fopen(argv[5], "rb");
    if (answer.file == NULL || config == NULL ||
        tack_config_load_cert_chain_from_pem_file(config, argv[3]) != 0 ||
        tack_config_load_priv_key_from_pem_file(config, argv[4]) != 0) {
        fprintf(stderr, "cannot open %s, %s or %s\n", argv[5], argv[3], argv[4]);
        return 1;
    }
    if (endpoint_open(&end, argv[1], argv[2], true) != 0) {
        return 1;
    }
    endpoint_print_port(&end);
    int result = serve(&end, config, &answer);
    endpoint_close(&end);
    tack_config_free(config);
    fclose(answer.file);
    return result == 0 ? 0 : 1;
}
