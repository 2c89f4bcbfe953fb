// Tests of paths from C: connection ids, path validation, migration, and the events of both; and of what a connection
// is given before its handshake: sessions, early data, a Retry.

#include "pair.h"

static struct sockaddr *at(struct sockaddr_in *address) {
    return (struct sockaddr *)address;
}

static const socklen_t LEN = sizeof(struct sockaddr_in);

// Takes the next event, which has to be of this kind.
static tack_path_event *expect(tack_conn *conn, enum tack_path_event_type type) {
    tack_path_event *event = tack_conn_path_event_next(conn);
    CHECK(event != NULL && tack_path_event_type(event) == type);
    return event;
}

static void connection_ids_are_given_and_retired(struct pair *p) {
    uint64_t seq = 0;
    const uint8_t *id;
    size_t len;
    CHECK(tack_conn_scids_left(p->server) == 1 && tack_conn_active_scids(p->server) == 1);
    CHECK(tack_conn_new_scid(p->server, ID, 21, ID, false, &seq) == INVALID);
    CHECK(tack_conn_new_scid(p->server, ID + 1, 16, ID, false, NULL) == INVALID);
    CHECK(tack_conn_new_scid(p->server, ID + 1, 16, ID, false, &seq) == 0 && seq == 1);
    CHECK(tack_conn_new_scid(p->client, ID + 2, 16, ID + 2, false, &seq) == 0);
    CHECK(tack_conn_new_scid(p->server, ID + 3, 16, ID + 3, false, &seq) == TACK_ERR_ID_LIMIT);
    talk(p, false);
    CHECK(tack_conn_available_dcids(p->client) == 1 && tack_conn_active_scids(p->server) == 2);
    CHECK(tack_conn_retired_scids(p->server) == 0);
    tack_connection_id_iter *none = tack_conn_retired_scid_iter(p->server);
    CHECK(!tack_connection_id_iter_next(none, &id, &len));
    tack_connection_id_iter_free(none);
    CHECK(tack_conn_retire_dcid(p->client, 99) < 0);
}

static void a_client_migrates_and_both_ends_hear_of_it(struct pair *p, struct sockaddr_in *elsewhere) {
    uint64_t seq;
    struct sockaddr_storage local, peer;
    socklen_t local_len = 0, peer_len = 0;
    CHECK(tack_conn_path_event_next(p->client) == NULL);
    CHECK(tack_conn_probe_path(p->client, at(elsewhere), LEN, NULL, 0, &seq) == INVALID);
    CHECK(tack_conn_probe_path(p->client, at(elsewhere), LEN, at(&p->server_at), LEN, NULL) == INVALID);
    CHECK(tack_conn_probe_path(p->client, at(elsewhere), LEN, at(&p->server_at), LEN, &seq) == 0);
    talk(p, false);
    tack_path_event *event = expect(p->client, TACK_PATH_EVENT_VALIDATED);
    tack_path_event_new(event, &local, &local_len, &peer, &peer_len);
    CHECK(local_len == 0); // it is of another kind
    tack_path_event_validated(event, &local, &local_len, &peer, &peer_len);
    CHECK(local_len == LEN && memcmp(&local, elsewhere, LEN) == 0);
    CHECK(peer_len == LEN && memcmp(&peer, &p->server_at, LEN) == 0);
    tack_path_event_validated(event, NULL, NULL, NULL, NULL);
    tack_path_event_free(event);
    event = expect(p->server, TACK_PATH_EVENT_NEW);
    tack_path_event_new(event, &local, &local_len, &peer, &peer_len);
    CHECK(memcmp(&local, &p->server_at, LEN) == 0 && memcmp(&peer, elsewhere, LEN) == 0);
    tack_path_event_free(event);
    tack_path_event_free(expect(p->server, TACK_PATH_EVENT_VALIDATED));

    CHECK(tack_conn_migrate(p->client, at(elsewhere), LEN, at(&p->server_at), LEN, NULL) == INVALID);
    CHECK(tack_conn_migrate(p->client, at(elsewhere), LEN, at(&p->server_at), LEN, &seq) == 0);
    CHECK(tack_conn_stream_send(p->client, 0, ID, sizeof(ID), true, NULL) == sizeof(ID));
    talk(p, false);
    event = expect(p->server, TACK_PATH_EVENT_PEER_MIGRATED);
    tack_path_event_peer_migrated(event, &local, &local_len, &peer, &peer_len);
    CHECK(memcmp(&peer, elsewhere, LEN) == 0);
    tack_path_event_free(event);
    CHECK(tack_conn_is_path_validated(p->server, at(&p->server_at), LEN, at(elsewhere), LEN) == 1);
    CHECK(tack_conn_send_quantum_on_path(p->client, at(elsewhere), LEN, at(&p->server_at), LEN) > 0);
    CHECK(tack_conn_send_quantum_on_path(p->client, at(elsewhere), LEN, at(elsewhere), LEN) == 0);
    CHECK(tack_conn_send_quantum_on_path(p->client, NULL, LEN, NULL, LEN) == 0);
}

// Sends what waits for the pacer or for a timer.
static ssize_t send_soon(tack_conn *conn, struct sockaddr_in *from, struct sockaddr_in *to, tack_send_info *info) {
    uint8_t out[1500];
    ssize_t len = TACK_ERR_DONE;
    for (int tries = 0; len == TACK_ERR_DONE && tries < 1000; tries++) {
        struct timespec millisecond = {0, 1000000};
        nanosleep(&millisecond, NULL);
        if (tack_conn_timeout_as_nanos(conn) == 0) {
            tack_conn_on_timeout(conn);
        }
        len = tack_conn_send_on_path(conn, out, sizeof(out), (struct sockaddr *)from, from == NULL ? 0 : LEN,
                                     (struct sockaddr *)to, to == NULL ? 0 : LEN, info);
    }
    return len;
}

static void packets_go_over_the_path_that_is_named(struct pair *p, struct sockaddr_in *elsewhere) {
    uint8_t out[1500];
    tack_send_info info;
    CHECK(tack_conn_send_ack_eliciting(p->client) == 0);
    CHECK(tack_conn_send_on_path(p->client, out, sizeof(out), at(elsewhere), 3, at(&p->server_at), LEN, &info) ==
          INVALID);
    CHECK(send_soon(p->client, elsewhere, &p->server_at, &info) > 0);
    CHECK(memcmp(&info.from, elsewhere, LEN) == 0);
    CHECK(tack_conn_send_ack_eliciting_on_path(p->client, at(elsewhere), LEN, at(&p->server_at), LEN) == 0);
    CHECK(tack_conn_send_ack_eliciting_on_path(p->client, NULL, 0, at(&p->server_at), LEN) == INVALID);
    CHECK(send_soon(p->client, NULL, NULL, &info) > 0);
    talk(p, false);
    CHECK(tack_conn_initiate_key_update(p->client) == 0);
    CHECK(tack_conn_initiate_key_update(p->client) == TACK_ERR_INVALID_STATE); // the peer has not followed
    talk(p, false);
}

static void streams_that_are_stopped_are_told(struct pair *p) {
    uint64_t code = 0, stream;
    CHECK(tack_conn_stream_send(p->client, 4, ID, sizeof(ID), false, NULL) == sizeof(ID));
    tack_stream_iter *writable = tack_conn_writable(p->client);
    bool is_listed = false;
    while (tack_stream_iter_next(writable, &stream)) {
        is_listed = is_listed || stream == 4;
    }
    tack_stream_iter_free(writable);
    CHECK(is_listed);
    talk(p, false);
    CHECK(tack_conn_stream_shutdown(p->server, 4, TACK_SHUTDOWN_READ, 9) == 0);
    talk(p, false);
    CHECK(tack_conn_stream_stopped_next(p->client) == 4);
    CHECK(tack_conn_stream_stopped_next(p->client) == -1);
    CHECK(tack_conn_stream_send(p->client, 4, ID, 1, false, &code) == TACK_ERR_STREAM_STOPPED && code == 9);
    CHECK(tack_conn_stream_unblocked_next(p->client) == -1);
}

// Once a callback has a datagram, it goes.
static bool begins_with_a(uint8_t *datagram, size_t len) {
    return len > 0 && datagram[0] == 'a';
}

static void datagrams_are_purged_and_queues_are_bounded(struct pair *p) {
    uint8_t buf[16];
    tack_conn_dgram_purge_outgoing(p->client, NULL);
    CHECK(tack_conn_dgram_send(p->client, (const uint8_t *)"a1", 2) == 2);
    CHECK(tack_conn_dgram_send(p->client, (const uint8_t *)"b2", 2) == 2);
    tack_conn_dgram_purge_outgoing(p->client, begins_with_a);
    CHECK(tack_conn_dgram_send_queue_len(p->client) == 1);
    while (!tack_conn_is_dgram_send_queue_full(p->client)) {
        CHECK(tack_conn_dgram_send(p->client, (const uint8_t *)"c", 1) == 1);
    }
    CHECK(tack_conn_dgram_send(p->client, (const uint8_t *)"c", 1) == TACK_ERR_DONE);
    talk(p, false);
    CHECK(tack_conn_is_dgram_recv_queue_full(p->server));
    CHECK(tack_conn_dgram_recv_queue_byte_size(p->server) == 2 + 15);
    CHECK(tack_conn_dgram_recv(p->server, buf, sizeof(buf)) == 2 && buf[0] == 'b');
}

static void sessions_are_resumed_with_early_data(struct pair *p) {
    const uint8_t *session;
    size_t len;
    bool is_end;
    tack_conn_session(p->client, &session, &len);
    uint8_t *kept = (uint8_t *)malloc(len);
    CHECK(kept != NULL && len > 0);
    memcpy(kept, session, len);
    tack_conn_free(p->client);
    tack_conn_free(p->server);

    join(p);
    CHECK(tack_conn_set_session(p->client, kept, len) == 0);
    free(kept);
    CHECK(pass(p, true, false) > 0 && tack_conn_is_in_early_data(p->client));
    CHECK(tack_conn_stream_send(p->client, 0, ID, sizeof(ID), true, NULL) == sizeof(ID));
    CHECK(pass(p, true, false) > 0);
    CHECK(!tack_conn_is_established(p->server) && tack_conn_is_in_early_data(p->server));
    uint8_t buf[32];
    CHECK(tack_conn_stream_recv(p->server, 0, buf, sizeof(buf), &is_end, NULL) == sizeof(ID) && is_end);
    talk(p, false);
    CHECK(tack_conn_is_resumed(p->client) && tack_conn_is_resumed(p->server));
    CHECK(tack_conn_is_tack(p->client));
}

static void a_retry_leads_to_a_connection(struct pair *p) {
    uint8_t datagram[1500], out[1500], type, scid[20], dcid[20], token[64];
    size_t scid_len = 20, dcid_len = 20, token_len = 64;
    uint32_t version;
    tack_send_info info;
    tack_conn_free(p->client);
    tack_conn_free(p->server);
    join(p);
    ssize_t len = tack_conn_send(p->client, datagram, sizeof(datagram), &info);
    CHECK(len > 0);
    CHECK(tack_header_info(datagram, (size_t)len, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == 0);
    len = tack_retry(scid, scid_len, dcid, dcid_len, ID + 3, 16, (const uint8_t *)"token", 5, version, out,
                     sizeof(out));
    CHECK(len > 0);
    tack_recv_info received = {at(&p->server_at), LEN, at(&p->client_at), LEN};
    CHECK(tack_conn_recv_with_ecn(p->client, out, (size_t)len, &received, 0) == len);
    tack_conn_free(p->server);
    p->server = tack_accept(ID + 3, 16, dcid, dcid_len, at(&p->server_at), LEN, at(&p->client_at), LEN,
                            p->server_config);
    CHECK(p->server != NULL);
    len = tack_conn_send(p->client, datagram, sizeof(datagram), &info);
    token_len = 64, scid_len = dcid_len = 20;
    CHECK(tack_header_info(datagram, (size_t)len, 16, &version, &type, scid, &scid_len, dcid, &dcid_len, token,
                           &token_len) == 0);
    CHECK(token_len == 5 && memcmp(token, "token", 5) == 0 && memcmp(dcid, ID + 3, 16) == 0);
    received.from = at(&p->client_at);
    received.to = at(&p->server_at);
    CHECK(tack_conn_recv(p->server, datagram, (size_t)len, &received) == len);
    talk(p, false);
    CHECK(tack_conn_is_established(p->client) && tack_conn_is_tack(p->client));
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    struct pair p;
    struct sockaddr_in elsewhere = address(3);
    begin(&p, argv[1], argv[2], TACK_PROFILE_DEFAULT);
    tack_config_enable_early_data(p.client_config);
    tack_config_enable_early_data(p.server_config);
    tack_config_set_datagram_max_age(p.client_config, 0);
    tack_config_set_deadline_error(p.client_config, 3);
    tack_conn_free(p.client);
    tack_conn_free(p.server);
    join(&p);
    CHECK(tack_conn_set_max_idle_timeout(p.client, 4000) == 0);
    talk(&p, false);
    CHECK(tack_conn_peer_streams_left_bidi(p.client) == 4);
    connection_ids_are_given_and_retired(&p);
    a_client_migrates_and_both_ends_hear_of_it(&p, &elsewhere);
    packets_go_over_the_path_that_is_named(&p, &elsewhere);
    streams_that_are_stopped_are_told(&p);
    datagrams_are_purged_and_queues_are_bounded(&p);
    sessions_are_resumed_with_early_data(&p);
    a_retry_leads_to_a_connection(&p);
    end(&p);
    puts("all is well");
    return 0;
}
