// What the tests in C share: a client and a server in one process, whose datagrams go from hand to hand.

#ifndef TACK_TESTS_PAIR_H
#define TACK_TESTS_PAIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tacklib.h>

#define CHECK(condition)                                                                                         \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            exit(1);                                                                                             \
        }                                                                                                        \
    } while (0)

#define INVALID TACK_ERR_INVALID_ARGUMENT

static const uint8_t ID[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

// A client and a server, and where they think to be.
struct pair {
    tack_config *client_config, *server_config;
    tack_conn *client, *server;
    struct sockaddr_in client_at, server_at;
};

static inline struct sockaddr_in address(uint16_t port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline tack_config *config(void) {
    tack_config *config = tack_config_new(TACK_PROTOCOL_VERSION);
    CHECK(config != NULL);
    CHECK(tack_config_set_application_protos(config, (const uint8_t *)"\x04test", 5) == 0);
    tack_config_set_max_idle_timeout(config, 5000);
    tack_config_set_active_connection_id_limit(config, 2);
    tack_config_set_initial_max_data(config, 1 << 20);
    tack_config_set_initial_max_stream_data_bidi_local(config, 1 << 18);
    tack_config_set_initial_max_stream_data_bidi_remote(config, 1 << 18);
    tack_config_set_initial_max_stream_data_uni(config, 1 << 18);
    tack_config_set_initial_max_streams_bidi(config, 4);
    tack_config_set_initial_max_streams_uni(config, 4);
    tack_config_enable_dgram(config, true, 16, 16);
    tack_config_log_keys(config);
    return config;
}

// What `from` may send now goes to `to`. Returns how many datagrams.
static inline int pass(struct pair *p, bool to_server, bool with_ecn) {
    tack_conn *from = to_server ? p->client : p->server, *to = to_server ? p->server : p->client;
    uint8_t datagram[1500];
    tack_send_info info;
    int count = 0;
    ssize_t len;
    while ((len = tack_conn_send(from, datagram, sizeof(datagram), &info)) > 0) {
        tack_recv_info received = {(struct sockaddr *)&info.from, info.from_len, (struct sockaddr *)&info.to,
                                   info.to_len};
        uint8_t ecn = tack_conn_send_ecn(from);
        ssize_t read = with_ecn ? tack_conn_recv_at(to, datagram, (size_t)len, &received, ecn, 1000)
                                : tack_conn_recv(to, datagram, (size_t)len, &received);
        CHECK(read == len);
        count++;
    }
    CHECK(len == TACK_ERR_DONE);
    return count;
}

// Goes on until nothing more is to be said for some time.
static inline void talk(struct pair *p, bool with_ecn) {
    for (int idle = 0; idle < 20;) {
        idle = pass(p, true, with_ecn) + pass(p, false, with_ecn) > 0 ? 0 : idle + 1;
        struct timespec millisecond = {0, 1000000};
        nanosleep(&millisecond, NULL);
        if (tack_conn_timeout_as_nanos(p->client) == 0) {
            tack_conn_on_timeout(p->client);
        }
        if (tack_conn_timeout_as_nanos(p->server) == 0) {
            tack_conn_on_timeout(p->server);
        }
    }
}

// Makes the connections of both ends; the client has the first 16 bytes of ID, the server the last ones.
static inline void join(struct pair *p) {
    const struct sockaddr *client = (struct sockaddr *)&p->client_at, *server = (struct sockaddr *)&p->server_at;
    p->client = tack_connect("localhost", ID, 16, client, sizeof(p->client_at), server, sizeof(p->server_at),
                             p->client_config);
    p->server = tack_accept(ID + 4, 16, NULL, 0, server, sizeof(p->server_at), client, sizeof(p->client_at),
                            p->server_config);
    CHECK(p->client != NULL && p->server != NULL);
}

// Configures both ends with a profile, and makes their connections.
static inline void begin(struct pair *p, const char *certificate, const char *key, int profile) {
    p->client_config = config();
    p->server_config = config();
    CHECK(tack_config_set_profile(p->client_config, profile) == 0);
    CHECK(tack_config_set_profile(p->server_config, profile) == 0);
    // What the tests write is taken at once, on a slow machine too.
    tack_config_set_send_buffer_time(p->client_config, 0);
    CHECK(tack_config_load_verify_locations_from_file(p->client_config, certificate) == 0);
    CHECK(tack_config_load_cert_chain_from_pem_file(p->server_config, certificate) == 0);
    CHECK(tack_config_load_priv_key_from_pem_file(p->server_config, key) == 0);
    tack_config_verify_peer(p->client_config, true);
    p->client_at = address(1);
    p->server_at = address(2);
    join(p);
}

static inline void end(struct pair *p) {
    tack_conn_free(p->client);
    tack_conn_free(p->server);
    tack_config_free(p->client_config);
    tack_config_free(p->server_config);
}

#endif
