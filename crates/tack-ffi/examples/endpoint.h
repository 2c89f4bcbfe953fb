// What the examples share: a UDP socket, and the loop of one connection over it with ppoll().
//
// It is C11 and C++17. A program of many connections has one socket for all, finds the connection of a datagram
// by the destination that tack_header_info tells, and waits for the earliest of their timeouts.

#ifndef TACK_EXAMPLES_ENDPOINT_H
#define TACK_EXAMPLES_ENDPOINT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // ppoll
#endif

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <tacklib.h>

#define ENDPOINT_ID_LEN 16
#define ENDPOINT_DATAGRAM_LEN 1350

struct endpoint {
    int socket;
    struct sockaddr_storage local;
    socklen_t local_len;
    tack_conn *conn;
};

// Opens a socket for a server at an address, or for a client of a server there. Returns 0, or -1 with a message.
static inline int endpoint_open(struct endpoint *end, const char *host, const char *port, bool is_server) {
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = is_server ? AI_PASSIVE : 0;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        fprintf(stderr, "cannot resolve %s port %s: %s\n", host, port, gai_strerror(error));
        return -1;
    }
    end->conn = NULL;
    end->local_len = sizeof(end->local);
    end->socket = socket(found->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    // A client's socket is connected, so that it knows its own address.
    error = end->socket < 0 ? -1
            : is_server     ? bind(end->socket, found->ai_addr, found->ai_addrlen)
                            : connect(end->socket, found->ai_addr, found->ai_addrlen);
    if (error == 0) {
        error = getsockname(end->socket, (struct sockaddr *)&end->local, &end->local_len);
    }
    if (error != 0) {
        fprintf(stderr, "cannot open a socket for %s port %s: %s\n", host, port, strerror(errno));
    }
    freeaddrinfo(found);
    return error;
}

// Prints the port that a server has got.
static inline void endpoint_print_port(const struct endpoint *end) {
    char port[16] = "";
    getnameinfo((const struct sockaddr *)&end->local, end->local_len, NULL, 0, port, sizeof(port),
                NI_NUMERICSERV);
    printf("listening on port %s\n", port);
    fflush(stdout);
}

// What both ends of the examples are configured with. Returns NULL if there is no memory for it.
static inline tack_config *endpoint_config(const char *protocol) {
    tack_config *config = tack_config_new(TACK_PROTOCOL_VERSION);
    if (config == NULL) {
        return NULL;
    }
    uint8_t protocols[256];
    size_t len = strlen(protocol) & 0xff;
    protocols[0] = (uint8_t)len;
    memcpy(protocols + 1, protocol, len);
    tack_config_set_application_protos(config, protocols, len + 1);
    tack_config_set_max_idle_timeout(config, 10000);
    tack_config_set_max_recv_udp_payload_size(config, 65527);
    tack_config_set_max_send_udp_payload_size(config, ENDPOINT_DATAGRAM_LEN);
    tack_config_set_initial_max_data(config, 16 << 20);
    tack_config_set_initial_max_stream_data_bidi_local(config, 4 << 20);
    tack_config_set_initial_max_stream_data_bidi_remote(config, 4 << 20);
    tack_config_set_initial_max_stream_data_uni(config, 4 << 20);
    tack_config_set_initial_max_streams_bidi(config, 16);
    tack_config_set_initial_max_streams_uni(config, 256);
    return config;
}

// Connects to the server that endpoint_open was given. Returns 0, or -1 with a message.
static inline int endpoint_connect(struct endpoint *end, const char *server_name, tack_config *config) {
    uint8_t id[ENDPOINT_ID_LEN];
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof(peer);
    if (getentropy(id, sizeof(id)) == 0 &&
        getpeername(end->socket, (struct sockaddr *)&peer, &peer_len) == 0) {
        end->conn = tack_connect(server_name, id, sizeof(id), (struct sockaddr *)&end->local,
                                 end->local_len, (struct sockaddr *)&peer, peer_len, config);
    }
    if (end->conn == NULL) {
        fprintf(stderr, "cannot connect to %s\n", server_name);
        return -1;
    }
    return 0;
}

// Makes the connection of a client whose first datagram this is. Returns whether there is one.
static inline bool endpoint_accept(struct endpoint *end, const uint8_t *datagram, size_t len,
                                   const struct sockaddr *peer, socklen_t peer_len, tack_config *config) {
    uint8_t type, scid[TACK_MAX_CONN_ID_LEN], dcid[TACK_MAX_CONN_ID_LEN], token[1];
    size_t scid_len = sizeof(scid), dcid_len = sizeof(dcid), token_len = sizeof(token);
    uint32_t version;
    if (tack_header_info(datagram, len, ENDPOINT_ID_LEN, &version, &type, scid, &scid_len, dcid, &dcid_len,
                         token, &token_len) != 0) {
        return false;
    }
    if (!tack_version_is_supported(version)) {
        uint8_t out[ENDPOINT_DATAGRAM_LEN];
        ssize_t out_len = tack_negotiate_version(scid, scid_len, dcid, dcid_len, out, sizeof(out));
        if (out_len > 0) {
            sendto(end->socket, out, (size_t)out_len, 0, peer, peer_len);
        }
        return false;
    }
    uint8_t id[ENDPOINT_ID_LEN];
    if (getentropy(id, sizeof(id)) != 0) {
        return false;
    }
    end->conn = tack_accept(id, sizeof(id), NULL, 0, (struct sockaddr *)&end->local, end->local_len, peer,
                            peer_len, config);
    return end->conn != NULL;
}

// Sends what may leave now. Returns 0, or -1 with a message.
static inline int endpoint_send(struct endpoint *end) {
    static uint8_t datagram[ENDPOINT_DATAGRAM_LEN];
    tack_send_info info;
    ssize_t len;
    while ((len = tack_conn_send(end->conn, datagram, sizeof(datagram), &info)) >= 0) {
        ssize_t sent = sendto(end->socket, datagram, (size_t)len, 0, (struct sockaddr *)&info.to, info.to_len);
        // A full socket buffer and an ICMP message are losses.
        if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED) {
            fprintf(stderr, "cannot send: %s\n", strerror(errno));
            return -1;
        }
    }
    if (len != TACK_ERR_DONE) {
        fprintf(stderr, "cannot write a packet: error %zd\n", len);
        return -1;
    }
    return 0;
}

// Receives all that waits. The first datagram of a client makes the connection of a server, which has given its
// configuration; a client has given NULL.
static inline void endpoint_receive(struct endpoint *end, tack_config *config) {
    static uint8_t datagram[65536];
    for (;;) {
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof(peer);
        ssize_t len =
            recvfrom(end->socket, datagram, sizeof(datagram), 0, (struct sockaddr *)&peer, &peer_len);
        if (len < 0) {
            return;
        }
        if (end->conn == NULL &&
            !endpoint_accept(end, datagram, (size_t)len, (struct sockaddr *)&peer, peer_len, config)) {
            continue;
        }
        tack_recv_info info = {(struct sockaddr *)&peer, peer_len, (struct sockaddr *)&end->local,
                               end->local_len};
        // A datagram that cannot be read is not the connection's end.
        (void)tack_conn_recv(end->conn, datagram, (size_t)len, &info);
    }
}

// Sends, waits for a datagram or for a timer, but no longer than `most` nanoseconds, and receives. Returns 0, or
// -1 with a message.
static inline int endpoint_turn(struct endpoint *end, tack_config *config, uint64_t most) {
    uint64_t nanos = UINT64_MAX;
    if (end->conn != NULL) {
        if (endpoint_send(end) != 0) {
            return -1;
        }
        nanos = tack_conn_timeout_as_nanos(end->conn);
    }
    nanos = nanos < most ? nanos : most;
    struct timespec wait = {(time_t)(nanos / 1000000000), (long)(nanos % 1000000000)};
    struct pollfd ready = {end->socket, POLLIN, 0};
    if (ppoll(&ready, 1, nanos == UINT64_MAX ? NULL : &wait, NULL) > 0) {
        endpoint_receive(end, config);
    }
    if (end->conn != NULL && tack_conn_timeout_as_nanos(end->conn) == 0) {
        tack_conn_on_timeout(end->conn);
    }
    return 0;
}

// Prints what became of the connection and what the layer has counted. Returns whether the connection has ended
// as it should, by one of the applications.
static inline bool endpoint_report(const struct endpoint *end) {
    bool is_app = false;
    uint64_t code = 0;
    const uint8_t *reason = NULL;
    size_t reason_len = 0;
    bool has_ended = tack_conn_peer_error(end->conn, &is_app, &code, &reason, &reason_len) ||
                     tack_conn_local_error(end->conn, &is_app, &code, &reason, &reason_len);
    bool is_good = has_ended && is_app && code == 0;
    if (!is_good) {
        fprintf(stderr, "the connection has failed: %s, error %llu, %.*s\n",
                tack_conn_is_timed_out(end->conn) ? "it has timed out" : is_app ? "the application" : "QUIC",
                (unsigned long long)code, (int)reason_len, (const char *)reason);
    }
    tack_stats stats;
    tack_stats_tack layer;
    memset(&layer, 0, sizeof(layer));
    layer.size = sizeof(layer);
    tack_conn_stats(end->conn, &stats);
    tack_conn_stats_tack(end->conn, &layer);
    printf("TACK: %s\n", tack_conn_is_tack(end->conn) ? "yes" : "no");
    printf("packets: %zu sent, %zu received, %zu lost\n", stats.sent, stats.recv, stats.lost);
    printf("acknowledgements: %llu TACKs and %llu IACKs sent, %llu and %llu received\n",
           (unsigned long long)layer.tacks_sent, (unsigned long long)layer.iacks_sent,
           (unsigned long long)layer.tacks_received, (unsigned long long)layer.iacks_received);
    return is_good;
}

static inline void endpoint_close(struct endpoint *end) {
    tack_conn_free(end->conn);
    close(end->socket);
}

#endif
