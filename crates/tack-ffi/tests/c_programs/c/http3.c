// Tests of HTTP/3 from C: a request with a body, its response with trailers, priorities, GOAWAY, settings.

#include "pair.h"

struct ends {
    tack_h3_conn *client, *server;
};

#define FIELD(name, value) {(const uint8_t *)(name), sizeof(name) - 1, (const uint8_t *)(value), sizeof(value) - 1}

// What the callbacks have seen.
struct seen {
    int count;
    char last_name[32], last_value[32];
};

static int see_header(uint8_t *name, size_t name_len, uint8_t *value, size_t value_len, void *argp) {
    struct seen *seen = (struct seen *)argp;
    CHECK(name_len < sizeof(seen->last_name) && value_len < sizeof(seen->last_value));
    seen->count++;
    memcpy(seen->last_name, name, name_len);
    memcpy(seen->last_value, value, value_len);
    seen->last_name[name_len] = seen->last_value[value_len] = '\0';
    return 0;
}

static int stop(uint8_t *name, size_t name_len, uint8_t *value, size_t value_len, void *argp) {
    (void)name, (void)name_len, (void)value, (void)value_len;
    ++*(int *)argp;
    return 17;
}

static int count_setting(uint64_t identifier, uint64_t value, void *argp) {
    // SETTINGS_MAX_FIELD_SECTION_SIZE and SETTINGS_ENABLE_CONNECT_PROTOCOL.
    *(int *)argp += (identifier == 6 && value == 4096) || (identifier == 8 && value == 1);
    return 0;
}

static int see_priority(uint8_t *value, uint64_t len, void *argp) {
    struct seen *seen = (struct seen *)argp;
    CHECK(len < sizeof(seen->last_value));
    memcpy(seen->last_value, value, len);
    seen->last_value[len] = '\0';
    return 5;
}

// Takes the next event, which has to be this one on this stream.
static tack_h3_event *expect(tack_h3_conn *conn, tack_conn *quic, enum tack_h3_event_type type, int64_t stream) {
    tack_h3_event *event = NULL;
    CHECK(tack_h3_conn_poll(conn, quic, &event) == stream);
    CHECK(event != NULL && tack_h3_event_type(event) == type);
    return event;
}

static void expect_and_free(tack_h3_conn *conn, tack_conn *quic, enum tack_h3_event_type type, int64_t stream) {
    tack_h3_event_free(expect(conn, quic, type, stream));
}

static void start(struct pair *p, struct ends *h3) {
    tack_h3_config *config = tack_h3_config_new();
    CHECK(config != NULL);
    tack_h3_config_set_max_field_section_size(NULL, 1);
    tack_h3_config_set_max_field_section_size(config, 4096);
    tack_h3_config_set_qpack_max_table_capacity(config, 0);
    tack_h3_config_set_qpack_blocked_streams(config, UINT64_MAX); // more than a setting can say
    tack_h3_config_enable_extended_connect(config, true);
    tack_h3_config_set_max_priority_update_size(config, 100);
    h3->client = tack_h3_conn_new_with_transport(p->client, config);
    h3->server = tack_h3_conn_new_with_transport(p->server, config);
    CHECK(h3->client != NULL && h3->server != NULL);
    CHECK(tack_h3_conn_new_with_transport(p->client, NULL) == NULL);
    tack_h3_config_free(config);
    int settings = 0;
    CHECK(tack_h3_for_each_setting(h3->client, count_setting, &settings) == -1); // none have come
    talk(p, false);
    tack_h3_event *event;
    CHECK(tack_h3_conn_poll(h3->client, p->client, &event) == TACK_H3_ERR_DONE);
    CHECK(tack_h3_conn_poll(h3->server, p->server, &event) == TACK_H3_ERR_DONE);
    CHECK(tack_h3_conn_poll(h3->server, p->server, NULL) == INVALID);
    CHECK(tack_h3_for_each_setting(h3->client, NULL, NULL) == INVALID);
    CHECK(tack_h3_for_each_setting(h3->client, count_setting, &settings) == 0 && settings == 2);
    CHECK(tack_h3_extended_connect_enabled_by_peer(h3->client));
    CHECK(!tack_h3_extended_connect_enabled_by_peer(NULL));
    CHECK(tack_h3_dgram_enabled_by_peer(h3->client, p->client));
}

static void a_request_arrives(struct pair *p, struct ends *h3) {
    static const tack_h3_header REQUEST[] = {
        FIELD(":method", "POST"), FIELD(":scheme", "https"), FIELD(":authority", "localhost"),
        FIELD(":path", "/"),      FIELD("question", "6 x 7"),
    };
    tack_h3_header broken = {NULL, 3, NULL, 0};
    CHECK(tack_h3_send_request(h3->client, p->client, NULL, 2, true) == INVALID);
    CHECK(tack_h3_send_request(h3->client, p->client, &broken, 1, true) == INVALID);
    CHECK(tack_h3_send_request(h3->client, NULL, REQUEST, 5, true) == INVALID);
    CHECK(tack_h3_send_request(h3->client, p->client, REQUEST, 5, false) == 0);
    CHECK(tack_h3_send_body(h3->client, p->client, 0, NULL, 4, true) == INVALID);
    CHECK(tack_h3_send_body(h3->client, p->client, 0, (const uint8_t *)"text", 4, true) == 4);
    CHECK(tack_h3_send_body(h3->client, p->client, 8, (const uint8_t *)"text", 4, true) ==
          TACK_H3_ERR_FRAME_UNEXPECTED);
    talk(p, false);

    struct seen seen = {0};
    int stopped = 0;
    tack_h3_event *headers = expect(h3->server, p->server, TACK_H3_EVENT_HEADERS, 0);
    CHECK(tack_h3_event_for_each_header(headers, NULL, &seen) == INVALID);
    CHECK(tack_h3_event_for_each_header(headers, see_header, &seen) == 0);
    CHECK(seen.count == 5 && strcmp(seen.last_name, "question") == 0 && strcmp(seen.last_value, "6 x 7") == 0);
    CHECK(tack_h3_event_for_each_header(headers, stop, &stopped) == 17 && stopped == 1);
    CHECK(tack_h3_event_headers_has_more_frames(headers));
    tack_h3_event_free(headers);

    tack_h3_event *data = expect(h3->server, p->server, TACK_H3_EVENT_DATA, 0);
    CHECK(tack_h3_event_for_each_header(data, see_header, &seen) == INVALID); // it has none
    CHECK(!tack_h3_event_headers_has_more_frames(data));
    tack_h3_event_free(data);
    uint8_t body[16];
    CHECK(tack_h3_recv_body(h3->server, p->server, 0, NULL, 4) == INVALID);
    CHECK(tack_h3_recv_body(h3->server, p->server, 0, body, sizeof(body)) == 4);
    CHECK(memcmp(body, "text", 4) == 0);
    expect_and_free(h3->server, p->server, TACK_H3_EVENT_FINISHED, 0);
}

static void the_response_arrives_with_its_trailers(struct pair *p, struct ends *h3) {
    static const tack_h3_header RESPONSE[] = {FIELD(":status", "200")};
    static tack_h3_header TRAILERS[] = {FIELD("answer", "42")};
    tack_h3_priority priority = {1, true};
    CHECK(tack_h3_send_response_with_priority(h3->server, p->server, 0, RESPONSE, 1, NULL, false) == INVALID);
    CHECK(tack_h3_send_response_with_priority(h3->server, p->server, 0, RESPONSE, 1, &priority, false) == 0);
    CHECK(tack_h3_send_body(h3->server, p->server, 0, (const uint8_t *)"see below", 9, false) == 9);
    CHECK(tack_h3_send_additional_headers(h3->server, p->server, 0, TRAILERS, 1, true, true) == 0);
    talk(p, false);
    expect_and_free(h3->client, p->client, TACK_H3_EVENT_HEADERS, 0);
    expect_and_free(h3->client, p->client, TACK_H3_EVENT_DATA, 0);
    uint8_t body[16];
    CHECK(tack_h3_recv_body(h3->client, p->client, 0, body, sizeof(body)) == 9);
    CHECK(tack_h3_recv_body(h3->client, p->client, 0, body, sizeof(body)) == TACK_H3_ERR_DONE);
    struct seen seen = {0};
    tack_h3_event *trailers = expect(h3->client, p->client, TACK_H3_EVENT_HEADERS, 0);
    CHECK(tack_h3_event_for_each_header(trailers, see_header, &seen) == 0);
    CHECK(seen.count == 1 && strcmp(seen.last_value, "42") == 0);
    tack_h3_event_free(trailers);
    expect_and_free(h3->client, p->client, TACK_H3_EVENT_FINISHED, 0);
}

static void priorities_and_the_end_are_told(struct pair *p, struct ends *h3) {
    tack_h3_priority priority = {2, true};
    struct seen seen = {0};
    CHECK(tack_h3_send_priority_update_for_request(h3->client, p->client, 4, NULL) == INVALID);
    CHECK(tack_h3_send_priority_update_for_request(h3->client, p->client, 4, &priority) == 0);
    talk(p, false);
    expect_and_free(h3->server, p->server, TACK_H3_EVENT_PRIORITY_UPDATE, 4);
    CHECK(tack_h3_take_last_priority_update(h3->server, 4, NULL, &seen) == INVALID);
    CHECK(tack_h3_take_last_priority_update(h3->server, 4, see_priority, &seen) == 5);
    CHECK(strstr(seen.last_value, "u=2") != NULL);
    CHECK(tack_h3_take_last_priority_update(h3->server, 4, see_priority, &seen) == TACK_H3_ERR_DONE);
    CHECK(tack_h3_send_goaway(h3->server, p->server, UINT64_MAX - 3) == INVALID);
    CHECK(tack_h3_send_goaway(h3->server, p->server, 4) == 0);
    talk(p, false);
    expect_and_free(h3->client, p->client, TACK_H3_EVENT_GOAWAY, 4);
    tack_h3_stats stats;
    tack_h3_conn_stats(h3->client, NULL);
    tack_h3_conn_stats(h3->client, &stats);
    CHECK(stats.qpack_encoder_stream_recv_bytes < 100);
}

static void priorities_are_those_of_rfc_9218(void) {
    tack_h3_priority priority;
    char value[] = "u=5, i", wrong[] = "u=\x01";
    CHECK(tack_h3_parse_extensible_priority((uint8_t *)value, 6, &priority) == 0);
    CHECK(priority.urgency == 5 && priority.incremental);
    CHECK(tack_h3_parse_extensible_priority((uint8_t *)wrong, 3, &priority) < 0);
    CHECK(tack_h3_parse_extensible_priority(NULL, 3, &priority) == INVALID);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    struct pair p;
    struct ends h3;
    priorities_are_those_of_rfc_9218();
    begin(&p, argv[1], argv[2], TACK_PROFILE_DEFAULT);
    talk(&p, false);
    start(&p, &h3);
    a_request_arrives(&p, &h3);
    the_response_arrives_with_its_trailers(&p, &h3);
    priorities_and_the_end_are_told(&p, &h3);
    tack_h3_conn_free(h3.client);
    tack_h3_conn_free(h3.server);
    end(&p);
    puts("all is well");
    return 0;
}
