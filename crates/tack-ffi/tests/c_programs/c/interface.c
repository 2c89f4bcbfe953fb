// Tests of the interface from C: null pointers, wrong buffers, error codes, and what a pair of connections in one
// process says. Run with a certificate, its key, and a folder for files.

#include "pair.h"

static void configs_refuse_what_they_cannot_read(void) {
    CHECK(tack_config_new(7) == NULL);
    tack_config_free(NULL);
    CHECK(tack_config_load_cert_chain_from_pem_file(NULL, "x") == INVALID);
    tack_config_set_max_idle_timeout(NULL, 1);
    tack_config_set_cc_algorithm(NULL, TACK_CC_CUBIC);
    tack_config_set_send_buffer(NULL, 1);
    CHECK(tack_config_set_profile(NULL, TACK_PROFILE_VIDEO) == INVALID);
    CHECK(tack_config_profile(NULL) == INVALID);

    tack_config *c = tack_config_new(TACK_PROTOCOL_VERSION);
    CHECK(tack_config_load_cert_chain_from_pem_file(c, NULL) == INVALID);
    CHECK(tack_config_load_cert_chain_from_pem_file(c, "\xff\xfe") == INVALID);
    CHECK(tack_config_load_cert_chain_from_pem_file(c, "/nowhere/to/be/found") == TACK_ERR_TLS_FAIL);
    CHECK(tack_config_load_priv_key_from_pem_file(c, "/nowhere/to/be/found") == TACK_ERR_TLS_FAIL);
    CHECK(tack_config_load_verify_locations_from_file(c, "/nowhere/to/be/found") == TACK_ERR_TLS_FAIL);
    CHECK(tack_config_set_application_protos(c, NULL, 3) == INVALID);
    CHECK(tack_config_set_application_protos(c, (const uint8_t *)"\x09h3", 3) < 0);
    CHECK(tack_config_set_cc_algorithm_name(c, "no such thing") == TACK_ERR_CONGESTION_CONTROL);
    CHECK(tack_config_set_ticket_key(c, ID, 3) == TACK_ERR_TLS_FAIL);
    CHECK(tack_config_set_profile(c, 17) == INVALID);
    CHECK(tack_config_set_profile(c, -1) == INVALID);
    for (int profile = TACK_PROFILE_DEFAULT; profile <= TACK_PROFILE_OFF; profile++) {
        CHECK(tack_config_set_profile(c, profile) == 0);
        CHECK(tack_config_profile(c) == profile);
    }
    tack_config_set_cc_algorithm(c, 99);
    tack_config_set_stateless_reset_token(c, NULL);
    tack_config_free(c);
}

static void connections_need_all_they_are_made_of(void) {
    tack_config *c = config();
    struct sockaddr_in at = address(1);
    const struct sockaddr *a = (const struct sockaddr *)&at;
    socklen_t len = sizeof(at);
    CHECK(tack_connect("localhost", ID, 16, a, len, a, len, NULL) == NULL);
    CHECK(tack_connect("localhost", NULL, 16, a, len, a, len, c) == NULL);
    CHECK(tack_connect("localhost", ID, 21, a, len, a, len, c) == NULL);
    CHECK(tack_connect("\xff", ID, 16, a, len, a, len, c) == NULL);
    CHECK(tack_connect("localhost", ID, 16, NULL, 0, a, len, c) == NULL);
    CHECK(tack_connect("localhost", ID, 16, a, 3, a, len, c) == NULL);
    CHECK(tack_accept(ID, 16, ID, 21, a, len, a, len, c) == NULL);
    at.sin_family = AF_UNIX;
    CHECK(tack_connect("localhost", ID, 16, a, len, a, len, c) == NULL);
    at.sin_family = AF_INET;
    tack_conn *conn = tack_connect(NULL, ID, 16, a, len, a, len, c);
    CHECK(conn != NULL);
    tack_conn_free(conn);
    tack_config_free(c);
}

static void no_connection_is_an_error_and_no_crash(void) {
    uint8_t buf[16] = {0};
    size_t n = 77;
    const uint8_t *out = buf;
    bool b;
    uint64_t u;
    tack_send_info info;
    tack_stats stats;
    tack_path_stats path;
    tack_stats_tack layer = {.size = sizeof(layer)};
    tack_media_stats media = {.size = sizeof(media)};
    tack_conn_free(NULL);
    CHECK(tack_conn_recv(NULL, buf, 1, NULL) == INVALID);
    CHECK(tack_conn_send(NULL, buf, 16, &info) == INVALID);
    CHECK(tack_conn_stream_recv(NULL, 0, buf, 16, &b, &u) == INVALID);
    CHECK(tack_conn_stream_send(NULL, 0, buf, 16, true, &u) == INVALID);
    CHECK(tack_conn_stream_capacity(NULL, 0) == INVALID);
    CHECK(tack_conn_stream_writable(NULL, 0, 1) == INVALID);
    CHECK(tack_conn_stream_readable_next(NULL) == -1);
    CHECK(tack_conn_stream_shutdown(NULL, 0, TACK_SHUTDOWN_READ, 0) == INVALID);
    CHECK(tack_conn_readable(NULL) == NULL);
    CHECK(!tack_stream_iter_next(NULL, &u));
    tack_stream_iter_free(NULL);
    CHECK(tack_conn_timeout_as_nanos(NULL) == UINT64_MAX);
    CHECK(tack_conn_timeout_as_millis(NULL) == UINT64_MAX);
    tack_conn_on_timeout(NULL);
    CHECK(tack_conn_close(NULL, true, 0, NULL, 0) == INVALID);
    CHECK(tack_conn_is_closed(NULL) && !tack_conn_is_established(NULL));
    tack_conn_trace_id(NULL, &out, &n);
    CHECK(out == NULL && n == 0);
    CHECK(!tack_conn_peer_error(NULL, &b, &u, &out, &n));
    tack_conn_stats(NULL, &stats);
    CHECK(tack_conn_path_stats(NULL, 0, &path) == INVALID);
    CHECK(tack_conn_stats_tack(NULL, &layer) == INVALID);
    CHECK(tack_conn_media_stats(NULL, &media) == INVALID);
    CHECK(tack_conn_dgram_max_writable_len(NULL) == INVALID);
    CHECK(tack_conn_dgram_send(NULL, buf, 1) == INVALID);
    CHECK(tack_conn_path_event_next(NULL) == NULL);
    CHECK((int)tack_path_event_type(NULL) == -1);
    tack_path_event_free(NULL);
    CHECK(!tack_conn_set_keylog_path(NULL, "/tmp/x"));
    tack_conn_set_keylog_fd(NULL, -1);
    CHECK(tack_h3_conn_new_with_transport(NULL, NULL) == NULL);
    CHECK(tack_h3_conn_poll(NULL, NULL, NULL) == INVALID);
    CHECK(tack_h3_send_request(NULL, NULL, NULL, 0, true) == INVALID);
    CHECK((int)tack_h3_event_type(NULL) == -1);
    tack_h3_event_free(NULL);
    tack_h3_conn_free(NULL);
    tack_h3_config_free(NULL);
}

static void integers_have_the_lengths_of_rfc_9000(void) {
    // RFC 9000 appendix A.1.
    static const struct {
        uint64_t value;
        uint8_t bytes[8];
        size_t len;
    } EXAMPLES[] = {
        {37, {0x25}, 1},
        {15293, {0x7b, 0xbd}, 2},
        {494878333, {0x9d, 0x7f, 0x3e, 0x7d}, 4},
        {151288809941952652, {0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c}, 8},
    };
    for (size_t i = 0; i < sizeof(EXAMPLES) / sizeof(EXAMPLES[0]); i++) {
        uint8_t buf[8] = {0};
        uint64_t value = 0;
        CHECK(tack_put_varint(buf, 8, EXAMPLES[i].value) == 0);
        CHECK(memcmp(buf, EXAMPLES[i].bytes, 8) == 0);
        CHECK(tack_get_varint(buf, 8, &value) == (ssize_t)EXAMPLES[i].len);
        CHECK(value == EXAMPLES[i].value);
        CHECK(tack_put_varint(buf, EXAMPLES[i].len - 1, value) == TACK_ERR_BUFFER_TOO_SHORT);
        CHECK(tack_get_varint(buf, EXAMPLES[i].len - 1, &value) == TACK_ERR_BUFFER_TOO_SHORT);
    }
    uint8_t buf[8];
    CHECK(tack_put_varint(buf, 8, UINT64_C(1) << 62) == INVALID);
    CHECK(tack_get_varint(ID, 8, NULL) == INVALID);
}

static void packets_are_read_before_there_is_a_connection(struct pair *p) {
    uint8_t datagram[1500], type, scid[20], dcid[20], token[4], out[1500];
    tack_send_info info;
    uint32_t version;
    CHECK(tack_conn_send(p->client, NULL, 1500, &info) == INVALID);
    CHECK(tack_conn_send(p->client, datagram, 1500, NULL) == INVALID);
    ssize_t len = tack_conn_send(p->client, datagram, sizeof(datagram), &info);
    CHECK(len >= TACK_MIN_CLIENT_INITIAL_LEN);

    size_t scid_len = 3, dcid_len = 20, token_len = 4;
    CHECK(tack_header_info(datagram, (size_t)len, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == TACK_ERR_BUFFER_TOO_SHORT);
    CHECK(scid_len == 3 && dcid_len == 20);
    scid_len = 20;
    CHECK(tack_header_info(datagram, (size_t)len, 16, NULL, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == INVALID);
    CHECK(tack_header_info(datagram, 0, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) < 0);
    CHECK(tack_header_info(datagram, (size_t)len, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == 0);
    CHECK(version == TACK_PROTOCOL_VERSION && type == 1 && token_len == 0);
    CHECK(scid_len == 16 && memcmp(scid, ID, 16) == 0);

    CHECK(tack_negotiate_version(scid, scid_len, dcid, dcid_len, out, 5) == TACK_ERR_BUFFER_TOO_SHORT);
    ssize_t out_len = tack_negotiate_version(scid, scid_len, dcid, dcid_len, out, sizeof(out));
    CHECK(out_len > 0);
    scid_len = dcid_len = 20;
    CHECK(tack_header_info(out, (size_t)out_len, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == 0);
    CHECK(type == 6 && dcid_len == 16 && memcmp(dcid, ID, 16) == 0);
    CHECK(tack_retry(ID, 16, ID, 16, ID, 21, token, 4, version, out, sizeof(out)) == INVALID);
    CHECK(tack_retry(ID, 16, ID, 16, ID, 16, token, 4, 77, out, sizeof(out)) == TACK_ERR_UNKNOWN_VERSION);
    CHECK(tack_retry(ID, 16, ID, 16, ID, 16, token, 4, 1, out, sizeof(out)) > 0);
    CHECK(tack_version_is_supported(1) && !tack_version_is_supported(77));

    tack_recv_info received = {NULL, 0, (struct sockaddr *)&info.to, info.to_len};
    CHECK(tack_conn_recv(p->server, datagram, (size_t)len, NULL) == INVALID);
    CHECK(tack_conn_recv(p->server, datagram, (size_t)len, &received) == INVALID);
    received.from = (struct sockaddr *)&info.from;
    received.from_len = info.from_len;
    CHECK(tack_conn_recv(p->server, NULL, (size_t)len, &received) == INVALID);
    CHECK(tack_conn_recv(p->server, datagram, (size_t)len, &received) == len);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(info.at.tv_sec >= now.tv_sec - 5 && info.at.tv_sec <= now.tv_sec + 5);
}

static void streams_carry_data_and_errors(struct pair *p) {
    static uint8_t sent[100000], received[100000];
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (uint8_t)(i * 7);
    }
    uint64_t code = 55, stream;
    bool is_end = true;
    CHECK(tack_conn_stream_send(p->client, 0, NULL, 5, false, &code) == INVALID);
    CHECK(tack_conn_stream_send(p->client, 0, sent, sizeof(sent), true, NULL) == sizeof(sent));
    CHECK(tack_conn_stream_send(p->client, 3, sent, 1, true, &code) == TACK_ERR_INVALID_STREAM_STATE);
    CHECK(tack_conn_stream_priority(p->client, 0, 1, false) == 0);
    talk(p, true);
    tack_stream_iter *iter = tack_conn_readable(p->server);
    CHECK(!tack_stream_iter_next(iter, NULL));
    CHECK(tack_stream_iter_next(iter, &stream) && stream == 0);
    CHECK(!tack_stream_iter_next(iter, &stream));
    tack_stream_iter_free(iter);
    CHECK(tack_conn_stream_readable(p->server, 0) && tack_conn_is_readable(p->server));
    CHECK(tack_conn_stream_recv(p->server, 0, received, sizeof(received), NULL, &code) == INVALID);
    CHECK(tack_conn_stream_recv(p->server, 0, NULL, 5, &is_end, &code) == INVALID);
    CHECK(tack_conn_stream_recv(p->server, 0, received, sizeof(received), &is_end, NULL) == sizeof(received));
    CHECK(is_end && memcmp(sent, received, sizeof(sent)) == 0);
    CHECK(tack_conn_stream_finished(p->server, 0));
    CHECK(tack_conn_stream_recv(p->server, 0, received, 1, &is_end, &code) < 0);
    CHECK(tack_conn_stream_send(p->server, 0, NULL, 0, true, NULL) == 0);

    CHECK(tack_conn_stream_writable(p->client, 4, 1) < 0);
    CHECK(tack_conn_stream_send(p->client, 4, sent, 10, false, NULL) == 10);
    CHECK(tack_conn_stream_writable(p->client, 4, 1) == 1);
    CHECK(tack_conn_stream_capacity(p->client, 4) > 0);
    talk(p, false);
    CHECK(tack_conn_stream_shutdown(p->client, 4, 9, 1) == INVALID);
    CHECK(tack_conn_stream_shutdown(p->client, 4, TACK_SHUTDOWN_WRITE, 42) == 0);
    talk(p, false);
    CHECK(code == 55);
    CHECK(tack_conn_stream_recv(p->server, 4, received, 10, &is_end, &code) == TACK_ERR_STREAM_RESET);
    CHECK(code == 42);
}

static void datagrams_and_streams_have_deadlines(struct pair *p) {
    uint8_t buf[64];
    CHECK(tack_conn_dgram_max_writable_len(p->client) > 1000);
    CHECK(tack_conn_dgram_recv(p->server, buf, sizeof(buf)) == TACK_ERR_DONE);
    CHECK(tack_conn_dgram_recv_front_len(p->server) == TACK_ERR_DONE);
    CHECK(tack_conn_dgram_send(p->client, NULL, 5) == INVALID);
    CHECK(tack_conn_dgram_send(p->client, (const uint8_t *)"now", 3) == 3);
    CHECK(tack_conn_dgram_send_within(p->client, (const uint8_t *)"later", 5, UINT64_MAX) == 5);
    CHECK(tack_conn_dgram_send_within(p->client, (const uint8_t *)"late", 4, 0) == 4);
    CHECK(tack_conn_dgram_send_queue_len(p->client) == 3);
    CHECK(tack_conn_dgram_send_queue_byte_size(p->client) == 12);
    talk(p, false);
    CHECK(tack_conn_dgram_recv(p->server, buf, sizeof(buf)) == 3);
    CHECK(tack_conn_dgram_recv_queue_len(p->server) == 1);
    CHECK(tack_conn_dgram_recv(p->server, buf, 2) == TACK_ERR_BUFFER_TOO_SHORT);

    CHECK(tack_conn_set_stream_deadline(p->client, 3, 1) == TACK_ERR_INVALID_STREAM_STATE);
    CHECK(tack_conn_stream_expired_next(p->client) == -1);
    CHECK(tack_conn_stream_send(p->client, 2, ID, sizeof(ID), false, NULL) == sizeof(ID));
    CHECK(tack_conn_set_stream_deadline(p->client, 2, 0) == 0);
    CHECK(tack_conn_stream_send(p->client, 6, ID, sizeof(ID), true, NULL) == sizeof(ID));
    CHECK(tack_conn_set_stream_deadline(p->client, 6, 0) == 0);
    CHECK(tack_conn_set_stream_deadline(p->client, 6, TACK_NO_DEADLINE) == 0);
    talk(p, false);
    CHECK(tack_conn_stream_expired_next(p->client) == 2);
    CHECK(tack_conn_stream_expired_next(p->client) == -1);
    CHECK(tack_conn_stream_delivered(p->client, 6));
    tack_media_stats media = {.size = sizeof(media)};
    CHECK(tack_conn_media_stats(p->client, &media) == 0);
    CHECK(media.size == sizeof(media) && media.expired_streams == 1 && media.expired_datagrams == 1);
    CHECK(media.estimated_send_rate > 0 && media.smoothed_rtt != TACK_UNKNOWN);
    CHECK(tack_conn_send_rate_change(p->client) > 0 && tack_conn_send_rate_change(p->client) == 0);
}

static void statistics_fit_the_program_that_asks(struct pair *p) {
    tack_stats_tack layer = {.size = sizeof(layer)};
    CHECK(tack_conn_stats_tack(p->server, NULL) == INVALID);
    CHECK(tack_conn_stats_tack(p->server, &layer) == 0);
    CHECK(layer.tack && layer.tacks_sent + layer.iacks_sent > 0);
    CHECK(layer.ecn_ect0_received > 0 && layer.smoothed_rtt > 0);
    // As an older program knows it: what it does not know stays as it was.
    tack_stats_tack older = {.size = offsetof(tack_stats_tack, bandwidth), .bandwidth = 4711};
    CHECK(tack_conn_stats_tack(p->server, &older) == 0);
    CHECK(older.size == offsetof(tack_stats_tack, bandwidth) && older.tack && older.bandwidth == 4711);
    tack_stats_tack unset = {.size = 0};
    CHECK(tack_conn_stats_tack(p->server, &unset) == TACK_ERR_BUFFER_TOO_SHORT);

    tack_stats stats;
    tack_path_stats path;
    tack_transport_params params;
    tack_conn_stats(p->client, NULL);
    tack_conn_stats(p->client, &stats);
    CHECK(stats.sent > 0 && stats.paths_count == 1 && !stats.tx_buffered_inconsistent);
    CHECK(tack_conn_path_stats(p->client, 1, &path) == TACK_ERR_DONE);
    CHECK(tack_conn_path_stats(p->client, 0, NULL) == INVALID);
    CHECK(tack_conn_path_stats(p->client, 0, &path) == 0);
    CHECK(path.active && path.validation_state == 3 && path.cwnd > 0 && path.rtt > 0);
    CHECK(path.peer_addr_len == sizeof(p->server_at));
    CHECK(memcmp(&path.peer_addr, &p->server_at, sizeof(p->server_at)) == 0);
    CHECK(tack_conn_peer_transport_params(p->client, &params));
    CHECK(params.peer_initial_max_streams_uni == 4 && params.peer_max_datagram_frame_size > 0);
    CHECK(tack_conn_send_quantum(p->client) > 0 && tack_conn_max_send_udp_payload_size(p->client) >= 1200);
}

static bool equals(void (*getter)(const tack_conn *, const uint8_t **, size_t *), const tack_conn *conn,
                   const void *expected, size_t expected_len) {
    const uint8_t *out = NULL;
    size_t len = 0;
    getter(conn, NULL, NULL);
    getter(conn, &out, &len);
    return len == expected_len && memcmp(out, expected, len) == 0;
}

static void the_handshake_is_told(struct pair *p) {
    const uint8_t *out = NULL;
    size_t len = 0;
    uint64_t seq = 0;
    CHECK(tack_conn_is_established(p->client) && tack_conn_is_established(p->server));
    CHECK(tack_conn_is_tack(p->client) && tack_conn_is_tack(p->server));
    CHECK(tack_conn_is_server(p->server) && !tack_conn_is_server(p->client));
    CHECK(equals(tack_conn_application_proto, p->client, "test", 4));
    CHECK(equals(tack_conn_server_name, p->server, "localhost", 9));
    CHECK(equals(tack_conn_source_id, p->client, ID, 16));
    CHECK(equals(tack_conn_destination_id, p->client, ID + 4, 16));
    tack_conn_peer_cert(p->client, &out, &len);
    CHECK(out != NULL && len > 100);
    tack_conn_peer_cert(p->server, &out, &len);
    CHECK(len == 0);
    tack_conn_session(p->client, &out, &len);
    CHECK(out != NULL && len > 0);
    CHECK(tack_conn_set_session(p->client, out, 3) == TACK_ERR_BUFFER_TOO_SHORT);
    CHECK(tack_conn_new_scid(p->client, ID + 2, 16, NULL, false, &seq) == INVALID);
    CHECK(tack_conn_new_scid(p->client, ID + 2, 16, ID, false, &seq) == 0 && seq == 1);
    tack_connection_id_iter *ids = tack_conn_source_ids(p->client);
    int count = 0;
    for (; tack_connection_id_iter_next(ids, &out, &len); count++) {
        CHECK(len == 16);
    }
    tack_connection_id_iter_free(ids);
    CHECK(count == 2);
    struct sockaddr_storage peer;
    size_t peer_len = 0;
    const struct sockaddr *from = (const struct sockaddr *)&p->client_at;
    tack_socket_addr_iter *peers = tack_conn_paths_iter(p->client, from, sizeof(p->client_at));
    CHECK(tack_socket_addr_iter_next(peers, &peer, &peer_len) && peer_len == sizeof(p->server_at));
    CHECK(!tack_socket_addr_iter_next(peers, &peer, &peer_len));
    tack_socket_addr_iter_free(peers);
    CHECK(tack_conn_is_path_validated(p->client, from, sizeof(p->client_at),
                                      (struct sockaddr *)&p->server_at, sizeof(p->server_at)) == 1);
    CHECK(tack_conn_is_path_validated(p->client, from, sizeof(p->client_at), from, sizeof(p->client_at)) ==
          TACK_ERR_INVALID_STATE);
    uint8_t parameters[TACK_CC_PARAMETERS_LEN];
    CHECK(tack_conn_set_cc_parameters(p->client, parameters, 0) == 0);
    CHECK(tack_conn_cc_parameters(p->client, NULL, 5) == INVALID);
}

static void the_end_is_told_with_its_reason(struct pair *p) {
    bool is_app = false;
    uint64_t code = 0;
    const uint8_t *reason = NULL;
    size_t len = 0;
    CHECK(!tack_conn_peer_error(p->server, &is_app, &code, &reason, &len));
    CHECK(tack_conn_close(p->client, true, 5, NULL, 3) == INVALID);
    CHECK(tack_conn_close(p->client, true, 5, (const uint8_t *)"bye", 3) == 0);
    CHECK(tack_conn_close(p->client, true, 5, NULL, 0) == TACK_ERR_DONE);
    pass(p, true, false);
    CHECK(tack_conn_is_draining(p->server));
    CHECK(tack_conn_peer_error(p->server, &is_app, &code, &reason, &len));
    CHECK(is_app && code == 5 && len == 3 && memcmp(reason, "bye", 3) == 0);
    CHECK(tack_conn_local_error(p->client, NULL, NULL, NULL, NULL));
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) != -1;
}

static void a_descriptor_is_closed_though_another_argument_is_wrong(tack_conn *conn) {
    const char *const wrong = "\xff";
    int fd = open("/dev/null", O_WRONLY);
    CHECK(is_open(fd));
    tack_conn_set_keylog_fd(NULL, fd);
    CHECK(!is_open(fd));
    const struct {
        tack_conn *conn;
        const char *title, *description;
    } CALLS[] = {{NULL, NULL, NULL}, {conn, wrong, NULL}, {conn, NULL, wrong}};
    for (size_t i = 0; i < sizeof(CALLS) / sizeof(CALLS[0]); i++) {
        fd = open("/dev/null", O_WRONLY);
        CHECK(is_open(fd));
        tack_conn_set_qlog_fd(CALLS[i].conn, fd, CALLS[i].title, CALLS[i].description);
        CHECK(!is_open(fd));
    }
    tack_conn_set_qlog_fd(conn, -1, NULL, NULL);
}

static void logs_are_written(const char *folder) {
    char path[512];
    snprintf(path, sizeof(path), "%s/keys", folder);
    FILE *file = fopen(path, "r");
    char line[256] = "";
    CHECK(file != NULL && fgets(line, sizeof(line), file) != NULL);
    CHECK(strncmp(line, "CLIENT_", 7) == 0 || strncmp(line, "SERVER_", 7) == 0);
    fclose(file);
    snprintf(path, sizeof(path), "%s/qlog", folder);
    file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof(line), file) != NULL && strstr(line, "qlog") != NULL);
    fclose(file);
}

static void plain_quic_has_no_tack(const char *certificate, const char *key) {
    struct pair p;
    begin(&p, certificate, key, TACK_PROFILE_OFF);
    talk(&p, false);
    CHECK(tack_conn_is_established(p.client) && !tack_conn_is_tack(p.client));
    tack_stats_tack layer = {.size = sizeof(layer)};
    CHECK(tack_conn_stats_tack(p.client, &layer) == 0 && layer.tacks_sent == 0);
    end(&p);
}

static void count_line(const char *line, void *argp) {
    CHECK(line != NULL);
    ++*(size_t *)argp;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    static size_t lines;
    char path[512];
    CHECK(tack_version() != NULL && strchr(tack_version(), '.') != NULL);
    CHECK(tack_enable_debug_logging(NULL, NULL) == INVALID);
    CHECK(tack_enable_debug_logging(count_line, &lines) == 0);
    CHECK(tack_enable_debug_logging(count_line, &lines) == -1);
    configs_refuse_what_they_cannot_read();
    connections_need_all_they_are_made_of();
    no_connection_is_an_error_and_no_crash();
    integers_have_the_lengths_of_rfc_9000();
    CHECK(lines > 0); // of what went wrong

    struct pair p;
    begin(&p, argv[1], argv[2], TACK_PROFILE_VIDEO);
    snprintf(path, sizeof(path), "%s/keys", argv[3]);
    CHECK(!tack_conn_set_keylog_path(p.client, "/nowhere/to/be/found"));
    CHECK(tack_conn_set_keylog_path(p.client, path));
    tack_conn_set_keylog_fd(p.server, open("/dev/null", O_WRONLY));
    snprintf(path, sizeof(path), "%s/qlog", argv[3]);
    CHECK(tack_conn_set_qlog_path(p.server, path, "title", NULL));
    CHECK(!tack_conn_set_qlog_path(p.server, path, "title", NULL)); // it is there already
    a_descriptor_is_closed_though_another_argument_is_wrong(p.client);
    CHECK(tack_conn_set_ecn(p.client, 9) == INVALID);
    CHECK(tack_conn_set_ecn(p.client, TACK_ECN_CLASSIC) == 0);
    packets_are_read_before_there_is_a_connection(&p);
    talk(&p, true);
    the_handshake_is_told(&p);
    streams_carry_data_and_errors(&p);
    datagrams_and_streams_have_deadlines(&p);
    statistics_fit_the_program_that_asks(&p);
    the_end_is_told_with_its_reason(&p);
    end(&p);
    logs_are_written(argv[3]);
    plain_quic_has_no_tack(argv[1], argv[2]);
    puts("all is well");
    return 0;
}
